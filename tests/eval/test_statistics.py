import numpy as np
import pytest
from scipy import stats

from rnce.eval.statistics import bootstrap_interval, clopper_pearson, normal_interval, paired_difference


def test_normal_interval_equals_scipy():
    values = np.random.default_rng(0).normal(size=50)
    expected = stats.norm.interval(0.95, values.mean(), stats.sem(values))
    np.testing.assert_allclose(normal_interval(values), expected)
    assert normal_interval(np.array([1.0])) == (-np.inf, np.inf)


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (1, 384)])
def test_clopper_pearson_equals_scipy(k, n):
    expected = stats.binomtest(k, n).proportion_ci(method="exact")
    np.testing.assert_allclose(clopper_pearson(k, n), (expected.low, expected.high))


def test_bootstrap_over_environments_is_wider_when_rollouts_repeat_each_other():
    rng = np.random.default_rng(1)
    per_environment = rng.normal(size=40)
    values, groups = np.repeat(per_environment, 25), np.repeat(np.arange(40), 25)
    honest = bootstrap_interval(values, groups)
    np.testing.assert_allclose(honest, normal_interval(per_environment), atol=0.06)
    paper = normal_interval(values)
    assert honest.high - honest.low > 4 * (paper.high - paper.low)
    assert bootstrap_interval(values, groups) == honest  # the same results print the same interval


def test_bootstrap_does_not_depend_on_order():
    rng = np.random.default_rng(2)
    values, groups = rng.normal(size=60), np.repeat(np.arange(12), 5)
    order = rng.permutation(60)
    np.testing.assert_allclose(
        bootstrap_interval(values[order], groups[order]), bootstrap_interval(values, groups), rtol=1e-12
    )


def test_pairing_removes_what_both_share():
    rng = np.random.default_rng(3)
    environment = rng.normal(size=100) * 10
    a, b = environment + 0.3 + rng.normal(size=100) * 0.1, environment + rng.normal(size=100) * 0.1
    result = paired_difference(a, b)
    assert result.interval.low < 0.3 < result.interval.high
    assert result.p_value < 0.001
    assert paired_difference(b, b[::-1]).p_value > 0.5
    assert paired_difference(b, b).p_value == 1


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: normal_interval(np.array([])), "non-empty"),
        (lambda: normal_interval(np.array([1.0, np.nan])), "not finite"),
        (lambda: clopper_pearson(5, 4), "5 of 4"),
        (lambda: bootstrap_interval(np.ones(3), np.arange(2)), "2 for 3"),
        (lambda: paired_difference(np.ones(3), np.ones(2)), "same environments"),
    ],
)
def test_bad_input_is_named(call, match):
    with pytest.raises(ValueError, match=match):
        call()
