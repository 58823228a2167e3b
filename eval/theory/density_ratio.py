"""The optimum of IBC is the density ratio p/q, that of R-NCE the density p: two energies, one non-uniform proposal.

Data are a mixture of five Gaussians in the plane, negatives come from a broad Gaussian beside its middle. Both networks
see the same batches; the only difference is whether the ranking subtracts log q.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from rnce.eval.bhattacharyya import bhattacharyya_of_densities
from rnce.eval.theory.mixture import Mixture
from rnce.policies.losses import ranking_loss
from rnce.policies.networks import ResidualMLP
from rnce.policies.networks.functional import Network, Params
from rnce.policies.recipe import Optimizer

GRID = np.linspace(-4.0, 4.0, 128)
NEGATIVES, BATCH = 31, 128
SHOWN = 300  # points in the picture


def data() -> Mixture:
    """Five components on a circle, of unequal weight."""
    angles = 2 * np.pi * np.arange(5) / 5
    means = 1.8 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    weights = np.array([0.3, 0.1, 0.25, 0.15, 0.2])
    return _isotropic(weights, means, 0.4)


def proposal() -> Mixture:
    """One broad Gaussian, off the middle: it covers the data unevenly."""
    return _isotropic(np.ones(1), np.array([[1.0, -0.5]]), 1.5)


def _isotropic(weights: np.ndarray, means: np.ndarray, std: float) -> Mixture:
    eyes = np.tile(np.eye(2), (len(means), 1, 1))
    return Mixture(
        *(jnp.asarray(value, jnp.float32) for value in (np.log(weights), means, eyes, np.full(means.shape, std)))
    )


def fit(key: PRNGKeyArray, network: Network, correction: bool, steps: int) -> Params:
    """Minimise the ranking loss over fresh batches."""
    p, q = data(), proposal()
    optimizer = Optimizer(2e-3, final_fraction=0.01).create(steps)

    def loss(params: Params, key: PRNGKeyArray) -> Float[Array, ""]:
        data_key, proposal_key = jax.random.split(key)
        negatives = q.sample(proposal_key, BATCH * NEGATIVES).reshape(BATCH, NEGATIVES, 2)
        y = jnp.concatenate([p.sample(data_key, BATCH)[:, None], negatives], axis=1)
        log_q = jax.vmap(jax.vmap(q.log_prob))(y) if correction else jnp.zeros(y.shape[:2])
        return jnp.mean(jax.vmap(ranking_loss)(jax.vmap(jax.vmap(energy(network, params)))(y), log_q).loss)

    def step(carry: tuple, key: PRNGKeyArray) -> tuple[tuple, None]:
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss)(params, key), state, params)
        return (optax.apply_updates(params, updates), state), None

    @jax.jit
    def run(key: PRNGKeyArray) -> Params:
        start_key, steps_key = jax.random.split(key)
        params = network.init(start_key)
        return jax.lax.scan(step, (params, optimizer.init(params)), jax.random.split(steps_key, steps))[0][0]

    return run(key)


def energy(network: Network, params: Params) -> Callable[[Float[Array, "2"]], Float[Array, ""]]:
    """E(y) of the fitted network; there is no context."""
    code = network.encode(params, {"features": jnp.zeros(1)})
    return lambda y: network.apply(params, code, y, jnp.ones(()))


def density_ratio(seed: int = 0, steps: int = 1200, points: int = 4096) -> dict[str, Any]:
    """How far each energy is from log p and from log p/q where the data are, and the densities that they imply."""
    p, q = data(), proposal()
    network = ResidualMLP(width=64, depth=2, context_depth=0, joint_depth=0, conditioning="input", time_width=0).create(
        {"features": (1,)}, (1, 2), "energy"
    )
    y = p.sample(jax.random.key(seed + 1), points)
    log_p, log_q = (np.asarray(jax.jit(jax.vmap(m.log_prob))(y), float) for m in (p, q))
    grid = jnp.stack(jnp.meshgrid(GRID, GRID, indexing="ij"), axis=-1).reshape(-1, 2)
    grid_p, grid_q = (np.asarray(jax.jit(jax.vmap(m.log_prob))(grid), float) for m in (p, q))
    rows, scatter = [], {}
    for method in ("ibc", "r-nce"):
        params = fit(jax.random.key(seed), network, method == "r-nce", steps)
        evaluate = jax.jit(jax.vmap(energy(network, params)))
        values, on_grid = np.asarray(evaluate(y), float), np.asarray(evaluate(grid), float)
        rows.append(
            {
                "method": method,
                "rms_from_log_ratio": _spread(values - (log_p - log_q)),
                "rms_from_log_density": _spread(values - log_p),
                "correlation_with_log_ratio": float(np.corrcoef(values, log_p - log_q)[0, 1]),
                "correlation_with_log_density": float(np.corrcoef(values, log_p)[0, 1]),
                "bc_of_energy": _coefficient(on_grid, grid_p),
                "bc_of_energy_times_proposal": _coefficient(on_grid + grid_q, grid_p),
            }
        )
        scatter[method] = (values - values.mean())[:SHOWN]
    return {
        "K": NEGATIVES,
        "steps": steps,
        "rows": rows,
        "points": np.asarray(y[:SHOWN]),
        "log_density": (log_p - log_p.mean())[:SHOWN],
        "log_ratio": (log_p - log_q - (log_p - log_q).mean())[:SHOWN],
        "energies": scatter,
    }


def _spread(difference: Float[np.ndarray, " n"]) -> float:
    """Root mean square after the best constant, which no energy knows."""
    return float(np.std(difference))


def _coefficient(log_density: Float[np.ndarray, " cells"], truth: Float[np.ndarray, " cells"]) -> float:
    """Bhattacharyya coefficient of two unnormalised log-densities on the grid."""
    shapes = []
    for values in (log_density, truth):
        density = np.exp(values - values.max()).reshape(len(GRID), -1)
        shapes.append(density / np.trapezoid(np.trapezoid(density, GRID, axis=1), GRID))
    return bhattacharyya_of_densities(shapes[0], shapes[1], GRID)
