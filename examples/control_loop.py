"""A plain control loop: no Gymnasium, a robot that moves on while its next actions are planned.

python examples/control_loop.py --policy pusht/i-r-nce --steps 50
"""

import argparse
import time

import numpy as np

import rnce
from rnce.policies import RealTimePolicy


class Robot:
    """Stands for your driver: a disc beside a T-shaped block, which follows its target with a lag."""

    def __init__(self) -> None:
        self.disc = np.array([100.0, 400.0])

    def observe(self) -> np.ndarray:
        """Position of the disc, position and angle of the block."""
        return np.array([*self.disc, 256.0, 300.0, 1.0])

    def command(self, target: np.ndarray) -> None:
        """Go towards a target."""
        self.disc += np.clip(0.5 * (target - self.disc), -30.0, 30.0)


def main(words: list[str] | None = None) -> None:
    """Run it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--policy", default="pusht/i-r-nce", help="a shipped policy, or a checkpoint folder")
    options.add_argument("--steps", type=int, default=50)
    options.add_argument("--hz", type=float, default=10.0, help="control rate")
    chosen = options.parse_args(words)

    policy = rnce.load_policy(chosen.policy)
    policy.warmup()  # compiles before the first deadline
    robot, period = Robot(), 1 / chosen.hz
    with RealTimePolicy(policy, period, lead=4) as acting:
        acting.reset(seed=0)
        due = time.monotonic()
        for _ in range(chosen.steps):
            robot.command(acting.act(robot.observe()))
            due += period
            time.sleep(max(0.0, due - time.monotonic()))
    timing = acting.timing
    print(f"{timing.plans} plans, {timing.late} late; the longest took {1e3 * timing.worst:.0f} ms")


if __name__ == "__main__":
    main()
