"""Population ranking objectives in one dimension, exactly: no samples, for any number of negatives.

The objective needs E log S of S = e^{f(y₀)} + … + e^{f(y_K)} with y₀ from the data and the others from the proposal.
From log S = ∫₀^∞ (e^{−s} − e^{−sS}) ds/s and independence follows

    E log S = ∫ (exp(−e^u) − A(e^u)·B(e^u)^K) du,    A(s) = E_p exp(−s·e^f),  B(s) = E_q exp(−s·e^f),

two nested one-dimensional integrals, which the trapezoidal rule gives to rounding. In double precision, and
differentiable: gradients and Hessians of the population objective come from automatic differentiation.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

HALF_RANGE = 45.0  # of u: e^±45 leaves nothing at either end for logits below about ±20
STEP = 0.1


class Gaussian(NamedTuple):
    """A normal density on the line."""

    mean: float
    std: float

    def log_prob(self, y: Float[Any, "..."]) -> Float[Any, "..."]:
        """Log-density; takes and returns numpy or jax arrays."""
        return -0.5 * ((y - self.mean) / self.std) ** 2 - np.log(self.std * np.sqrt(2 * np.pi))

    @property
    def natural(self) -> Float[np.ndarray, "2"]:
        """θ of the energy θ₁y + θ₂y² that has this density."""
        return np.array([self.mean, -0.5]) / self.std**2


class Problem(NamedTuple):
    """Data and proposal on common quadrature nodes."""

    y: Float[np.ndarray, " nodes"]
    data: Float[np.ndarray, " nodes"]  # weights that sum to one
    proposal: Float[np.ndarray | Array, " nodes"]
    log_q: Float[np.ndarray | Array, " nodes"]


def problem(data: Gaussian, proposal: Gaussian, nodes: int = 401, reach: float = 9.0) -> Problem:
    """Evenly spaced nodes `reach` standard deviations beyond both densities: spectrally accurate for Gaussians."""
    low = min(g.mean - reach * g.std for g in (data, proposal))
    high = max(g.mean + reach * g.std for g in (data, proposal))
    y = np.linspace(low, high, nodes)
    return Problem(y, normalized(data.log_prob(y)), normalized(proposal.log_prob(y)), proposal.log_prob(y))


def uniform_problem(data: Gaussian, half_width: float, nodes: int = 801) -> Problem:
    """Data cut off at the ends of an interval, and a uniform proposal on it."""
    y = np.linspace(-half_width, half_width, nodes)
    flat = np.full(nodes, -np.log(2 * half_width))
    return Problem(y, normalized(data.log_prob(y)), normalized(flat), flat)


def normalized(log_density: Float[np.ndarray, " nodes"]) -> Float[np.ndarray, " nodes"]:
    """Quadrature weights that sum to one, from a log-density at evenly spaced nodes."""
    weights = np.exp(log_density)
    return weights / weights.sum()


def ranking_objective(
    problem: Problem, energies: Float[Array, " nodes"], negatives: int, correction: bool = True
) -> Float[Array, ""]:
    """L of R-NCE for energies at the nodes; without the correction, of IBC. Call it in double precision."""
    logits = energies - jnp.where(correction, problem.log_q, 0.0)
    centre = problem.data @ logits
    u = jnp.arange(-HALF_RANGE, HALF_RANGE, STEP)
    decay = jnp.exp(-jnp.exp(u[:, None] + logits - centre))
    integrand = jnp.exp(-jnp.exp(u)) - (decay @ problem.data) * (decay @ problem.proposal) ** negatives
    return -STEP * jnp.sum(integrand)  # E f(y₀) − E log S, where the centre cancels


def in_double_precision(function: Callable[..., Array]) -> Callable[..., np.ndarray]:
    """The same function, compiled for and run in double precision, from and to numpy."""
    compiled = jax.jit(function)

    def call(*args: Any) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(compiled(*(jnp.asarray(arg, float) for arg in args)))

    return call
