"""IBC's bias in one dimension (the paper's Figure 1): data N(1, 1), proposal N(0, 1), energies −(y − μ)²/2.

What the objectives say of their own optimum. For R-NCE it is the data's mean, whatever the proposal. IBC's maximiser
solves E y₀ = E Σⱼ softmax(E(y))ⱼ yⱼ; for K → ∞ the right-hand side is the mean of the proposal tilted by exp(E):
N(0, 1)·exp(−(y − μ)²/2) ∝ N(μ/2, 1/2). So μ/2 = 1: IBC's population optimum goes to μ = 2.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize_scalar

from rnce.eval.theory.objective import (
    Gaussian,
    Problem,
    in_double_precision,
    problem,
    ranking_objective,
    uniform_problem,
)
from rnce.policies.losses import ranking_loss

DATA, PROPOSAL = Gaussian(1.0, 1.0), Gaussian(0.0, 1.0)
UNIFORM_HALF_WIDTH = 10.0
IBC_LIMIT = 2.0
MEANS = np.linspace(-1.0, 4.0, 51)
DEFAULT_NEGATIVES = (10, 100)


def energy(y: Float[Array | np.ndarray, "..."], mean: Float[Array, ""]) -> Float[Array, "..."]:
    """The unit-variance Gaussian family."""
    return -0.5 * jnp.square(y - mean)


def landscape(setting: Problem, negatives: int, correction: bool) -> Callable[..., np.ndarray]:
    """The population objective as a function of μ."""
    return in_double_precision(lambda mean: ranking_objective(setting, energy(setting.y, mean), negatives, correction))


def peak(objective: Callable[..., np.ndarray]) -> float:
    """Its maximiser in [−1, 4]."""
    found = minimize_scalar(lambda mean: -float(objective(mean)), bounds=(-1.0, 4.0), options={"xatol": 1e-9})
    return float(found.x)


class Draws(NamedTuple):
    """Candidate sets, the positive first, and the log q that the ranking subtracts."""

    y: Float[Array, "samples candidates"]
    log_q: Float[Array, "samples candidates"]

    def losses(self, mean: Float[Array, ""]) -> Float[Array, " samples"]:
        """The package's own ranking loss of every set."""
        return jax.vmap(ranking_loss)(energy(self.y, mean), self.log_q).loss


def draw(key: Array, samples: int, negatives: int, correction: bool) -> Draws:
    """Positives from the data, negatives from the proposal."""
    data_key, proposal_key = jax.random.split(key)
    positive = DATA.mean + DATA.std * jax.random.normal(data_key, (samples, 1))
    negative = PROPOSAL.mean + PROPOSAL.std * jax.random.normal(proposal_key, (samples, negatives))
    y = jnp.concatenate([positive, negative], axis=1)
    return Draws(y, PROPOSAL.log_prob(y) if correction else jnp.zeros_like(y))


@jax.jit
def sampled_landscape(draws: Draws, means: Float[Array, " means"]) -> tuple[Array, Array]:
    """Minus the mean loss at every μ, and its standard error."""

    def at(mean: Float[Array, ""]) -> tuple[Array, Array]:
        loss = draws.losses(mean)
        return -jnp.mean(loss), jnp.std(loss) / jnp.sqrt(len(loss))

    return jax.lax.map(at, means)


@jax.jit
def sampled_peak(draws: Draws, start: Float[Array, ""]) -> tuple[Array, Array]:
    """The maximiser on the drawn candidates by Newton's method, and its standard error by the sandwich formula."""
    curvature = jax.grad(jax.grad(lambda mean: jnp.mean(draws.losses(mean))))
    slopes = jax.jacfwd(draws.losses)
    found = jax.lax.fori_loop(0, 8, lambda _, mean: mean - jnp.mean(slopes(mean)) / curvature(mean), start)
    return found, jnp.std(slopes(found)) / curvature(found) / jnp.sqrt(len(draws.y))


def bias(seed: int = 0, negatives: tuple[int, ...] = DEFAULT_NEGATIVES, samples: int = 40_000) -> dict[str, Any]:
    """Landscapes of MLE, R-NCE and IBC, exact and sampled, and where they peak."""
    gaussian, uniform = problem(DATA, PROPOSAL), uniform_problem(DATA, UNIFORM_HALF_WIDTH)
    rows = []
    for number, (method, count) in enumerate((m, k) for k in negatives for m in ("r-nce", "ibc")):
        objective = landscape(gaussian, count, method == "r-nce")
        exact, top = np.array([objective(mean) for mean in MEANS]), peak(objective)
        draws = draw(jax.random.key(seed + number), samples, count, method == "r-nce")
        sampled, error = map(np.asarray, sampled_landscape(draws, jnp.asarray(MEANS)))
        found, found_error = sampled_peak(draws, jnp.asarray(top))
        rows.append(
            {
                "method": method,
                "K": count,
                "peak": top,
                "sampled_peak": float(found),
                "sampled_peak_ci95": [float(found - 1.96 * found_error), float(found + 1.96 * found_error)],
                "largest_difference": float(np.max(np.abs(sampled - exact))),
                "objective": exact,
                "sampled": sampled,
                "standard_error": error,
            }
        )
    return {
        "mu": MEANS,
        "mle": -0.5 * (MEANS - DATA.mean) ** 2,
        "landscapes": rows,
        "ibc_limit": IBC_LIMIT,
        "ibc_peak_by_K": {str(k): peak(landscape(gaussian, k, False)) for k in (1, 10, 100, 1000, 10_000)},
        "ibc_uniform_peak": {str(k): peak(landscape(uniform, k, False)) for k in negatives},
        "uniform_half_width": UNIFORM_HALF_WIDTH,
    }
