"""What IBC, R-NCE and I-R-NCE share: an energy trained by ranking data among a proposal's negatives."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rnce.policies.bridges import Bridge, Interpolant, score_velocity
from rnce.policies.losses import ranking_loss, score_matching_loss
from rnce.policies.methods.flows import matching
from rnce.policies.methods.method import Codes, Events, Keys, Loss, Method, Scores, Term, batch_codes, draw_keys
from rnce.policies.networks import NetworkConfig, ResidualMLP, ShallowField
from rnce.policies.networks.config import Shapes
from rnce.policies.networks.functional import Context, Network, Params, Prepared
from rnce.policies.proposals import Proposal, flow_proposal, uniform_proposal
from rnce.policies.samplers import flow as flows
from rnce.policies.samplers import mcmc, sde

ENERGY, PROPOSAL = "energy", "proposal"


@dataclass(frozen=True)
class EnergySampler:
    """Stages that chain: the proposal's flow to `start_time`, the SDE from there to 1, a Markov chain at t = 1.

    The flow takes `flow_steps` steps if it runs to 1, fewer in proportion. The paper's two-stage sampler has
    `start_time=1`; without Markov steps too, it is the proposal alone. The SDE follows the proposal's velocity or,
    with `sde_trust` up to 1, the velocity that the energy implies. A plan may spend SDE and Markov chain, the costly
    part, on some of its samples only: on the `refined` ones that are best when the proposal's flow carries all of them
    to 1 (they then begin again at `start_time`); None for all.
    """

    flow_steps: int = 32
    start_time: float = 1.0
    sde_steps: int = 0
    sde_noise: float = 1e-3
    sde_trust: float = 0.0
    kernel: str = "langevin"
    mcmc_steps: int = 0
    leapfrog_steps: int = 10
    step_size: float = 1e-3
    final_step_size: float = 1e-4
    refined: int | None = None

    def __post_init__(self) -> None:
        """Check what would otherwise fail inside a compiled plan."""
        if self.kernel not in mcmc.KERNELS:
            raise ValueError(f"kernel={self.kernel!r}: use one of {', '.join(mcmc.KERNELS)}.")
        if not 0.0 < self.start_time <= 1.0:
            raise ValueError(f"start_time={self.start_time}: use a time in (0, 1].")
        if not 0.0 <= self.sde_trust <= 1.0:
            raise ValueError(f"sde_trust={self.sde_trust}: use 0 (the proposal's velocity) to 1 (the energy's).")
        if self.refined is not None and self.refined < 1:
            raise ValueError(f"refined={self.refined}: use at least 1, or None for all samples.")

    @property
    def gradient_evaluations(self) -> int:
        """How often ∇E is evaluated for one sample."""
        return (self.sde_steps if self.start_time < 1 else 0) + self.mcmc_steps * mcmc.KERNELS[self.kernel](
            self.leapfrog_steps
        ).cost


def with_budget(sampler: EnergySampler, evaluations: int) -> EnergySampler:
    """Split a budget of gradient evaluations as the paper does: ⌊t̲·T⌋ to the chain, ⌊(1 − t̲)·T⌋ to the SDE."""
    cost = mcmc.KERNELS[sampler.kernel](sampler.leapfrog_steps).cost
    chain = math.floor(sampler.start_time * evaluations) // cost
    return replace(sampler, mcmc_steps=chain, sde_steps=math.floor((1.0 - sampler.start_time) * evaluations))


@dataclass(frozen=True)
class EnergyMethod:
    """Settings of a method that ranks.

    Attributes:
        energy: network of E(x, y, t).
        proposal: network of the proposal's field; None for uniform negatives.
        half_width: of the cube of uniform negatives.
        interpolant: bridge of the proposal.
        negatives: K.
        times: m, how many times of the interpolant are ranked for each example.
        final_times: how many of these are t = 1.
        cells: coarse times of the proposal's integration, where log q is known.
        substeps: Heun steps between coarse times.
        correction: subtract log q in the ranking; without it the objective is IBC's.
        score_weight: weight of a score-matching term beside the ranking loss.
        draws: times and noises drawn for each example where the proposal or the score is matched.
    """

    energy: NetworkConfig = field(default_factory=ResidualMLP)
    proposal: NetworkConfig | None = field(default_factory=ShallowField)
    half_width: float = 4.0
    interpolant: Interpolant = Interpolant()
    negatives: int = 15
    times: int = 1
    final_times: int = 1
    cells: int = 24
    substeps: int = 1
    correction: bool = True
    score_weight: float = 0.0
    draws: int = 1
    sampler: EnergySampler = EnergySampler()

    def __post_init__(self) -> None:
        """Check what would otherwise fail inside a compiled round."""
        if not 0 <= self.final_times <= self.times or self.times < 1:
            raise ValueError(f"final_times={self.final_times}, times={self.times}: use 0 ≤ final_times ≤ times ≥ 1.")
        if self.proposal is None and self.times != 1:
            raise ValueError(f"times={self.times} needs a proposal flow; uniform negatives exist at t = 1 only.")

    def create(self, context_shapes: Shapes, event_shape: tuple[int, int]) -> Method:
        """The method for contexts and events of these shapes."""
        energy = self.energy.create(context_shapes, event_shape, "energy")
        bridge = self.interpolant.create()
        networks, losses = {ENERGY: energy}, {}
        if self.proposal is None:
            proposal = uniform_proposal(self.negatives, self.half_width)
        else:
            field_network = self.proposal.create(context_shapes, event_shape, "field")
            networks[PROPOSAL] = field_network
            proposal = flow_proposal(
                field_network,
                bridge,
                self.interpolant.warp,
                negatives=self.negatives,
                times=self.times,
                final_times=self.final_times,
                cells=self.cells,
                substeps=self.substeps,
            )
            losses["match"] = matching(field_network, bridge, PROPOSAL, self.draws)
        score_loss = _score_loss(energy, self.interpolant, self.draws)
        rank_loss = _ranking(networks, proposal, self.correction)
        losses["rank"] = _weighted(rank_loss, score_loss, self.score_weight)
        losses["score"] = score_loss
        losses["adversary"] = _adversary(networks, proposal)
        dim = event_shape[0] * event_shape[1]
        return Method(networks, losses, *_sampling(energy, proposal, bridge, self.sampler, dim))


def _ranking(networks: dict[str, Network], proposal: Proposal, correction: bool, through: bool = False) -> Loss:
    """The ranking loss over a batch; gradients pass through the candidates only `through` the adversary."""
    energy = networks[ENERGY]

    def loss(
        params: Params, contexts: Context, events: Float[Array, "batch dim"], keys: Keys
    ) -> tuple[Float[Array, ""], dict[str, Array]]:
        codes = batch_codes(energy, params[ENERGY], contexts)
        proposal_params, proposal_codes = params.get(PROPOSAL, {}), None
        if PROPOSAL in networks:
            proposal_codes = batch_codes(networks[PROPOSAL], proposal_params, contexts)

        def draw(code, y, key):
            return proposal.candidates(proposal_params, code, y, key, keys.common)

        candidates = jax.vmap(draw)(proposal_codes, events, keys.each)
        if not through:
            candidates = jax.lax.stop_gradient(candidates)

        def rank(code, y, t, log_q):
            energies = jax.vmap(lambda point: energy.apply(params[ENERGY], code, point, t))(y)
            return ranking_loss(energies, log_q if correction else jnp.zeros_like(log_q))

        ranked = jax.vmap(jax.vmap(rank, (None, 0, 0, 0)))(codes, *candidates)
        value = jnp.mean(ranked.loss)
        chance = jnp.log(candidates.y.shape[2])
        return value, {
            "rank": value,
            "above_chance": chance - value,  # the R-NCE objective minus its saddle value −log(K + 1)
            "posterior": jnp.mean(ranked.posterior),
            "rank_final": jnp.mean(ranked.loss[:, -1]),  # at t = 1 where a final time is among the times
        }

    return loss


def _adversary(networks: dict[str, Network], proposal: Proposal) -> Loss:
    """The proposal's loss in adversarial R-NCE: the ranking objective itself, differentiated through the negatives."""
    rank = _ranking(networks, proposal, correction=True, through=True)

    def loss(
        params: Params, contexts: Context, events: Float[Array, "batch dim"], keys: Keys
    ) -> tuple[Float[Array, ""], dict[str, Array]]:
        value, _ = rank(params, contexts, events, keys)
        return -value, {"adversary": -value}

    return loss


