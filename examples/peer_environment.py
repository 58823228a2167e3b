"""gym-pusht, the environment of LeRobot, driven by an rnce policy from outside.

gym-pusht pins an older pymunk, and other stacks an older numpy; so the policy runs in an environment of its own, and
here only the client is needed (`pip install --no-deps rnce`, and numpy, websockets, msgpack).

    rnce serve pusht/i-r-nce                                             # where rnce is installed
    .venv-peers/bin/python examples/peer_environment.py --port 8000      # where gym-pusht is installed
"""

import argparse

import gym_pusht  # noqa: F401  (registers the environment)
import gymnasium as gym

from rnce.client import RemotePolicy


def main(words: list[str] | None = None) -> None:
    """Run it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=8000)
    options.add_argument("--steps", type=int, default=300)
    chosen = options.parse_args(words)

    env = gym.make("gym_pusht/PushT-v0", obs_type="state", max_episode_steps=chosen.steps)
    with RemotePolicy(port=chosen.port) as policy:
        obs, _ = env.reset(seed=50_000)
        policy.reset(seed=0)
        best, done = 0.0, False
        while not done:
            obs, reward, terminated, truncated, _ = env.step(policy.act(obs))
            best, done = max(best, float(reward)), terminated or truncated
    env.close()
    print(f"{policy.metadata['policy']} in gym_pusht/PushT-v0: best reward {best:.3f}")


if __name__ == "__main__":
    main()
