"""Conv1D-Multi-Head-FiLM: the paper's Push-T proposal, whose attention never sees the event.

The context's tokens go through self-attention; in each block learned queries read scales and shifts from them, which
act on the convolved event tokens. All but the convolutions and projections depends on (x, t) only and serves all
candidates.
"""

import dataclasses

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from rnce.policies.networks.config import Signature
from rnce.policies.networks.functional import Context
from rnce.policies.networks.layers import Head, Time, dense, named
from rnce.policies.networks.tokens import ConvBlock, SelfAttention, TokenConfig, Tokenizer, positions


@dataclasses.dataclass(frozen=True, kw_only=True)
class CMHF(TokenConfig):
    """Field of Conv1D-Multi-Head-FiLM blocks; `heads` is also the number of queries of a block.

    Attributes:
        context_width: width of the context's tokens before they are brought to `width`.
    """

    width: int = 64
    depth: int = 5
    heads: int = 2
    context_width: int = 128

    def build(self, signature: Signature, rngs: nnx.Rngs) -> "CMHFModule":
        """The NNX module."""
        return CMHFModule(self, signature, rngs)


class CMHFModule(nnx.Module):
    """See `CMHF`."""

    def __init__(self, config: CMHF, signature: Signature, rngs: nnx.Rngs):
        self.width, self.context_width, self.event_shape = config.width, config.context_width, signature.event_shape
        self.tokenizer = Tokenizer(config, signature.context_shapes, config.context_width, rngs)
        self.context_lift = dense(config.context_width, config.width, rngs)
        self.time = Time(config, rngs)
        self.time_lift = dense(self.time.size, config.width, rngs)
        self.event_lift = dense(signature.event_shape[1], config.width, rngs)
        self.blocks = named("block", (CMHFBlock(config.width, config.heads, rngs) for _ in range(config.depth)))
        self.hidden = dense(signature.event_shape[0] * config.width, config.output_width, rngs)
        self.head = Head(config.output_width, signature, config, rngs)

    def encode(self, context: Context) -> Float[Array, "n width"]:
        """Tokens of the context."""
        tokens = self.tokenizer(context).values()
        return self.context_lift(nnx.swish(jnp.concatenate([jnp.zeros((0, self.context_width)), *tokens])))

    def prepare(self, code: Float[Array, "n width"], t: Float[Array, ""]) -> Float[Array, "n+1 width"]:
        """The tokens, with the time's in front."""
        return jnp.concatenate([self.time_lift(self.time(t))[None], code])

    def __call__(self, context: Float[Array, "tokens width"], y: Float[Array, " dim"]) -> Float[Array, "..."]:
        """The field or the energy of one event."""
        event = self.event_lift(y.reshape(self.event_shape)) + positions(0, self.event_shape[0], self.width)
        for block in self.blocks.values():
            context, event = block(context, event)
        return self.head(nnx.swish(self.hidden(jnp.ravel(event))), y)


class CMHFBlock(nnx.Module):
    """One block over the tokens of (x, t) and of the event."""

    def __init__(self, width: int, heads: int, rngs: nnx.Rngs):
        self.queries = nnx.Param(nnx.initializers.normal(1.0)(rngs.params(), (heads, width)))
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.cross_attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs)
        self.film = dense(width, 2 * width, rngs, scale=0.3)
        self.conv = ConvBlock(width, width, rngs)
        self.project = dense(heads * width, width, rngs)
        self.self_attention = SelfAttention(width, heads, rngs)

    def __call__(
        self, context: Float[Array, "n width"], event: Float[Array, "n_pred width"]
    ) -> tuple[Float[Array, "n width"], Float[Array, "n_pred width"]]:
        """The next context tokens and event tokens."""
        read = self.cross_attention(self.queries[...], self.norm(context))
        scale, shift = jnp.split(self.film(read), 2, axis=-1)
        copies = self.conv(event)[:, None] * (1 + scale) + shift
        return self.self_attention(context), event + self.project(copies.reshape(len(event), -1))