def _score_loss(energy: Network, interpolant: Interpolant, draws: int) -> Loss:
    bridge = interpolant.create()

    def loss(
        params: Params, contexts: Context, events: Float[Array, "batch dim"], keys: Keys
    ) -> tuple[Float[Array, ""], dict[str, Array]]:
        codes = batch_codes(energy, params[ENERGY], contexts)

        def one(code, y, key):
            time_key, noise_key = jax.random.split(key)
            t = bridge.sample_time(time_key)
            return score_matching_loss(energy, bridge, params[ENERGY], code, y, t, noise_key)

        value = jnp.mean(jax.vmap(jax.vmap(one, (None, None, 0)))(codes, events, draw_keys(keys, draws)))
        return value, {"score": value}

    return loss


def _weighted(rank: Loss, score: Loss, weight: float) -> Loss:
    if weight == 0.0:
        return rank

    def loss(
        params: Params, contexts: Context, events: Float[Array, "batch dim"], keys: Keys
    ) -> tuple[Float[Array, ""], dict[str, Array]]:
        value, metrics = rank(params, contexts, events, keys)
        others = keys._replace(each=jax.vmap(lambda key: jax.random.fold_in(key, 2))(keys.each))
        extra, more = score(params, contexts, events, others)
        return value + weight * extra, metrics | more

    return loss


