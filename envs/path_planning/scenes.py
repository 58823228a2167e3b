"""Random scenes: circles, a start and a goal. One seed is one scene, here and in ``reset(seed=...)``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from rnce.envs.path_planning.geometry import squared_distance

WORKSPACE = 1.0  # the square [-1, 1]²

# Which seeds are for what. Policies are fitted on the first, chosen on the second and reported on the third only.
TRAINING_SEEDS = range(0, 50_000)
SELECTION_SEEDS = range(50_000, 51_000)
FIRST_TEST_SEED = 100_000

_PAIRS = 16  # (start, goal) candidates per draw; one of them fits in about 95 % of the default scenes
_MAX_DRAWS = 1000


class Scene(NamedTuple):
    """One scene, or a batch of them along leading axes."""

    obstacles: NDArray[np.float64]
    """(..., K, 3): centre x, centre y, radius"""
    start: NDArray[np.float64]
    """(..., 2)"""
    goal: NDArray[np.float64]
    """(..., 2)"""


@dataclass(frozen=True)
class SceneParams:
    """What scenes are drawn from, and what a scene must satisfy to be accepted."""

    n_obstacles: int = 10
    radius_range: tuple[float, float] = (0.10, 0.25)
    min_start_goal_distance: float = 1.0
    min_clearance: float = 0.08
    """of start and goal from every circle"""

    def __post_init__(self) -> None:
        if not (isinstance(self.n_obstacles, int | np.integer) and self.n_obstacles >= 0):
            raise ValueError(f"n_obstacles must be a whole number, 0 or more, got {self.n_obstacles!r}")
        low, high = self.radius_range
        if not 0 < low <= high < np.inf:
            raise ValueError(f"radius_range must be (low, high) with 0 < low <= high, got {self.radius_range!r}")
        if not 0 <= self.min_start_goal_distance < 2 * WORKSPACE:
            raise ValueError(
                f"min_start_goal_distance must be in [0, {2 * WORKSPACE:g}), got {self.min_start_goal_distance!r}"
            )
        if not 0 <= self.min_clearance < np.inf:
            raise ValueError(f"min_clearance must be finite and not negative, got {self.min_clearance!r}")


def sample_scene(rng: Generator, params: SceneParams = SceneParams()) -> Scene:  # noqa: B008
    """Draw one scene."""
    batch = sample_scenes([rng], params)
    return Scene(batch.obstacles[0], batch.start[0], batch.goal[0])


def sample_scenes(rngs: Sequence[Generator], params: SceneParams = SceneParams()) -> Scene:  # noqa: B008
    """Draw one scene from each generator: the same as one by one, but checked all at once."""
    obstacles = np.empty((len(rngs), params.n_obstacles, 3))
    ends = np.empty((len(rngs), 2, 2))
    todo = np.arange(len(rngs))
    for _ in range(_MAX_DRAWS):
        if not len(todo):
            return Scene(obstacles, ends[:, 0].copy(), ends[:, 1].copy())
        drawn, pairs = _draw([rngs[i] for i in todo], params)
        fits = _fits(drawn, pairs, params)
        # All that fit in a draw are equally likely, so the first is as good as any. Where none fits, the circles are
        # drawn again too: they may cover nearly everything.
        done, first = fits.any(axis=1), fits.argmax(axis=1)
        obstacles[todo[done]] = drawn[done]
        ends[todo[done]] = pairs[done, first[done]]
        todo = todo[~done]
    raise ValueError(f"no feasible scene in {_MAX_DRAWS} draws from {params}; use fewer or smaller obstacles")


def scene_for_seed(seed: int, params: SceneParams = SceneParams()) -> Scene:  # noqa: B008
    """The scene that ``env.reset(seed=seed)`` shows."""
    return sample_scene(np.random.default_rng(seed), params)


def scenes_for_seeds(seeds: Sequence[int] | range, params: SceneParams = SceneParams()) -> Scene:  # noqa: B008
    """The scenes of several seeds, as one batch."""
    return sample_scenes([np.random.default_rng(seed) for seed in seeds], params)


def _draw(rngs: list[Generator], params: SceneParams) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Circles (B, K, 3) and candidate ends (B, pairs, 2, 2). One call per generator: with thousands it is the cost."""
    n_circles = 3 * params.n_obstacles
    unit = np.stack([rng.random(n_circles + 4 * _PAIRS) for rng in rngs])
    obstacles = unit[:, :n_circles].reshape(len(rngs), params.n_obstacles, 3)
    low, high = params.radius_range
    obstacles = np.concatenate([_spread(obstacles[..., :2]), low + (high - low) * obstacles[..., 2:]], axis=-1)
    return obstacles, _spread(unit[:, n_circles:]).reshape(len(rngs), _PAIRS, 2, 2)


def _spread(unit: NDArray[np.float64]) -> NDArray[np.float64]:
    return WORKSPACE * (2.0 * unit - 1.0)


def _fits(obstacles: NDArray[np.float64], pairs: NDArray[np.float64], params: SceneParams) -> NDArray[np.bool_]:
    apart = squared_distance(pairs[..., 0, :], pairs[..., 1, :]) >= params.min_start_goal_distance**2
    circles = obstacles[:, None, None]
    free = squared_distance(pairs[..., None, :], circles) >= (circles[..., 2] + params.min_clearance) ** 2
    return apart & free.all(axis=(-2, -1))
