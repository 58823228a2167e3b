"""From a Flax NNX module to plain functions of plain nested dicts.

NNX is only how networks are written down. Everywhere else a network is a `Network`: parameters are nested dicts of
arrays, and its functions are pure functions of one context and one event, in three parts by what they depend on:
`encode` on x, `prepare` on (x, t), `run` on (x, t, y). Batches are made with `jax.vmap`; what does not depend on the
mapped argument is computed once, and a flow prepares its times once for all passes over them.
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
Prepared = Any  # what `prepare` makes of a code and a time: a pytree of arrays


class Network(NamedTuple):
    """A network as pure functions. `run` returns an event-sized field or, for an energy, a scalar."""

    init: Callable[[PRNGKeyArray], Params]
    encode: Callable[[Params, Context], Code]
    prepare: Callable[[Params, Code, Float[Array, ""]], Prepared]
    run: Callable[[Params, Prepared, Float[Array, " dim"]], Float[Array, "..."]]
    run_with_divergence: Callable[
        [Params, Prepared, Float[Array, " dim"]], tuple[Float[Array, " dim"], Float[Array, ""]]
    ]

    def apply(
        self, params: Params, code: Code, y: Float[Array, " dim"], t: Float[Array, ""] | float
    ) -> Float[Array, "..."]:
        """The output for one event at one time."""
        return self.run(params, self.prepare(params, code, jnp.asarray(t, y.dtype)), y)

    def apply_with_divergence(
        self, params: Params, code: Code, y: Float[Array, " dim"], t: Float[Array, ""] | float
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """The field and its divergence for one event at one time."""
        return self.run_with_divergence(params, self.prepare(params, code, jnp.asarray(t, y.dtype)), y)


@runtime_checkable
class ContextualModule(Protocol):
    """What an NNX module must offer: `encode(context)`, `prepare(code, t)` and `module(prepared, y)`.

    A module that knows its divergence in closed form also has `with_divergence(prepared, y) -> (field, divergence)`.
    """

    def encode(self, context: Context) -> Code:
        """Everything that depends on the context alone, computed once per plan."""
        ...

    def prepare(self, code: Code, t: Float[Array, ""]) -> Prepared:
        """Everything that depends on the context and the time alone, shared by all events."""
        ...

    def __call__(self, prepared: Prepared, y: Float[Array, " dim"], /) -> Float[Array, "..."]:
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

    def prepare(params: Params, code: Code, t: Float[Array, ""]) -> Prepared:
        return module(params).prepare(code, t)

    def run(params: Params, prepared: Prepared, y: Float[Array, " dim"]) -> Float[Array, "..."]:
        return module(params)(prepared, y)

    def run_with_divergence(
        params: Params, prepared: Prepared, y: Float[Array, " dim"]
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        if has_divergence:
            return module(params).with_divergence(prepared, y)
        return exact_divergence(lambda y: run(params, prepared, y), y)

    return Network(init, encode, prepare, run, run_with_divergence)


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
