"""Every waypoint of a candidate looks at every obstacle: the cheap equivalent of attention for path planning.

Each segment of a candidate sees its clearance from the obstacles and the way to them, as means in which near obstacles
weigh most, at several ranges. A layer learned over pairs can be added; it costs more than all the rest.

A context has `obstacles` (n, 3): centres and radii, relative to the present position and in the units of the
waypoints. Its other entries are features, except `to_waypoints` (d, d) and `to_waypoints_offset` (d,), which say how
event coordinates become waypoints: (to_waypoints @ y + to_waypoints_offset) as (n_pred, 2). Without them, y is the
waypoints. The order of the obstacles does not matter.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from rnce.policies.networks.config import Signature
from rnce.policies.networks.functional import Context, ContextualModule, exact_divergence
from rnce.policies.networks.layers import dense, flat_size, flatten, named
from rnce.policies.networks.mlp import Conditioned, ResidualMLP

PAIR_FEATURES = 7
RANGES = (1.0, 4.0, 16.0)  # of attention to obstacles, in units of `near`
SEGMENT_FEATURES = 4 * len(RANGES)
Code = dict[str, Any]
Ends = Float[Array, "4 n_pred"]  # of segments: x and y of the start, x and y of the end
Pairs = Float[Array, " pairs"]  # every obstacle with every segment in one axis, the segments of an obstacle in a row


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
            "obstacles": jnp.repeat(context["obstacles"].T, self.dim // 2, axis=1),
            "matrix": context.get("to_waypoints", jnp.eye(self.dim)),
            "offset": context.get("to_waypoints_offset", jnp.zeros(self.dim)),
        }

    def prepare(self, code: Code, t: Float[Array, ""]) -> Code:
        """What steers the trunk, beside the scene."""
        prepared = code | {"features": self.core.prepare(code["features"], t)}
        return prepared | {"pair_time": self.pair_time(self.core.time(t))} if self.pair_width else prepared

    def __call__(self, code: Code, y: Float[Array, " dim"]) -> Float[Array, "..."]:
        """The field or the energy of one event."""
        pairs = look(segments(self._waypoints(code, y)), code["obstacles"])
        parts = [y, jnp.ravel(segment_features(pairs, self.near, self.dim // 2))]
        if self.pair_width:
            h = nnx.swish(self.pair_in(pair_features(pairs, self.near)) + code["pair_time"])
            for layer in self.pair_layers.values():
                h = nnx.swish(layer(h))
            h = h.reshape(-1, self.dim // 2, self.pair_width)
            parts.append(jnp.ravel(jnp.sum(h, axis=0)) / jnp.sqrt(h.shape[0]))
        return self.core(code["features"], jnp.concatenate(parts), y)

    def with_divergence(self, code: Code, y: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """The field and its exact divergence, for little more than half of what `dim` passes cost.

        What a segment sees depends on its two ends only, so four derivatives of the geometry serve all directions.
        """
        if self.pair_width:
            return exact_divergence(lambda y: self(code, y), y)
        n_pred, directions = self.dim // 2, jnp.eye(self.dim)

        def geometry(ends: Ends) -> Float[Array, "features n_pred"]:
            return segment_features(look(ends, code["obstacles"]), self.near, n_pred)

        ends = segments(self._waypoints(code, y))
        features, along = jax.linearize(geometry, ends)
        slopes = jax.vmap(along)(jnp.repeat(jnp.eye(4)[:, :, None], n_pred, axis=2))  # 4 × features × n_pred
        moved = jax.vmap(segments)(code["matrix"].T.reshape(self.dim, n_pred, 2))  # dim × 4 × n_pred
        tangents = jnp.sum(slopes * moved[:, :, None], axis=1).reshape(self.dim, -1)
        inputs = jnp.concatenate([y, jnp.ravel(features)])
        value, push = jax.linearize(lambda inputs, y: self.core(code["features"], inputs, y), inputs, y)
        pushed = jax.vmap(push)(jnp.concatenate([directions, tangents], axis=1), directions)
        return value, jnp.trace(pushed)

    def _waypoints(self, code: Code, y: Float[Array, " dim"]) -> Float[Array, "n_pred 2"]:
        # A sum of products and not a matrix product: the matrix comes with each context, and batches of tiny matrix
        # products are the slowest thing on a CPU.
        return (jnp.sum(code["matrix"] * y, axis=1) + code["offset"]).reshape(-1, 2)


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


def segments(waypoints: Float[Array, "n_pred 2"]) -> Ends:
    """From each waypoint to the next. The first segment starts at the origin, the present position."""
    starts = jnp.concatenate([jnp.zeros((1, 2)), waypoints[:-1]])
    return jnp.concatenate([starts.T, waypoints.T])


def look(ends: Ends, obstacles: Float[Array, "3 pairs"]) -> Look:
    """The geometry of segments and circles.

    Obstacles are repeated for every segment, and coordinates are kept apart: arrays whose last axis has two or ten
    entries make slow loops.
    """
    start_x, start_y, end_x, end_y = _times(ends, _members(ends.shape[1], obstacles.shape[1]).T)
    center_x, center_y, radius = obstacles
    step_x, step_y = end_x - start_x, end_y - start_y
    from_x, from_y = center_x - start_x, center_y - start_y
    along = jnp.clip((from_x * step_x + from_y * step_y) / (step_x**2 + step_y**2 + 1e-8), 0.0, 1.0)
    x, y = from_x - along * step_x, from_y - along * step_y
    return Look(x, y, jnp.sqrt(x**2 + y**2 + 1e-8), along, radius)


def segment_features(seen: Look, near: float, n_pred: int) -> Float[Array, "features n_pred"]:
    """Means over obstacles of clearance and direction, in which near obstacles weigh most, at several ranges."""
    clearance, inverse = seen.clearance, 1.0 / seen.distance
    # Obstacles beyond a few ranges weigh nothing; bounded so, weights need no maximum subtracted first.
    weight = jnp.exp(-jnp.clip(clearance, -1.0, 1.5) / (RANGES[-1] * near))
    weights = [weight ** round(RANGES[-1] / scale) for scale in RANGES]
    values = (1.0, clearance, seen.x * inverse, seen.y * inverse)
    # All sums in one product, which is faster than twelve.
    sums = _times(jnp.stack([w * value for value in values for w in weights]), _members(n_pred, len(weight)))
    total, nearest, x, y = sums.reshape(len(values), len(RANGES), n_pred)
    nearest, scales = nearest / total, near * jnp.array(RANGES)[:, None]
    return jnp.concatenate([nearest, jnp.tanh(nearest / scales), x / total, y / total])


def _members(segments: int, pairs: int) -> Float[Array, "pairs segments"]:
    """Which pairs are of which segment.

    Repeating segments and summing over obstacles are products with these zeros and ones: the compiler makes slow loops
    of either, which cost half as much again where an energy is differentiated twice.
    """
    return jnp.tile(jnp.eye(segments), (pairs // segments, 1))


def _times(a: Float[Array, "a b"], b: Float[Array, "b c"]) -> Float[Array, "a c"]:
    """Exact on accelerators too, which else round the factors of a product."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def pair_features(seen: Look, near: float) -> Float[Array, "pairs 7"]:
    """What a learned layer sees of a pair: direction, clearances, where on the segment, and the radius."""
    clearance = seen.clearance
    # Raw clearance orders far obstacles; its saturating forms tell a graze from a miss.
    bends = [clearance, jnp.tanh(clearance / near), jnp.tanh(clearance / (4 * near))]
    return jnp.stack([seen.x / seen.distance, seen.y / seen.distance, *bends, seen.along, seen.radius], axis=-1)
