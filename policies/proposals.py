"""Proposals: where the negatives of the ranking objective come from, with their log-density.

A proposal turns one context and its positive event into candidate sets, one for each of m times: the positive first,
then K negatives, each with log q. Candidates carry no gradient unless the proposal itself is trained through them.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from rnce.policies.bridges import Bridge, perturb, prepare, velocity, velocity_and_divergence
from rnce.policies.networks.functional import Code, Network, Params
from rnce.policies.samplers import flow as flows


class Candidates(NamedTuple):
    """Events to be ranked at each of m times; index 0 is the positive."""

    y: Float[Array, "m candidates dim"]
    t: Float[Array, " m"]
    log_q: Float[Array, "m candidates"]


class Proposal(NamedTuple):
    """A density that negatives are drawn from and that samplers start from.

    Attributes:
        candidates: `candidates(params, code, y, key, grid_key)`; the grid key is common to a batch, so that the times
            are too and what depends on them is shared work.
        sample: `sample(params, code, key, (n, dim), steps, t)`: draws from the flow truncated at time t.
        flow: `flow(params, code)`, or None where there is none.
    """

    candidates: Callable[[Params, Code, Float[Array, " dim"], PRNGKeyArray, PRNGKeyArray], Candidates]
    sample: Callable[[Params, Code, PRNGKeyArray, tuple[int, int], int, float], Float[Array, "n dim"]]
    flow: Callable[[Params, Code], flows.Flow] | None


def uniform_proposal(negatives: int, half_width: float) -> Proposal:
    """Negatives uniform in [−half_width, half_width]^dim, at t = 1; their constant log q cancels in the ranking."""

    def candidates(
        params: Params, code: Code, y: Float[Array, " dim"], key: PRNGKeyArray, grid_key: PRNGKeyArray
    ) -> Candidates:
        drawn = jax.random.uniform(key, (negatives, y.shape[0]), minval=-half_width, maxval=half_width)
        log_q = -y.shape[0] * jnp.log(2.0 * half_width)
        return Candidates(jnp.concatenate([y[None], drawn])[None], jnp.ones(1), jnp.full((1, negatives + 1), log_q))

    def sample(
        params: Params, code: Code, key: PRNGKeyArray, shape: tuple[int, int], steps: int, t: float
    ) -> Float[Array, "n dim"]:
        return jax.random.uniform(key, shape, minval=-half_width, maxval=half_width)

    return Proposal(candidates, sample, flow=None)


def make_flow(network: Network, bridge: Bridge, params: Params, code: Code) -> flows.Flow:
    """The flow of a field network for points that share a context."""
    return flows.Flow(
        velocity=lambda at, y: jax.vmap(lambda point: velocity(network, params, at, point))(y),
        velocity_and_divergence=lambda at, y: jax.vmap(
            lambda point: velocity_and_divergence(network, params, at, point)
        )(y),
        prior_std=bridge.prior_std,
        prepare=lambda t: prepare(network, bridge, params, code, t),
        clock=bridge.clock,
    )


class TimeGrid(NamedTuple):
    """Integration times, and the indices among them at which log q is known."""

    times: Float[Array, " times"]
    coarse: Int[Array, " coarse"]


def random_grid(
    key: PRNGKeyArray, warp: Callable[[Float[Array, "..."]], Float[Array, "..."]], cells: int, substeps: int
) -> TimeGrid:
    """0, one time in each of `cells` equal cells (all with the same offset), and 1; each interval cut into substeps.

    A random inner coarse time is distributed exactly as warp(uniform): a common grid costs no bias.
    """
    offset = jax.random.uniform(key)
    coarse = jnp.concatenate([jnp.zeros(1), warp((jnp.arange(cells) + offset) / cells), jnp.ones(1)])
    fractions = jnp.arange(substeps) / substeps
    fine = (coarse[:-1, None] + fractions * jnp.diff(coarse)[:, None]).reshape(-1)
    times = jnp.concatenate([fine, jnp.ones(1)])
    return TimeGrid(times, jnp.arange(cells + 2) * substeps)


def flow_proposal(
    network: Network,
    bridge: Bridge,
    warp: Callable[[Float[Array, "..."]], Float[Array, "..."]],
    *,
    negatives: int,
    times: int,
    final_times: int,
    cells: int,
    substeps: int,
) -> Proposal:
    """Negatives from the truncated flow at `times` times, `final_times` of them t = 1, along single trajectories."""

    def candidates(
        params: Params, code: Code, y: Float[Array, " dim"], key: PRNGKeyArray, grid_key: PRNGKeyArray
    ) -> Candidates:
        flow = make_flow(network, bridge, params, code)
        grid = random_grid(grid_key, warp, cells, substeps)
        at = _random_coarse_indices(key, cells, times, final_times)
        t = grid.times[grid.coarse[at]]
        negative_key, noise_key = jax.random.split(jax.random.fold_in(key, 1))

        start = bridge.prior_std * jax.random.normal(negative_key, (negatives, y.shape[0]))
        moments = flows.moments(flow, grid.times)  # shared by the negatives, the positives and their divergences
        coarse = flows.select(moments, grid.coarse)
        path = flows.integrate(flow, start, moments, differentiable=True)[grid.coarse]
        log_q = flows.prior_log_prob(flow, start) - _integral(flow, path, coarse)

        noise = jax.random.normal(noise_key, (times, y.shape[0]))
        positive = jax.vmap(lambda t, z: perturb(bridge, t, z, y))(t, noise)
        steps = len(grid.times) - 1
        backwards = flows.select(moments, slice(None, None, -1))
        back = flows.integrate(flow, positive, backwards, steps - grid.coarse[at], differentiable=True)[::-1]
        integral = _integral(flow, back[grid.coarse], coarse)
        positive_log_q = flows.prior_log_prob(flow, back[0]) - integral[at, jnp.arange(times)]
        return Candidates(
            jnp.concatenate([positive[:, None], path[at]], axis=1),
            t,
            jnp.concatenate([positive_log_q[:, None], log_q[at]], axis=1),
        )

    def sample(
        params: Params, code: Code, key: PRNGKeyArray, shape: tuple[int, int], steps: int, t: float
    ) -> Float[Array, "n dim"]:
        return flows.sample(make_flow(network, bridge, params, code), key, shape, t * bridge.grid(steps))

    return Proposal(candidates, sample, lambda params, code: make_flow(network, bridge, params, code))


def _random_coarse_indices(key: PRNGKeyArray, cells: int, times: int, final_times: int) -> Int[Array, " times"]:
    """Stratified over the cells, so that m times cover the interval; the last `final_times` are the end of the grid."""
    inner = times - final_times
    drawn = (jnp.arange(inner) + jax.random.uniform(key, (inner,))) / max(inner, 1) * cells
    return jnp.concatenate([1 + drawn.astype(int), jnp.full(final_times, cells + 1)])


def _integral(flow: flows.Flow, path: Float[Array, "coarse n dim"], coarse: flows.Moments) -> Float[Array, "coarse n"]:
    return flows.cumulative_integral(flows.divergences_along(flow, path, coarse), coarse.times)
