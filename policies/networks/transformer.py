"""Encoder-only transformer over the tokens of the time, the context and the event, with a convolutional prior."""

import dataclasses

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from rnce.policies.networks.config import Signature
from rnce.policies.networks.functional import Context
from rnce.policies.networks.layers import SMALL, Time, dense, finish, named
from rnce.policies.networks.tokens import ConvBlock, SelfAttention, TokenConfig, Tokenizer, positions

Code = dict[str, Float[Array, "_ width"]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transformer(TokenConfig):
    """The paper's network of energies and fields. Blocks normalise first, which needs no long warm-up.

    Attributes:
        trajectory: context entry with the past of the event, of the same coordinates: it shares the event's layers and
            its tokens join the event's in the prior and the output. Empty for none.
        conv_prior: add the output of two convolutional blocks over the trajectory's tokens.
    """

    trajectory: str = ""
    conv_prior: bool = True

    def build(self, signature: Signature, rngs: nnx.Rngs) -> "TransformerModule":
        """The NNX module."""
        past = signature.context_shapes.get(self.trajectory, (0, 0))
        if self.trajectory and (len(past) != 2 or past[1] != signature.event_shape[1]):
            raise ValueError(
                f"trajectory={self.trajectory!r}: the context needs this entry with shape"
                f" (n, {signature.event_shape[1]}); it has {dict(signature.context_shapes)}."
            )
        return TransformerModule(self, past[0], signature, rngs)


class TransformerModule(nnx.Module):
    """See `Transformer`."""

    def __init__(self, config: Transformer, past: int, signature: Signature, rngs: nnx.Rngs):
        self.width, self.trajectory, self.past = config.width, config.trajectory, past
        self.event_shape, self.output, self.base = signature.event_shape, signature.output, config.base
        others = {name: shape for name, shape in signature.context_shapes.items() if name != config.trajectory}
        self.tokenizer = Tokenizer(config, others, config.width, rngs)
        self.time = Time(config, rngs)
        self.time_lift = dense(self.time.size, config.width, rngs)
        self.event_lift = dense(signature.event_shape[1], config.width, rngs)
        self.blocks = named("block", (SelfAttention(config.width, config.heads, rngs) for _ in range(config.depth)))
        self.norm = nnx.LayerNorm(config.width, rngs=rngs)
        self.hidden = dense((past + signature.event_shape[0]) * config.width, config.output_width, rngs)
        self.last = dense(config.output_width, signature.outputs, rngs, scale=SMALL)
        prior = ((config.width, 1.0), (signature.outputs, SMALL)) if config.conv_prior else ()
        self.prior = named("block", (ConvBlock(config.width, out, rngs, scale) for out, scale in prior))

    def encode(self, context: Context) -> Code:
        """Tokens of the context (the past of the event apart) and of the past of the event."""
        tokens = self.tokenizer({name: value for name, value in context.items() if name != self.trajectory})
        past = context[self.trajectory] if self.trajectory else jnp.zeros((0, self.event_shape[1]))
        return {
            "context": jnp.concatenate([jnp.zeros((0, self.width)), *tokens.values()]),
            "past": self.event_lift(past) + positions(0, self.past, self.width),
        }

    def prepare(self, code: Code, t: Float[Array, ""]) -> Code:
        """The tokens, with the time's in front."""
        return code | {"context": jnp.concatenate([self.time_lift(self.time(t))[None], code["context"]])}

    def __call__(self, code: Code, y: Float[Array, " dim"]) -> Float[Array, "..."]:
        """The field or the energy of one event."""
        future = self.event_lift(y.reshape(self.event_shape)) + positions(self.past, self.event_shape[0], self.width)
        trajectory = jnp.concatenate([code["past"], future])
        h = jnp.concatenate([code["context"], trajectory])
        for block in self.blocks.values():
            h = block(h)
        out = self.last(nnx.swish(self.hidden(jnp.ravel(self.norm(h[-len(trajectory) :])))))
        if self.prior:
            for block in self.prior.values():
                trajectory = block(trajectory)
            out = out + jnp.sum(trajectory, axis=0)
        return finish(out, y, self.output, self.base)
