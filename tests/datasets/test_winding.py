"""Winding classes and the filter, on paths drawn by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from rnce.datasets.path_filter import Limits, acceptable, quality
from rnce.datasets.winding import balance, class_labels, winding_numbers

TWO = np.array([[0.0, 0.0, 0.2], [0.0, 0.6, 0.1]])  # one on the straight line, one above it
BELOW = np.array([[-0.8, -0.1], [0.0, -0.4], [0.8, -0.1]])
BETWEEN = np.array([[-0.8, -0.1], [0.0, 0.4], [0.8, -0.1]])
ABOVE = np.array([[-0.8, -0.1], [0.0, 0.9], [0.8, -0.1]])


def straight(n: int = 50, length: float = 1.0) -> np.ndarray:
    return np.stack([np.linspace(-length / 2, length / 2, n), np.zeros(n)], axis=-1)


FAR = np.array([[0.0, 0.9, 0.1]])


@pytest.mark.parametrize("xp", [np, jnp])
def test_sides_of_two_circles(xp):
    got = winding_numbers(xp.asarray(np.stack([BELOW, BETWEEN, ABOVE])), xp.asarray(TWO))
    # The straight line passes below both centres. Passing above one turns the other way round it: clockwise, so −1.
    np.testing.assert_array_equal(got, [[0, 0], [-1, 0], [-1, -1]])


def test_a_loop_counts():
    angle = np.linspace(-np.pi, np.pi, 40)[:-1]
    loop = 0.3 * np.stack([np.cos(angle), np.sin(angle)], axis=-1)  # once round the origin, counter-clockwise
    path = np.concatenate([[[-0.8, -0.1]], loop, [[-0.3, 0.0]], BELOW[1:]])
    assert winding_numbers(path, TWO)[0] == 1


def test_more_waypoints_do_not_change_the_class():
    fine = np.stack([np.interp(np.linspace(0, 2, 99), [0, 1, 2], ABOVE[:, d]) for d in (0, 1)], axis=-1)
    np.testing.assert_array_equal(winding_numbers(fine, TWO), winding_numbers(ABOVE, TWO))


def test_labels():
    windings = np.array([[0, 0], [1, 0], [0, 0], [1, 1], [1, 0]])
    assert class_labels(windings).tolist() == [0, 1, 0, 2, 1]
    assert class_labels(windings[:0]).tolist() == []


def test_balance_gives_each_class_its_share():
    labels = np.array([0] * 9 + [1] * 2 + [2])
    chosen = balance(labels, 13, np.random.default_rng(0))
    shares = np.bincount(labels[chosen])
    assert sorted(shares.tolist()) == [4, 4, 5]
    assert len(set(chosen[labels[chosen] == 0])) == shares[0]  # none twice while there are others
    assert set(chosen[labels[chosen] == 1]) == {9, 10}
    with pytest.raises(ValueError, match="no paths"):
        balance(np.array([], int), 3, np.random.default_rng(0))


def test_quality_by_hand():
    corner = np.array([[0.0, 0.0], [0.3, 0.0], [0.3, 0.1]])
    got = quality(corner, np.array([[0.15, 0.25, 0.1]]))
    np.testing.assert_allclose(got.length, 0.4)
    np.testing.assert_allclose(got.step, 1.5)
    np.testing.assert_allclose(got.turn, 90.0)
    np.testing.assert_allclose(got.clearance, np.hypot(0.15, 0.15) - 0.1)
    assert got.inside
    assert quality(np.array([[0.0, 0.0], [0.0, 0.0], [0.1, 0.0]]), FAR).turn == 0


def test_filter_refuses_one_thing_at_a_time():
    line = straight()
    assert acceptable(line[None], FAR).tolist() == [True]
    grazing = np.array([[0.0, 0.1, 0.1 - 0.004]])
    assert acceptable(line[None], grazing).tolist() == [False]
    assert acceptable(line[None], grazing, Limits(clearance=0.003)).tolist() == [True]

    bow = line.copy()
    bow[:, 1] = 0.68 * np.sin(np.linspace(0, np.pi, 50))  # half as long again, and more
    slow = np.stack([np.concatenate([np.linspace(-0.5, 0.0, 40), np.linspace(0.06, 0.5, 10)]), np.zeros(50)], axis=-1)
    kink = line.copy()
    kink[25:, 1] = 0.025  # up and on again: twice more than 45°
    outside = line + np.array([0.6, 0.0])
    measured = quality(np.stack([bow, slow, kink, outside]), FAR)
    assert measured.length[0] > 1.6
    assert measured.step[1] > 2.5
    assert measured.turn[2] >= 45
    assert not measured.inside[3]
    paths = np.stack([line, bow, slow, kink, outside])
    assert acceptable(paths, np.empty((0, 3))).tolist() == [True, False, False, False, False]
