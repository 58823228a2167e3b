import numpy as np
import pytest
from scipy.stats import gaussian_kde

from rnce.eval.bhattacharyya import GRID, bhattacharyya, density_on_grid, minimum_bhattacharyya


def correlated(rng, n, mean, covariance):
    return rng.multivariate_normal(mean, covariance, size=n)


@pytest.mark.parametrize("covariance", [[[1, 0], [0, 1]], [[0.6, 0.5], [0.5, 0.6]], [[1, -0.999], [-0.999, 1]]])
def test_density_equals_scipy(covariance):
    samples = correlated(np.random.default_rng(0), 500, [1, -1], covariance)
    grid = np.linspace(-4, 4, 33)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij")).reshape(2, -1)
    expected = gaussian_kde(samples.T)(points).reshape(33, 33)
    np.testing.assert_allclose(density_on_grid(samples, grid), expected, rtol=1e-6, atol=1e-12)


def test_closed_form_of_two_gaussians():
    rng = np.random.default_rng(1)
    n, shift = 8192, 1.0
    a, b = (correlated(rng, n, [x, 0.0], [[0.5, 0.1], [0.1, 0.5]]) for x in (0.0, shift))
    covariance = np.array([[0.5, 0.1], [0.1, 0.5]]) * (1 + n ** (-1 / 3))  # the kernel widens both
    expected = np.exp(-(shift**2) * np.linalg.inv(covariance)[0, 0] / 8)
    assert bhattacharyya(a, b) == pytest.approx(expected, abs=0.01)


def test_equal_sets_give_one_and_far_sets_give_nothing():
    rng = np.random.default_rng(2)
    a, b = (correlated(rng, 2000, [x, x], np.eye(2) * 0.05) for x in (-2, 2))
    assert bhattacharyya(a, a) == pytest.approx(1, abs=1e-6)
    assert bhattacharyya(a, b) < 1e-6
    assert minimum_bhattacharyya([(a, a), (a, b)]) < 1e-6


def test_grid_is_the_papers():
    assert (GRID.size, GRID[0], GRID[-1]) == (256, -4, 4)


@pytest.mark.parametrize("bad", [np.zeros((3,)), np.zeros((5, 3)), np.full((5, 2), np.nan)])
def test_bad_samples_are_named(bad):
    with pytest.raises(ValueError, match="samples_b"):
        bhattacharyya(np.random.default_rng(0).normal(size=(10, 2)), bad)
