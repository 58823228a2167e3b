"""What is the same, is the same: identities between the methods, and the sign of the energy."""

from typing import Any

import gaussians as g
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from rnce.policies.bridges import EDM, Interpolant, perturb
from rnce.policies.losses import matching_loss, ranking_loss
from rnce.policies.methods import IBC, IRNCE, RNCE, EnergySampler, init, make_keys
from rnce.policies.methods.energies import ENERGY, PROPOSAL

SHAPES, EVENT = {"context": (2,)}, (1, 2)
BATCH = 6
CONTEXTS = {"context": jnp.asarray(np.random.default_rng(0).normal(size=(BATCH, 2)), jnp.float32)}
EVENTS = jnp.asarray(np.random.default_rng(1).normal(size=(BATCH, 2)), jnp.float32)
SETTINGS: dict[str, Any] = {"energy": tiny.mlp(), "proposal": tiny.shallow(), "negatives": 7, "cells": 4}


@pytest.mark.parametrize("kind", ["trigonometric", "linear"])
def test_interpolants_run_from_noise_to_data(kind):
    bridge = Interpolant(kind).create()
    z, y = jnp.array([1.0, -2.0]), jnp.array([0.3, 0.7])
    np.testing.assert_allclose(perturb(bridge, jnp.asarray(0.0), z, y), z, atol=1e-6)
    np.testing.assert_allclose(perturb(bridge, jnp.asarray(1.0), z, y), y, atol=1e-6)
    t = jnp.asarray(0.4)
    np.testing.assert_allclose(bridge.target(t, z, y), jax.jacfwd(lambda t: perturb(bridge, t, z, y))(t), atol=1e-6)


def test_unknown_interpolant_is_named():
    with pytest.raises(ValueError, match=r"kind='cubic': use 'trigonometric' or 'linear'"):
        Interpolant("cubic").create()  # pyright: ignore[reportArgumentType]


def test_times_are_powers_of_uniform_numbers():
    bridge = Interpolant(alpha=3.0).create()
    t = jax.vmap(bridge.sample_time)(jax.random.split(jax.random.key(0), 4000))
    np.testing.assert_allclose(np.mean(t**3), 0.5, atol=0.02)
    assert t.min() >= 0
    assert t.max() <= 1


def test_least_squares_has_the_gradient_of_the_papers_objective():
    """‖v − ∂ₜI‖² and ‖v‖² − 2 ∂ₜI·v differ by a constant of v."""
    bridge = Interpolant().create()
    network = g.network(lambda params, code, y, t: params["a"] @ y + params["b"] * t)
    params = {"a": jnp.array([[0.3, -0.2], [0.1, 0.5]]), "b": jnp.array([0.2, -0.4])}
    y, key = EVENTS[0], jax.random.key(3)

    def papers(params):
        time_key, noise_key = jax.random.split(key)
        t, z = bridge.sample_time(time_key), jax.random.normal(noise_key, y.shape)
        v = network.apply(params, None, perturb(bridge, t, z, y), t)
        return jnp.sum(v**2) - 2.0 * bridge.target(t, z, y) @ v

    ours = jax.grad(lambda p: matching_loss(network, bridge, p, None, y, key))(params)
    for found, expected in zip(jax.tree.leaves(ours), jax.tree.leaves(jax.grad(papers)(params)), strict=True):
        np.testing.assert_allclose(found * y.size, expected, rtol=1e-5)


@pytest.mark.parametrize("sigma", [0.01, 0.3, 1.0, 20.0])
def test_edm_is_the_same_regression_with_karras_weight(sigma):
    edm = EDM(sigma_data=0.7)
    bridge, sigma = edm.create(), jnp.asarray(sigma)
    z, y, output = jnp.array([1.0, -2.0]), jnp.array([0.3, 0.7]), jnp.array([0.4, -0.9])
    noisy = perturb(bridge, sigma, z, y)
    denoised = edm.c_skip(sigma) * noisy + edm.c_out(sigma) * output
    weight = (sigma**2 + edm.sigma_data**2) / (sigma * edm.sigma_data) ** 2
    expected = weight * jnp.sum((denoised - y) ** 2)
    np.testing.assert_allclose(jnp.sum((output - bridge.target(sigma, z, y)) ** 2), expected, rtol=1e-3)
    # The flow is the probability-flow ODE of that denoiser.
    keep, gain, scale, feature = bridge.coefficients(sigma)
    np.testing.assert_allclose(keep * noisy + gain * output, (noisy - denoised) / sigma, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scale, edm.c_in(sigma))
    np.testing.assert_allclose(feature, np.log(sigma) / 4)


