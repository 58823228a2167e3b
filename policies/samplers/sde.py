"""The stochastic stage of interpolating energy models: a flow and a score drive a diffusion to t = 1."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

Points = Float[Array, "n dim"]


def solve(
    drift: Callable[[Float[Array, ""], Points], Points],
    start: Points,
    key: PRNGKeyArray,
    times: Float[Array, " times"],
    noise: float,
) -> Points:
    """dy = drift(t, y) dt + √(2·noise) dW over the grid, by Euler–Maruyama.

    With drift v + noise·∇E the law of y_t is that of the flow v alone when E is the log-density at every t, and errors
    of v are corrected by E.
    """

    def step(y: Points, at: tuple) -> tuple[Points, None]:
        key, t0, t1 = at
        dt = t1 - t0
        y = y + dt * drift(t0, y)
        return y + jnp.sqrt(2.0 * noise * dt) * jax.random.normal(key, y.shape) if noise else y, None

    keys = jax.random.split(key, len(times) - 1)
    return jax.lax.scan(step, start, (keys, times[:-1], times[1:]))[0]
