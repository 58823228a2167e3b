"""Which planned paths are good enough to learn from.

``path`` is (..., N, 2) and ``obstacles`` (..., K, 3), with leading axes that broadcast.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from rnce.envs.path_planning.geometry import min_clearance
from rnce.envs.path_planning.scenes import WORKSPACE


@dataclass(frozen=True)
class Limits:
    """What a demonstration must keep to."""

    clearance: float = 0.005
    """more than this from every circle, measured exactly along the segments"""
    length: float = 1.6
    """at most so many times the shortest free path of the scene"""
    step: float = 2.5
    """longest step, at most so many times the mean"""
    turn: float = 45.0
    """degrees; every turn is less"""


class Quality(NamedTuple):
    """What can be said of a path without knowing its rivals; every field is (...)."""

    clearance: Float[np.ndarray, "..."]
    length: Float[np.ndarray, "..."]
    step: Float[np.ndarray, "..."]
    """longest step over mean step"""
    turn: Float[np.ndarray, "..."]
    """largest turn, in degrees"""
    inside: Bool[np.ndarray, "..."]
    """the workspace"""


def quality(path: Float[np.ndarray, "... n 2"], obstacles: Float[np.ndarray, "... K 3"]) -> Quality:
    """Measure paths."""
    moves = np.diff(path, axis=-2)
    steps = np.linalg.norm(moves, axis=-1)
    return Quality(
        clearance=min_clearance(path, obstacles),
        length=steps.sum(axis=-1),
        step=steps.max(axis=-1) / np.maximum(steps.mean(axis=-1), 1e-12),
        turn=_turns(moves).max(axis=-1),
        inside=np.asarray((np.abs(path) <= WORKSPACE).all(axis=(-2, -1))),
    )


def is_smooth_and_free(measured: Quality, limits: Limits = Limits()) -> Bool[np.ndarray, "..."]:  # noqa: B008
    """Whether a path, or a piece of one, keeps to all limits but that of length."""
    return (
        (measured.clearance > limits.clearance)
        & (measured.step <= limits.step)
        & (measured.turn < limits.turn)
        & measured.inside
    )


def acceptable(
    paths: Float[np.ndarray, "... p n 2"],
    obstacles: Float[np.ndarray, "... K 3"],
    limits: Limits = Limits(),  # noqa: B008
) -> Bool[np.ndarray, "... p"]:
    """Which of the p paths of a scene are demonstrations."""
    measured = quality(paths, obstacles[..., None, :, :])
    free_length = np.where(measured.clearance > limits.clearance, measured.length, np.inf)
    shortest = free_length.min(axis=-1, keepdims=True)
    return is_smooth_and_free(measured, limits) & (measured.length <= limits.length * shortest)


def _turns(moves: Float[np.ndarray, "... m 2"]) -> Float[np.ndarray, "... m-1"]:
    """Unsigned angle between consecutive moves, in degrees; 0 where one of them is no move at all."""
    a, b = moves[..., :-1, :], moves[..., 1:, :]
    cross = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return np.degrees(np.abs(np.arctan2(cross, (a * b).sum(axis=-1))))
