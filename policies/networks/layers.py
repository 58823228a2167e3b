"""Layers that several networks use.

Two choices hold for all of them. The activation is swish: energies are differentiated twice in training, so it
has to be smooth. The last layer starts a hundred times smaller than usual (`SMALL`): fields start near 0 and
energies start flat, but, unlike with zeros, every layer receives a gradient from the first step on.
"""

import itertools
import math
from collections.abc import Iterable

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from rnce.policies.networks.config import NetworkConfig, Shapes, Signature
from rnce.policies.networks.functional import Context

SMALL = 0.01
CONSTANTS = "to_waypoints"  # context entries whose names start so are known maps, not features to learn from


def dense(inputs: int, outputs: int, rngs: nnx.Rngs, scale: float = 1.0, bias: bool = True) -> nnx.Linear:
    """A dense layer whose outputs start with about `scale` times the deviation of its inputs."""
    # No inputs at all (an empty context) leaves the bias, where the usual initialiser would divide by zero.
    init = nnx.initializers.variance_scaling(scale**2, "fan_in", "normal") if inputs else nnx.initializers.zeros
    return nnx.Linear(inputs, outputs, use_bias=bias, kernel_init=init, rngs=rngs)


def named(prefix: str, modules: Iterable[nnx.Module]) -> nnx.Dict:
    """Modules in order as `prefix0`, `prefix1`, …, so that every key of a checkpoint is a string."""
    return nnx.Dict({f"{prefix}{i}": module for i, module in enumerate(modules)})


def features_only(shapes: Shapes) -> dict[str, tuple[int, ...]]:
    """The context entries that are features, by name in a fixed order."""
    return {name: shapes[name] for name in sorted(shapes) if not name.startswith(CONSTANTS)}


def flat_size(shapes: Shapes) -> int:
    """How many numbers `flatten` returns."""
    return sum(math.prod(shape) for shape in features_only(shapes).values())


def flatten(context: Context) -> Float[Array, " size"]:
    """All features of a context in one vector."""
    shapes = features_only({name: value.shape for name, value in context.items()})
    return jnp.concatenate([jnp.zeros(0, jnp.float32), *(jnp.ravel(context[name]) for name in shapes)])


class Time(nnx.Module):
    """Embedding of the time. Its size is `size`: 0 for a network that does not depend on time."""

    def __init__(self, config: NetworkConfig, rngs: nnx.Rngs):
        self.transform, self.frequencies = config.time_transform, config.time_features // 2
        widths = [1 + 2 * self.frequencies] + [config.time_width] * config.time_depth
        self.size = widths[-1] if config.time_width else 0
        layers = itertools.pairwise(widths) if self.size else ()
        self.layers = named("layer", (dense(a, b, rngs) for a, b in layers))

    def __call__(self, t: Float[Array, ""]) -> Float[Array, " size"]:
        """Features of one time."""
        if not self.size:
            return jnp.zeros(0, t.dtype)
        t = -jnp.log(1.1 - t) if self.transform == "log" else t
        # Periods from a few times the unit interval down to a tenth of it: finer ones would only fit noise.
        angles = t * jnp.geomspace(1.0, 64.0, self.frequencies)
        h = jnp.concatenate([t[None], jnp.sin(angles), jnp.cos(angles)])
        for layer in self.layers.values():
            h = nnx.swish(layer(h))
        return h


class ResidualBlock(nnx.Module):
    """h + W₂ σ(scale ⊙ W₁h + shift), two dense layers around a bottleneck of `hidden`."""

    def __init__(self, width: int, hidden: int, depth: int, rngs: nnx.Rngs):
        self.inner = dense(width, hidden, rngs)
        # The sum of `depth` blocks then starts about as large as what it is added to.
        self.outer = dense(hidden, width, rngs, scale=depth**-0.5)

    def __call__(
        self,
        h: Float[Array, " width"],
        shift: Float[Array, " hidden"] | float = 0.0,
        scale: Float[Array, " hidden"] | float = 1.0,
    ) -> Float[Array, " width"]:
        """One block."""
        return h + self.outer(nnx.swish(self.inner(h) * scale + shift))


class ResidualStack(nnx.Module):
    """A dense layer and `depth` residual blocks; `depth` 0 is the identity, so that raw inputs pass."""

    def __init__(self, inputs: int, width: int, depth: int, rngs: nnx.Rngs):
        self.size = width if depth else inputs
        if depth:
            self.lift = dense(inputs, width, rngs)
            self.blocks = named("block", (ResidualBlock(width, width, depth, rngs) for _ in range(depth)))

    def __call__(self, h: Float[Array, " inputs"]) -> Float[Array, " size"]:
        """Features of a vector."""
        if not hasattr(self, "lift"):
            return h
        h = nnx.swish(self.lift(h))
        for block in self.blocks.values():
            h = block(h)
        return h


class Head(nnx.Module):
    """Last layer: an event-sized field, or an energy with its base measure."""

    def __init__(self, width: int, signature: Signature, config: NetworkConfig, rngs: nnx.Rngs):
        self.output, self.base = signature.output, config.base
        self.layer = dense(width, signature.outputs, rngs, scale=SMALL)

    def __call__(self, h: Float[Array, " width"], y: Float[Array, " dim"]) -> Float[Array, "..."]:
        """The field (dim,) or the energy ()."""
        return finish(self.layer(h), y, self.output, self.base)


def finish(
    out: Float[Array, " outputs"], y: Float[Array, " dim"], output: str, base: str = "none"
) -> Float[Array, "..."]:
    """A field as it is, or an energy from the network's one output and the base measure."""
    if output == "field":
        return out
    return out[0] - 0.5 * jnp.sum(y**2) if base == "gaussian" else out[0]


def swish_and_slope(a: Float[Array, " width"]) -> tuple[Float[Array, " width"], Float[Array, " width"]]:
    """σ(a) and σ′(a) for the price of one sigmoid."""
    s = jax.nn.sigmoid(a)
    return a * s, s * (1 + a * (1 - s))
