"""Ids work without an import, in spawned workers, and are registered once."""

import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rnce
from rnce.envs import ENVIRONMENTS, register_environments

IDS = [spec["id"] for spec in ENVIRONMENTS]


@pytest.mark.parametrize("name", IDS)
def test_module_prefix_imports_the_package(name):
    code = f"import gymnasium as gym; env = gym.make('rnce:{name}'); env.reset(seed=0); print(env.spec.id)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip().endswith(name)


def test_registering_twice_changes_nothing():
    before = dict(gym.registry)
    register_environments()
    assert gym.registry == before
    assert rnce.__version__


@pytest.mark.parametrize("name", IDS)
def test_spawned_workers_know_the_environments_and_give_the_same_bits(name):
    options = {"vectorization_mode": "async", "vector_kwargs": {"context": "spawn"}}
    parallel: Any = gym.make_vec(name, num_envs=2, **options)
    one: Any = gym.make(name)
    try:
        obs, _ = parallel.reset(seed=[3, 4])
        same_row(one.reset(seed=4)[0], obs, 1)
        rng = np.random.default_rng(0)
        low, high = one.action_space.low, one.action_space.high
        for _ in range(5):
            actions = rng.uniform(low, high, (2, *low.shape)).astype(one.action_space.dtype)
            obs, rewards, *_ = parallel.step(actions)
            expected, reward, *_ = one.step(actions[1])
            same_row(expected, obs, 1)
            assert rewards[1] == reward
    finally:
        parallel.close()


def same_row(single, batch, row):
    if isinstance(single, dict):
        for key in single:
            np.testing.assert_array_equal(single[key], batch[key][row])
    else:
        np.testing.assert_array_equal(single, batch[row])
