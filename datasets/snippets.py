"""From whole paths to what a policy is asked during a rollout: 3 waypoints of history, 10 to come.

A rollout of 50 waypoints plans at waypoint 0, 10, 20, 30 and 40. At waypoint i it sees y[i−2], y[i−1], y[i] and decides
y[i+1] … y[i+10]. Before the start there is only the start, after the goal only the goal:

    i = 0      s  s  s  | y1  y2  …  y10               a history without speed
    i = 20     y18 y19 y20 | y21 …  y30
    i = 40     y38 y39 y40 | y41 …  y49=g  g           the last plan needs 9 moves
"""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from rnce.datasets.path_filter import is_smooth_and_free, quality
from rnce.datasets.path_planning import N_CTX, N_PRED, SNIPPET
from rnce.datasets.stochgpmp import PlannerConfig, Schedule, improve


@dataclass(frozen=True)
class SnippetConfig:
    """How snippets are cut, refined and displaced."""

    refining: Schedule = Schedule(15, 16, 0.3, 0.05, smoothing=0.003)
    jitter: int = 4
    """plans after the first are cut up to so many waypoints early or late"""
    recoveries: float = 0.4
    """share of all snippets that begin off the demonstrated path"""
    recovery_size: float = 0.03
    """standard deviation of the displacement, in x and in y; a usual step is 0.03"""
    replanning: Schedule = Schedule(30, 16, 0.5, 0.05, smoothing=0.003)
    spare: int = 0
    """waypoints that are left at the goal: a policy that learns to arrive early can afford to lose time on its way"""

    def __post_init__(self) -> None:
        if not 0 <= self.recoveries < 1:
            raise ValueError(f"recoveries must be in [0, 1), got {self.recoveries}")
        if not 0 < self.recovery_size <= 0.2:
            raise ValueError(f"recovery_size must be in (0, 0.2], got {self.recovery_size}")
        if not 0 <= self.jitter < N_PRED:
            raise ValueError(f"jitter must be in [0, {N_PRED}), got {self.jitter}")
        if not 0 <= self.spare <= 20:
            raise ValueError(f"spare must be in [0, 20], got {self.spare}")


def even_speed(paths: Float[np.ndarray, "m n 2"], waypoints: int | None = None) -> Float[np.ndarray, "m k 2"]:
    """The same ways at constant speed, in as many waypoints or in so many.

    That is where the planner's cost would lead in the end. It makes a history tell how much time is left: a policy that
    keeps its speed arrives with the last waypoint.
    """
    n = paths.shape[1] if waypoints is None else waypoints
    steps = np.linalg.norm(np.diff(paths.astype(np.float64), axis=1), axis=-1)
    travelled = np.pad(np.cumsum(steps, axis=1), ((0, 0), (1, 0)))
    marks = np.linspace(0, travelled[:, -1], n, axis=1)
    even = [[np.interp(m, t, path[:, d]) for d in (0, 1)] for m, t, path in zip(marks, travelled, paths)]
    even = np.asarray(even, np.float32).reshape(len(paths), 2, n).swapaxes(1, 2)
    even[:, [0, -1]] = paths[:, [0, -1]]
    return even


CHUNK = 512  # pieces of path planned at once; a fixed number, so that it is compiled once


def plan_times(n_waypoints: int) -> Int[np.ndarray, " plans"]:
    """The waypoints at which a rollout plans."""
    return np.arange(0, n_waypoints - 1, N_PRED)


def snippet_rows(times: Int[np.ndarray, "*m"], n_waypoints: int) -> Int[np.ndarray, "*m 13"]:
    """Row numbers of the snippets at these times, with the padding of rollouts."""
    return np.clip(times[..., None] + np.arange(1 - N_CTX, N_PRED + 1), 0, n_waypoints - 1)


def cut_and_refine(
    key: jax.Array,
    paths: Float[np.ndarray, "m n 2"],
    times: Int[np.ndarray, " m"],
    obstacles: Float[np.ndarray, "m K 3"],
    config: SnippetConfig,
    planner: PlannerConfig,
) -> Float[np.ndarray, "m 13 2"]:
    """The snippet of each path at a time, planned again with the ends of its piece of path as start and goal.

    What is planned again is always a piece of 13 waypoints that has no padding in it; padding is put on afterwards.
    Where planning again made it worse than a demonstration may be, the snippet stays as it was.
    """
    n, each = paths.shape[1], np.arange(len(paths))[:, None]
    first = np.clip(times - (N_CTX - 1), 0, n - SNIPPET)
    piece = paths[each, first[:, None] + np.arange(SNIPPET)]
    refined = _improve_each(key, obstacles, piece, config.refining, planner)
    good = is_smooth_and_free(quality(refined, obstacles))
    piece = np.where(good[:, None, None], refined, piece)
    return piece[each, snippet_rows(times, n) - first[:, None]]


def displace_and_replan(
    key: jax.Array,
    rng: np.random.Generator,
    paths: Float[np.ndarray, "m n 2"],
    time: int,
    obstacles: Float[np.ndarray, "m K 3"],
    config: SnippetConfig,
    planner: PlannerConfig,
) -> tuple[Float[np.ndarray, "m 13 2"], Bool[np.ndarray, " m"]]:
    """Snippets at one time, of a robot that has drifted off its path, and which of them are fit to learn from.

    The drift grew over the plan before, so the history is displaced a little less the older it is. The whole rest of
    the path is planned from there with the waypoints that are left: the robot returns, and arrives in time.
    """
    n = paths.shape[1]
    drift = config.recovery_size * rng.standard_normal((len(paths), 1, 2)).astype(np.float32)
    age = np.arange(N_CTX - 1, -1, -1)[:, None]
    history = paths[:, time - N_CTX + 1 : time + 1] + drift * (1 - age / N_PRED).astype(np.float32)
    left = n - time
    fading = np.cos(np.linspace(0, np.pi / 2, left))[:, None].astype(np.float32) ** 2
    rest = paths[:, time:] + drift * fading
    rest = even_speed(_improve_each(key, obstacles, rest, config.replanning, planner))
    ahead = rest[:, np.minimum(np.arange(1, N_PRED + 1), left - 1)]
    snippets = np.concatenate([history, ahead], axis=1)
    # The rest up to the goal, not only the snippet: a first move towards a dead end is no recovery.
    whole = np.concatenate([history, rest[:, 1:]], axis=1)
    return snippets, is_smooth_and_free(quality(whole, obstacles))


def _improve_each(
    key: jax.Array,
    obstacles: Float[np.ndarray, "m K 3"],
    paths: Float[np.ndarray, "m n 2"],
    schedule: Schedule,
    planner: PlannerConfig,
) -> Float[np.ndarray, "m n 2"]:
    """`improve` for paths that each have their own ends and obstacles."""
    done = [np.empty((0, *paths.shape[1:]), np.float32)]
    for start in range(0, len(paths), CHUNK):
        rows = np.arange(start, start + CHUNK) % len(paths)
        better = improve(jax.random.fold_in(key, start), obstacles[rows], paths[rows, None], schedule, planner)
        done.append(np.asarray(better.path)[:, 0])
    return np.concatenate(done)[: len(paths)]
