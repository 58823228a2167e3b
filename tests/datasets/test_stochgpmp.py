"""The planner: its weights, its paths, and what it says to bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rnce.datasets import plan
from rnce.datasets.stochgpmp import Paths, PlannerConfig, Schedule, importance_weights, improve, plan_scenes
from rnce.datasets.winding import class_labels, winding_numbers
from rnce.envs.path_planning.geometry import collided, min_clearance
from rnce.envs.path_planning.scenes import scenes_for_seeds

FAST = PlannerConfig(
    particles=8,
    candidates=64,
    scouts=16,
    scouting=Schedule(10, 16, 1.0, 0.4),
    planning=Schedule(30, 16, 0.4, 0.07),
)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_bisection_reaches_the_effective_sample_size(scale):
    cost = scale * jax.random.exponential(jax.random.key(0), (64, 32)) ** 2
    weights = importance_weights(cost, 4.0)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(1 / (weights**2).sum(-1), 4, rtol=1e-3)
    assert (jnp.argmax(weights, -1) == jnp.argmin(cost, -1)).all()


def test_weights_of_ties_are_equal():
    np.testing.assert_allclose(importance_weights(jnp.full((5,), 7.0), 4.0), 0.2, rtol=1e-6)
    ties = importance_weights(jnp.array([0.0] * 6 + [1.0] * 10), 4.0)  # cannot be sharper than six
    np.testing.assert_allclose(ties[:6], 1 / 6, rtol=1e-4)


def test_plan_finds_both_sides():
    circle = np.array([[0.0, 0.0, 0.3]])
    paths = plan(circle, [-0.8, 0.0], [0.8, 0.05], n=8, seed=1, config=FAST)
    assert paths.shape == (8, 50, 2)
    assert not collided(paths, circle).any()
    np.testing.assert_allclose(paths[:, 0], [[-0.8, 0.0]] * 8, atol=1e-6)
    np.testing.assert_allclose(paths[:, -1], [[0.8, 0.05]] * 8, atol=1e-6)
    assert class_labels(winding_numbers(paths, circle)).max() == 1


SCENES = scenes_for_seeds(range(4))


def plan_all(seed: int, order: slice = slice(None)) -> Paths:
    parts = (part[order].astype(np.float32) for part in SCENES)
    return plan_scenes(jax.random.key(seed), *parts, config=FAST)


def test_same_seed_same_paths_whatever_the_place_in_the_batch():
    paths = plan_all(3).path
    np.testing.assert_array_equal(paths, plan_all(3).path)
    assert not np.array_equal(paths, plan_all(4).path)
    np.testing.assert_allclose(paths, plan_all(3, slice(None, None, -1)).path[::-1], atol=1e-5)


def test_random_scenes_are_solved():
    clearance = min_clearance(np.asarray(plan_all(0).path, np.float64), SCENES.obstacles[:, None])
    assert (clearance > 0).any(axis=1).all()
    assert np.median(clearance) > 0.03  # the margin is kept where there is room


def test_improving_never_makes_it_worse_and_keeps_the_ends():
    before = plan_all(0)
    obstacles = SCENES.obstacles.astype(np.float32)
    after = improve(jax.random.key(1), obstacles, before.path, Schedule(5, 16, 0.1, 0.05), FAST)
    assert (after.cost <= before.cost * (1 + 1e-4)).all()
    np.testing.assert_array_equal(after.path[:, :, [0, -1]], before.path[:, :, [0, -1]])


def test_no_obstacles_is_a_straight_line():
    path = plan([], [-0.5, -0.5], [0.5, 0.5], n=1, config=FAST)[0]
    np.testing.assert_allclose(path, np.linspace([-0.5, -0.5], [0.5, 0.5], 50), atol=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obstacles": [[0.0, 0.0]]}, r"obstacles must be of shape \(K, 3\)"),
        ({"obstacles": [[0.0, 0.0, -1.0]]}, "radii above 0"),
        ({"obstacles": [[0.0, np.nan, 0.1]]}, "finite"),
        ({"start": [0.05, 0.0]}, r"start=\[0.05, 0.0\] lies inside obstacle 0"),
        ({"goal": [1.5, 0.0]}, r"goal must be a point .* got \[1.5, 0.0\]"),
        ({"goal": [np.nan, 0.0]}, "goal must be a point"),
        ({"start": [0.0]}, "start must be a point"),
        ({"n": 0}, "n must be at least 1, got 0"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"obstacles": [[0.0, 0.0, 0.1]], "start": [-0.5, 0.0], "goal": [0.5, 0.0], "n": 2} | change
    with pytest.raises(ValueError, match=message):
        plan(**arguments, config=FAST)
