"""A robot of your own: record demonstrations, train on them, serve the policy, act.

python examples/custom_robot.py --out runs/reacher --rounds 2000
"""

import argparse
from pathlib import Path

import numpy as np

from rnce import datasets
from rnce.client import RemotePolicy
from rnce.serving.server import Server
from rnce.training import train_policy


class Reacher:
    """A hand that is to reach a ball; an action is the hand's next target."""

    def __init__(self, seed: int) -> None:
        self.hand, self.ball = np.random.default_rng(seed).uniform(-1, 1, (2, 3))

    def observe(self) -> dict[str, np.ndarray]:
        """What it senses."""
        return {"hand": self.hand.astype(np.float32), "ball": self.ball.astype(np.float32)}

    def command(self, target: np.ndarray) -> None:
        """Move the hand."""
        self.hand = self.hand + 0.5 * (target - self.hand)

    def teacher(self) -> np.ndarray:
        """What a person would do: a short step towards the ball."""
        away = self.ball - self.hand
        return self.hand + away * min(1.0, 0.2 / max(float(np.linalg.norm(away)), 1e-6))


def record(path: Path, episodes: int, steps: int = 40) -> None:
    """Demonstrations, an episode at a time. Your robot's logs go here."""
    writer = datasets.ReplayWriter(path)
    for seed in range(episodes):
        robot, seen, done = Reacher(seed), [], []
        for _ in range(steps):
            seen.append(robot.observe())
            done.append(robot.teacher().astype(np.float32))
            robot.command(done[-1])
        observations = {key: np.stack([step[key] for step in seen]) for key in seen[0]}
        writer.append_episode({**observations, "action": np.stack(done)})


def main(words: list[str] | None = None) -> None:
    """Run it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=Path("runs/reacher"))
    options.add_argument("--method", default="nf")
    options.add_argument("--rounds", type=int, default=2000)
    options.add_argument("--episodes", type=int, default=100)
    options.add_argument("--samples", type=int, default=8, help="candidates ranked per plan")
    chosen = options.parse_args(words)

    record(chosen.out / "demos.zarr", chosen.episodes)
    policy = train_policy(
        f"reacher/{chosen.method}", data=chosen.out / "demos.zarr", steps=chosen.rounds, out=chosen.out / "run"
    )
    # The same from the command line: rnce train reacher/nf --data demos.zarr, then rnce serve runs/reacher/nf/policy
    policy = policy.with_options(samples=chosen.samples)
    with Server(policy, port=0, max_batch=1) as server, RemotePolicy(port=server.port) as remote:
        robot = Reacher(seed=1_000_000)
        remote.reset(seed=0)
        before = np.linalg.norm(robot.ball - robot.hand)
        for _ in range(40):
            robot.command(remote.act(robot.observe()))
    print(f"distance of hand and ball: {before:.3f} → {np.linalg.norm(robot.ball - robot.hand):.3f}")


if __name__ == "__main__":
    main()
