"""Markov chains on an energy E, with p ∝ exp(+E). The kernels are blackjax's; all chains of a set move together.

Importing blackjax takes a while and starts JAX's devices, so it waits until a kernel is built.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

Energy = Callable[[Float[Array, " dim"]], Float[Array, ""]]
Points = Float[Array, "n dim"]


class Kernel(NamedTuple):
    """One Markov step of one chain. `position` reads the point off the state; `cost` is in gradient evaluations."""

    init: Callable[[Float[Array, " dim"], Energy], Any]
    step: Callable[[PRNGKeyArray, Any, Energy, Float[Array, ""]], Any]
    position: Callable[[Any], Float[Array, " dim"]]
    cost: int


class ChainResult(NamedTuple):
    """Where the chains ended, and the share of steps they accepted (1 for unadjusted kernels)."""

    y: Points
    acceptance: Float[Array, " n"]


def langevin() -> Kernel:
    """Unadjusted Langevin: y + η∇E + √(2η)·noise."""
    from blackjax.sgmcmc import diffusions

    move = diffusions.overdamped_langevin()

    def step(key: PRNGKeyArray, y: Float[Array, " dim"], energy: Energy, step_size: Any) -> tuple:
        return move(key, y, jax.grad(energy)(y), step_size), jnp.ones(())

    return Kernel(lambda y, energy: y, step, lambda y: y, cost=1)


def adjusted_langevin() -> Kernel:
    """Langevin with a Metropolis test (MALA)."""
    from blackjax.mcmc import mala

    kernel = mala.build_kernel()

    def step(key: PRNGKeyArray, state: Any, energy: Energy, step_size: Any) -> tuple:
        state, info = kernel(key, state, energy, step_size)
        return state, info.acceptance_rate

    return Kernel(mala.init, step, lambda state: state.position, cost=1)


def hamiltonian(leapfrog_steps: int) -> Kernel:
    """Unadjusted HMC: fresh momentum, then leapfrog steps; what the paper runs on Push-T."""
    from blackjax.mcmc import hmc, integrators, metrics, trajectory

    def step(key: PRNGKeyArray, state: hmc.HMCState, energy: Energy, step_size: Any) -> tuple:
        metric = metrics.default_metric(jnp.ones_like(jnp.asarray(state.position)))
        integrate = trajectory.static_integration(integrators.velocity_verlet(energy, metric.kinetic_energy))
        momentum: Any = metric.sample_momentum(key, state.position)
        start = integrators.IntegratorState(state.position, momentum, state.logdensity, state.logdensity_grad)
        end = integrate(start, step_size, leapfrog_steps)
        return hmc.HMCState(end.position, end.logdensity, end.logdensity_grad), jnp.ones(())

    return Kernel(hmc.init, step, lambda state: state.position, cost=leapfrog_steps)


def adjusted_hamiltonian(leapfrog_steps: int) -> Kernel:
    """HMC with a Metropolis test."""
    from blackjax.mcmc import hmc

    kernel = hmc.build_kernel()

    def step(key: PRNGKeyArray, state: hmc.HMCState, energy: Energy, step_size: Any) -> tuple:
        state, info = kernel(key, state, energy, step_size, jnp.ones_like(jnp.asarray(state.position)), leapfrog_steps)
        return state, info.acceptance_rate

    return Kernel(hmc.init, step, lambda state: state.position, cost=leapfrog_steps)


KERNELS: dict[str, Callable[[int], Kernel]] = {
    "langevin": lambda leapfrog_steps: langevin(),
    "mala": lambda leapfrog_steps: adjusted_langevin(),
    "hmc": hamiltonian,
    "adjusted-hmc": adjusted_hamiltonian,
}


def run_chains(
    kernel: Kernel, energy: Energy, start: Points, key: PRNGKeyArray, step_sizes: Float[Array, " steps"]
) -> ChainResult:
    """Run one chain from each start, a step for each step size (annealing is a decreasing sequence)."""

    def step(states: Any, at: tuple) -> tuple[Any, Float[Array, " n"]]:
        key, step_size = at
        keys = jax.random.split(key, start.shape[0])
        return jax.vmap(lambda key, state: kernel.step(key, state, energy, step_size))(keys, states)

    states = jax.vmap(lambda y: kernel.init(y, energy))(start)
    states, acceptance = jax.lax.scan(step, states, (jax.random.split(key, len(step_sizes)), step_sizes))
    return ChainResult(jax.vmap(kernel.position)(states), acceptance.mean(0))


def annealed(first: float, last: float, steps: int) -> Float[Array, " steps"]:
    """Step sizes from the first to the last, by equal factors."""
    return jnp.geomspace(first, last, steps)