def _sampling(energy: Network, proposal: Proposal, bridge: Bridge, settings: EnergySampler, dim: int):
    """The sampler, the candidates of a plan, the score and the energy at t = 1."""
    kernel = mcmc.KERNELS[settings.kernel](settings.leapfrog_steps)
    has_sde = settings.start_time < 1.0 and proposal.flow is not None
    one = jnp.ones(())

    def evaluate(params: Params, codes: Codes, y: Float[Array, " dim"]) -> Float[Array, ""]:
        return energy.apply(params[ENERGY], codes[ENERGY], y, one)

    def total(params: Params, prepared: Prepared, term: Term | None):
        def at(y: Float[Array, " dim"]) -> Float[Array, ""]:
            value = energy.run(params[ENERGY], prepared, y)
            return value if term is None else value + term(y)

        return at

    def total_at_one(params: Params, codes: Codes, term: Term | None):
        return total(params, energy.prepare(params[ENERGY], codes[ENERGY], one), term)

    def flow_to(params: Params, codes: Codes, key: PRNGKeyArray, n: int, t: float) -> Events:
        """The proposal's samples at time t; the same key gives the same trajectories at any time."""
        steps = max(2, math.ceil(t * settings.flow_steps))
        return proposal.sample(params.get(PROPOSAL, {}), codes.get(PROPOSAL), key, (n, dim), steps, t)

    def follow_sde(params: Params, codes: Codes, key: PRNGKeyArray, y: Events, term: Term | None) -> Events:
        """From the start time to 1; nothing where the flow goes there by itself."""
        if not has_sde or proposal.flow is None:  # the second says the same, to type checkers
            return y
        flow = proposal.flow(params[PROPOSAL], codes[PROPOSAL])
        times = jnp.linspace(settings.start_time, 1.0, settings.sde_steps + 1)
        prepared = jax.vmap(lambda t: energy.prepare(params[ENERGY], codes[ENERGY], t))(times)  # all times at once

        def drift(at: tuple[flows.Moments, Prepared], y: Events) -> Events:
            (t, of_flow), of_energy = at
            score = jax.vmap(jax.grad(total(params, of_energy, term)))(y)
            velocity = flow.velocity(of_flow, y)
            if settings.sde_trust:
                velocity += settings.sde_trust * (score_velocity(bridge, jnp.asarray(t), y, score) - velocity)
            return velocity + settings.sde_noise * score

        return sde.solve(drift, y, key, times, (flows.moments(flow, times), prepared), settings.sde_noise)

    def chain(params: Params, codes: Codes, key: PRNGKeyArray, y: Events, term: Term | None) -> Events:
        if not settings.mcmc_steps:
            return y
        step_sizes = mcmc.annealed(settings.step_size, settings.final_step_size, settings.mcmc_steps)
        return mcmc.run_chains(kernel, total_at_one(params, codes, term), y, key, step_sizes).y

    def score(params: Params, codes: Codes, events: Events, term: Term | None) -> Scores:
        return jax.vmap(total_at_one(params, codes, term))(events)

    def refine(params: Params, codes: Codes, keys: Sequence[PRNGKeyArray], y: Events, term: Term | None) -> Events:
        """The stages in which the energy takes part, from the start time on."""
        sde_key, chain_key = keys
        return chain(params, codes, chain_key, follow_sde(params, codes, sde_key, y, term), term)

    def sample(params: Params, codes: Codes, key: PRNGKeyArray, n: int, term: Term | None) -> Events:
        flow_key, *keys = jax.random.split(key, 3)
        return refine(params, codes, keys, flow_to(params, codes, flow_key, n, settings.start_time), term)

    def candidates(params: Params, codes: Codes, key: PRNGKeyArray, n: int, term: Term | None) -> tuple[Events, Scores]:
        if settings.refined is None or settings.refined >= n or not (settings.mcmc_steps or has_sde):
            events = sample(params, codes, key, n, term)
            return events, score(params, codes, events, term)
        flow_key, *keys = jax.random.split(key, 3)
        events = flow_to(params, codes, flow_key, n, 1.0)
        _, best = jax.lax.top_k(score(params, codes, events, term), settings.refined)
        begun = flow_to(params, codes, flow_key, n, settings.start_time) if has_sde else events
        events = events.at[best].set(refine(params, codes, keys, begun[best], term))
        return events, score(params, codes, events, term)

    return sample, candidates, score, evaluate
