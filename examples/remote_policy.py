"""A robot whose policy is on another machine. Needs no JAX here: numpy, websockets, msgpack (and an environment).

rnce serve pusht/i-r-nce                      # there
python examples/remote_policy.py --port 8000  # here
"""

import argparse

import gymnasium as gym

import rnce  # noqa: F401  (registers the environments)
from rnce.client import RemotePolicy


def main(words: list[str] | None = None) -> None:
    """Run it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=8000)
    options.add_argument("--token", default=None)
    options.add_argument("--steps", type=int, default=200)
    chosen = options.parse_args(words)

    with RemotePolicy(chosen.host, chosen.port, chosen.token) as policy:
        env = gym.make(policy.env_id, max_episode_steps=chosen.steps)
        obs, _ = env.reset(seed=50_000)
        policy.reset(seed=0)
        best, done = 0.0, False
        while not done:
            obs, reward, terminated, truncated, _ = env.step(policy.act(obs))
            best, done = max(best, float(reward)), terminated or truncated
        env.close()
    print(f"{policy.metadata['policy']}: best reward {best:.3f}")


if __name__ == "__main__":
    main()
