"""Samplers on a mixture whose density, score and flow are known."""

import dataclasses
from typing import Any

import gaussians as g
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rnce.eval.bhattacharyya import bhattacharyya
from rnce.policies.bridges import Interpolant
from rnce.policies.methods import IBC, IRNCE, EnergySampler, with_budget
from rnce.policies.methods.energies import ENERGY, PROPOSAL
from rnce.policies.networks import Network
from rnce.policies.samplers import mcmc

WEIGHTS = np.array([0.3, 0.7])
MEANS = np.array([[-1.2, 0.5], [0.9, -0.4]], np.float32)
STD = 0.6
BRIDGE = Interpolant().create()


def mixture_log_prob(y, t=1.0):
    """log p_t of the interpolant between noise and the mixture; t = 1 is the mixture."""
    noise, scale = BRIDGE.noise(jnp.asarray(t)), BRIDGE.data(jnp.asarray(t))
    std = jnp.sqrt(noise**2 + (scale * STD) ** 2)
    parts = jax.scipy.stats.norm.logpdf(y, scale * MEANS, std).sum(-1)
    return jax.scipy.special.logsumexp(parts + jnp.log(WEIGHTS))


def mixture_velocity(params, code, y, t):
    """E[∂ₜI | y_t]: what each component says, weighted by its posterior."""
    noise, scale = BRIDGE.noise(t), BRIDGE.data(t)
    noise_rate, scale_rate = jax.grad(BRIDGE.noise)(t), jax.grad(BRIDGE.data)(t)
    variance = noise**2 + (scale * STD) ** 2
    parts = jax.scipy.stats.norm.logpdf(y, scale * MEANS, jnp.sqrt(variance)).sum(-1)
    gain = (noise * noise_rate + scale * scale_rate * STD**2) / variance
    each = scale_rate * MEANS + gain * (y - scale * MEANS)
    return jax.nn.softmax(parts + jnp.log(WEIGHTS)) @ each


def truth(n, seed=0):
    rng = np.random.default_rng(seed)
    return MEANS[rng.choice(2, n, p=WEIGHTS)] + STD * rng.normal(size=(n, 2))


@pytest.mark.parametrize(
    ("kernel", "steps", "size"),
    [("langevin", 400, 0.03), ("mala", 200, 0.3), ("hmc", 60, 0.3), ("adjusted-hmc", 60, 0.5)],
)
def test_chains_hit_the_moments_of_a_mixture(kernel, steps, size):
    start = jnp.asarray(2.0 * np.random.default_rng(1).normal(size=(2048, 2)), jnp.float32)
    step_sizes = mcmc.annealed(size, size, steps)
    chains = jax.jit(lambda key: mcmc.run_chains(mcmc.KERNELS[kernel](4), mixture_log_prob, start, key, step_sizes))
    result = chains(jax.random.key(0))
    mean = WEIGHTS @ MEANS
    cov = (MEANS - mean).T @ np.diag(WEIGHTS) @ (MEANS - mean) + STD**2 * np.eye(2)
    np.testing.assert_allclose(np.mean(result.y, 0), mean, atol=0.08)
    np.testing.assert_allclose(np.cov(result.y.T), cov, atol=0.12)
    assert np.all(result.acceptance <= 1.0)
    assert 0.5 < result.acceptance.mean() <= 1.0
    assert (result.acceptance.min() == 1.0) == (kernel in ("langevin", "hmc"))  # these test nothing


def test_annealed_step_sizes_fall_by_equal_factors():
    np.testing.assert_allclose(mcmc.annealed(1e-2, 1e-4, 3), [1e-2, 1e-3, 1e-4], rtol=1e-5)


class Given:
    """Stands where the settings of a network do."""

    def __init__(self, network: Network):
        self.network = network

    def create(self, *_: Any) -> Network:
        return self.network


def three_stages(velocity, **settings):
    energy = g.network(lambda params, code, y, t: mixture_log_prob(y, t) + 5.0)
    settings = {
        "flow_steps": 24, "start_time": 0.5, "sde_steps": 100, "sde_noise": 0.1, "kernel": "hmc", "mcmc_steps": 10,
        "leapfrog_steps": 3, "step_size": 0.2, "final_step_size": 0.1,
    } | settings  # fmt: skip
    method = IRNCE(Given(energy), Given(g.network(velocity)), sampler=EnergySampler(**settings)).create({}, (1, 2))  # pyright: ignore
    params, codes = {ENERGY: {}, PROPOSAL: {}}, {ENERGY: None, PROPOSAL: None}
    return np.asarray(jax.jit(lambda key: method.sample(params, codes, key, 8192, None))(jax.random.key(0)))


