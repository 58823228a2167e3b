"""Every waypoint of a candidate looks at every obstacle: the cheap equivalent of attention for path planning.

A context has `obstacles` (n, 3): centres and radii, relative to the present position and in the units of the
waypoints. Its other entries are features, except `to_waypoints` (d, d) and `to_waypoints_offset` (d,), which say how
event coordinates become waypoints: (to_waypoints @ y + to_waypoints_offset) as (n_pred, 2). Without them, y is the
waypoints. The order of the obstacles does not matter.
"""

import dataclasses

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from rnce.policies.networks.config import Signature
from rnce.policies.networks.functional import Context, ContextualModule
from rnce.policies.networks.layers import dense, flat_size, flatten, named
from rnce.policies.networks.mlp import Conditioned, ResidualMLP

PAIR_FEATURES = 7
Code = dict[str, Array]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairNetwork(ResidualMLP):
    """A network over (waypoint, obstacle) pairs, pooled over obstacles, under a residual trunk over the whole chunk.

    Attributes:
        pair_width: features of a pair.
        pair_depth: dense layers over a pair.
        near: distance to an obstacle, in the units of the waypoints, below which clearance is seen most finely.
    """

    width: int = 128
    depth: int = 3
    context_width: int = 96
    pair_width: int = 32
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
        inputs = signature.event_shape[0] * pair + signature.dim
        self.core = Conditioned(config, flat_size(others) + 2 * pooled, inputs, signature, rngs)
        self.near, self.dim = config.near, signature.dim
        self.obstacle_layers = named("layer", (dense(a, pooled, rngs) for a in (3, pooled)))
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
        pairs = pair_features(waypoints, code["obstacles"], self.near)
        h = nnx.swish(self.pair_in(pairs) + self.pair_time(self.core.time(t)))
        for layer in self.pair_layers.values():
            h = nnx.swish(layer(h))
        pooled = jnp.sum(h, axis=1) / jnp.sqrt(h.shape[1])
        inputs = jnp.concatenate([jnp.ravel(pooled), y])
        return self.core(code["features"], inputs, y, t)


def pair_features(
    waypoints: Float[Array, "n_pred 2"], obstacles: Float[Array, "n 3"], near: float
) -> Float[Array, "n_pred n 7"]:
    """Geometry of each segment and circle: the way from the nearest point to the centre, clearances and more."""
    to_centre, along = nearest_on_segment(waypoints, obstacles)
    distance = smooth_norm(to_centre)
    clearance = distance - obstacles[:, 2]
    # Raw clearance orders far obstacles; its saturating forms tell a graze from a miss.
    parts = [clearance, jnp.tanh(clearance / near), jnp.tanh(clearance / (4 * near)), along]
    radius = jnp.broadcast_to(obstacles[:, 2], clearance.shape)
    return jnp.concatenate([to_centre / distance[..., None], jnp.stack([*parts, radius], axis=-1)], axis=-1)


def nearest_on_segment(
    waypoints: Float[Array, "n_pred 2"], obstacles: Float[Array, "n 3"]
) -> tuple[Float[Array, "n_pred n 2"], Float[Array, "n_pred n"]]:
    """From the nearest point of each segment to each centre, and where in [0, 1] on the segment that point is.

    The first segment starts at the origin, the present position.
    """
    starts = jnp.concatenate([jnp.zeros_like(waypoints[:1]), waypoints[:-1]])
    steps = waypoints - starts
    offsets = obstacles[:, :2] - starts[:, None]
    along = jnp.sum(offsets * steps[:, None], axis=-1) / (jnp.sum(steps**2, axis=-1) + 1e-8)[:, None]
    along = jnp.clip(along, 0.0, 1.0)
    return offsets - along[..., None] * steps[:, None], along


def smooth_norm(vectors: Float[Array, "*batch 2"]) -> Float[Array, "*batch"]:
    """Length with a gradient at zero."""
    return jnp.sqrt(jnp.sum(vectors**2, axis=-1) + 1e-8)
