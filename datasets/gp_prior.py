"""The constant-velocity Gaussian process that smooth paths between two fixed ends are drawn from.

The state of waypoint i is (p_i, v_i). White noise of density σ_gp² on the acceleration gives

    x_{i+1} = Φ x_i + noise,    Φ = [[1, dt], [0, 1]],    Q⁻¹ = σ_gp⁻² [[12/dt³, −6/dt²], [−6/dt², 4/dt]]

and soft endpoint conditions close the chain. The precision of all states is Λ = AᵀWA, where A stacks one row block for
the start, one per transition and one for the goal, and W holds their weights. Λ knows neither start nor goal, and x and
y do not mix: one factorisation serves every scene and both coordinates. The mean is the straight line at constant
speed.

Everything here is float64: Λ is so badly conditioned that a float32 factorisation is off by up to 2 %.
"""

import functools

import numpy as np
from jaxtyping import Float64

DURATION = 1.0  # of a whole path; speeds and σ_gp are in its units


def state_precision(
    n: int, dt: float, sigma: float, end_sigma: float, end_velocity_sigma: float
) -> Float64[np.ndarray, "2n 2n"]:
    """Λ of one coordinate; states are ordered (p_0, v_0, p_1, v_1, …)."""
    transition = np.array([[1.0, dt], [0.0, 1.0]])
    step_weight = np.array([[12 / dt**3, -6 / dt**2], [-6 / dt**2, 4 / dt]]) / sigma**2
    end_weight = np.diag([end_sigma**-2.0, end_velocity_sigma**-2.0])
    rows = np.zeros((n + 1, 2, n, 2))
    weights = np.zeros((n + 1, 2, n + 1, 2))
    rows[0, :, 0] = rows[n, :, n - 1] = np.eye(2)
    weights[0, :, 0] = weights[n, :, n] = end_weight
    for i in range(n - 1):
        rows[i + 1, :, i], rows[i + 1, :, i + 1] = -transition, np.eye(2)
        weights[i + 1, :, i + 1] = step_weight
    a, w = rows.reshape(2 * (n + 1), 2 * n), weights.reshape(2 * (n + 1), 2 * (n + 1))
    return a.T @ w @ a


def position_covariance(
    n: int, dt: float, sigma: float, end_sigma: float, end_velocity_sigma: float
) -> Float64[np.ndarray, "n n"]:
    """The position block of Λ⁻¹."""
    return np.linalg.inv(state_precision(n, dt, sigma, end_sigma, end_velocity_sigma))[::2, ::2]


@functools.cache
def conditional_covariance(
    n: int, dt: float, sigma: float, end_sigma: float = 1e-3, end_velocity_sigma: float = 3.0
) -> Float64[np.ndarray, "n-2 n-2"]:
    """Covariance of the inner waypoints' deviations from the straight line, given both end positions exactly.

    The soft condition (`end_sigma`) alone would leave a path a millimetre off the place it was asked for, and a
    demonstration has to begin where the robot is.
    """
    covariance = position_covariance(n, dt, sigma, end_sigma, end_velocity_sigma)
    ends, inner = np.array([0, n - 1]), slice(1, n - 1)
    cross = covariance[inner][:, ends]
    conditional = covariance[inner, inner] - cross @ np.linalg.solve(covariance[np.ix_(ends, ends)], cross.T)
    return (conditional + conditional.T) / 2


def sampling_factor(covariance: Float64[np.ndarray, "n-2 n-2"]) -> Float64[np.ndarray, "n n"]:
    """L with L Lᵀ = covariance: L·(standard normal) is a deviation from the line. The ends' rows are zero."""
    return np.pad(np.linalg.cholesky(covariance), 1)


def smoothness_root(
    covariance: Float64[np.ndarray, "n-2 n-2"], gp_weight: float, step_weight: float
) -> Float64[np.ndarray, "n n"]:
    """U such that ‖U·deviation‖² is the part of a path's cost that obstacles have no say in, up to a constant.

    That is `gp_weight` times the squared Mahalanobis length plus `step_weight` times the sum of squared steps. With
    fixed ends the latter is the straight line's plus that of the deviation alone: the cross term telescopes to zero.
    """
    differences = np.diff(np.eye(len(covariance) + 2), axis=0)[:, 1:-1]
    quadratic = gp_weight * np.linalg.inv(covariance) + step_weight * differences.T @ differences
    return np.pad(np.linalg.cholesky((quadratic + quadratic.T) / 2).T, 1)


def smoothing(root: Float64[np.ndarray, "n n"], strength: float) -> Float64[np.ndarray, "n n"]:
    """M such that deviation + M·deviation is smoother: it minimises strength·‖U·new‖² + ‖new − deviation‖²."""
    identity = np.eye(len(root))
    return np.linalg.inv(identity + strength * root.T @ root) - identity