def test_three_stages_with_the_true_field_and_energy_return_the_data():
    assert bhattacharyya(truth(8192), three_stages(mixture_velocity)) >= 0.99


def test_energy_corrects_a_biased_flow():
    """A flow that drifts away: the SDE and the chain bring its samples back, the flow alone does not."""
    biased = lambda *args: mixture_velocity(*args) + jnp.array([0.8, 0.0])
    assert bhattacharyya(truth(8192), three_stages(biased, sde_noise=1.0)) >= 0.985
    assert bhattacharyya(truth(8192), three_stages(biased, start_time=1.0, sde_steps=0, mcmc_steps=0)) < 0.97


def test_the_energy_knows_a_velocity_of_its_own():
    """The proposal is left at an early time; from there the energy's velocity alone carries the samples."""
    biased = lambda *args: mixture_velocity(*args) + jnp.array([0.8, 0.0])
    alone = {"start_time": 0.02, "sde_noise": 0.0, "mcmc_steps": 0}
    assert bhattacharyya(truth(8192), three_stages(biased, **alone, sde_trust=1.0)) >= 0.99
    assert bhattacharyya(truth(8192), three_stages(biased, **alone)) < 0.97


@pytest.mark.parametrize("refining", [{"mcmc_steps": 5}, {"start_time": 0.5, "sde_steps": 4, "sde_noise": 0.1}])
def test_a_plan_refines_its_best_samples(refining):
    """The rest stays where the flow left it; all have the scores of where they are."""
    energy, velocity = g.network(lambda params, code, y, t: y[0]), g.network(lambda params, code, y, t: y)

    def candidates(**settings):
        sampler = EnergySampler(flow_steps=4, **settings)
        method = IRNCE(Given(energy), Given(velocity), sampler=sampler).create({}, (1, 2))  # pyright: ignore
        params, codes = {ENERGY: {}, PROPOSAL: {}}, {ENERGY: None, PROPOSAL: None}
        return map(np.asarray, method.candidates(params, codes, jax.random.key(0), 16, None))

    (proposed, _), (events, scores), (everyone, _) = (
        candidates(), candidates(**refining, refined=3), candidates(**refining)
    )  # fmt: skip
    moved = np.flatnonzero(np.any(events != proposed, axis=1))
    assert set(moved) == set(np.argsort(proposed[:, 0])[-3:])
    np.testing.assert_array_equal(scores, events[:, 0])
    assert np.all(np.any(everyone != proposed, axis=1))


def test_budget_is_split_as_in_the_paper():
    hmc = EnergySampler(start_time=0.7, kernel="hmc", leapfrog_steps=5)
    split = with_budget(hmc, 100)
    assert (split.mcmc_steps * 5, split.sde_steps) == (70, 30)
    assert split.gradient_evaluations == 100
    two_stages = with_budget(EnergySampler(), 50)
    assert (two_stages.mcmc_steps, two_stages.sde_steps, two_stages.gradient_evaluations) == (50, 0, 50)
    assert dataclasses.replace(two_stages, sde_steps=9).gradient_evaluations == 50  # at start_time = 1 it is not run


@pytest.mark.parametrize("kernel", mcmc.KERNELS)
def test_gradient_evaluations_are_counted_right(kernel):
    """Kernels that keep the gradient of their present point evaluate it once more, at their start."""
    counted = []

    @jax.custom_jvp
    def energy(y):
        return -0.5 * jnp.sum(y**2)

    @energy.defjvp
    def _(primals, tangents):
        (y,), (dy,) = primals, tangents
        jax.debug.callback(lambda: counted.append(1))
        return -0.5 * jnp.sum(y**2), -y @ dy

    made = mcmc.KERNELS[kernel](4)
    jax.block_until_ready(mcmc.run_chains(made, energy, jnp.zeros((1, 2)), jax.random.key(0), jnp.full(6, 0.1)))
    jax.effects_barrier()
    assert len(counted) - (kernel != "langevin") == 6 * made.cost
    sampler = EnergySampler(kernel=kernel, mcmc_steps=6, leapfrog_steps=4, start_time=0.5, sde_steps=3)
    assert sampler.gradient_evaluations == 6 * made.cost + 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"refined": 0}, "refined=0: use at least 1"),
        ({"kernel": "gibbs"}, "kernel='gibbs': use one of langevin"),
        ({"start_time": 0.0}, r"start_time=0.0: use a"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        EnergySampler(**settings)
    with pytest.raises(ValueError, match="final_times=3, times=2"):
        IBC(times=2, final_times=3)
