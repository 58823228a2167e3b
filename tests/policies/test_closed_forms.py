"""Gaussian data and exact linear fields: samples, log-probabilities and rankings have closed forms."""

from typing import Any, NamedTuple

import gaussians as g
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from rnce.policies.bridges import EDM, Interpolant
from rnce.policies.methods import NF, Diffusion, DiffusionPhi, FlowSampler
from rnce.policies.methods.flows import FIELD
from rnce.policies.networks import Network
from rnce.policies.presets import recipe_for
from rnce.policies.proposals import flow_proposal
from rnce.policies.recipe import Optimizer, Phase, Recipe, Stage
from rnce.policies.samplers.flow import cumulative_integral

DIFFUSION = EDM(sigma_data=1.0, sigma_min=0.01, sigma_max=40.0)
INTERPOLANTS = {"trigonometric": Interpolant("trigonometric"), "linear": Interpolant("linear")}
PARAMS, CODES = {FIELD: {}}, {FIELD: jnp.zeros(0)}
ACCURATE = FlowSampler(steps=504, divergences=64)


class Exact(NamedTuple):
    """Stands where the settings of a network do."""

    network: Network

    def create(self, context_shapes: Any, event_shape: Any, output: Any) -> Network:
        return self.network


def build(name: str, sampler: FlowSampler = ACCURATE):
    """A method with its exact network, and what it generates."""
    if name in INTERPOLANTS:
        bridge = INTERPOLANTS[name].create()
        settings = NF(Exact(g.exact_interpolant_field(bridge)), INTERPOLANTS[name], sampler)  # pyright: ignore
    else:
        bridge = DIFFUSION.create()
        kind, network = {
            "diffusion": (Diffusion, g.exact_edm_field(DIFFUSION)),
            "diffusion-phi": (DiffusionPhi, g.exact_phi(DIFFUSION)),
        }[name]
        settings = kind(Exact(network), DIFFUSION, sampler)
    return settings.create({}, (1, g.DIM)), g.generated(bridge)


def draw(method, n):
    return jax.jit(lambda key: method.candidates(PARAMS, CODES, key, n, None))(jax.random.key(0))


def score(method, events):
    return jax.jit(lambda events: method.score(PARAMS, CODES, events, None))(events)


@pytest.mark.parametrize("name", [*INTERPOLANTS, "diffusion"])
def test_samples_and_log_probabilities_of_the_exact_flow(name):
    method, law = build(name)
    samples, forward = draw(method, 4096)
    g.assert_moments(samples)
    exact = law.log_prob(samples)
    np.testing.assert_allclose(forward, exact, atol=1e-3)
    np.testing.assert_allclose(score(method, samples), exact, atol=1e-3)


def test_relative_likelihood_of_diffusion_phi():
    method, _ = build("diffusion-phi", FlowSampler(64, 2))
    samples, scores = draw(method, 2048)
    g.assert_moments(samples)
    exact = g.at(DIFFUSION.create(), jnp.asarray(0.02)).log_prob(samples)
    difference = scores - exact
    np.testing.assert_allclose(difference, difference.mean(), atol=5e-3)  # φ is divided by σ², rounding and all


@pytest.mark.parametrize("name", [*INTERPOLANTS, "diffusion", "diffusion-phi"])
def test_coarse_ranking_has_the_exact_order(name):
    """With as few evaluations as a plan can afford: pairs a nat apart."""
    method, _ = build(name, FlowSampler(24, 9))
    events = g.draw(g.DATA, 512)
    exact = np.asarray(g.DATA.log_prob(events)).reshape(2, -1)
    found = np.asarray(score(method, events)).reshape(2, -1)
    apart = np.abs(exact[0] - exact[1]) >= 1.0
    assert apart.sum() > 80
    assert np.mean((found[0] > found[1]) == (exact[0] > exact[1]), where=apart) >= 0.99


