"""Optimality for any proposal: the same parameters from a good, a poor and a shifted one, at growing variance.

By quadrature ∇L(θ⋆) = 0 for all of them. Estimates from n data scatter around θ⋆ with an error that falls as 1/√n.
"""

from typing import Any

import jax
import numpy as np

from rnce.eval.statistics import normal_interval
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
PROPOSALS = {
    "good: the data's own": DATA,
    "poor: five times as wide": Gaussian(1.0, 4.0),
    "shifted: two standard deviations": Gaussian(-0.6, 0.8),
}
SIZES = tuple(Size(n, negatives=4, replications=1024) for n in (250, 1000, 4000))
SHOWN = 200  # estimates in the picture


def any_proposal(seed: int = 0, sizes: tuple[Size, ...] = SIZES) -> dict[str, Any]:
    """Mean of the estimates, ∇L(θ⋆) by quadrature, and how much the proposal costs in variance."""
    rows = [_row(seed + i, name, proposal, sizes) for i, (name, proposal) in enumerate(PROPOSALS.items())]
    return {"truth": {"mean": DATA.mean, "std": DATA.std}, **sizes[-1]._asdict(), "rows": rows}


def _row(seed: int, name: str, proposal: Gaussian, sizes: tuple[Size, ...]) -> dict[str, Any]:
    size, information = sizes[-1], fisher_information(DATA)
    gradient, hessian = population_gradient_and_hessian(DATA, proposal, size.negatives)
    keys = jax.random.split(jax.random.key(seed), len(sizes))
    found = [estimates(key, DATA, proposal, size) for key, size in zip(keys, sizes)]
    mean, variance = moments(found[-1])
    std = np.sqrt(variance)
    covariance, expected = size.n * np.cov(found[-1].T), -np.linalg.inv(hessian)
    slope = DATA.std**2 * np.array([1.0, 2 * DATA.mean])  # of the mean in θ
    return {
        "proposal": name,
        "proposal_mean": proposal.mean,
        "proposal_std": proposal.std,
        "gradient_at_truth": float(np.abs(gradient).max()),
        "mean": float(mean.mean()),
        "mean_ci95": list(normal_interval(mean)),
        "std": float(std.mean()),
        "std_ci95": list(normal_interval(std)),
        "rmse_of_mean_by_n": {
            str(size.n): float(np.sqrt(np.mean((moments(theta)[0] - DATA.mean) ** 2)))
            for size, theta in zip(sizes, found)
        },
        "asymptotic_variance_of_mean": float(slope @ expected @ slope),
        "variance_over_mle": float(np.trace(covariance @ information) / 2),
        "variance_over_mle_expected": float(np.trace(expected @ information) / 2),
        "variance_over_expected": relative_eigenvalues(covariance, expected),
        "means": mean[:SHOWN],
        "stds": std[:SHOWN],
    }
