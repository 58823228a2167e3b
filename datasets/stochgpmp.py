"""StochGPMP: a sampling-based planner that improves paths drawn from a Gaussian process prior.

Each of several particles is a path. An iteration draws perturbations from a smooth prior round it, weighs them by
softmax(−cost/λ), with λ such that the effective sample size is the same for easy and hard scenes, and moves the path by
the weighted mean perturbation. Particles do not interact, so that each settles in its own way round the obstacles.

Everything is batched over scenes and compiled once per shape. The noise of an iteration is shared by the scenes of a
batch: drawing it would otherwise cost as much as using it, and a scene's paths do not depend on its neighbours.
"""

import dataclasses
import functools
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, PRNGKeyArray
from numpy.typing import ArrayLike

from rnce.datasets.gp_prior import DURATION, conditional_covariance, sampling_factor, smoothing, smoothness_root
from rnce.datasets.winding import same_class, winding_numbers
from rnce.envs.path_planning.geometry import (
    PLANNER_OBSTACLE_WEIGHT,
    PLANNER_SMOOTHNESS_WEIGHT,
    collided,
    obstacle_depth,
    squared_distance,
)
from rnce.envs.path_planning.scenes import WORKSPACE, Scene


@dataclass(frozen=True)
class Schedule:
    """How long and how widely to search."""

    iterations: int
    samples: int
    """perturbations per particle and iteration, in antithetic pairs"""
    first_scale: float
    """of the perturbations, in units of the sampling prior"""
    last_scale: float
    """reached geometrically"""
    smoothing: float = 0.0
    """strength of the smoothed path that is one sample more; it may move a path through a small obstacle"""


@dataclass(frozen=True)
class PlannerConfig:
    """Every setting of the planner."""

    waypoints: int = 50
    """of a whole path, start and goal included"""
    particles: int = 16
    """paths per scene"""
    candidates: int = 256
    """draws from the prior, of which the scouts are chosen"""
    scouts: int = 48
    """paths that are improved a little, of which the particles are chosen"""
    class_penalty: float = 1.0
    """how many times worse a path counts for each better one of its winding class when some are chosen of many"""
    max_detour: float = 1.9
    """length, relative to the best path, beyond which a path is chosen last"""
    scouting: Schedule = Schedule(20, 16, 1.0, 0.4)
    planning: Schedule = Schedule(50, 32, 0.4, 0.07, smoothing=0.002)
    step: float = 1.0
    ess: float = 4.0
    """effective sample size of the importance weights"""
    initial_sigma: float = 4.0
    """σ_gp of the first draws"""
    sampling_sigma: float = 2.0
    """σ_gp of the perturbations"""
    cost_sigma: float = 1.0
    """σ_gp of the smoothness that is asked for"""
    gp_weight: float = 0.5
    obstacle_weight: float = PLANNER_OBSTACLE_WEIGHT
    smoothness_weight: float = PLANNER_SMOOTHNESS_WEIGHT
    margin: float = 0.05
    """added to every radius: the clearance of the demonstrations is the error budget of the policies"""
    edge_margin: float = 0.01
    """from the edge of the workspace"""
    edge_weight: float = 5 * PLANNER_OBSTACLE_WEIGHT
    """of a waypoint's distance beyond it: between a circle and the edge, rather cut the margin than leave"""
    end_sigma: float = 1e-3
    end_velocity_sigma: float = 3.0

    @property
    def dt(self) -> float:
        """Time between waypoints, the same for whole paths and for pieces of them."""
        return DURATION / (self.waypoints - 1)


class Paths(NamedTuple):
    """Planned paths and what the planner thinks of them."""

    path: Float32[Array, "*batch n 2"]
    cost: Float32[Array, "*batch"]


def _covariance(n: int, sigma: float, config: PlannerConfig) -> np.ndarray:
    return conditional_covariance(n, config.dt, sigma, config.end_sigma, config.end_velocity_sigma)


def _sampler(n: int, sigma: float, config: PlannerConfig) -> Float32[Array, "n n"]:
    return jnp.asarray(sampling_factor(_covariance(n, sigma, config)), jnp.float32)


def _smoothness_root(n: int, config: PlannerConfig) -> np.ndarray:
    return smoothness_root(_covariance(n, config.cost_sigma, config), config.gp_weight, config.smoothness_weight)


def _smoothness(n: int, config: PlannerConfig) -> Float32[Array, "n n"]:
    return jnp.asarray(_smoothness_root(n, config), jnp.float32)


def _smoothing(n: int, strength: float, config: PlannerConfig) -> Float32[Array, "n n"]:
    return jnp.asarray(smoothing(_smoothness_root(n, config), strength), jnp.float32)


