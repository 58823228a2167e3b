"""Residual multilayer perceptron over the event: wide matrix products, the fastest energy on a CPU."""

import dataclasses
from typing import Literal

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from rnce.policies.networks.config import NetworkConfig, Signature
from rnce.policies.networks.functional import Context, ContextualModule
from rnce.policies.networks.layers import Head, ResidualBlock, ResidualStack, Time, dense, flat_size, flatten, named


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResidualMLP(NetworkConfig):
    """Residual network over y that the context and the time steer.

    Attributes:
        width: width of the trunk over y.
        hidden: bottleneck inside a residual block; 0 for `width`.
        depth: residual blocks of two dense layers each.
        context_width: width of the networks of x and of (x, t).
        context_depth: residual blocks of the network of x, run once per plan; 0 passes the context as it is.
        joint_depth: residual blocks of the network of (x, t), run once per context and time; 0 passes (code, t).
        conditioning: where (x, t) enters: at the `input` only (which is what concatenating (x, y, t) computes), as a
            `shift` in every block too, or as `film`: a scale and a shift in every block.
    """

    width: int = 256
    hidden: int = 0
    depth: int = 4
    context_width: int = 256
    context_depth: int = 2
    joint_depth: int = 1
    conditioning: Literal["input", "shift", "film"] = "film"

    def build(self, signature: Signature, rngs: nnx.Rngs) -> ContextualModule:
        """The NNX module."""
        return ResidualMLPModule(self, signature, rngs)


class Trunk(nnx.Module):
    """Residual blocks over an input that depends on y, steered by a vector that depends only on (x, t)."""

    def __init__(self, config: ResidualMLP, inputs: int, condition: int, rngs: nnx.Rngs):
        width, hidden, depth = config.width, config.hidden or config.width, config.depth
        self.hidden, self.per_block = hidden, {"input": 0, "shift": 1, "film": 2}[config.conditioning]
        self.event_in = dense(inputs, width, rngs, bias=False)
        self.condition_in = dense(condition, width, rngs)
        if self.per_block:
            # Small, so that at first all contexts share one well-conditioned trunk.
            self.steer = dense(condition, depth * self.per_block * hidden, rngs, scale=0.3)
        self.blocks = named("block", (ResidualBlock(width, hidden, depth, rngs) for _ in range(depth)))

    def prepare(self, condition: Float[Array, " condition"]) -> tuple[Array, Array]:
        """What the condition adds to the input and to the blocks."""
        return self.condition_in(condition), self.steer(condition) if self.per_block else jnp.zeros(0)

    def __call__(self, inputs: Float[Array, " inputs"], prepared: tuple[Array, Array]) -> Float[Array, " width"]:
        """Features of one event."""
        start, steer = prepared
        h = nnx.swish(self.event_in(inputs) + start)
        for block, own in zip(self.blocks.values(), steer.reshape(len(self.blocks), self.per_block, self.hidden)):
            h = block(h, *(own[0], 1 + own[1]) if self.per_block == 2 else own)
        return h


class Conditioned(nnx.Module):
    """A trunk over y steered by networks of x and of (x, t), and the head: the part that networks of events share."""

    def __init__(self, config: ResidualMLP, features: int, inputs: int, signature: Signature, rngs: nnx.Rngs):
        self.context = ResidualStack(features, config.context_width, config.context_depth, rngs)
        self.time = Time(config, rngs)
        self.joint = ResidualStack(self.context.size + self.time.size, config.context_width, config.joint_depth, rngs)
        self.trunk = Trunk(config, inputs, self.joint.size, rngs)
        self.head = Head(config.width, signature, config, rngs)

    def prepare(self, code: Float[Array, " code"], t: Float[Array, ""]) -> tuple[Array, Array]:
        """What steers the trunk."""
        return self.trunk.prepare(self.joint(jnp.concatenate([code, self.time(t)])))

    def __call__(
        self, prepared: tuple[Array, Array], inputs: Float[Array, " inputs"], y: Float[Array, " dim"]
    ) -> Float[Array, "..."]:
        """The field or the energy of one event, of which the trunk sees `inputs`."""
        return self.head(self.trunk(inputs, prepared), y)


class ResidualMLPModule(nnx.Module):
    """See `ResidualMLP`."""

    def __init__(self, config: ResidualMLP, signature: Signature, rngs: nnx.Rngs):
        self.core = Conditioned(config, flat_size(signature.context_shapes), signature.dim, signature, rngs)

    def encode(self, context: Context) -> Float[Array, " code"]:
        """Features of the context."""
        return self.core.context(flatten(context))

    def prepare(self, code: Float[Array, " code"], t: Float[Array, ""]) -> tuple[Array, Array]:
        """What steers the trunk."""
        return self.core.prepare(code, t)

    def __call__(self, prepared: tuple[Array, Array], y: Float[Array, " dim"]) -> Float[Array, "..."]:
        """The field or the energy of one event."""
        return self.core(prepared, y, y)
