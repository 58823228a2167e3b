"""Random scenes: circles, a start and a goal. One seed is one scene, here and in ``reset(seed=...)``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from rnce.envs.path_planning.geometry import squared_distance

WORKSPACE = 1.0  # the square [-1, 1]²
MAX_RADIUS = 2 * WORKSPACE

# Which seeds are for what. Policies are fitted on the first, chosen on the second and reported on the third only.
TRAINING_SEEDS = range(0, 50_000)
SELECTION_SEEDS = range(50_000, 51_000)
FIRST_TEST_SEED = 100_000

_PAIRS = 16  # (start, goal) candidates per draw; one of them fits in about 95 % of the default scenes
_MAX_DRAWS = 1000
NOTHING_GIVEN: Mapping[str, NDArray[np.float64]] = MappingProxyType({})


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
        if not 0 < low <= high <= MAX_RADIUS:
            raise ValueError(
                f"radius_range must be (low, high) with 0 < low <= high <= {MAX_RADIUS:g}, got {self.radius_range!r}"
            )
        if not 0 <= self.min_start_goal_distance < 2 * WORKSPACE:
            raise ValueError(
                f"min_start_goal_distance must be in [0, {2 * WORKSPACE:g}), got {self.min_start_goal_distance!r}"
            )
        if not 0 <= self.min_clearance < np.inf:
            raise ValueError(f"min_clearance must be finite and not negative, got {self.min_clearance!r}")


DEFAULT_PARAMS = SceneParams()


def sample_scene(rng: Generator, params: SceneParams = DEFAULT_PARAMS) -> Scene:
    """Draw one scene."""
    batch = sample_scenes([rng], params)
    return Scene(batch.obstacles[0], batch.start[0], batch.goal[0])


def sample_scenes(
    rngs: Sequence[Generator],
    params: SceneParams = DEFAULT_PARAMS,
    given: Mapping[str, NDArray[np.float64]] = NOTHING_GIVEN,
) -> Scene:
    """Draw one scene from each generator: the same as one by one, but checked all at once.

    ``given`` fixes some of ``obstacles``, ``start`` and ``goal``, each with a leading axis of one entry per generator.
    """
    if given.keys() == set(Scene._fields):
        return Scene(**given)
    obstacles = np.empty((len(rngs), params.n_obstacles, 3))
    ends = np.empty((len(rngs), 2, 2))
    todo = np.arange(len(rngs))
    for _ in range(_MAX_DRAWS):
        if not len(todo):
            return Scene(obstacles, ends[:, 0].copy(), ends[:, 1].copy())
        drawn, pairs = _draw([rngs[i] for i in todo.tolist()], params)
        if "obstacles" in given:
            drawn = given["obstacles"][todo]
        for end, name in enumerate(("start", "goal")):
            if name in given:
                pairs[:, :, end] = given[name][todo, None]
        first = _first_fit(drawn, pairs, params)
        # Where none fits, the circles are drawn again too: they may cover nearly everything.
        done = first >= 0
        obstacles[todo[done]] = drawn[done]
        ends[todo[done]] = pairs[done, first[done]]
        todo = todo[~done]
    rest = f" and the given {', '.join(given)}" if given else ""
    raise ValueError(f"no scene in {_MAX_DRAWS} draws satisfies {params}{rest}; use fewer or smaller obstacles")


def scene_for_seed(seed: int, params: SceneParams = DEFAULT_PARAMS) -> Scene:
    """The scene that ``env.reset(seed=seed)`` shows."""
    return sample_scene(np.random.default_rng(seed), params)


def scenes_for_seeds(seeds: Sequence[int] | range, params: SceneParams = DEFAULT_PARAMS) -> Scene:
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


def _first_fit(obstacles: NDArray[np.float64], pairs: NDArray[np.float64], params: SceneParams) -> NDArray[np.int64]:
    """Index of the first pair of ends that fits among the circles, or -1 -> (B,)."""
    apart = squared_distance(pairs[..., 0, :], pairs[..., 1, :]) >= params.min_start_goal_distance**2
    first = np.full(len(pairs), -1)
    for index in range(pairs.shape[1]):  # one after the other: most scenes need few
        rows = np.flatnonzero((first < 0) & apart[:, index])
        circles = obstacles[rows, None]
        keep_off = circles[..., 2] + params.min_clearance
        free = squared_distance(pairs[rows, index, :, None], circles) >= keep_off * keep_off
        first[rows[free.all(axis=(-2, -1))]] = index
    return first


def check_scene(given: Mapping[str, NDArray[np.float64]]) -> None:
    """Raise ``ValueError`` with the reason if a scene, or what is given of one, is malformed or cannot be solved."""
    obstacles = given.get("obstacles", np.empty((0, 3)))
    ends = {name: given[name] for name in ("start", "goal") if name in given}
    if not np.isfinite(obstacles).all():
        raise ValueError(f"obstacles must be finite, got {obstacles.tolist()}")
    for k, (x, y, radius) in enumerate(obstacles.tolist()):
        if max(abs(x), abs(y)) > WORKSPACE:
            raise ValueError(f"obstacles[{k}] has its centre ({x:g}, {y:g}) outside the workspace [-1, 1]²")
        if not 0 < radius <= MAX_RADIUS:
            raise ValueError(f"obstacles[{k}] has radius {radius:g}; it must be in (0, {MAX_RADIUS:g}]")
    for name, point in ends.items():
        if not (np.abs(point) <= WORKSPACE).all():  # also refuses NaN
            raise ValueError(f"{name} {point.tolist()} is outside the workspace [-1, 1]²")
        inside = np.flatnonzero(squared_distance(point, obstacles) < obstacles[:, 2] ** 2)
        if len(inside):
            k = inside[0]
            raise ValueError(f"{name} {point.tolist()} is inside obstacles[{k}] = {obstacles[k].tolist()}")
    if len(ends) == 2 and not _connected(obstacles, *ends.values()):
        raise ValueError(f"start {ends['start'].tolist()} and goal {ends['goal'].tolist()} are walled off by obstacles")


def _connected(obstacles: NDArray[np.float64], start: NDArray[np.float64], goal: NDArray[np.float64]) -> bool:
    """Whether start and goal lie in one piece of the free workspace (circles as polygons of 128 corners)."""
    import shapely  # only for scenes people set: of 4,000 drawn ones, none was walled off

    circles = shapely.buffer(shapely.points(obstacles[:, :2]), obstacles[:, 2], quad_segs=32)
    free = shapely.box(-WORKSPACE, -WORKSPACE, WORKSPACE, WORKSPACE).difference(shapely.union_all(circles))
    # The nearest piece rather than the one that contains it: a point may touch a circle.
    pieces = shapely.get_parts(free)
    of_start, of_goal = (np.argmin(shapely.distance(pieces, shapely.Point(point))) for point in (start, goal))
    return bool(of_start == of_goal)