@pytest.mark.parametrize(("name", "method"), [("trigonometric", "nf"), ("diffusion", "diffusion")])
def test_the_presets_evaluate_enough_divergences(name, method):
    """A diffusion's divergence is like 1/σ: integrated over σ itself, so few of them would not do."""
    method, law = build(name, recipe_for("pusht", method).method.sampler)
    samples, found = draw(method, 256)
    np.testing.assert_allclose(found, law.log_prob(samples), atol=0.4)


def test_proposal_knows_its_density_at_every_time():
    interpolant = Interpolant()
    bridge = interpolant.create()
    field = g.exact_interpolant_field(bridge)
    proposal = flow_proposal(
        field, bridge, interpolant.warp, negatives=15, times=4, final_times=1, cells=32, substeps=4
    )  # fmt: skip
    events = g.draw(g.DATA, 64)
    grid_key, *keys = jax.random.split(jax.random.key(1), len(events) + 1)
    candidates = jax.jit(
        jax.vmap(lambda y, key: proposal.candidates({}, jnp.zeros(0), y, key, grid_key))
    )(events, jnp.stack(keys))  # fmt: skip
    assert candidates.y.shape == (64, 4, 16, g.DIM)
    np.testing.assert_allclose(candidates.y[:, -1, 0], events, atol=1e-6)  # I₁ = y
    np.testing.assert_array_equal(candidates.t[:, -1], 1.0)
    assert len(np.unique(candidates.t)) > 20  # inner times are spread over the grid
    assert np.all(np.diff(candidates.t, axis=1) >= 0)
    exact = jax.vmap(jax.vmap(lambda y, t: g.at(bridge, t).log_prob(y)))(candidates.y, candidates.t)
    np.testing.assert_allclose(candidates.log_q, exact, atol=5e-3)
    # The negatives are draws from those densities, along single trajectories.
    g.assert_moments(candidates.y[:, -1, 1:].reshape(-1, g.DIM), tolerance=0.12)
    inner, final = candidates.y[:, 2, 1:].reshape(-1, g.DIM), candidates.y[:, 3, 1:].reshape(-1, g.DIM)
    assert np.corrcoef(inner[:, 0], final[:, 0])[0, 1] > 0.8


def test_cumulative_integral_is_exact_for_what_it_interpolates():
    integrate = jax.jit(cumulative_integral)
    times = np.array([0.0, 0.1, 0.3, 0.35, 0.6, 1.0], np.float32)
    late = np.where(times > 0.4, 9.0, times**2)
    parabola, cubic, changed = np.asarray(integrate(np.stack([times**2, times**3, late], axis=1), times)).T
    np.testing.assert_allclose(parabola[2:], times[2:] ** 3 / 3, atol=1e-6)
    assert np.abs(cubic - times**4 / 4).max() < 5e-3
    np.testing.assert_allclose(changed[:4], parabola[:4], atol=1e-7)  # what comes later does not matter
    np.testing.assert_allclose(integrate(times[:2, None], times[:2])[:, 0], [0.0, 0.005])


@pytest.mark.parametrize("kind", [NF, Diffusion])
def test_training_recovers_mean_and_covariance(kind):
    settings = kind(tiny.mlp(width=32), sampler=FlowSampler(24, 5))
    if kind is not NF:
        settings = kind(tiny.mlp(width=32), EDM(sigma_data=1.0), FlowSampler(24, 5))
    phase = Phase(FIELD, "match", Optimizer(1e-2, final_fraction=0.01), steps_per_round=20, batch_size=256)
    recipe = Recipe("any", settings, (Stage("match", 20, (phase,)),), whiten=False)
    contexts = np.zeros((8192, 1), np.float32)
    policy = tiny.trained(tiny.one_step_task(g.DIM), recipe, contexts, np.asarray(g.draw(g.DATA, 8192)))
    g.assert_moments(policy.sample(np.zeros(1), 8192, seed=0), tolerance=0.1)
