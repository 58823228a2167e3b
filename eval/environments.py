"""Environments that step together, with the rows of one batch as their observations.

A row is reset and stepped only when asked to: finished episodes cost nothing.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from rnce.eval.recorders import recorder_for

Observation = Any  # an array or a dict of arrays, with a leading row axis


class Environments(Protocol):
    """A fixed number of environments of one kind."""

    observation: Observation
    action_space: gym.spaces.Box

    def reset(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Begin new episodes in these rows."""

    def step(self, rows: Sequence[int], actions: np.ndarray) -> tuple[list[int], dict[int, str]]:
        """Apply `actions[row]` in each of the rows. Returns the rows that ended and, for those that failed, why."""
        ...

    def outcome(self, row: int) -> tuple[dict[str, float], str | None]:
        """Metrics and mode of the episode in this row."""
        ...

    def close(self) -> None:
        """Release what the environments hold."""


def make_environments(env_id: str, n: int, max_steps: int | None = None, **options: Any) -> Environments:
    """The fastest form there is of an environment."""
    if env_id.split(":")[-1] == "PathPlanning-v0" and max_steps is None and "weights" not in options:
        from rnce.eval.path_batch import PathPlanningBatch

        return PathPlanningBatch(n, **options)
    return SeparateEnvironments(env_id, n, max_steps, **options)


class SeparateEnvironments:
    """One Gymnasium environment per row, for any id."""

    def __init__(self, env_id: str, n: int, max_steps: int | None = None, **options: Any) -> None:
        self._envs = [make_env(env_id, max_steps, **options) for _ in range(n)]
        self.action_space = box_actions(env_id, self._envs[0])
        self._recorders = [recorder_for(env_id)() for _ in range(n)]
        self.observation = empty_rows(self._envs[0].observation_space, n)

    def reset(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Begin new episodes in these rows."""
        for row, seed in zip(rows, seeds):
            observation, info = self._envs[row].reset(seed=seed)
            self._recorders[row].start(observation, info)
            write_row(self.observation, row, observation)

    def step(self, rows: Sequence[int], actions: np.ndarray) -> tuple[list[int], dict[int, str]]:
        """Apply one action in each of the rows."""
        ended, failed = [], {}
        for row in rows:
            try:
                observation, reward, terminated, truncated, info = self._envs[row].step(actions[row])
            except ValueError as error:  # an action the environment refuses
                failed[row] = str(error)
                continue
            self._recorders[row].step(observation, float(reward), info)
            write_row(self.observation, row, observation)
            if terminated or truncated:
                ended.append(row)
        return ended, failed

    def outcome(self, row: int) -> tuple[dict[str, float], str | None]:
        """Metrics and mode of the episode in this row."""
        return self._recorders[row].metrics(), self._recorders[row].mode()

    def close(self) -> None:
        """Close every environment."""
        for env in self._envs:
            env.close()


def make_env(env_id: str, max_steps: int | None = None, **options: Any) -> gym.Env:
    """`gym.make` without the passive checker, which costs as much as a step; an unknown id is one line."""
    if max_steps is not None:
        options["max_episode_steps"] = max_steps
    try:
        return gym.make(env_id, disable_env_checker=True, **options)
    except (gym.error.Error, TypeError) as error:
        raise ValueError(f"cannot make environment {env_id!r}: {error}") from error


def box_actions(env_id: str, env: gym.Env) -> gym.spaces.Box:
    """The action space, which must be a Box of one axis: what a policy returns for a row."""
    if not isinstance(env.action_space, gym.spaces.Box) or len(env.action_space.shape) != 1:
        raise ValueError(f"{env_id}: only environments with a one-dimensional Box of actions, got {env.action_space}")
    return env.action_space


def empty_rows(space: gym.Space, n: int) -> Observation:
    """Zeros with a leading row axis. Idle rows keep whatever they last held."""
    if isinstance(space, gym.spaces.Dict):
        return {key: empty_rows(part, n) for key, part in space.items()}
    if not isinstance(space, gym.spaces.Box):
        raise ValueError(f"only Box observations and Dicts of them are supported, got {space}")
    return np.zeros((n, *space.shape), space.dtype)


def write_row(batch: Observation, row: int, observation: Observation) -> None:
    """Put one observation in its row."""
    if isinstance(batch, dict):
        for key, part in batch.items():
            part[row] = observation[key]
    else:
        batch[row] = observation


def read_row(batch: Observation, row: int) -> Observation:
    """One row as an observation of its own (a copy: policies may keep it)."""
    return {key: part[row].copy() for key, part in batch.items()} if isinstance(batch, dict) else batch[row].copy()
