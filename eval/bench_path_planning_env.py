"""How many steps a second the natively batched path planning takes, beside one environment after the other."""

import time

import gymnasium as gym
import numpy as np


def measure(num_envs: int = 4096, episodes: int = 10, repeats: int = 3) -> dict[str, float]:
    """Environment steps per second, resets included: the best of `repeats`, as other work on the machine only slows.

    Returns:
        ``native`` and ``sync`` steps per second (the latter of eight environments), and their ``ratio``.
    """
    native = max(_steps_per_second(num_envs, None, 50 * episodes) for _ in range(repeats))
    sync = max(_steps_per_second(8, "sync", 50) for _ in range(repeats))
    return {"num_envs": num_envs, "native": native, "sync": sync, "ratio": native / sync}


def _steps_per_second(num_envs: int, mode: str | None, steps: int) -> float:
    env = gym.make_vec("rnce:PathPlanning-v0", num_envs=num_envs, vectorization_mode=mode)
    actions = np.random.default_rng(0).uniform(-1, 1, (50, num_envs, 2))
    env.reset(seed=0)
    begin = time.perf_counter()
    for step in range(steps):
        env.step(actions[step % len(actions)])
    elapsed = time.perf_counter() - begin
    env.close()
    return steps * num_envs / elapsed
