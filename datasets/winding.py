"""Which way a path goes round the circles: its winding class, and how to keep the classes balanced.

Seen from the centre c_k of circle k, a path from start to goal turns by an angle θ_k. All paths with the same ends
agree on it up to whole turns, so, with φ_k ∈ (−π, π] the angle of the straight line,

    w_k = (θ_k − φ_k) / 2π

is a whole number: 0 on the straight line's side of the centre, ±1 on the other side, more for loops. The class of a
path is (w_1, …, w_K). Two collision-free paths of different classes cannot be deformed into each other without
crossing a circle. Where the straight line goes exactly through a centre it counts as passing on one side, the same for
all paths of the scene.

The functions serve NumPy and, under `jax.jit`, JAX; ``path`` is (..., N, 2) and ``obstacles`` (..., K, 3).
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

Array = Any  # numpy.ndarray or jax.Array; shapes are in the docstrings


def winding_numbers(path: Array, obstacles: Array) -> Array:
    """Whole turns round every centre, relative to the straight line from the first to the last waypoint -> (..., K)."""
    xp = path.__array_namespace__()
    centres = obstacles[..., None, :, :2]
    swept = xp.sum(_angle(path[..., :-1, None, :] - centres, path[..., 1:, None, :] - centres), axis=-2)
    ends = path[..., [0, -1], None, :] - centres
    straight = _angle(ends[..., 0, :, :], ends[..., 1, :, :])
    return xp.round((swept - straight) / (2 * math.pi)).astype(xp.int32)


def same_class(windings: Array) -> Array:
    """Which of n paths of one scene share their class: (..., n, K) -> (..., n, n), boolean."""
    xp = windings.__array_namespace__()
    return xp.all(windings[..., :, None, :] == windings[..., None, :, :], axis=-1)


def class_labels(windings: Int[np.ndarray, "n K"]) -> Int[np.ndarray, " n"]:
    """A label 0, 1, … for each path of one scene: equal for equal classes, numbered in order of appearance."""
    if not len(windings):
        return np.zeros(0, np.int32)
    first = same_class(windings).argmax(axis=-1)
    return np.unique(first, return_inverse=True)[1].astype(np.int32)


def balance(labels: Int[np.ndarray, " n"], size: int, rng: np.random.Generator) -> Int[np.ndarray, " size"]:
    """Indices of `size` paths in which the classes appear as equally often as possible.

    Paths of rare classes repeat, those of common ones are thinned: a policy should see each way round a scene equally
    often, however often the planner found it. Within a class every path is used before any is used again.
    """
    if not len(labels):
        raise ValueError("balance: there are no paths to choose from")
    classes = rng.permutation(np.unique(labels))  # which class gets the odd one out is left to chance
    shares = [size // len(classes) + (i < size % len(classes)) for i in range(len(classes))]
    chosen = [_cycle(rng.permutation(np.flatnonzero(labels == c)), share) for c, share in zip(classes, shares)]
    return np.concatenate(chosen)


def _cycle(indices: NDArray[np.intp], size: int) -> NDArray[np.intp]:
    return np.resize(indices, size)


def _angle(a: Array, b: Array) -> Array:
    """Signed angle from vector a to vector b (..., 2), in (−π, π]."""
    xp = a.__array_namespace__()
    cross = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return xp.atan2(cross, a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1])