def importance_weights(cost: Float[Array, "*batch s"], ess: float, halvings: int = 20) -> Float[Array, "*batch s"]:
    """softmax(−cost/λ), with λ by bisection such that 1/Σw² is `ess` (or as near as ties allow)."""
    excess = cost - jnp.min(cost, -1, keepdims=True)
    # In units of the mean excess, the λ of any useful effective sample size lies well inside these bounds.
    excess = excess / jnp.maximum(jnp.mean(excess, -1, keepdims=True), jnp.finfo(cost.dtype).tiny)

    def weights(log_temperature: Array) -> Array:
        return jax.nn.softmax(-excess * jnp.exp(-log_temperature), axis=-1)

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) / 2
        too_sharp = jnp.sum(weights(middle) ** 2, -1, keepdims=True) * ess > 1
        return jnp.where(too_sharp, middle, low), jnp.where(too_sharp, high, middle)

    start = jnp.full_like(excess[..., :1], -14.0), jnp.full_like(excess[..., :1], 7.0)
    low, high = jax.lax.fori_loop(0, halvings, halve, start)
    return weights((low + high) / 2)


def straight_line(start: Float[Array, "*b 2"], goal: Float[Array, "*b 2"], n: int) -> Float[Array, "*b n 2"]:
    """The prior's mean: n waypoints at constant speed."""
    fraction = jnp.linspace(0.0, 1.0, n)[:, None]
    return start[..., None, :] * (1 - fraction) + goal[..., None, :] * fraction


# Inside, the paths of a scene are (2, n, m): coordinate, waypoint, path. Long contiguous rows of paths are what the
# compiler vectorises; with the coordinates or the circles innermost the same arithmetic takes ten times as long.
def _collision_cost(
    paths: Float[Array, "2 n m"], obstacles: Float[Array, "K 3"], config: PlannerConfig
) -> Float[Array, " m"]:
    """What circles, inflated by the margin, and the workspace's edge cost."""
    n = paths.shape[1]
    start, end = jnp.moveaxis(paths[:, :-1], 0, -1), jnp.moveaxis(paths[:, 1:], 0, -1)
    inflated = obstacles + jnp.array([0.0, 0.0, config.margin])

    def add_depth(total: Array, circle: Array) -> tuple[Array, None]:
        return total + obstacle_depth(start, end, circle), None

    depth, _ = jax.lax.scan(add_depth, jnp.zeros(start.shape[:-1]), inflated, unroll=5)
    # c_obs sums per segment, which makes a few long steps through a circle cheap: a step longer than those of the
    # straight line counts by its length.
    usual_step = jnp.sqrt(squared_distance(start[0], end[-1])) / (n - 1)
    stretch = jnp.maximum(1.0, jnp.sqrt(squared_distance(start, end)) / jnp.maximum(usual_step, 1e-6))
    outside = jnp.maximum(jnp.abs(paths[:, 1:]) - (WORKSPACE - config.edge_margin), 0.0)
    cost = config.obstacle_weight * stretch * depth + config.edge_weight * (outside[0] + outside[1])
    # The sum over segments as a product with ones: a reduction that is fused with what it sums, as this would be (a
    # single row of ones too), is not vectorised on a CPU and takes five times as long.
    return (jnp.ones((8, n - 1)) @ cost)[0]


def _update(
    means: Float[Array, "2 n p"],
    noise: Float[Array, "2 n p s"],
    smooth_noise: Float[Array, "2 n p s"],
    line: Float[Array, "2 n"],
    obstacles: Float[Array, "K 3"],
    schedule: Schedule,
    config: PlannerConfig,
) -> tuple[Float[Array, "2 n p"], Float[Array, " p"]]:
    """One importance-weighted step of every particle of a scene -> new means, and the cost of the old ones."""
    n = means.shape[1]
    root, deviation = _smoothness(n, config), means - line[..., None]
    # Random perturbations of a bumpy path are seldom smoother than it is, the more so where obstacles leave little room
    # and decide the weights; so one sample is made to be.
    smoother = jnp.einsum("nm,dmp->dnp", _smoothing(n, schedule.smoothing, config), deviation)[..., None]
    smooth_mean = jnp.einsum("nm,dmp->dnp", root, deviation)[..., None]

    def cost_of(move: Float[Array, "2 n p s"], smooth_move: Float[Array, "2 n p s"]) -> Float[Array, "p s"]:
        samples = (means[..., None] + move).reshape(2, n, -1)
        collision = _collision_cost(samples, obstacles, config).reshape(move.shape[2:])
        return _line_cost(line, config) + collision + jnp.sum((smooth_mean + smooth_move) ** 2, axis=(0, 1))

    smoother_cost = cost_of(smoother, jnp.einsum("nm,dmps->dnps", root, smoother))
    noise_cost = cost_of(noise, smooth_noise)
    weights = importance_weights(jnp.concatenate([smoother_cost, noise_cost], axis=-1), config.ess)
    move = smoother[..., 0] * weights[:, 0] + jnp.einsum("dnps,ps->dnp", noise, weights[:, 1:])
    return means + config.step * move, noise_cost[:, -1]


