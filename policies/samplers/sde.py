"""The stochastic stage of interpolating energy models: a flow and a score drive a diffusion to t = 1."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

Points = Float[Array, "n dim"]


def solve(
    drift: Callable[[Any, Points], Points],
    start: Points,
    key: PRNGKeyArray,
    times: Float[Array, " times"],
    prepared: Any,
    noise: float,
) -> Points:
    """dy = drift dt + √(2·noise) dW over the grid, by Euler–Maruyama; `drift` takes what is `prepared` of each time.

    With drift v + noise·∇E the law of y_t is that of the flow v alone when E is the log-density at every t, and errors
    of v are corrected by E.
    """

    def step(y: Points, at: tuple) -> tuple[Points, None]:
        key, width, here = at
        y = y + width * drift(here, y)
        return y + jnp.sqrt(2.0 * noise * width) * jax.random.normal(key, y.shape) if noise else y, None

    widths = jnp.diff(times)
    spans = (jax.random.split(key, len(widths)), widths, jax.tree.map(lambda values: values[:-1], prepared))
    return jax.lax.scan(step, start, spans)[0]
