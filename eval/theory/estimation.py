"""R-NCE estimates of a normal density, thousands of data sets at once.

Energies θ₁y + θ₂y² are linear in θ, so the ranking objective is concave and Newton's method finds the estimate. What
it maximises is the package's own loss.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from rnce.eval.theory.objective import Gaussian, in_double_precision, problem, ranking_objective
from rnce.policies.losses import ranking_loss

NEWTON_STEPS = 3  # from θ⋆, at a distance of about 1/√n; each step squares the error
BATCH = 32  # data sets in memory at a time


class Size(NamedTuple):
    """How much is estimated from what.

    Attributes:
        n: data in a set.
        negatives: K.
        replications: data sets.
        redraws: sets of K negatives for each datum. The objective averages over them.
    """

    n: int
    negatives: int
    replications: int
    redraws: int = 1


def statistics(y: Float[Array, "..."]) -> Float[Array, "... 2"]:
    """ψ(y) = (y, y²)."""
    return jnp.stack([y, y**2], axis=-1)


def estimates(key: PRNGKeyArray, data: Gaussian, proposal: Gaussian, size: Size) -> Float[np.ndarray, "replications 2"]:
    """θ̂ of every data set."""
    n, negatives, replications, redraws = size
    start = jnp.asarray(data.natural, jnp.float32)

    def one(key: PRNGKeyArray) -> Float[Array, "2"]:
        data_key, proposal_key = jax.random.split(key)
        positive = data.mean + data.std * jax.random.normal(data_key, (n, 1, 1))
        negative = proposal.mean + proposal.std * jax.random.normal(proposal_key, (n, redraws, negatives))
        y = jnp.concatenate([jnp.broadcast_to(positive, (n, redraws, 1)), negative], axis=-1).reshape(n * redraws, -1)
        log_q = proposal.log_prob(y)

        loss = jax.vmap(jax.grad(lambda energies, log_q: ranking_loss(energies, log_q).loss))
        psi = statistics(y)

        def newton(_: int, theta: Float[Array, "2"]) -> Float[Array, "2"]:
            # The slope of the loss in the energies is their posterior, minus one for the positive.
            slopes = loss(psi @ theta, log_q)
            weighted = slopes.at[:, 0].add(1.0)[..., None] * psi
            mean = weighted.sum(1)
            hessian = jnp.einsum("nki,nkj->ij", weighted, psi) - mean.T @ mean
            gradient = jnp.einsum("nk,nki->i", slopes, psi)
            return theta - jnp.linalg.solve(hessian, gradient)

        return jax.lax.fori_loop(0, NEWTON_STEPS, newton, start)

    run = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=BATCH))
    return np.asarray(run(jax.random.split(key, replications)), float)


def population_gradient_and_hessian(
    data: Gaussian, proposal: Gaussian, negatives: int
) -> tuple[Float[np.ndarray, "2"], Float[np.ndarray, "2 2"]]:
    """∇L and ∇²L at θ⋆ by quadrature: independent of any sample."""
    setting = problem(data, proposal)
    with jax.enable_x64(True):
        nodes = statistics(jnp.asarray(setting.y))

    def objective(theta: Float[Array, "2"]) -> Float[Array, ""]:
        return ranking_objective(setting, nodes @ theta, negatives)

    return (
        in_double_precision(jax.grad(objective))(data.natural),
        in_double_precision(jax.hessian(objective))(data.natural),
    )


def fisher_information(data: Gaussian) -> Float[np.ndarray, "2 2"]:
    """Covariance of (y, y²)."""
    mean, variance = data.mean, data.std**2
    return np.array([[variance, 2 * mean * variance], [2 * mean * variance, 4 * mean**2 * variance + 2 * variance**2]])


def moments(theta: Float[np.ndarray, "... 2"]) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Mean and variance of the density with these parameters."""
    variance = -0.5 / theta[..., 1]
    return theta[..., 0] * variance, variance


def relative_eigenvalues(measured: Float[np.ndarray, "2 2"], expected: Float[np.ndarray, "2 2"]) -> list[float]:
    """Variance measured over variance expected, in the direction where their ratio is least and where it is most."""
    root = np.linalg.inv(np.linalg.cholesky(expected))
    return np.linalg.eigvalsh(root @ measured @ root.T).tolist()
