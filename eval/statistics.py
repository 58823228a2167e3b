"""Means with 95 % intervals, and the difference of two policies on the same environments.

Rollouts of one environment share its start and are not independent. Every figure therefore has two intervals: the
paper's, which treats all episodes as independent, and one from a bootstrap that draws whole environments.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

RESAMPLES = 10_000
_Z95 = float(stats.norm.ppf(0.975))


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def normal_interval(values: np.ndarray) -> Interval:
    """Mean ± 1.96 standard errors, the paper's interval. A single value has no spread and gives an unbounded one."""
    values = _finite(values)
    if len(values) < 2:
        return Interval(-np.inf, np.inf)
    half = _Z95 * float(values.std(ddof=1)) / np.sqrt(len(values))
    return Interval(float(values.mean() - half), float(values.mean() + half))


def clopper_pearson(successes: int, trials: int) -> Interval:
    """The exact binomial interval, which the paper draws per environment."""
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"successes must lie in 0 … trials, got {successes} of {trials}")
    low = 0.0 if successes == 0 else float(stats.beta.ppf(0.025, successes, trials - successes + 1))
    high = 1.0 if successes == trials else float(stats.beta.ppf(0.975, successes + 1, trials - successes))
    return Interval(low, high)


def bootstrap_interval(values: np.ndarray, groups: np.ndarray, resamples: int = RESAMPLES) -> Interval:
    """Percentile interval of the mean when whole groups (environments) are drawn with replacement.

    The random stream is fixed, so that the same results always print the same interval.
    """
    values = _finite(values)
    _, index = np.unique(groups, return_inverse=True)
    if len(index) != len(values):
        raise ValueError(f"groups must name the environment of each value, got {len(index)} for {len(values)} values")
    if index.max() < 1:
        return Interval(-np.inf, np.inf)
    totals, counts = np.bincount(index, weights=values), np.bincount(index)
    draws = np.random.default_rng(0).integers(len(totals), size=(resamples, len(totals)))
    means = totals[draws].sum(axis=1) / counts[draws].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(low), float(high))


class Difference(NamedTuple):
    """How much higher A is than B, environment by environment."""

    mean: float
    interval: Interval  # bootstrap over environments
    p_value: float  # of "no difference", signs of the per-environment differences flipped at random
    per_environment: np.ndarray


def paired_difference(a: np.ndarray, b: np.ndarray, resamples: int = RESAMPLES) -> Difference:
    """Compare the per-environment means of two policies; `a[i]` and `b[i]` belong to the same environment."""
    a, b = _finite(a), _finite(b)
    if a.shape != b.shape:
        raise ValueError(f"a and b must cover the same environments, got {len(a)} and {len(b)}")
    difference = a - b
    mean = float(difference.mean())
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(resamples, len(difference)))
    flipped = np.abs(signs @ difference) / len(difference)
    # The observed signs are one of the arrangements, so p is never 0; the tolerance keeps ties ties.
    p_value = (1 + np.count_nonzero(flipped >= abs(mean) - 1e-12)) / (1 + resamples)
    return Difference(mean, bootstrap_interval(difference, np.arange(len(a)), resamples), float(p_value), difference)


def _finite(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"values must be a non-empty list of numbers, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"values holds {np.count_nonzero(~np.isfinite(values))} numbers that are not finite")
    return values
