from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from rnce.envs.path_planning import (
    CostWeights,
    collided,
    min_clearance,
    obstacle_cost,
    path_cost,
    segment_clearance,
    segment_distance,
)

coordinate = st.integers(-(10**6), 10**6).map(lambda i: i / 10**6)  # shapely overflows on lengths of 1e-200
point = st.tuples(coordinate, coordinate).map(np.array)


def random_problem(seed, batch=(), n=7, k=4):
    rng = np.random.default_rng(seed)
    path = rng.uniform(-1, 1, (*batch, n, 2))
    obstacles = np.concatenate([rng.uniform(-1, 1, (*batch, k, 2)), rng.uniform(0.1, 0.25, (*batch, k, 1))], axis=-1)
    return path, obstacles, rng.uniform(-1, 1, (*batch, 2))


@given(point, point, point)
def test_segment_distance_agrees_with_brute_force(start, end, p):
    fractions = np.linspace(0, 1, 2001)[:, None]
    sampled = np.sqrt(((start + fractions * (end - start) - p) ** 2).sum(-1)).min()
    exact = segment_distance(start, end, p)
    spacing = np.linalg.norm(end - start) / 2000
    assert sampled - spacing - 1e-12 <= exact <= sampled + 1e-12


@given(point, point, point)
def test_segment_distance_agrees_with_shapely(start, end, p):
    assert segment_distance(start, end, p) == pytest.approx(
        shapely.LineString([start, end]).distance(shapely.Point(p)), abs=1e-9
    )


def test_segment_of_no_length_is_a_point():
    a = np.array([0.25, -0.5])
    assert segment_distance(a, a, np.array([0.25, 0.5])) == 1.0
    assert segment_distance(a, a, a) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_clearance_and_collision_agree_with_shapely(seed):
    path, obstacles, _ = random_problem(seed)
    lines = [shapely.LineString(path[i : i + 2]) for i in range(len(path) - 1)]
    expected = np.array([[line.distance(shapely.Point(c[:2])) - c[2] for c in obstacles] for line in lines])
    np.testing.assert_allclose(segment_clearance(path, obstacles), expected, atol=1e-12)
    np.testing.assert_allclose(min_clearance(path, obstacles), expected.min(), atol=1e-12)
    assert collided(path, obstacles) == (expected.min() < 0)


@pytest.mark.parametrize("seed", range(10))
def test_cost_is_the_paper_formula(seed):
    path, obstacles, goal = random_problem(seed)
    c_obs = smoothness = 0.0
    for a, b in pairwise(path):
        smoothness += np.sum((b - a) ** 2)
        for x, y, r in obstacles:
            dist = shapely.LineString([a, b]).distance(shapely.Point(x, y))
            c_obs += np.sqrt(r**2 - dist**2) if dist <= r else 0.0
    terms = path_cost(path, obstacles, goal, CostWeights(goal=2.0, obstacle=3.0, smoothness=5.0))
    assert obstacle_cost(path, obstacles) == pytest.approx(c_obs)
    assert terms.goal == pytest.approx(2.0 * np.sum((path[-1] - goal) ** 2))
    assert terms.obstacle == pytest.approx(3.0 * c_obs)
    assert terms.smoothness == pytest.approx(5.0 * smoothness)
    assert terms.total == pytest.approx(sum(terms))


def test_batches_equal_their_rows():
    path, obstacles, goal = random_problem(0, (3, 5))
    batched = path_cost(path, obstacles, goal)
    for index in np.ndindex(3, 5):
        single = path_cost(path[index], obstacles[index], goal[index])
        np.testing.assert_allclose([term[index] for term in batched], single, rtol=1e-14)
        assert collided(path, obstacles)[index] == collided(path[index], obstacles[index])


def test_many_paths_broadcast_over_one_scene():
    path, obstacles, goal = random_problem(1, (6,))
    one_scene = path_cost(path, obstacles[0], goal[0]).total
    assert one_scene.shape == (6,)
    np.testing.assert_allclose(one_scene[3], path_cost(path[3], obstacles[0], goal[0]).total)


def test_same_numbers_under_jit():
    path, obstacles, goal = (a.astype(np.float32) for a in random_problem(2, (8,)))
    terms, jitted = path_cost(path, obstacles, goal), jax.jit(path_cost)(path, obstacles, goal)
    np.testing.assert_allclose(np.stack(jitted), np.stack(terms), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.jit(min_clearance)(path, obstacles), min_clearance(path, obstacles), atol=1e-5)
    np.testing.assert_array_equal(jax.jit(collided)(path, obstacles), collided(path, obstacles))


def test_gradient_is_finite_everywhere_even_on_a_centre_and_standing_still():
    _, obstacles, goal = random_problem(3)
    centre = obstacles[0, :2]
    path = jnp.array([centre, centre, centre + 0.1, goal])
    gradient = jax.jit(jax.grad(lambda p: path_cost(p, obstacles, goal).total))(path)
    assert jnp.isfinite(gradient).all()
    assert jnp.isfinite(jax.jit(jax.grad(lambda p: segment_clearance(p, obstacles).sum()))(path)).all()


def test_no_obstacles():
    path, _, goal = random_problem(4)
    none = np.empty((0, 3))
    assert not collided(path, none)
    assert min_clearance(path, none) == np.inf
    assert path_cost(path, none, goal).obstacle == 0


def test_touching_is_not_colliding():
    path = np.array([[-1.0, 0.5], [1.0, 0.5]])
    assert not collided(path, np.array([[0.0, 0.0, 0.5]]))
    assert collided(path, np.array([[0.0, 0.0, 0.5 + 1e-9]]))


def test_a_good_path_costs_what_the_paper_reports():
    """About 0.2 with the default weights, for paths 1.13 times the straight line, as planned ones are."""
    from rnce.envs.path_planning import scenes_for_seeds

    scenes = scenes_for_seeds(range(1000))
    line = scenes.start[:, None] + np.linspace(0, 1, 50)[:, None] * (scenes.goal - scenes.start)[:, None]
    cost = 1.13**2 * path_cost(line, scenes.obstacles, scenes.goal).smoothness
    assert 0.19 < cost.mean() < 0.27


@pytest.mark.parametrize("weights", [{"goal": -1.0}, {"obstacle": np.nan}, {"smoothness": np.inf}])
def test_nonsense_weights_are_refused(weights):
    with pytest.raises(ValueError, match=next(iter(weights))):
        CostWeights(**weights)