@pytest.mark.parametrize("sigma", [0.01, 0.3, 1.0, 20.0])
def test_edm_preconditioning_has_unit_variances(sigma):
    """Karras' requirements: inputs and targets of unit variance, and the least amplification of errors."""
    edm, sigma = EDM(sigma_data=0.7), jnp.asarray(sigma)
    total = edm.sigma_data**2 + sigma**2
    skip, out = edm.c_skip(sigma), edm.c_out(sigma)
    np.testing.assert_allclose(edm.c_in(sigma) ** 2 * total, 1.0, rtol=1e-5)
    np.testing.assert_allclose(((1 - skip) ** 2 * edm.sigma_data**2 + skip**2 * sigma**2) / out**2, 1.0, rtol=1e-3)
    np.testing.assert_allclose(skip, edm.sigma_data**2 / total, rtol=1e-5)


def test_edm_noise_levels():
    sigmas = np.asarray(EDM().sigmas(18))
    assert sigmas.shape == (19,)
    np.testing.assert_allclose(sigmas[[0, -1]], [80.0, 0.002], rtol=1e-4)
    np.testing.assert_allclose(np.diff(sigmas ** (1 / 7)), np.diff(sigmas ** (1 / 7))[0], rtol=1e-2)


def ranking_program(settings):
    """What the ranking loss computes, operation by operation."""
    method = settings.create(SHAPES, EVENT)
    params = jax.eval_shape(lambda: init(method, jax.random.key(0)))
    return str(
        jax.make_jaxpr(method.losses["rank"])(params, CONTEXTS, EVENTS, make_keys(jax.random.key(5), len(EVENTS)))
    )


def test_rnce_is_irnce_at_one_time_and_ibc_is_it_without_correction():
    rnce = ranking_program(RNCE(**SETTINGS))
    assert ranking_program(IRNCE(**{**SETTINGS, "times": 1, "final_times": 1})) == rnce
    ibc = ranking_program(IBC(**SETTINGS))
    assert ranking_program(RNCE(**{**SETTINGS, "correction": False})) == ibc
    assert ibc != rnce


def test_uniform_proposal_cancels():
    uniform: dict[str, Any] = {**SETTINGS, "proposal": None}
    made = [kind(**uniform).create(SHAPES, EVENT) for kind in (RNCE, IBC)]

    @jax.jit
    def losses(key):
        params = init(made[0], key)
        keys = make_keys(key, len(EVENTS))
        return [method.losses["rank"](params, CONTEXTS, EVENTS, keys) for method in made]

    (rnce, metrics), (ibc, _) = losses(jax.random.key(0))
    np.testing.assert_allclose(rnce, ibc, rtol=1e-6)
    np.testing.assert_allclose(metrics["above_chance"], np.log(8) - rnce, rtol=1e-5)
    with pytest.raises(ValueError, match="times=2 needs a proposal flow"):
        IRNCE(**uniform)


def test_saddle_value_and_sign_of_the_ranking_loss():
    log_q = jnp.array([0.3, -2.0, 1.0, 0.0])
    at_saddle = ranking_loss(log_q + 7.0, log_q)
    np.testing.assert_allclose(at_saddle.loss, np.log(4), rtol=1e-6)
    np.testing.assert_allclose(at_saddle.posterior, 0.25, rtol=1e-6)
    # A higher energy of the positive is better: p ∝ exp(+E).
    assert ranking_loss(log_q.at[0].add(1.0), log_q).loss < at_saddle.loss


@pytest.mark.parametrize("kernel", ["langevin", "adjusted-hmc"])
def test_sampling_and_ranking_prefer_high_energy(kernel):
    class Peak:
        def create(self, *_):
            return g.network(lambda params, code, y, t: -20.0 * jnp.sum((y - 1.0) ** 2))

    sampler = EnergySampler(kernel=kernel, mcmc_steps=100, leapfrog_steps=3, step_size=1e-2, final_step_size=1e-2)
    settings = IBC(energy=Peak(), proposal=None, half_width=2.0, sampler=sampler)  # pyright: ignore[reportArgumentType]
    method = settings.create(SHAPES, EVENT)
    params, codes = {ENERGY: {}, PROPOSAL: None}, {ENERGY: None}
    samples = jax.jit(lambda key: method.sample(params, codes, key, 64, None))(jax.random.key(0))
    assert np.abs(samples - 1.0).max() < 1.5 < np.abs(np.asarray(samples) + 1.0).mean()
    ranked = method.score(params, codes, jnp.array([[1.0, 1.0], [0.0, 0.0]]), None)
    assert ranked[0] > ranked[1]
    assert method.energy is not None
    np.testing.assert_allclose(method.energy(params, codes, jnp.zeros(2)), ranked[1])
