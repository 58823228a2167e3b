import numpy as np
import pytest

from rnce.envs.path_planning import SceneParams, check_scene, collided, scene_for_seed, scenes_for_seeds


def test_scenes_are_as_stated():
    scenes = scenes_for_seeds(range(500))
    assert scenes.obstacles.shape == (500, 10, 3)
    assert (np.abs(scenes.obstacles[..., :2]) <= 1).all()
    radii = scenes.obstacles[..., 2]
    assert radii.min() >= 0.10
    assert radii.max() <= 0.25
    assert abs(radii.mean() - 0.175) < 0.002
    assert (np.linalg.norm(scenes.start - scenes.goal, axis=-1) >= 1).all()
    for end in (scenes.start, scenes.goal):
        assert (np.abs(end) <= 1).all()
        distance = np.linalg.norm(end[:, None] - scenes.obstacles[..., :2], axis=-1)
        assert (distance - radii).min() >= 0.08 - 1e-12


def test_the_straight_line_collides_in_most_scenes():
    scenes = scenes_for_seeds(range(2000))
    rate = collided(np.stack([scenes.start, scenes.goal], axis=1), scenes.obstacles).mean()
    assert 0.57 < rate < 0.67


def test_drawn_scenes_can_be_solved():
    scenes = scenes_for_seeds(range(100))
    for obstacles, start, goal in zip(*scenes):
        check_scene({"obstacles": obstacles, "start": start, "goal": goal})


def test_batched_and_single_draws_agree_to_the_bit():
    batch = scenes_for_seeds([3, 100_000, 7])
    for row, seed in enumerate([3, 100_000, 7]):
        for part, parts in zip(scene_for_seed(seed), batch):
            np.testing.assert_array_equal(part, parts[row])


def test_scenes_never_change():
    """Results are published by seed, so a seed means one scene for good."""
    scene = scene_for_seed(100_000)
    np.testing.assert_allclose(scene.start, [-0.9864751478686453, -0.8446157223772115], atol=1e-14)
    np.testing.assert_allclose(
        scene.obstacles.sum(axis=0), [0.27835433879136695, -1.1469841406034627, 1.7462981724481383], atol=1e-13
    )


def test_impossible_parameters_say_so():
    with pytest.raises(ValueError, match="fewer or smaller"):
        scene_for_seed(0, SceneParams(n_obstacles=200))


@pytest.mark.parametrize(
    "kwargs",
    [
        {"n_obstacles": -1},
        {"n_obstacles": 2.5},
        {"radius_range": (0.3, 0.1)},
        {"radius_range": (0.0, np.inf)},
        {"min_start_goal_distance": 3.0},
        {"min_clearance": np.nan},
    ],
)
def test_malformed_parameters_are_named(kwargs):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        SceneParams(**kwargs)
