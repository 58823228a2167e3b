"""ConcatSquash layers, as continuous normalising flows use them: the time gates and shifts each dense layer."""

import dataclasses

import jax
from flax import nnx
from jaxtyping import Array, Float

from rnce.policies.networks.config import NetworkConfig, Signature
from rnce.policies.networks.functional import Context
from rnce.policies.networks.layers import SMALL, Time, dense, finish, flat_size, flatten, named


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConcatSquash(NetworkConfig):
    """The paper's small proposal: `depth` ConcatSquash layers over the concatenated (x, y).

    Attributes:
        width: width of the layers but the last.
        depth: layers, the last one included.
    """

    width: int = 64
    depth: int = 2
    time_features: int = 0
    time_width: int = 1
    time_depth: int = 0

    def build(self, signature: Signature, rngs: nnx.Rngs) -> "ConcatSquashModule":
        """The NNX module."""
        if self.depth < 1:
            raise ValueError(f"depth={self.depth} of ConcatSquash: use 1 or more.")
        return ConcatSquashModule(self, signature, rngs)


class ConcatSquashModule(nnx.Module):
    """See `ConcatSquash`."""

    def __init__(self, config: ConcatSquash, signature: Signature, rngs: nnx.Rngs):
        self.output, self.base = signature.output, config.base
        self.time = Time(config, rngs)
        context = flat_size(signature.context_shapes)
        widths = [signature.dim] + [config.width] * (config.depth - 1)
        outputs = [*widths[1:], signature.outputs]
        scales = [1.0] * (config.depth - 1) + [SMALL]
        # The first layer acts on the concatenation (x, y) as a sum of two, of which one is computed once per context.
        share = context / (context + signature.dim)
        self.context_in = dense(context, outputs[0], rngs, scale=scales[0] * share**0.5, bias=False)
        scales[0] *= (1 - share) ** 0.5
        self.layers = named(
            "layer", (SquashLayer(a, b, self.time.size, s, rngs) for a, b, s in zip(widths, outputs, scales))
        )

    def encode(self, context: Context) -> Float[Array, " width"]:
        """The context's share of the first layer."""
        return self.context_in(flatten(context))

    def prepare(self, code: Float[Array, " width"], t: Float[Array, ""]) -> tuple[Array, Array]:
        """The features of the context and of the time."""
        return code, self.time(t)

    def __call__(self, prepared: tuple[Array, Array], y: Float[Array, " dim"]) -> Float[Array, "..."]:
        """The field or the energy of one event."""
        (code, time), (first, *others) = prepared, self.layers.values()
        h = first(y, time, code)
        for layer in others:
            h = layer(nnx.swish(h), time)
        return finish(h, y, self.output, self.base)


class SquashLayer(nnx.Module):
    """(Wh + b) ⊙ sigmoid(Gt + g) + Ct."""

    def __init__(self, inputs: int, outputs: int, time: int, scale: float, rngs: nnx.Rngs):
        self.linear = dense(inputs, outputs, rngs, scale=scale)
        self.gate = dense(time, outputs, rngs)
        self.shift = dense(time, outputs, rngs, scale=min(scale, 1.0), bias=False)

    def __call__(
        self, h: Float[Array, " inputs"], time: Float[Array, " time"], extra: Float[Array, " outputs"] | float = 0.0
    ) -> Float[Array, " outputs"]:
        """One layer; `extra` is added to the linear part."""
        return (self.linear(h) + extra) * jax.nn.sigmoid(self.gate(time)) + self.shift(time)
