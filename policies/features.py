"""How a window of observations becomes a network's context, and the frame in which its actions are learned."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

Window = Mapping[str, Num[Array, "n_ctx ..."]]  # oldest first, one entry per observation key


class Frame(NamedTuple):
    """A local coordinate system: action = origin + axes · local, with orthonormal axes."""

    origin: Float[Array, " action_dim"]
    axes: Float[Array, "action_dim action_dim"]


class View(NamedTuple):
    """What a policy makes of a window."""

    context: dict[str, Array]
    frame: Frame


Features = Callable[[Window, tuple[str, int] | None, int], View]


def flat(window: Window, relative_to: tuple[str, int] | None, action_dim: int) -> View:
    """Everything observed, flattened; actions relative to the present position where the task names one."""
    features = jnp.concatenate([jnp.asarray(value, jnp.float32).reshape(-1) for value in window.values()])
    origin = jnp.zeros(action_dim)
    if relative_to is not None:
        key, start = relative_to
        origin = window[key][-1].reshape(-1)[start : start + action_dim]
    return View({"features": features}, Frame(origin, jnp.eye(action_dim)))


# Push-T: eight corners of the T in its own frame (px), and its goal pose.
T_CORNERS = np.array([[-60, 30], [60, 30], [60, 0], [-60, 0], [-15, 30], [-15, 120], [15, 120], [15, 30]], np.float32)
T_GOAL = (256.0, 256.0, math.pi / 4)


def _corners(x: Array, y: Array, angle: Array | float) -> Float[Array, "8 2"]:
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    rotation = jnp.array([[cos, -sin], [sin, cos]])
    return jnp.asarray(T_CORNERS) @ rotation.T + jnp.stack([jnp.asarray(x), jnp.asarray(y)])


def pusht(window: Window, relative_to: tuple[str, int] | None, action_dim: int) -> View:
    """The T as keypoints: relative to the goal and to the agent, and the agent as the T sees it.

    Actions are relative to the agent.
    """
    state = jnp.asarray(window["state"])
    goal = _corners(*(jnp.asarray(v) for v in T_GOAL))
    parts = []
    for step in state:
        agent, pose = step[:2], step[2:5]
        corners = _corners(*pose)
        cos, sin = jnp.cos(pose[2]), jnp.sin(pose[2])
        seen = jnp.array([[cos, sin], [-sin, cos]]) @ (agent - pose[:2])
        parts += [(corners - goal).reshape(-1), (corners - agent).reshape(-1), seen, agent, cos[None], sin[None]]
    velocity = state[-1] - state[0]
    parts += [velocity[:4]]
    return View({"features": jnp.concatenate(parts)}, Frame(state[-1, :2], jnp.eye(2)))


def pusht_pixels(window: Window, relative_to: tuple[str, int] | None, action_dim: int) -> View:
    """The paper's Push-T: images and agent positions, actions from the middle of the canvas."""
    agent = window["agent_pos"] / 256.0 - 1.0
    context = {"pixels": jnp.asarray(window["pixels"], jnp.float32) / 255.0, "agent": agent}
    return View(context, Frame(jnp.full(2, 256.0), jnp.eye(2)))


# Path planning: where the traveller feels for obstacles, with the goal towards +x; a chunk reaches about 0.4 far.
FEELERS = np.stack(np.meshgrid(np.linspace(-0.15, 0.75, 10), np.linspace(-0.5, 0.5, 11)), -1).reshape(-1, 2)


def path_planning(window: Window, relative_to: tuple[str, int] | None, action_dim: int) -> View:
    """The scene as the traveller sees it: at the origin, the goal straight ahead, and a map of the room around.

    Turning the scene makes rotations of it the same problem; the workspace's walls are given in the turned frame. The
    map says how far the nearest obstacle is from points on a grid: the same whatever the order of the obstacles.
    """
    position, goal = window["position"], window["goal"][-1]
    here = position[-1]
    ahead = goal - here
    distance = jnp.sqrt(jnp.sum(ahead**2) + 1e-12)
    # Near the goal "ahead" loses its meaning: blend into the world's x axis instead of spinning.
    direction = ahead + jnp.array([1e-3, 0.0])
    cos, sin = direction / jnp.sqrt(jnp.sum(direction**2) + 1e-12)
    axes = jnp.array([[cos, -sin], [sin, cos]])
    obstacles = window["obstacles"][-1]
    centers = (obstacles[:, :2] - here) @ axes
    history = (position[:-1] - here) @ axes
    from_feelers = jnp.linalg.norm(jnp.asarray(FEELERS, jnp.float32)[:, None] - centers, axis=-1)
    room = jnp.min(from_feelers - obstacles[:, 2], axis=1)
    context = {
        "obstacles": jnp.concatenate([centers, obstacles[:, 2:]], axis=1),
        "goal": jnp.stack([distance, jnp.log(distance + 0.05)]),
        "history": history * 10.0,  # steps are about 0.03
        "room": 5.0 * jnp.clip(room, -0.1, 0.3),  # where obstacles are far, it does not matter how far
        "walls": jnp.concatenate([here, jnp.stack([cos, sin])]),
    }
    return View(context, Frame(here, axes))


def pinwheel(window: Window, relative_to: tuple[str, int] | None, action_dim: int) -> View:
    """Number of spokes, as a sinusoidal embedding of size 10."""
    x = window["context"].reshape(())
    frequencies = 10000.0 ** (-jnp.arange(5) / 5)
    embedding = jnp.concatenate([jnp.sin(x * frequencies), jnp.cos(x * frequencies)])
    return View({"context": embedding}, Frame(jnp.zeros(action_dim), jnp.eye(action_dim)))


def spiral(window: Window, relative_to: tuple[str, int] | None, action_dim: int) -> View:
    """Length of the curve, 400 to 800 degrees mapped to [−1, 1]."""
    x = (jnp.asarray(window["context"]).reshape(1) - 600.0) / 200.0
    return View({"context": x}, Frame(jnp.zeros(action_dim), jnp.eye(action_dim)))


FEATURES: dict[str, Features] = {
    "flat": flat,
    "pusht": pusht,
    "pusht-pixels": pusht_pixels,
    "path-planning": path_planning,
    "pinwheel": pinwheel,
    "spiral": spiral,
}
