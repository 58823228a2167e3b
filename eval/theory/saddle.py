"""The saddle point of adversarial R-NCE, exactly: energies and proposals N(μ, 1), data N(1, 1).

max over energies of min over proposals is −log(K + 1), where both are the data.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rnce.eval.theory.objective import Gaussian, Problem, in_double_precision, normalized, ranking_objective

DATA = Gaussian(1.0, 1.0)
NEGATIVES = 9
HALF_WIDTH = 2.0  # of the grid of means around the data's


def saddle(points: int = 33, negatives: int = NEGATIVES) -> dict[str, Any]:
    """L(θ, ξ) on a grid of means that holds the data's, and its max-min."""
    means = DATA.mean + np.linspace(-HALF_WIDTH, HALF_WIDTH, points | 1)
    nodes = np.linspace(DATA.mean - 11.0, DATA.mean + 11.0, 401)
    weights = normalized(DATA.log_prob(nodes))

    def objective(energy_mean: Float[Array, ""], proposal_mean: Float[Array, ""]) -> Float[Array, ""]:
        log_q = Gaussian(0.0, 1.0).log_prob(nodes - proposal_mean)
        density = jnp.exp(log_q)
        setting = Problem(nodes, weights, density / density.sum(), log_q)
        return ranking_objective(setting, -0.5 * jnp.square(nodes - energy_mean), negatives)

    def rows(means: Float[Array, " points"]) -> Float[Array, "points points"]:
        return jax.lax.map(lambda theta: jax.lax.map(lambda xi: objective(theta, xi), means), means)

    values = in_double_precision(rows)(means)
    best, middle = int(np.argmax(values.min(axis=1))), len(means) // 2
    return {
        "K": negatives,
        "paper": -float(np.log(negatives + 1)),
        "at_the_data": float(values[middle, middle]),
        "max_min": float(values.min(axis=1).max()),
        "max_min_energy_mean": float(means[best]),
        "max_min_proposal_mean": float(means[np.argmin(values[best])]),
        "least_with_the_true_energy": float(values[middle].min()),  # over proposals: never below
        "most_with_the_true_proposal": float(values[:, middle].max()),  # over energies: never above
        "means": means,
        "objective": values,
    }