@functools.partial(jax.jit, static_argnames=("schedule", "config"))
def improve(
    key: PRNGKeyArray,
    obstacles: Float[Array, "batch K 3"],
    paths: Float[Array, "batch p n 2"],
    schedule: Schedule,
    config: PlannerConfig,
) -> Paths:
    """Plan from given paths, the first and last waypoints of which stay as they are and are the same for a scene."""
    n_particles, n = paths.shape[1:3]
    means = jnp.moveaxis(paths, (3, 2, 1), (1, 2, 3))
    line = straight_line(paths[:, 0, 0], paths[:, 0, -1], n).swapaxes(1, 2)
    factor, smoothness = _sampler(n, config.sampling_sigma, config), _smoothness(n, config)

    def iterate(carry: tuple[Array, ...], xs: tuple[PRNGKeyArray, Array]) -> tuple[tuple[Array, ...], None]:
        means, best, best_cost = carry
        key, scale = xs
        normal = jax.random.normal(key, (2, n, n_particles, schedule.samples // 2))
        half = scale * jnp.einsum("nm,dmps->dnps", factor, normal)
        # The mean itself is the last sample: its cost tells which mean was best, and staying put is an option.
        noise = jnp.concatenate([half, -half, jnp.zeros_like(half[..., :1])], axis=-1)
        smooth_noise = jnp.einsum("nm,dmps->dnps", smoothness, noise)
        update = jax.vmap(_update, (0, None, None, 0, 0, None, None))
        new, cost = update(means, noise, smooth_noise, line, obstacles, schedule, config)
        return (new, *_better(means, cost, best, best_cost)), None

    keys = jax.random.split(key, schedule.iterations + 1)
    # One more than asked for, since an iteration judges the means that it begins with.
    scales = jnp.geomspace(schedule.first_scale, schedule.last_scale, schedule.iterations + 1)
    carry = means, means, jnp.full(paths.shape[:2], jnp.inf)
    (_, best, best_cost), _ = jax.lax.scan(iterate, carry, (keys, scales))
    return Paths(jnp.moveaxis(best, (1, 2, 3), (3, 2, 1)), best_cost)


def _better(
    means: Float[Array, "b 2 n p"],
    cost: Float[Array, "b p"],
    best: Float[Array, "b 2 n p"],
    best_cost: Float[Array, "b p"],
) -> tuple[Float[Array, "b 2 n p"], Float[Array, "b p"]]:
    better = cost < best_cost
    return jnp.where(better[:, None, None], means, best), jnp.where(better, cost, best_cost)


def choose(
    paths: Float[Array, "m n 2"],
    cost: Float[Array, " m"],
    unfit: Bool[Array, " m"],
    obstacles: Float[Array, "K 3"],
    size: int,
    class_penalty: float,
) -> Float[Array, "size n 2"]:
    """The best paths of one scene. Better ones of its winding class count against a path; the unfit come last."""
    alike = same_class(winding_numbers(paths, obstacles))
    rank = jnp.sum(alike & (cost[None] < cost[:, None]), axis=1)
    return paths[jnp.lexsort((cost * (1 + class_penalty * rank), unfit))[:size]]


def _unfit(
    paths: Float[Array, "m n 2"], cost: Float[Array, " m"], obstacles: Float[Array, "K 3"], max_detour: float
) -> Bool[Array, " m"]:
    """Of scouts: those on a long detour, and those that collide, in a way round that is most likely none."""
    length = jnp.sum(jnp.sqrt(squared_distance(paths[:, 1:], paths[:, :-1])), axis=1)
    return collided(paths, obstacles) | (length > max_detour * length[jnp.argmin(cost)])


@functools.partial(jax.jit, static_argnames="config")
def plan_scenes(
    key: PRNGKeyArray,
    obstacles: Float[Array, "batch K 3"],
    start: Float[Array, "batch 2"],
    goal: Float[Array, "batch 2"],
    config: PlannerConfig,
) -> Paths:
    """`config.particles` paths for each scene.

    A particle stays in the class that it begins in, more or less, so the classes that a plan finds are those of its
    first paths. A straight line for all would find one or two; here they are chosen, twice, of many draws of a wide
    prior.
    """
    n = config.waypoints
    keys = jax.random.split(key, 3)
    line = straight_line(start, goal, n)
    normal = jax.random.normal(keys[0], (config.candidates, n, 2))
    drawn = line[:, None] + jnp.einsum("nm,cmd->cnd", _sampler(n, config.initial_sigma, config), normal)
    cost = jax.vmap(_costs, (0, 0, None))(drawn, obstacles, config)

    best = jax.vmap(choose, (0, 0, 0, 0, None, None))
    anything = jnp.zeros_like(cost, bool)
    first = best(drawn, cost, anything, obstacles, config.scouts, config.class_penalty)
    scouts = improve(keys[1], obstacles, first, config.scouting, config)
    unfit = jax.vmap(_unfit, (0, 0, 0, None))(scouts.path, scouts.cost, obstacles, config.max_detour)
    particles = best(scouts.path, scouts.cost, unfit, obstacles, config.particles, config.class_penalty)
    return improve(keys[2], obstacles, particles, config.planning, config)


def _costs(paths: Float[Array, "m n 2"], obstacles: Float[Array, "K 3"], config: PlannerConfig) -> Float[Array, " m"]:
    n = paths.shape[1]
    line = straight_line(paths[0, 0], paths[0, -1], n)
    smooth = jnp.einsum("nm,pmd->pnd", _smoothness(n, config), paths - line)
    base = _line_cost(line.T, config)
    return base + _collision_cost(paths.T, obstacles, config) + jnp.sum(smooth**2, axis=(1, 2))


def _line_cost(line: Float[Array, "2 n"], config: PlannerConfig) -> Float[Array, ""]:
    """Squared steps of the straight line, which `smoothness_root` leaves out."""
    return config.smoothness_weight * jnp.sum((line[:, -1] - line[:, 0]) ** 2) / (line.shape[1] - 1)


def plan(
    obstacles: ArrayLike,
    start: ArrayLike,
    goal: ArrayLike,
    n: int = 16,
    *,
    seed: int = 0,
    config: PlannerConfig | None = None,
) -> Float32[np.ndarray, "n waypoints 2"]:
    """Plan n paths from start to goal round circles, in the square [−1, 1]².

        paths = rnce.datasets.plan([[0.0, 0.0, 0.3]], start=[-0.8, 0.0], goal=[0.8, 0.0], n=8)     # (8, 50, 2)

    Paths differ in how they go round the circles, where there is a choice. In a scene that has no way through they
    collide, which `rnce.envs.path_planning.collided` tells.

    Args:
        obstacles: Circles (K, 3): centre x, centre y, radius; none is fine.
        start: First waypoint.
        goal: Last waypoint.
        n: Number of paths.
        seed: The same seed gives the same paths.
        config: Settings of the planner.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    config = config or PlannerConfig()
    scouts = max(config.scouts, 3 * n)
    config = dataclasses.replace(config, particles=n, scouts=scouts, candidates=max(config.candidates, 4 * scouts))
    scene = _checked_scene(obstacles, start, goal)
    paths = plan_scenes(jax.random.key(seed), *(jnp.asarray(part[None], jnp.float32) for part in scene), config=config)
    return np.array(paths.path[0])


def _checked_scene(obstacles: ArrayLike, start: ArrayLike, goal: ArrayLike) -> Scene:
    circles = np.asarray(obstacles, float)
    circles = circles.reshape(0, 3) if circles.size == 0 else circles
    if circles.ndim != 2 or circles.shape[1] != 3:
        raise ValueError(f"obstacles must be of shape (K, 3): x, y, radius of each circle; got {circles.shape}")
    if not np.isfinite(circles).all() or (circles[:, 2] <= 0).any():
        raise ValueError("obstacles must be finite with radii above 0")
    ends = {"start": np.asarray(start, float), "goal": np.asarray(goal, float)}
    for name, point in ends.items():
        if point.shape != (2,) or not (np.abs(point) <= WORKSPACE).all():
            raise ValueError(f"{name} must be a point (x, y) in [-{WORKSPACE:g}, {WORKSPACE:g}]², got {point.tolist()}")
        inside = np.flatnonzero(squared_distance(circles[:, :2], point) < circles[:, 2] ** 2)
        if len(inside):
            raise ValueError(
                f"{name}={point.tolist()} lies inside obstacle {inside[0]}, {circles[inside[0]].tolist()}; move either"
            )
    return Scene(circles, **ends)
