"""What a method is to the rest of the package: networks, losses, a sampler and a score, all pure functions."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float, Key, PRNGKeyArray

from rnce.policies.networks.functional import Code, Context, Network, Params

Events = Float[Array, "n dim"]
Scores = Float[Array, " n"]
Term = Callable[[Float[Array, " dim"]], Float[Array, ""]]  # an extra energy of one event
Codes = Mapping[str, Code]  # one context, encoded by every network


class Keys(NamedTuple):
    """Randomness of a batch. Each example has its own, so that devices may share a batch without changing it."""

    common: PRNGKeyArray
    each: Key[Array, " batch"]


Loss = Callable[[Params, Context, Float[Array, "batch dim"], Keys], tuple[Float[Array, ""], dict[str, Array]]]


class Method(NamedTuple):
    """A method built for one task.

    Attributes:
        networks: by name; parameters and codes are dicts with the same names.
        losses: by name; `loss(params, contexts, events, keys)` over a batch, with metrics. A phase of training
            minimises one of them in the parameters of one network.
        sample: `sample(params, codes, key, n, term) -> events` for one context.
        candidates: `candidates(params, codes, key, n, term) -> (events, scores)`: what a plan chooses from. Flows know
            their samples' log-probability when they have made them; energies may spend their chains on the best.
        score: `score(params, codes, events, term)`, the (relative) log-likelihood that samples are ranked by.
        energy: `energy(params, codes, y)` of one event at t = 1, or None for methods without one. Only these can be
            composed with further terms.
    """

    networks: Mapping[str, Network]
    losses: Mapping[str, Loss]
    sample: Callable[[Params, Codes, PRNGKeyArray, int, Term | None], Events]
    candidates: Callable[[Params, Codes, PRNGKeyArray, int, Term | None], tuple[Events, Scores]]
    score: Callable[[Params, Codes, Events, Term | None], Scores]
    energy: Callable[[Params, Codes, Float[Array, " dim"]], Float[Array, ""]] | None = None


def make_keys(key: PRNGKeyArray, batch: int) -> Keys:
    """Keys for a batch of so many examples."""
    return Keys(jax.random.fold_in(key, 0), jax.random.split(key, batch))


def draw_keys(keys: Keys, draws: int) -> Key[Array, "batch draws"]:
    """For losses that draw several times for each example."""
    return jax.vmap(lambda key: jax.random.split(key, draws))(keys.each)


def init(method: Method, key: PRNGKeyArray) -> Params:
    """Fresh parameters of all networks."""
    keys = jax.random.split(key, len(method.networks))
    return {name: network.init(key) for key, (name, network) in zip(keys, method.networks.items())}


def encode(method: Method, params: Params, context: Context) -> dict[str, Code]:
    """Encode one context with every network: once per plan, however many samples and steps follow."""
    return {name: network.encode(params[name], context) for name, network in method.networks.items()}


def batch_codes(network: Network, params: Params, contexts: Context) -> Code:
    """Encode a batch of contexts, each once."""
    return jax.vmap(lambda context: network.encode(params, context))(contexts)


def refuse_term(term: Any, name: str) -> None:
    """Flows have no energy that a term could be added to."""
    if term is not None:
        raise ValueError(f"{name} has no energy to compose with; use ibc, r-nce or i-r-nce.")
