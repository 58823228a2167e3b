"""Observations as they come from robots, checked and named: what is wrong with one is said before anything changes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rnce.policies.task import Task

Observation = Any  # an array, a number, or a dict of arrays; with or without a leading batch axis


def one_step(task: Task, obs: Observation) -> tuple[dict[str, np.ndarray], bool]:
    """One step, checked, named, with a batch axis; and whether it came with one."""
    named = _named(task, obs)
    batched, sizes = None, {}
    for key, value in named.items():
        shape = tuple(task.observation[key])
        if value.shape != shape and value.shape[1:] != shape:
            raise ValueError(
                f"obs[{key!r}] has shape {value.shape}; use {shape}, or (batch, {', '.join(map(str, shape))})."
            )
        rank = value.ndim > len(shape)
        if batched is not None and rank != batched:
            raise ValueError(f"obs[{key!r}] has shape {value.shape}: some keys have a batch axis and some have not.")
        batched = rank
        sizes[key] = len(value) if rank else 1
        first = next(iter(sizes))
        if sizes[key] != sizes[first]:
            raise ValueError(f"obs[{key!r}] has {sizes[key]} rows; obs[{first!r}] has {sizes[first]}.")
        if not sizes[key]:
            raise ValueError(f"obs[{key!r}] has 0 rows; use at least 1.")
        if not np.all(np.isfinite(value)):
            raise ValueError(f"obs[{key!r}] has a value that is not finite; the history is unchanged.")
    steps = named if batched else {key: value[None] for key, value in named.items()}
    return steps, bool(batched)


def single_step(task: Task, obs: Observation) -> dict[str, np.ndarray]:
    """One robot's step, checked, with a batch axis of one."""
    steps, batched = one_step(task, obs)
    if batched:
        key, value = next(iter(steps.items()))
        raise ValueError(
            f"obs[{key!r}] has shape {value.shape}; use {tuple(task.observation[key])}: this is one robot."
        )
    return steps


def is_window(task: Task, obs: Observation) -> bool:
    """Whether this has the shapes of n_ctx steps of one robot."""
    return all(value.shape == (task.n_ctx, *task.observation[key]) for key, value in _named(task, obs).items())


def window(task: Task, obs: Observation) -> dict[str, np.ndarray]:
    """A window of n_ctx observations; one alone is repeated, as at an episode's start."""
    found = {}
    for key, value in _named(task, obs).items():
        shape, n_ctx = tuple(task.observation[key]), task.n_ctx
        if value.shape == shape:
            value = np.broadcast_to(value, (n_ctx, *shape))
        elif value.shape != (n_ctx, *shape):
            raise ValueError(f"obs[{key!r}] has shape {value.shape}; use {shape} or {(n_ctx, *shape)}.")
        if not np.all(np.isfinite(value)):
            raise ValueError(f"obs[{key!r}] has a value that is not finite.")
        found[key] = value
    return found


def _named(task: Task, obs: Observation) -> dict[str, np.ndarray]:
    if isinstance(obs, Mapping):
        missing = [key for key in task.observation if key not in obs]
        if missing:
            raise ValueError(f"obs lacks the key {missing[0]!r}; it has {', '.join(map(str, obs)) or 'none'}.")
        return {key: _numbers(key, obs[key]) for key in task.observation}
    if task.bare_key is None:
        raise ValueError(f"obs is a {type(obs).__name__}; use a dict with the keys {', '.join(task.observation)}.")
    return {task.bare_key: _numbers(task.bare_key, obs)}


def _numbers(key: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"obs[{key!r}] is not an array of numbers: {error}.") from error
