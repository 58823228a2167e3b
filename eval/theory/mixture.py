"""Gaussian mixtures with everything in closed form: density, samples, and the flow of an interpolant towards them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from rnce.policies.bridges import Bridge


class Mixture(NamedTuple):
    """Components N(mean, axes·diag(stds²)·axesᵀ)."""

    log_weights: Float[Array, " components"]
    means: Float[Array, "components dim"]
    axes: Float[Array, "components dim dim"]
    stds: Float[Array, "components dim"]

    def log_prob(self, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """Log-density of one point."""
        return jax.nn.logsumexp(self.log_weights + _log_components(self.coordinates(y), self.stds))

    def coordinates(self, y: Float[Array, " dim"], shrink: Float[Array, ""] | float = 1.0) -> Float[Array, "c dim"]:
        """y − shrink·mean along the axes of every component."""
        return jnp.einsum("cij,ci->cj", self.axes, y - shrink * self.means)

    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n dim"]:
        """Draws."""
        which_key, noise_key = jax.random.split(key)
        which = jax.random.categorical(which_key, self.log_weights, shape=(n,))
        noise = self.stds[which] * jax.random.normal(noise_key, (n, self.means.shape[1]))
        return self.means[which] + jnp.einsum("nij,nj->ni", self.axes[which], noise)


def _log_components(local: Float[Array, "c dim"], stds: Float[Array, "c dim"]) -> Float[Array, " c"]:
    return jax.scipy.stats.norm.logpdf(local, scale=stds).sum(-1)


def random_mixture(seed: int, dim: int, components: int, stds: tuple[float, float], spread: float) -> Mixture:
    """Components of random place, orientation and weight; standard deviations spread evenly on a log scale."""
    rng = np.random.default_rng(seed)
    axes = np.stack([np.linalg.qr(rng.normal(size=(dim, dim)))[0] for _ in range(components)])
    scales = np.geomspace(*stds, dim) * np.ones((components, 1))
    weights = rng.dirichlet(np.full(components, 5.0))
    means = spread * rng.normal(size=(components, dim)) / np.sqrt(dim)
    return Mixture(*(jnp.asarray(value, jnp.float32) for value in (np.log(weights), means, axes, scales)))


def velocity(mixture: Mixture, bridge: Bridge, t: Float[Array, ""], y: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """E[noise′·z + data′·y | y_t], the exact field of an interpolant y_t = noise·z + data·y."""
    noise, data = bridge.noise(t), bridge.data(t)
    noise_slope, data_slope = jax.grad(bridge.noise)(t), jax.grad(bridge.data)(t)
    local = mixture.coordinates(y, data)
    variances = noise**2 + (data * mixture.stds) ** 2
    share = jax.nn.softmax(mixture.log_weights + _log_components(local, jnp.sqrt(variances)))
    gain = (noise_slope * noise + data_slope * data * mixture.stds**2) / variances
    inside = jnp.einsum("cij,cj->ci", mixture.axes, gain * local)
    return share @ (inside + data_slope * mixture.means)
