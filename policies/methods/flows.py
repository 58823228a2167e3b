"""What NF, diffusion and diffusion-φ share: a regression along a bridge, and a flow that samples and scores."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rnce.policies.bridges import Bridge
from rnce.policies.losses import matching_loss
from rnce.policies.methods.method import Codes, Events, Keys, Method, Scores, Term, batch_codes, draw_keys, refuse_term
from rnce.policies.networks.functional import Context, Network, Params
from rnce.policies.proposals import make_flow
from rnce.policies.samplers import flow as flows

FIELD = "field"


@dataclass(frozen=True)
class FlowSampler:
    """Heun steps of the flow, and how many of its times have their divergence evaluated for the log-probability."""

    steps: int = 50
    divergences: int = 17


def matching(network: Network, bridge: Bridge, name: str, draws: int = 1):
    """The matching loss over a batch, with `draws` times and noises for each example."""

    def loss(
        params: Params, contexts: Context, events: Float[Array, "batch dim"], keys: Keys
    ) -> tuple[Float[Array, ""], dict[str, Array]]:
        codes = batch_codes(network, params[name], contexts)
        one = lambda code, y, key: matching_loss(network, bridge, params[name], code, y, key)  # noqa: E731
        value = jnp.mean(jax.vmap(jax.vmap(one, (None, None, 0)))(codes, events, draw_keys(keys, draws)))
        return value, {"match": value}

    return loss


def flow_method(network: Network, bridge: Bridge, sampler: FlowSampler, dim: int, name: str, draws: int = 1) -> Method:
    """A method that regresses along a bridge, samples by its flow and scores by the flow's log-probability."""
    times = bridge.grid(sampler.steps)

    def sample(params: Params, codes: Codes, key: PRNGKeyArray, n: int, term: Term | None) -> Events:
        refuse_term(term, name)
        return flows.sample(make_flow(network, bridge, params[FIELD], codes[FIELD]), key, (n, dim), times)

    def candidates(params: Params, codes: Codes, key: PRNGKeyArray, n: int, term: Term | None) -> tuple[Events, Scores]:
        if n == 1:  # nothing to rank
            return sample(params, codes, key, n, term), jnp.zeros(n)
        refuse_term(term, name)
        flow = make_flow(network, bridge, params[FIELD], codes[FIELD])
        return flows.sample_and_log_prob(flow, key, (n, dim), times, sampler.divergences)

    def score(params: Params, codes: Codes, events: Events, term: Term | None) -> Scores:
        refuse_term(term, name)
        flow = make_flow(network, bridge, params[FIELD], codes[FIELD])
        return flows.log_prob(flow, events, times, sampler.divergences)

    return Method({FIELD: network}, {"match": matching(network, bridge, FIELD, draws)}, sample, candidates, score)
