"""The GP prior against its closed form: an integrated Wiener process, conditioned on its end."""

import jax.numpy as jnp
import numpy as np
import pytest

from rnce.datasets.gp_prior import conditional_covariance, position_covariance, sampling_factor, smoothness_root
from rnce.datasets.stochgpmp import straight_line

N, DT, SIGMA, END, END_V = 50, 1 / 49, 2.0, 1e-3, 3.0


def wiener_covariance(n: int, dt: float, sigma: float, end: float, end_v: float) -> np.ndarray:
    """Covariance of (p_0 … p_{n−1}, v_{n−1}) before the goal is seen: kernels, no chain of states."""
    t = dt * np.arange(n)
    short, long = np.minimum.outer(t, t), np.maximum.outer(t, t)
    position = end**2 + end_v**2 * np.outer(t, t) + sigma**2 * (short**2 * long / 2 - short**3 / 6)
    last = t[-1]
    # cov(p(t), v(T)) = t σ_v² + σ² ∫₀ᵗ (t − u) du;  var v(T) = σ_v² + σ² T
    with_velocity = end_v**2 * t + sigma**2 * t**2 / 2
    velocity = end_v**2 + sigma**2 * last
    return np.block([[position, with_velocity[:, None]], [with_velocity[None], np.array([[velocity]])]])


def conditioned(covariance: np.ndarray, seen: list[int], noise: np.ndarray) -> np.ndarray:
    gain = covariance[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)] + noise)
    return covariance - gain @ covariance[seen]


@pytest.mark.parametrize("n", [3, 13, 50])
def test_covariance_is_the_closed_form(n):
    prior = wiener_covariance(n, DT, SIGMA, END, END_V)
    expected = conditioned(prior, [n - 1, n], np.diag([END**2, END_V**2]))[:n, :n]
    got = position_covariance(n, DT, SIGMA, END, END_V)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())


def test_conditioning_on_both_ends_is_the_closed_form():
    prior = wiener_covariance(N, DT, SIGMA, END, END_V)
    posterior = conditioned(prior, [N - 1, N], np.diag([END**2, END_V**2]))[:N, :N]
    expected = conditioned(posterior, [0, N - 1], np.zeros((2, 2)))[1:-1, 1:-1]
    got = conditional_covariance(N, DT, SIGMA, END, END_V)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-8 * expected.max())


def test_float32_draws_have_the_covariance():
    covariance = conditional_covariance(N, DT, SIGMA, END, END_V)
    factor = sampling_factor(covariance).astype(np.float32)
    assert not factor[[0, -1]].any()
    np.testing.assert_allclose((factor @ factor.T)[1:-1, 1:-1], covariance, atol=1e-6 * covariance.max())


def test_mean_is_the_constant_velocity_line():
    line = straight_line(jnp.array([-0.5, 0.25]), jnp.array([0.75, -1.0]), 6)
    expected = [[-0.5, 0.25], [-0.25, 0.0], [0.0, -0.25], [0.25, -0.5], [0.5, -0.75], [0.75, -1.0]]
    np.testing.assert_allclose(line, expected, atol=1e-6)


def test_smoothness_is_what_it_stands_for():
    covariance = conditional_covariance(N, DT, 1.0, END, END_V)
    rng = np.random.default_rng(0)
    deviation = np.zeros(N)
    deviation[1:-1] = 0.1 * rng.standard_normal(N - 2)
    line = np.linspace(-0.3, 0.9, N)
    mahalanobis = deviation[1:-1] @ np.linalg.solve(covariance, deviation[1:-1])
    steps = np.sum(np.diff(line + deviation) ** 2) - np.sum(np.diff(line) ** 2)
    got = np.sum((smoothness_root(covariance, 0.5, 500.0) @ deviation) ** 2)
    np.testing.assert_allclose(got, 0.5 * mahalanobis + 500.0 * steps, rtol=1e-6)
