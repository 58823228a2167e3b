"""From a Flax NNX module to plain functions of plain nested dicts.

NNX is only how networks are written down. Everywhere else a network is a `Network`: parameters are nested dicts of
arrays, and `encode` and `apply` are pure functions of one context and one event. Batches are made with `jax.vmap`,
which leaves whatever does not depend on the mapped argument alone: mapping `apply` over candidates with the code and
the time held fixed computes the parts that depend only on (x, t) once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, PRNGKeyArray

Params = dict[str, Any]
Context = dict[str, Array]  # named, unbatched features of one context x
Code = Any  # what `encode` makes of a context: a pytree of arrays


class Network(NamedTuple):
    """A network as pure functions. `apply` returns an event-sized field or, for an energy, a scalar."""

    init: Callable[[PRNGKeyArray], Params]
    encode: Callable[[Params, Context], Code]
    apply: Callable[[Params, Code, Float[Array, " dim"], Float[Array, ""]], Float[Array, "..."]]
    apply_with_divergence: Callable[
        [Params, Code, Float[Array, " dim"], Float[Array, ""]], tuple[Float[Array, " dim"], Float[Array, ""]]
    ]


@runtime_checkable
class ContextualModule(Protocol):
    """What an NNX module must offer: `encode(context) -> code` and `module(code, y, t) -> output`.

    A module that knows its divergence in closed form also has `with_divergence(code, y, t) -> (field, divergence)`.
    """

    def encode(self, context: Context) -> Code:
        """Everything that depends on the context alone, computed once per plan."""
        ...

    def __call__(self, code: Code, y: Float[Array, " dim"], t: Float[Array, ""]) -> Float[Array, "..."]:
        """The field or the energy of one event at one time."""
        ...


def functional(make: Callable[[nnx.Rngs], Any]) -> Network:
    """The network that `make` builds, as pure functions."""
    shape_only = nnx.eval_shape(lambda: make(nnx.Rngs(0)))
    graph, abstract = nnx.split(shape_only)
    has_divergence = hasattr(shape_only, "with_divergence")

    def init(key: PRNGKeyArray) -> Params:
        return nnx.to_pure_dict(nnx.split(make(nnx.Rngs(key)))[1])

    def module(params: Params) -> Any:
        state = jax.tree.map(lambda leaf: leaf, abstract)
        nnx.replace_by_pure_dict(state, params)
        return nnx.merge(graph, state)

    def encode(params: Params, context: Context) -> Code:
        return module(params).encode(context)

    def apply(params: Params, code: Code, y: Float[Array, " dim"], t: Float[Array, ""] | float) -> Float[Array, "..."]:
        return module(params)(code, y, jnp.asarray(t, y.dtype))

    def apply_with_divergence(
        params: Params, code: Code, y: Float[Array, " dim"], t: Float[Array, ""] | float
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        if has_divergence:
            return module(params).with_divergence(code, y, jnp.asarray(t, y.dtype))
        return exact_divergence(lambda y: apply(params, code, y, t), y)

    return Network(init, encode, apply, apply_with_divergence)


def exact_divergence(
    field: Callable[[Float[Array, " dim"]], Float[Array, " dim"]], y: Float[Array, " dim"]
) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
    """A field and the trace of its Jacobian: one linearisation and `dim` products with basis vectors.

    Exact, because stochastic trace estimates are too noisy to rank samples by.
    """
    value, jacobian_times = jax.linearize(field, y)
    basis = jnp.eye(y.shape[0], dtype=y.dtype)
    return value, jnp.sum(jax.vmap(lambda e: jacobian_times(e) @ e)(basis))


def count_params(params: Params) -> int:
    """How many numbers are learned."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
