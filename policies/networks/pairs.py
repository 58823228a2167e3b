"""Every waypoint of a candidate looks at every obstacle: the cheap equivalent of attention for path planning.

Each segment of a candidate sees its clearance from the obstacles and the way to them, as means in which near obstacles
weigh most, at several ranges. A layer learned over pairs can be added; it costs more than all the rest.

A context has `obstacles` (n, 3): centres and radii, relative to the present position and in the units of the
waypoints. Its other entries are features, except `to_waypoints` (d, d) and `to_waypoints_offset` (d,), which say how
event coordinates become waypoints: (to_waypoints @ y + to_waypoints_offset) as (n_pred, 2). Without them, y is the
waypoints. The order of the obstacles does not matter.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from rnce.policies.networks.config import Signature
from rnce.policies.networks.functional import Context, ContextualModule
from rnce.policies.networks.layers import dense, flat_size, flatten, named
from rnce.policies.networks.mlp import Conditioned, ResidualMLP

PAIR_FEATURES = 7
RANGES = (1.0, 4.0, 16.0)  # of attention to obstacles, in units of `near`
SEGMENT_FEATURES = 4 * len(RANGES)
Code = dict[str, Array]
Pairs = Float[Array, "n n_pred"]  # obstacles first: sums over them then run along contiguous memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairNetwork(ResidualMLP):
    """A network over (segment, obstacle) pairs, pooled over obstacles, under a residual trunk over the whole chunk.

    Attributes:
        pair_width: features learned of a pair, on top of the pooled geometry; 0 for none.
        pair_depth: dense layers over a pair.
        near: distance to an obstacle, in the units of the waypoints, below which clearance is seen most finely.
    """

    width: int = 128
    depth: int = 3
    context_width: int = 96
    pair_width: int = 0
    pair_depth: int = 2
    near: float = 0.05

    def build(self, signature: Signature, rngs: nnx.Rngs) -> ContextualModule:
        """The NNX module."""
        obstacles = signature.context_shapes.get("obstacles", ())
        if len(obstacles) != 2 or obstacles[1] != 3:
            raise ValueError(f"context 'obstacles' has shape {obstacles}; pairs needs (n, 3): centres and radii.")
        if signature.event_shape[1] != 2:
            raise ValueError(f"event_shape={signature.event_shape}; pairs needs waypoints (n_pred, 2).")
        return PairModule(self, signature, rngs)


class PairModule(nnx.Module):
    """See `PairNetwork`."""

    def __init__(self, config: PairNetwork, signature: Signature, rngs: nnx.Rngs):
        others = {name: shape for name, shape in signature.context_shapes.items() if name != "obstacles"}
        pair, pooled = config.pair_width, config.context_width // 2
        inputs = signature.event_shape[0] * (SEGMENT_FEATURES + pair) + signature.dim
        self.core = Conditioned(config, flat_size(others) + 2 * pooled, inputs, signature, rngs)
        self.near, self.dim, self.pair_width = config.near, signature.dim, pair
        self.obstacle_layers = named("layer", (dense(a, pooled, rngs) for a in (3, pooled)))
        if pair:
            self.pair_in = dense(PAIR_FEATURES, pair, rngs, bias=False)
            self.pair_time = dense(self.core.time.size, pair, rngs)
            self.pair_layers = named("layer", (dense(pair, pair, rngs) for _ in range(config.pair_depth - 1)))

    def encode(self, context: Context) -> Code:
        """Features of the context, and the scene itself for the geometry of candidates."""
        others = {name: value for name, value in context.items() if name != "obstacles"}
        h = context["obstacles"]
        for layer in self.obstacle_layers.values():
            h = nnx.swish(layer(h))
        pooled = jnp.concatenate([flatten(others), jnp.mean(h, axis=0), jnp.max(h, axis=0)])
        return {
            "features": self.core.context(pooled),
            "obstacles": context["obstacles"],
            "matrix": context.get("to_waypoints", jnp.eye(self.dim)),
            "offset": context.get("to_waypoints_offset", jnp.zeros(self.dim)),
        }

    def __call__(self, code: Code, y: Float[Array, " dim"], t: Float[Array, ""]) -> Float[Array, "..."]:
        """The field or the energy of one event."""
        waypoints = (code["matrix"] @ y + code["offset"]).reshape(-1, 2)
        pairs = look(waypoints, code["obstacles"])
        parts = [y, jnp.ravel(segment_features(pairs, self.near))]
        if self.pair_width:
            h = nnx.swish(self.pair_in(pair_features(pairs, self.near)) + self.pair_time(self.core.time(t)))
            for layer in self.pair_layers.values():
                h = nnx.swish(layer(h))
            parts.append(jnp.ravel(jnp.sum(h, axis=0)) / jnp.sqrt(h.shape[0]))
        return self.core(code["features"], jnp.concatenate(parts), y, t)


class Look(NamedTuple):
    """What each segment sees of each obstacle: the way from its nearest point to the centre, and how far it is."""

    x: Pairs
    y: Pairs
    distance: Pairs
    along: Pairs  # where on the segment the nearest point is, in [0, 1]
    radius: Pairs

    @property
    def clearance(self) -> Pairs:
        """Distance to the circle; negative inside."""
        return self.distance - self.radius


def look(waypoints: Float[Array, "n_pred 2"], obstacles: Float[Array, "n 3"]) -> Look:
    """The geometry of segments and circles. The first segment starts at the origin, the present position.

    Coordinates are kept apart: arrays whose last axis has two entries make slow loops.
    """
    end_x, end_y = waypoints[:, 0], waypoints[:, 1]
    start_x, start_y = (jnp.concatenate([jnp.zeros(1), end[:-1]]) for end in (end_x, end_y))
    step_x, step_y = end_x - start_x, end_y - start_y
    from_x, from_y = obstacles[:, :1] - start_x, obstacles[:, 1:2] - start_y
    along = jnp.clip((from_x * step_x + from_y * step_y) / (step_x**2 + step_y**2 + 1e-8), 0.0, 1.0)
    x, y = from_x - along * step_x, from_y - along * step_y
    return Look(x, y, jnp.sqrt(x**2 + y**2 + 1e-8), along, jnp.broadcast_to(obstacles[:, 2:], x.shape))


def segment_features(seen: Look, near: float) -> Float[Array, "features n_pred"]:
    """Means over obstacles of clearance, nearness and direction, in which near obstacles weigh most."""
    clearance, inverse = seen.clearance, 1.0 / seen.distance
    directions = seen.x * inverse, seen.y * inverse
    features = []
    for scale in RANGES:
        weights = jax.nn.softmax(-clearance / (scale * near), axis=0)
        nearest = jnp.sum(weights * clearance, axis=0)
        features += [nearest, jnp.tanh(nearest / (scale * near))]
        features += [jnp.sum(weights * direction, axis=0) for direction in directions]
    return jnp.stack(features)


def pair_features(seen: Look, near: float) -> Float[Array, "n n_pred 7"]:
    """What a learned layer sees of a pair: direction, clearances, where on the segment, and the radius."""
    clearance = seen.clearance
    # Raw clearance orders far obstacles; its saturating forms tell a graze from a miss.
    bends = [clearance, jnp.tanh(clearance / near), jnp.tanh(clearance / (4 * near))]
    return jnp.stack([seen.x / seen.distance, seen.y / seen.distance, *bends, seen.along, seen.radius], axis=-1)
