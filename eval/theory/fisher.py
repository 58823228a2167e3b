"""Relative Fisher information of an R-NCE estimate of N(μ, σ²) when the proposal is the data.

n·FI has the mean (1 + 1/K)·tr(I⁻¹J). With ψ = (y, y²):

    I⁻¹ = [4μ²σ² + 2σ⁴, −2μσ²; −2μσ², σ²] / 2σ⁶,    J = [1, 2μ; 2μ, 4μ² + 4σ²],    tr(I⁻¹J) = 3/σ².

The paper states 3/σ² + 4μ²/σ⁴. That is the sum over the diagonals alone; the off-diagonal products are −4μ²/σ⁴. A shift
of y changes neither of two densities' scores, so no dependence on μ was to be expected.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from rnce.eval.statistics import normal_interval
from rnce.eval.theory.estimation import Size, estimates, moments
from rnce.eval.theory.objective import Gaussian, problem

DENSITIES = (Gaussian(0.0, 1.0), Gaussian(1.0, 0.8), Gaussian(2.0, 1.0), Gaussian(0.5, 2.0))
SIZE = Size(n=1000, negatives=4, replications=2048)


def relative_fisher(seed: int = 0, size: Size = SIZE) -> dict[str, Any]:
    """The trace by quadrature, from estimates, and as the paper states it."""
    rows = []
    for number, data in enumerate(DENSITIES):
        theta = estimates(jax.random.key(seed + number), data, data, size)
        simulated = size.n * relative_information(data, theta) / (1 + 1 / size.negatives)
        variance = data.std**2
        rows.append(
            {
                "mean": data.mean,
                "std": data.std,
                "trace": trace_by_quadrature(data),
                "simulated": float(simulated.mean()),
                "simulated_ci95": list(normal_interval(simulated)),
                "closed_form": 3 / variance,
                "paper": 3 / variance + 4 * data.mean**2 / variance**2,
            }
        )
    return {**size._asdict(), "rows": rows}


def trace_by_quadrature(data: Gaussian) -> float:
    """tr(I⁻¹J) from the definitions of I and J."""
    nodes = problem(data, data)
    psi = np.stack([nodes.y, nodes.y**2])
    slope = np.stack([np.ones_like(nodes.y), 2 * nodes.y])
    centred = psi - (psi @ nodes.data)[:, None]
    information, smoothness = (centred * nodes.data) @ centred.T, (slope * nodes.data) @ slope.T
    return float(np.trace(np.linalg.solve(information, smoothness)))


def relative_information(data: Gaussian, theta: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    """E_p |∇ log p/p_θ|² for each estimate, in closed form."""
    mean, variance = moments(theta)
    slope = 1 / variance - 1 / data.std**2
    return slope**2 * data.std**2 + ((data.mean - mean) / variance) ** 2
