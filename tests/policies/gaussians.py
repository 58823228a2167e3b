"""Gaussian data, for which every field, density and denoiser of the package is known in closed form."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rnce.policies.bridges import EDM, Bridge
from rnce.policies.networks import Network, exact_divergence


class Gaussian(NamedTuple):
    """N(mean, Q diag(variances) Qᵀ): in the axes Q all of the closed forms are products of numbers."""

    mean: jax.Array
    variances: jax.Array

    @property
    def cov(self):
        return AXES * self.variances @ AXES.T

    def log_prob(self, y):
        return jax.scipy.stats.norm.logpdf((y - self.mean) @ AXES, scale=jnp.sqrt(self.variances)).sum(-1)


DIM = 3
AXES = jnp.asarray(np.linalg.qr(np.random.default_rng(5).normal(size=(DIM, DIM)))[0], jnp.float32)
DATA = Gaussian(jnp.array([0.5, -1.0, 0.2]), jnp.array([0.2, 0.5, 1.2]))


def scale_axes(factors, y):
    """Q diag(factors) Qᵀ y."""
    return AXES @ (factors * (y @ AXES))


def draw(gaussian: Gaussian, n: int, seed: int = 0):
    normal = np.random.default_rng(seed).normal(size=(n, DIM))
    return jnp.asarray(gaussian.mean + (normal * jnp.sqrt(gaussian.variances)) @ AXES.T, jnp.float32)


def at(bridge: Bridge, t, data: Gaussian = DATA) -> Gaussian:
    """The law of the bridge at time t."""
    noise, scale = bridge.noise(t), bridge.data(t)
    return Gaussian(scale * data.mean, noise**2 + scale**2 * data.variances)


def generated(bridge: Bridge) -> Gaussian:
    """What the exact flow makes of the prior, which for EDM is N(0, σ_max²) instead of the slightly different truth."""
    first, last = (at(bridge, t) for t in bridge.grid(1))
    stretch = jnp.sqrt(last.variances / first.variances)
    return Gaussian(last.mean - scale_axes(stretch, first.mean), (stretch * bridge.prior_std) ** 2)


def network(apply) -> Network:
    """A network without parameters and contexts."""

    def run(params, prepared, y):
        code, t = prepared
        return apply(params, code, y, t)

    def with_divergence(params, prepared, y):
        return exact_divergence(lambda point: run(params, prepared, point), y)

    prepare = lambda params, code, t: (code, t)
    return Network(lambda key: {}, lambda params, context: jnp.zeros(0), prepare, run, with_divergence)


def exact_interpolant_field(bridge: Bridge) -> Network:
    """E[∂ₜI | y_t], linear in y."""

    def apply(params, code, y, t):
        noise, scale = bridge.noise(t), bridge.data(t)
        noise_rate, scale_rate = jax.grad(bridge.noise)(t), jax.grad(bridge.data)(t)
        law = at(bridge, t)
        gain = (noise * noise_rate + scale * scale_rate * DATA.variances) / law.variances
        return scale_rate * DATA.mean + scale_axes(gain, y - law.mean)

    return network(apply)


def exact_edm_field(edm: EDM) -> Network:
    """F of the exact denoiser; it sees c_in·y and c_noise(σ), as a network does."""

    def apply(params, code, scaled, feature):
        sigma = jnp.exp(4.0 * feature)
        y = scaled / edm.c_in(sigma)
        denoised = DATA.mean + scale_axes(DATA.variances / (DATA.variances + sigma**2), y - DATA.mean)
        return (denoised - edm.c_skip(sigma) * y) / edm.c_out(sigma)

    return network(apply)


def exact_phi(edm: EDM) -> Network:
    """The scalar network whose gradient is `exact_edm_field`."""
    field = exact_edm_field(edm)

    def apply(params, code, scaled, feature):
        at_zero, jacobian_times = jax.linearize(lambda u: field.apply(params, code, u, feature), jnp.zeros_like(scaled))
        return at_zero @ scaled + 0.5 * scaled @ jacobian_times(scaled)

    return network(apply)


def exact_energy(bridge: Bridge) -> Network:
    """log p_t, up to a constant that no method may rely on."""
    return network(lambda params, code, y, t: at(bridge, t).log_prob(y) + 3.0)


def assert_moments(samples, data: Gaussian = DATA, tolerance: float = 0.05):
    samples = np.asarray(samples).reshape(len(samples), -1)
    np.testing.assert_allclose(samples.mean(0), data.mean, atol=tolerance)
    np.testing.assert_allclose(np.cov(samples.T), data.cov, atol=tolerance)
