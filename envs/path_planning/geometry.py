"""Distance, collision and cost of paths among circles: pure, batched, for any array library.

Shapes, with any leading batch axes that broadcast against each other:

- ``path``       (..., N, 2)   waypoints, the start first
- ``obstacles``  (..., K, 3)   centre x, centre y, radius
- ``goal``       (..., 2)

The functions use only the namespace of the arrays they are given, so the same code serves NumPy and, under
``jax.jit`` and ``jax.grad``, JAX. Nothing here imports JAX.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

Array = Any  # numpy.ndarray, jax.Array or any other array-API array; shapes are in the docstrings

# What the demonstrations' planner weighs its terms by: 1/σ_o² and 1/σ_v².
PLANNER_OBSTACLE_WEIGHT = 1000.0
PLANNER_SMOOTHNESS_WEIGHT = 500.0
# The planner pins its endpoint (σ = 1e-3), which is a constraint rather than a preference: as a cost it would hide the
# other two terms, a miss of 1 cm weighing four times the whole path. The evaluation counts a miss in units of 1 cm,
# the size of the perturbation the paper trains with, below which its policies do not resolve a position.
GOAL_TOLERANCE = 0.01
# One common divisor keeps the terms' proportions. A demonstration neither collides nor misses, so its cost is the
# smoothness term: 49 equal steps over a length L cost w_v·L²/49. With L² about 2.4 in these scenes, 500/125 = 4 makes
# that 0.2, the scale of the paper's tables.
NORMALISER = 125.0


@dataclass(frozen=True)
class CostWeights:
    """Weights 1/σ̄² of the paper's objective, by default 80, 8 and 4: the planner's, divided by one number."""

    goal: float = 1.0 / GOAL_TOLERANCE**2 / NORMALISER
    obstacle: float = PLANNER_OBSTACLE_WEIGHT / NORMALISER
    smoothness: float = PLANNER_SMOOTHNESS_WEIGHT / NORMALISER

    def __post_init__(self) -> None:
        for name in ("goal", "obstacle", "smoothness"):
            value = getattr(self, name)
            if not 0.0 <= value < float("inf"):
                raise ValueError(f"CostWeights.{name} must be finite and not negative, got {value!r}")


DEFAULT_WEIGHTS = CostWeights()


class CostTerms(NamedTuple):
    """The weighted terms of a path's cost, each of shape (...)."""

    goal: Array
    obstacle: Array
    smoothness: Array

    @property
    def total(self) -> Array:
        """The objective: the sum of the three."""
        return self.goal + self.obstacle + self.smoothness


def squared_distance(a: Array, b: Array) -> Array:
    """Squared Euclidean distance of points (..., 2) -> (...)."""
    dx, dy = a[..., 0] - b[..., 0], a[..., 1] - b[..., 1]
    return dx * dx + dy * dy


def squared_segment_distance(start: Array, end: Array, point: Array) -> Array:
    """Squared distance of ``point`` (..., 2) to the segment from ``start`` to ``end`` (..., 2) -> (...)."""
    xp = _namespace(start, end, point)
    ux, uy = end[..., 0] - start[..., 0], end[..., 1] - start[..., 1]
    px, py = point[..., 0] - start[..., 0], point[..., 1] - start[..., 1]
    length2 = ux * ux + uy * uy
    # A segment of no length is a point: any finite divisor gives the right answer, since u is 0.
    fraction = (px * ux + py * uy) / xp.where(length2 > 0, length2, xp.ones_like(length2))
    fraction = xp.clip(fraction, 0.0, 1.0)
    dx, dy = px - fraction * ux, py - fraction * uy
    return dx * dx + dy * dy


def segment_distance(start: Array, end: Array, point: Array) -> Array:
    """Distance of ``point`` (..., 2) to the segment from ``start`` to ``end`` (..., 2) -> (...)."""
    return _sqrt(squared_segment_distance(start, end, point))


def segment_clearance(path: Array, obstacles: Array) -> Array:
    """Clearance of each segment from each circle, negative inside -> (..., N - 1, K)."""
    start, end, circles = _segments_and_circles(path, obstacles)
    return segment_distance(start, end, circles[..., :2]) - circles[..., 2]


def min_clearance(path: Array, obstacles: Array) -> Array:
    """Smallest clearance of the whole path from any circle, infinite without circles -> (...)."""
    xp = _namespace(path, obstacles)
    clearance = segment_clearance(path, obstacles)
    if obstacles.shape[-2] == 0:
        return xp.full(clearance.shape[:-2], float("inf"))
    return xp.min(clearance, axis=(-2, -1))


def collided(path: Array, obstacles: Array) -> Array:
    """Whether any segment comes closer to a centre than that circle's radius -> (...), boolean."""
    xp = _namespace(path, obstacles)
    start, end, circles = _segments_and_circles(path, obstacles)
    return xp.any(_gap(start, end, circles) > 0, axis=(-2, -1))


def obstacle_depth(start: Array, end: Array, circles: Array) -> Array:
    """Half the chord each circle cuts from the segment's line: √(r² − dist²) where dist ≤ r, else 0 -> (...)."""
    return _sqrt(_gap(start, end, circles))


def obstacle_cost(path: Array, obstacles: Array) -> Array:
    """The paper's c_obs, without weight: the half chords summed over segments and circles -> (...)."""
    xp = _namespace(path, obstacles)
    return xp.sum(obstacle_depth(*_segments_and_circles(path, obstacles)), axis=(-2, -1))


def path_cost(path: Array, obstacles: Array, goal: Array, weights: CostWeights = DEFAULT_WEIGHTS) -> CostTerms:
    """The paper's objective (eq. path_planning_cost) by terms, each weighted -> three of (...)."""
    xp = _namespace(path, obstacles, goal)
    return CostTerms(
        goal=weights.goal * squared_distance(path[..., -1, :], goal),
        obstacle=weights.obstacle * obstacle_cost(path, obstacles),
        smoothness=weights.smoothness * xp.sum(squared_distance(path[..., 1:, :], path[..., :-1, :]), axis=-1),
    )


def _segments_and_circles(path: Array, obstacles: Array) -> tuple[Array, Array, Array]:
    """Axes that broadcast to (..., N - 1, K): every segment against every circle."""
    return path[..., :-1, None, :], path[..., 1:, None, :], obstacles[..., None, :, :]


def _gap(start: Array, end: Array, circles: Array) -> Array:
    """r² − dist², positive where the segment enters the circle."""
    radius = circles[..., 2]
    return radius * radius - squared_segment_distance(start, end, circles[..., :2])


def _sqrt(squared: Array) -> Array:
    """√max(squared, 0), with derivative 0 instead of NaN where that is 0."""
    xp = _namespace(squared)
    positive = squared > 0
    return xp.where(positive, xp.sqrt(xp.where(positive, squared, xp.ones_like(squared))), xp.zeros_like(squared))


def _namespace(*arrays: Array) -> Any:
    """The array library of the arguments; where NumPy arrays meet another library's, the other's."""
    namespaces = [array.__array_namespace__() for array in arrays]
    return next((xp for xp in namespaces if xp.__name__ != "numpy"), namespaces[0])
