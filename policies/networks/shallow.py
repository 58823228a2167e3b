"""A field with one hidden layer in y: its exact divergence costs no more than the field.

v(y) = W₂(g ⊙ σ(W₁y + b)) + r ⊙ y + c with g, b, r, c made by a deep network of (x, t), so
div v = Σⱼ gⱼ σ′(aⱼ) (W₁W₂)ⱼⱼ + Σᵢ rᵢ, where a = W₁y + b. The deep part serves all candidates of a context at one time.
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from rnce.policies.networks.config import NetworkConfig, Signature
from rnce.policies.networks.functional import Context
from rnce.policies.networks.layers import SMALL, ResidualStack, Time, dense, flat_size, flatten, swish_and_slope


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShallowField(NetworkConfig):
    """Proposal field with a free divergence.

    Attributes:
        width: hidden units over y.
        context_width: width of the networks of x and of (x, t).
        context_depth: residual blocks of the network of x, run once per plan; 0 passes the context as it is.
        joint_depth: residual blocks of the network of (x, t), run once per context and time.
    """

    width: int = 512
    context_width: int = 256
    context_depth: int = 2
    joint_depth: int = 3

    def build(self, signature: Signature, rngs: nnx.Rngs) -> "ShallowFieldModule":
        """The NNX module."""
        if signature.output != "field":
            raise ValueError("shallow-field has no energy: one hidden layer in y is for proposals. Use output='field'.")
        return ShallowFieldModule(self, signature, rngs)


class Steer(NamedTuple):
    """The coefficients that the deep part makes."""

    bias: Float[Array, " width"]
    gate: Float[Array, " width"]
    constant: Float[Array, " dim"]
    rate: Float[Array, " dim"]


class ShallowFieldModule(nnx.Module):
    """See `ShallowField`."""

    def __init__(self, config: ShallowField, signature: Signature, rngs: nnx.Rngs):
        self.width, self.dim = config.width, signature.dim
        self.context = ResidualStack(
            flat_size(signature.context_shapes), config.context_width, config.context_depth, rngs
        )
        self.time = Time(config, rngs)
        self.joint = ResidualStack(self.context.size + self.time.size, config.context_width, config.joint_depth, rngs)
        self.hidden = dense(self.joint.size, 2 * self.width, rngs)  # b and g − 1
        self.affine = dense(self.joint.size, 2 * self.dim, rngs, scale=SMALL)  # c and r
        self.inner = dense(self.dim, self.width, rngs, bias=False)
        self.outer = dense(self.width, self.dim, rngs, scale=SMALL, bias=False)

    def encode(self, context: Context) -> Float[Array, " code"]:
        """Features of the context."""
        return self.context(flatten(context))

    def prepare(self, code: Float[Array, " code"], t: Float[Array, ""]) -> Steer:
        """b, g, c and r: everything that does not depend on y."""
        condition = nnx.swish(self.joint(jnp.concatenate([code, self.time(t)])))
        bias, gate = jnp.split(self.hidden(condition), 2)
        constant, rate = jnp.split(self.affine(condition), 2)
        return Steer(bias, 1 + gate, constant, rate)

    def __call__(self, steer: Steer, y: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The field at one event."""
        bias, gate, constant, rate = steer
        return self.outer(gate * nnx.swish(self.inner(y) + bias)) + rate * y + constant

    def with_divergence(self, steer: Steer, y: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """The field and its exact divergence."""
        bias, gate, constant, rate = steer
        value, slope = swish_and_slope(self.inner(y) + bias)
        loop_gain = jnp.sum(self.inner.kernel[...] * self.outer.kernel[...].T, axis=0)  # the diagonal of W₁W₂
        return self.outer(gate * value) + rate * y + constant, slope @ (gate * loop_gain) + jnp.sum(rate)
