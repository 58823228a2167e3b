"""The two losses of the package. Energies have the paper's sign everywhere: p(y|x) ∝ exp(+E(x, y))."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rnce.policies.bridges import Bridge, Time, perturb
from rnce.policies.networks.functional import Code, Network, Params


def matching_loss(
    network: Network, bridge: Bridge, params: Params, code: Code, y: Float[Array, " dim"], key: PRNGKeyArray
) -> Time:
    """Least squares on the bridge's target at a random time: trains flows and diffusion alike (mean over dimensions).

    ‖F − target‖² has the gradient of the paper's ‖F‖² − 2·target·F; the constant makes it easier to read.
    """
    time_key, noise_key = jax.random.split(key)
    t = bridge.sample_time(time_key)
    z = jax.random.normal(noise_key, y.shape, y.dtype)
    _, _, scale, feature = bridge.coefficients(t)
    predicted = network.apply(params, code, scale * perturb(bridge, t, z, y), feature)
    return jnp.mean(jnp.square(predicted - bridge.target(t, z, y)))


class Ranking(NamedTuple):
    """The ranking loss of one candidate set and what it says about training."""

    loss: Time  # −log posterior of the positive; at the saddle point log(K + 1)
    posterior: Time  # of the positive: 1 is posterior collapse, 1/(K + 1) is chance


def ranking_loss(energies: Float[Array, " candidates"], log_q: Float[Array, " candidates"]) -> Ranking:
    """R-NCE: which of the K + 1 candidates is the data? The positive is candidate 0.

    `log_q = 0` is the IBC objective, whose optimum is not the data's density unless the proposal is uniform.
    """
    log_posterior = jax.nn.log_softmax(energies - log_q)[0]
    return Ranking(-log_posterior, jnp.exp(log_posterior))


def score_matching_loss(
    energy: Network, bridge: Bridge, params: Params, code: Code, y: Float[Array, " dim"], t: Time, key: PRNGKeyArray
) -> Time:
    """Denoising score matching of ∇E along an interpolant, weighted by the noise variance (mean over dimensions).

    The score of y_t = noise·z + data·y given y is −z/noise, so noise·∇E is asked to be −z: a cheap signal that puts
    an energy near the truth before ranking refines it.
    """
    z = jax.random.normal(key, y.shape, y.dtype)
    y_t = perturb(bridge, t, z, y)
    score = jax.grad(lambda point: energy.apply(params, code, point, t))(y_t)
    return jnp.mean(jnp.square(bridge.noise(t) * score + z))
