"""Flows: integrate samples finely, their log-probability coarsely.

The divergence that a log-probability needs costs as much as `dim` evaluations of the field, so it is evaluated only at
a coarse subset of the integration times and integrated afterwards in one dimension. Works forwards (sampling) and
backwards (log-probability of given events), for interpolants and diffusion alike.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

Points = Float[Array, "n dim"]
Times = Float[Array | np.ndarray, " times"]


class Flow(NamedTuple):
    """dy/dt for a set of points that share a context, with its divergence, from a Gaussian at the first grid time.

    Both take `prepare(t)`, all that is needed of a time: the time itself, or what a network makes of it.
    """

    velocity: Callable[[Any, Points], Points]
    velocity_and_divergence: Callable[[Any, Points], tuple[Points, Float[Array, " n"]]]
    prior_std: float
    prepare: Callable[[Float[Array, ""]], Any] = lambda t: t
    clock: Callable[[Float[Array, ""]], Float[Array, ""]] = lambda t: t  # the divergence is integrated over clock(t)


class Moments(NamedTuple):
    """Times of a grid and what the flow prepared of them, once for all passes over the grid."""

    times: Times
    prepared: Any


def moments(flow: Flow, times: Times | Moments) -> Moments:
    """The flow at every time of a grid."""
    return times if isinstance(times, Moments) else Moments(times, jax.vmap(flow.prepare)(jnp.asarray(times)))


def select(at: Moments, index: slice | Int[Array | np.ndarray, " some"]) -> Moments:
    """Some of the moments, or all in another order."""
    return jax.tree.map(lambda values: values[index], at)


def integrate(
    flow: Flow,
    start: Points,
    times: Times | Moments,
    enter: Int[Array, " n"] | None = None,
    differentiable: bool = False,
) -> Float[Array, "times n dim"]:
    """The points at every time of the grid, with Heun's method.

    All points start at the first time, or each waits where it is until grid index `enter` and moves from there: points
    that belong to different times are then carried by one pass over a common grid.
    Passes that can be differentiated take longer.
    """
    # Of the loops that can be differentiated, diffrax's default keeps a gradient of all parameters per example.
    solver = diffrax.Heun(scan_kind="bounded" if differentiable else "lax")

    def velocity(t: Any, y: Points, ends: tuple[Moments, Moments]) -> Points:
        first, last = ends  # Heun's method looks at the two ends of its step only
        which = jnp.where(t == first.times, jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]))
        both = jax.tree.map(lambda *values: jnp.stack(values), first.prepared, last.prepared)
        return flow.velocity(_chosen(which, both), y)

    term = diffrax.ODETerm(velocity)
    at = moments(flow, times)
    before, after = select(at, slice(None, -1)), select(at, slice(1, None))
    ends = jax.tree.map(lambda values: values[0], (before, after))
    state = solver.init(term, ends[0].times, ends[1].times, start, ends)

    def step(carry: tuple, span: tuple) -> tuple[tuple, Points]:
        (y, state), (index, *ends) = carry, span
        moved, _, _, state, _ = solver.step(term, ends[0].times, ends[1].times, y, ends, state, made_jump=False)
        y = moved if enter is None else jnp.where((enter <= index)[:, None], moved, y)
        return (y, state), y

    spans = (jnp.arange(len(before.times)), before, after)
    _, path = jax.lax.scan(_forgetful(step), (start, state), spans)
    return jnp.concatenate([start[None], path])


def _chosen(which: Float[Array, " times"], prepared: Any) -> Any:
    """What is prepared of one of several times, by a product with a one and zeros.

    Where it is sliced or selected, the compiler does that again for every point, in each of the field's layers. A
    product reads all times, though: of many, with few points for each context, as in training, slices are faster.
    """
    highest = jax.lax.Precision.HIGHEST  # exact on accelerators too
    return jax.tree.map(lambda values: jnp.tensordot(which, values, 1, precision=highest), prepared)


def integrate_plainly(flow: Flow, start: Points, at: Moments) -> Float[Array, "times n dim"]:
    """As `integrate`, written out, for programs to be translated: diffrax's loop has operators that only XLA knows."""

    def step(y: Points, ends: tuple[Moments, Moments]) -> tuple[Points, Points]:
        width = ends[1].times - ends[0].times
        slope = flow.velocity(ends[0].prepared, y)
        y = y + 0.5 * width * (slope + flow.velocity(ends[1].prepared, y + width * slope))
        return y, y

    _, path = jax.lax.scan(step, start, (select(at, slice(None, -1)), select(at, slice(1, None))))
    return jnp.concatenate([start[None], path])


def divergences_along(flow: Flow, path: Float[Array, "times n dim"], times: Times | Moments) -> Float[Array, "times n"]:
    """The divergence at each point of a path."""
    at_one = _forgetful(lambda at: flow.velocity_and_divergence(at[0], at[1])[1])
    return jax.lax.map(at_one, (moments(flow, times).prepared, path))


def _forgetful(step: Callable) -> Callable:
    """Differentiated, a step is computed again instead of keeping the field's hidden layers of all times in memory."""
    return jax.checkpoint(step, prevent_cse=False)


