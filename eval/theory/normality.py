"""Asymptotic normality of R-NCE estimates, and the law of the KL divergence that follows from it.

Two readings of the objective give two variances. With K negatives drawn once for each datum, as training does,
n·Cov(θ̂) → −∇²L⁻¹, which is (1 + 1/K)·I⁻¹ where proposal and data are equal. The paper writes the objective with
the negatives averaged out; its estimate is better still: with r draws for each datum the factor is 1 + 1/(rK), and in
the limit that of maximum likelihood.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from scipy.stats import chi2, kstest

from rnce.eval.theory.estimation import (
    Size,
    estimates,
    fisher_information,
    moments,
    population_gradient_and_hessian,
    relative_eigenvalues,
)
from rnce.eval.theory.objective import Gaussian

DATA = Gaussian(1.0, 0.8)
SHIFTED = Gaussian(0.2, 1.2)
PARAMETERS = 2
PROBABILITIES = np.linspace(0.0025, 0.9975, 200)


def normality(
    seed: int = 0,
    negatives: tuple[int, ...] = (1, 4, 16),
    n: int = 1000,
    replications: int = 4096,
    redraws: int = 16,
) -> dict[str, Any]:
    """Covariances of the estimates beside the Hessian's, and the distribution of n·KL beside the χ² law."""
    inverse_information = np.linalg.inv(fisher_information(DATA))
    rows = []
    for number, count in enumerate(negatives):
        size = Size(n, count, replications)
        theta = estimates(jax.random.key(seed + number), DATA, DATA, size)
        covariance = n * np.cov(theta.T)
        expected = -np.linalg.inv(population_gradient_and_hessian(DATA, DATA, count)[1])
        law = chi2(PARAMETERS, scale=0.5 * (1 + 1 / count))
        scaled_kl = n * kl(DATA, theta)
        test = kstest(scaled_kl, law.cdf)
        rows.append(
            {
                "K": count,
                "covariance": covariance,
                "minus_inverse_hessian": expected,
                "variance_over_minus_inverse_hessian": relative_eigenvalues(covariance, expected),
                "variance_over_inverse_information": float(np.trace(covariance @ fisher_information(DATA)) / 2),
                "paper": 1 + 1 / count,
                "hessian_against_paper": float(np.abs(expected / (1 + 1 / count) / inverse_information - 1).max()),
                "kl_mean": float(scaled_kl.mean()),
                "kl_mean_paper": float(law.mean()),
                "ks_statistic": float(test.statistic),
                "ks_p_value": float(test.pvalue),
                "kl_quantiles": np.quantile(scaled_kl, PROBABILITIES),
                "kl_quantiles_paper": law.ppf(PROBABILITIES),
            }
        )
    return {
        "n": n,
        "replications": replications,
        "probabilities": PROBABILITIES,
        "rows": rows,
        "shifted": _shifted(seed + 10, n, replications),
        "redraws": _redraws(seed + 20, n, replications // 4, redraws),
    }


def _shifted(seed: int, n: int, replications: int, negatives: int = 4) -> dict[str, Any]:
    """A proposal that is not the data's: only the Hessian knows the variance."""
    theta = estimates(jax.random.key(seed), DATA, SHIFTED, Size(n, negatives, replications))
    expected = -np.linalg.inv(population_gradient_and_hessian(DATA, SHIFTED, negatives)[1])
    return {"K": negatives, "variance_over_minus_inverse_hessian": relative_eigenvalues(n * np.cov(theta.T), expected)}


def _redraws(seed: int, n: int, replications: int, redraws: int) -> dict[str, Any]:
    """The objective with the negatives (nearly) averaged out, K = 1."""
    theta = estimates(jax.random.key(seed), DATA, DATA, Size(n, 1, replications, redraws))
    relative = np.trace(n * np.cov(theta.T) @ fisher_information(DATA)) / 2
    return {
        "K": 1,
        "draws_for_each_datum": redraws,
        "variance_over_inverse_information": float(relative),
        "expected": 1 + 1 / redraws,
        "paper": 2.0,
    }


def kl(data: Gaussian, theta: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    """KL divergence of the data from each estimate."""
    mean, variance = moments(theta)
    ratio = data.std**2 / variance
    return 0.5 * (ratio - 1 - np.log(ratio) + (data.mean - mean) ** 2 / variance)
