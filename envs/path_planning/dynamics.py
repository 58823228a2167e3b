"""What a move does, for one environment or many: the environments are adapters around these functions."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from rnce.envs.path_planning.geometry import CostTerms, CostWeights, obstacle_depth, squared_distance
from rnce.envs.path_planning.scenes import MAX_RADIUS, WORKSPACE, Scene, SceneParams, check_scene


class State(NamedTuple):
    """A scene and what has happened in it; every array may have one leading batch axis."""

    obstacles: NDArray[np.float64]
    goal: NDArray[np.float64]
    position: NDArray[np.float64]
    moves: NDArray[np.int64]
    collided: NDArray[np.bool_]
    obstacle_cost: NDArray[np.float64]
    """weighted, summed over the moves so far, as is the next"""
    smoothness_cost: NDArray[np.float64]


def initial_state(scene: Scene) -> State:
    """The state before the first move."""
    batch = scene.start.shape[:-1]
    return State(
        obstacles=scene.obstacles,
        goal=scene.goal,
        position=scene.start,
        moves=np.zeros(batch, np.int64),
        collided=np.zeros(batch, np.bool_),
        obstacle_cost=np.zeros(batch),
        smoothness_cost=np.zeros(batch),
    )


def move(state: State, waypoint: NDArray[np.float64], weights: CostWeights) -> State:
    """Go straight to ``waypoint``."""
    depth = obstacle_depth(state.position[..., None, :], waypoint[..., None, :], state.obstacles)
    return state._replace(
        position=waypoint,
        moves=state.moves + 1,
        collided=state.collided | (depth > 0).any(axis=-1),
        obstacle_cost=state.obstacle_cost + weights.obstacle * depth.sum(axis=-1),
        smoothness_cost=state.smoothness_cost + weights.smoothness * squared_distance(waypoint, state.position),
    )


def cost_terms(state: State, weights: CostWeights) -> CostTerms:
    """The objective of the path so far, as if it ended here."""
    goal_cost = weights.goal * squared_distance(state.position, state.goal)
    return CostTerms(goal_cost, state.obstacle_cost, state.smoothness_cost)


def observation(state: State) -> dict[str, NDArray[np.float64]]:
    """What the environment shows, as copies: the caller may keep or change them."""
    return {
        "obstacles": state.obstacles.copy(),
        "goal": state.goal.copy(),
        "position": state.position.copy(),
    }


def info(state: State, weights: CostWeights) -> dict[str, Any]:
    """The figures beside the observation."""
    terms = cost_terms(state, weights)
    return {
        "collided": state.collided,
        "cost_goal": terms.goal,
        "cost_obstacle": terms.obstacle,
        "cost_smoothness": terms.smoothness,
        "cost": terms.total,
        "goal_distance": np.sqrt(squared_distance(state.position, state.goal)),
    }


def make_spaces(params: SceneParams) -> tuple[spaces.Dict, "spaces.Box[np.float64]"]:
    """Observation and action space of one environment."""
    point = spaces.Box(-WORKSPACE, WORKSPACE, (2,), np.float64)
    low = np.tile([-WORKSPACE, -WORKSPACE, 0.0], (params.n_obstacles, 1))
    high = np.tile([WORKSPACE, WORKSPACE, MAX_RADIUS], (params.n_obstacles, 1))
    observation_space = spaces.Dict(
        {
            "obstacles": spaces.Box(low, high, dtype=np.float64),
            "goal": point,
            "position": spaces.Box(-WORKSPACE, WORKSPACE, (2,), np.float64),
        }
    )
    return observation_space, spaces.Box(-WORKSPACE, WORKSPACE, (2,), np.float64)


def checked_waypoint(action: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The action as a fresh array inside the workspace; what is not a finite array of ``shape`` is refused."""
    waypoint = as_float_array("action", action, shape)
    if not np.isfinite(waypoint).all():
        raise ValueError(f"action must be finite, got {_short(waypoint)}")
    return np.clip(waypoint, -WORKSPACE, WORKSPACE)


def as_float_array(name: str, value: ArrayLike, *shapes: tuple[int, ...]) -> NDArray[np.float64]:
    """Convert to float64 of one of ``shapes``, or say what came instead."""
    allowed = " or ".join(map(str, shapes))
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers of shape {allowed}, got {value!r:.80}") from None
    if array.shape not in shapes:
        raise ValueError(f"{name} must have shape {allowed}, got {array.shape}: {_short(array)}")
    return array


def checked_weights(weights: CostWeights | dict[str, float] | None) -> CostWeights:
    """Weights as given to a constructor: none for the default, or by name, so that ``gym.make`` can store them."""
    if isinstance(weights, CostWeights):
        return weights
    try:
        return CostWeights(**(weights or {}))
    except TypeError:
        raise ValueError(f"weights may set goal, obstacle and smoothness, got {weights!r}") from None


def checked_n_waypoints(n_waypoints: int) -> int:
    """At least a start and one move."""
    if not (isinstance(n_waypoints, int | np.integer) and n_waypoints >= 2):
        raise ValueError(f"n_waypoints must be a whole number, 2 or more, got {n_waypoints!r}")
    return int(n_waypoints)


def given_by_options(options: Mapping[str, Any], params: SceneParams) -> dict[str, NDArray[np.float64]]:
    """What ``reset(options=...)`` fixes of one scene; nonsense is refused with the reason."""
    given = {
        name: as_float_array(f"options[{name!r}]", options[name], shape) for name, shape in _wanted(options, params)
    }
    check_scene(given)
    return given


def given_by_batched_options(
    options: Mapping[str, Any], params: SceneParams, n_envs: int
) -> dict[str, NDArray[np.float64]]:
    """The same with one row per environment; an option is either one for all, or has one row for each."""
    rows, shared = {}, True
    for name, shape in _wanted(options, params):
        array = as_float_array(f"options[{name!r}]", options[name], shape, (n_envs, *shape))
        shared &= array.shape == shape
        rows[name] = np.array(np.broadcast_to(array, (n_envs, *shape)))
    for row in range(1 if shared else n_envs):
        check_scene({name: array[row] for name, array in rows.items()})
    return rows


def _wanted(options: Mapping[str, Any], params: SceneParams) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the options that are set."""
    shapes = {"obstacles": (params.n_obstacles, 3), "start": (2,), "goal": (2,)}
    unknown = [name for name in options if name not in shapes]
    if unknown:
        raise ValueError(f"options has unknown keys {unknown}; allowed are {list(shapes)}")
    return [(name, shapes[name]) for name in options]


def _short(array: NDArray[np.float64]) -> str:
    return np.array2string(array, threshold=8, edgeitems=2, separator=", ").replace("\n", "")