def cumulative_integral(values: Float[Array, "times n"], times: Times) -> Float[Array, "times n"]:
    """∫ from the first time to each time, by the cubic through the two points on either side of each interval.

    Fourth-order on any grid at the price of the trapezoidal rule. What comes after a time never matters to it: the
    interval that ends there takes the parabola through the point before, or a line where there is none.
    """
    width = jnp.diff(times)[:, None]
    line = 0.5 * (values[1:] + values[:-1]) * width
    nothing = jnp.zeros_like(values[:1])
    if len(times) == 2:
        return jnp.concatenate([nothing, line])
    bend = jnp.diff(jnp.diff(values, axis=0) / width, axis=0) / (times[2:] - times[:-2])[:, None]  # half of f″
    before, after = jnp.concatenate([bend[:1], bend]), jnp.concatenate([bend, bend[-1:]])
    # The cubic is a mean of the parabolas through the point before and the point after.
    around = jnp.concatenate([times[:1], times, times[-1:]])
    middle = 0.5 * (times[1:] + times[:-1])
    share = ((middle - around[:-3]) / (around[3:] - around[:-3]))[:, None]
    cubic = line - (before + share * (after - before)) * width**3 / 6.0
    last = (line - before * width**3 / 6.0).at[0].set(line[0])
    return jnp.concatenate([nothing, jnp.concatenate([nothing, jnp.cumsum(cubic, axis=0)[:-1]]) + last])


def prior_log_prob(flow: Flow, z: Points) -> Float[Array, " n"]:
    """Log-density of the Gaussian at the noise end."""
    return jax.scipy.stats.norm.logpdf(z, scale=flow.prior_std).sum(-1)


def sample(flow: Flow, key: PRNGKeyArray, shape: tuple[int, int], times: Times) -> Points:
    """Points at the last time of the grid."""
    return integrate(flow, flow.prior_std * jax.random.normal(key, shape), moments(flow, times))[-1]


def sample_and_log_prob(
    flow: Flow, key: PRNGKeyArray, shape: tuple[int, int], times: Times, divergences: int
) -> tuple[Points, Float[Array, " n"]]:
    """Points at the last time of the grid and their log-probabilities, on two time scales."""
    return carry(flow, jax.random.normal(key, shape), times, divergences)


def carry(
    flow: Flow, noise: Points, times: Times, divergences: int, integrate: Callable = integrate
) -> tuple[Points, Float[Array, " n"]]:
    """Where the flow carries standard normal noise, and the log-probabilities there."""
    start, at = flow.prior_std * noise, moments(flow, times)
    path = integrate(flow, start, at)
    return path[-1], prior_log_prob(flow, start) - _integral(flow, path, at, divergences)


def log_prob(flow: Flow, y: Points, times: Times, divergences: int) -> Float[Array, " n"]:
    """Log-probability of given points at the last time of the grid, by running the flow backwards."""
    at = moments(flow, times)
    back = integrate(flow, y, select(at, slice(None, None, -1)))
    return prior_log_prob(flow, back[-1]) - _integral(flow, back[::-1], at, divergences)


def _integral(flow: Flow, path: Float[Array, "times n dim"], at: Moments, divergences: int) -> Float[Array, " n"]:
    index, weights = quadrature(flow, at.times, divergences)
    prepared = select(at, index).prepared

    def divergence(here: tuple[Array, Points]) -> Float[Array, " n"]:  # as `divergences_along`, but at few times
        which, points = here
        return flow.velocity_and_divergence(_chosen(which, prepared), points)[1]

    return jnp.asarray(weights) @ jax.lax.map(divergence, (jnp.eye(len(index)), path[index]))


FEW = 6  # points for which one polynomial serves the whole grid: more, snapped to a grid, gain nothing


def quadrature(
    flow: Flow, times: Times, points: int
) -> tuple[Int[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Which times of a grid, and with what weights, give the integral of a function over the whole grid.

    A few points are those nearest to Gauss's on the flow's clock, with the weights of the polynomial through them: two
    such divergences rank better than four spread evenly, because a flow's divergence changes fastest at its ends. Many
    are spread evenly over the grid, which is fine where the flow is, and joined by cubics.
    """
    with jax.ensure_compile_time_eval():  # a grid is known before anything is compiled
        clock, rate = map(np.asarray, jax.vmap(jax.value_and_grad(flow.clock))(jnp.asarray(times)))
        if points > FEW:
            index = np.unique(np.linspace(0, len(clock) - 1, points).round().astype(int))
            weights = np.asarray(cumulative_integral(jnp.eye(len(index)), jnp.asarray(clock[index]))[-1])
            return index, weights / rate[index]
    half = (float(clock[-1]) - float(clock[0])) / 2
    on_grid = (clock.astype(float) - clock[0]) / half - 1.0
    gauss, _ = np.polynomial.legendre.leggauss(min(points, len(clock)))
    index = np.unique(np.abs(on_grid[:, None] - gauss).argmin(axis=0))
    basis = np.polynomial.legendre.legvander(on_grid[index], len(index) - 1)
    integrals = np.zeros(len(index))
    integrals[0] = 2.0  # of Legendre's polynomials
    return index, (half * np.linalg.solve(basis.T, integrals) / rate[index]).astype(np.float32)
