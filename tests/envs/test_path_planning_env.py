import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import rnce  # noqa: F401  (registers)
from rnce.envs.path_planning import collided, path_cost, scene_for_seed
from rnce.envs.path_planning.env import PathPlanningEnv

# Gymnasium's types know nothing of what an id makes.
make: Any = gym.make
make_vec: Any = gym.make_vec


def wander(env, seed, n=49):
    """A seeded random walk; returns everything the environment said."""
    rng = np.random.default_rng(seed)
    said: list[Any] = [env.reset(seed=seed)]
    position = said[0][0]["position"]
    for _ in range(n):
        position = position + rng.normal(0, 0.1, position.shape)
        said.append(env.step(position))
    return said


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, tuple | list):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    else:
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("render_mode", [None, "rgb_array", "human"])
@pytest.mark.parametrize("kwargs", [{}, {"n_obstacles": 0}, {"n_obstacles": 3, "n_waypoints": 5}])
def test_gymnasium_checker(render_mode, kwargs, monkeypatch):
    monkeypatch.setattr(PathPlanningEnv, "metadata", PathPlanningEnv.metadata | {"render_fps": 10_000})  # no waiting
    env = make("PathPlanning-v0", render_mode=render_mode, **kwargs)
    check_env(env.unwrapped)
    env.close()


def test_an_episode_is_49_moves_and_its_figures_are_the_pure_functions():
    env = make("PathPlanning-v0")
    said = wander(env, 100_000)
    path = env.unwrapped.path
    scene = scene_for_seed(100_000)
    np.testing.assert_array_equal(said[0][0]["obstacles"], scene.obstacles)
    np.testing.assert_array_equal(path[0], scene.start)
    assert path.shape == (50, 2)
    assert [s[3] for s in said[1:]] == [False] * 48 + [True]
    assert not any(s[2] for s in said[1:])
    for moves in (1, 10, 49):
        info = said[moves][4]
        terms = path_cost(path[: moves + 1], scene.obstacles, scene.goal)
        assert info["cost_goal"] == pytest.approx(terms.goal)
        assert info["cost_obstacle"] == pytest.approx(terms.obstacle)
        assert info["cost_smoothness"] == pytest.approx(terms.smoothness)
        assert info["cost"] == pytest.approx(terms.total)
        assert info["collided"] is bool(collided(path[: moves + 1], scene.obstacles))
        assert info["goal_distance"] == pytest.approx(np.linalg.norm(path[moves] - scene.goal))
    rewards = [s[1] for s in said[1:]]
    assert sum(rewards) == pytest.approx(said[0][1]["cost"] - said[-1][4]["cost"])
    with pytest.raises(ResetNeeded, match="49 moves"):
        env.step(np.zeros(2))


def test_weights_are_arguments():
    env = make("PathPlanning-v0", weights={"goal": 1.0, "obstacle": 0.0, "smoothness": 0.0})
    env.reset(seed=0)
    info = env.step(np.array([0.5, 0.5]))[4]
    assert info["cost"] == pytest.approx(info["goal_distance"] ** 2)


def test_step_needs_reset():
    with pytest.raises(ResetNeeded):
        PathPlanningEnv().step(np.zeros(2))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n_waypoints": 1}, "n_waypoints"),
        ({"render_mode": "ansi"}, "render_mode"),
        ({"render_size": 0}, "render_size"),
        ({"weights": {"speed": 1.0}}, "goal, obstacle and smoothness"),
        ({"n_obstacles": -3}, "n_obstacles"),
    ],
)
def test_malformed_constructor_arguments_are_named(kwargs, message):
    with pytest.raises(ValueError, match=message):
        PathPlanningEnv(**kwargs)


# --- scenes people set -------------------------------------------------------------------------------------------


def free_scene(**changes):
    obstacles = np.tile([0.0, 0.0, 0.2], (10, 1))
    return {"obstacles": obstacles, "start": np.array([-0.5, 0.0]), "goal": np.array([0.5, 0.0])} | changes


def test_a_set_scene_is_shown_exactly():
    env = make("PathPlanning-v0")
    scene = free_scene()
    obs, _ = env.reset(seed=0, options=scene)
    np.testing.assert_array_equal(obs["obstacles"], scene["obstacles"])
    np.testing.assert_array_equal(obs["position"], scene["start"])
    np.testing.assert_array_equal(obs["goal"], scene["goal"])
    assert env.step([0.5, 0.0])[4]["collided"]


@pytest.mark.parametrize("names", [["start"], ["goal"], ["obstacles"], ["start", "goal"], ["obstacles", "goal"]])
def test_parts_that_are_not_set_are_drawn_around_the_others(names):
    env = make("PathPlanning-v0")
    given = {name: free_scene()[name] for name in names}
    obs, _ = env.reset(seed=1, options=given)
    shown = {"start": obs["position"], "goal": obs["goal"], "obstacles": obs["obstacles"]}
    for name in names:
        np.testing.assert_array_equal(shown[name], given[name])
    assert not env.step(obs["position"])[4]["collided"]


RING = np.array([[0.3 * np.cos(a), 0.3 * np.sin(a), 0.15] for a in np.linspace(0, 2 * np.pi, 10, endpoint=False)])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (free_scene(start=[0.1, 0.0]), r"start \[0.1, 0.0\] is inside obstacles\[0\]"),
        (free_scene(goal=[0.0, 1.5]), "goal .* outside the workspace"),
        (free_scene(goal=[np.nan, 0.0]), "goal .* outside the workspace"),
        (free_scene(goal=[0.0, 0.0, 0.0]), r"options\['goal'\] must have shape \(2,\).* got \(3,\)"),
        (free_scene(start=[[0.0, 0.0], [0.0]]), r"options\['start'\] must be numbers"),
        (free_scene(start="left"), r"options\['start'\] must be numbers"),
        (free_scene(obstacles=np.zeros((3, 3))), r"options\['obstacles'\] must have shape \(10, 3\)"),
        (free_scene(obstacles=np.zeros((10, 3))), r"obstacles\[0\] has radius 0"),
        (free_scene(obstacles=np.full((10, 3), np.inf)), "must be finite"),
        (free_scene(obstacles=np.full((10, 3), 1.2)), "centre"),
        (free_scene(obstacles=RING, start=[0.0, 0.0]), "walled off"),
        ({"gaol": [0.0, 0.0]}, r"unknown keys \['gaol'\]; allowed are"),
    ],
)
@pytest.mark.parametrize("vector", [False, True])
def test_scenes_that_cannot_be_are_refused_with_the_reason(options, reason, vector):
    env = make_vec("PathPlanning-v0", num_envs=3) if vector else make("PathPlanning-v0")
    before, _ = env.reset(seed=3)
    with pytest.raises(ValueError, match=reason):
        env.reset(seed=4, options=options)
    obs, *_ = env.step(before["position"])  # as if nothing had happened
    same(obs, before)


# --- hostile actions ---------------------------------------------------------------------------------------------

number = st.floats(allow_nan=True, allow_infinity=True, width=64)
hostile = hnp.arrays(np.float64, 2, elements=number)


@settings(max_examples=60, deadline=None)
@given(st.lists(hostile, max_size=60), st.integers(0, 2**31))
def test_hostile_actions_never_break_it(actions, seed):
    env = PathPlanningEnv()
    env.reset(seed=seed)
    for action in actions:
        if not np.isfinite(action).all():
            before = env.path
            with pytest.raises(ValueError, match="action must be finite"):
                env.step(action)
            np.testing.assert_array_equal(env.path, before)
            continue
        obs, reward, _, truncated, info = env.step(action)
        assert obs in env.observation_space
        np.testing.assert_array_equal(obs["position"], np.clip(action, -1, 1))
        assert np.isfinite(reward)
        assert np.isfinite(list(info.values())).all()
        assert info["cost_obstacle"] >= 0
        if truncated:
            env.reset()


@pytest.mark.parametrize("action", [0.5, [0.1], [0.1, 0.2, 0.3], [[0.1, 0.2]], "up", None, {"x": 1}, [1j, 0]])
def test_wrong_actions_are_named(action):
    env = PathPlanningEnv()
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action must .*\(2,\)"):
        env.step(action)
    env.step([0.0, 0.0])


# --- the same bits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("render_mode", [None, "rgb_array", "human"])
def test_same_bits_again_rendered_or_not(render_mode, monkeypatch):
    monkeypatch.setattr(PathPlanningEnv, "metadata", PathPlanningEnv.metadata | {"render_fps": 10_000})
    env = make("PathPlanning-v0", render_mode=render_mode)
    same(wander(env, 7), wander(make("PathPlanning-v0"), 7))
    if render_mode:
        env.render()
    same(wander(env, 7, 3), wander(make("PathPlanning-v0"), 7, 3))
    env.close()


DIGEST = """
import hashlib
import gymnasium as gym, numpy as np, rnce
env = gym.make("PathPlanning-v0")
rng = np.random.default_rng(0)
digest = hashlib.sha256()
obs, info = env.reset(seed=5)
for action in rng.uniform(-1.2, 1.2, (49, 2)):
    obs, reward, _, _, info = env.step(action)
    for value in (*obs.values(), reward, *info.values()):
        digest.update(np.asarray(value, dtype=np.float64).tobytes())
print(digest.hexdigest())
"""


def test_same_bits_in_another_process():
    digests = {subprocess.check_output([sys.executable, "-c", DIGEST]) for _ in range(2)}
    assert len(digests) == 1


@pytest.mark.parametrize("num_envs", [1, 2, 7, 64])
@pytest.mark.parametrize("kwargs", [{}, {"n_obstacles": 3, "n_waypoints": 6, "weights": {"goal": 3.0}}])
def test_native_vector_form_gives_the_bits_of_the_single_one(num_envs, kwargs):
    native = make_vec("PathPlanning-v0", num_envs=num_envs, **kwargs)
    sync = make_vec("PathPlanning-v0", num_envs=num_envs, vectorization_mode="sync", **kwargs)
    assert native.metadata["autoreset_mode"] == sync.metadata["autoreset_mode"]
    assert native.observation_space == sync.observation_space
    assert native.action_space == sync.action_space
    rng = np.random.default_rng(1)
    same(native.reset(seed=11), sync.reset(seed=11))
    for _ in range(110):  # over two ends of episodes
        actions = rng.uniform(-1.1, 1.1, (num_envs, 2))
        same(native.step(actions), sync.step(actions))
    seeds = [int(s) for s in rng.integers(0, 1000, num_envs)]
    same(native.reset(seed=seeds), sync.reset(seed=seeds))
    same(native.reset(), sync.reset())


def test_large_batches_give_the_bits_of_the_single_form():
    native = make_vec("PathPlanning-v0", num_envs=4096)
    single = make("PathPlanning-v0")
    obs, _ = native.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (5, 4096, 2))
    steps = [native.step(a) for a in actions]
    for row in (0, 1, 77, 4095):
        same(single.reset(seed=row)[0], {name: part[row] for name, part in obs.items()})
        for a, (obs_, rewards, _, _, info) in zip(actions, steps):
            o, r, _, _, i = single.step(a[row])
            same(o, {name: part[row] for name, part in obs_.items()})
            assert r == rewards[row]
            assert i == {name: info[name][row] for name in i}


# --- the vector form's own ---------------------------------------------------------------------------------------


def test_without_autoreset_ended_rows_wait_for_their_reset():
    env = make_vec("PathPlanning-v0", num_envs=4, n_waypoints=3, autoreset_mode="Disabled")
    env.reset(seed=0)
    mask = np.array([True, False, True, False])
    env.step(np.zeros((4, 2)))
    first, info = env.reset(seed=50, options={"reset_mask": mask})
    np.testing.assert_array_equal(info["_cost"], mask)
    np.testing.assert_array_equal(first["position"][2], scene_for_seed(52).start)
    assert (first["position"][[1, 3]] == 0).all()
    *_, truncated, _ = env.step(np.zeros((4, 2)))
    np.testing.assert_array_equal(truncated, ~mask)
    with pytest.raises(ResetNeeded, match="2 of 4"):
        env.step(np.zeros((4, 2)))
    env.reset(options={"reset_mask": ~mask})
    env.step(np.zeros((4, 2)))
    assert [len(path) for path in env.unwrapped.paths] == [3, 2, 3, 2]


def test_each_row_may_have_its_own_scene():
    env = make_vec("PathPlanning-v0", num_envs=2)
    starts = np.array([[-0.5, 0.1], [-0.5, -0.1]])
    obs, _ = env.reset(options=free_scene(start=starts))
    np.testing.assert_array_equal(obs["position"], starts)
    with pytest.raises(ValueError, match="inside obstacles"):
        env.reset(options=free_scene(start=np.array([[-0.5, 0.1], [0.0, 0.0]])))
    one = make_vec("PathPlanning-v0", num_envs=1)
    np.testing.assert_array_equal(one.reset(options=free_scene(start=starts[:1]))[0]["position"], starts[:1])
    with pytest.raises(ValueError, match="shape"):
        make("PathPlanning-v0").reset(options=free_scene(start=starts[:1]))


@pytest.mark.parametrize("mask", [[True], np.zeros(2, bool), np.ones(2), "all"])
def test_malformed_masks_are_named(mask):
    env = make_vec("PathPlanning-v0", num_envs=2)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="reset_mask"):
        env.reset(options={"reset_mask": mask})


def test_vector_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="SAME_STEP"):
        make_vec("PathPlanning-v0", num_envs=2, autoreset_mode="SameStep")
    with pytest.raises(ValueError, match="num_envs"):
        make_vec("PathPlanning-v0", num_envs=0)
    env = make_vec("PathPlanning-v0", num_envs=2)
    with pytest.raises(ResetNeeded):
        env.step(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="seed"):
        env.reset(seed=[1, 2, 3])
    env.reset(seed=0)
    for actions in (np.zeros((3, 2)), np.zeros(2), np.full((2, 2), np.nan)):
        with pytest.raises(ValueError, match="action must"):
            env.step(actions)


def test_what_the_caller_does_to_results_does_not_come_back():
    env = make_vec("PathPlanning-v0", num_envs=2)
    obs, info = env.reset(seed=0)
    for array in (*obs.values(), *info.values()):
        array[:] = 1
    fresh = make_vec("PathPlanning-v0", num_envs=2)
    fresh.reset(seed=0)
    same(env.step(np.zeros((2, 2))), fresh.step(np.zeros((2, 2))))


# --- pictures ----------------------------------------------------------------------------------------------------


def test_picture_shows_circles_goal_and_path():
    env = make("PathPlanning-v0", render_mode="rgb_array", render_size=256)
    env.reset(seed=0, options=free_scene(goal=[0.5, 0.5]))
    image = env.render()
    assert image.shape == (256, 256, 3)
    assert image.dtype == np.uint8
    centre = image[128, 128].astype(int)
    assert np.ptp(centre) < 15  # a grey circle in the middle
    goal = image[64 - 3, 192].astype(int)  # y up: (0.5, 0.5) is above right
    assert goal[0] > 200 > goal[2]
    env.step([0.4, -0.1])
    after = env.render()
    assert (after[128, 128] != image[128, 128]).any()  # it went through the circle, which is now marked


def test_candidates_are_drawn_until_reset():
    env = make("PathPlanning-v0", render_mode="rgb_array")
    env.reset(seed=0)
    plain = env.render()
    rng = np.random.default_rng(0)
    paths = rng.uniform(-1, 1, (8, 10, 2))
    env.unwrapped.set_candidates(paths, rng.normal(size=8))
    coloured = env.render()
    assert (coloured != plain).any()
    env.unwrapped.set_candidates(paths, np.zeros(8))
    assert (env.render() != coloured).any()
    env.unwrapped.set_candidates(None)
    np.testing.assert_array_equal(env.render(), plain)
    env.unwrapped.set_candidates(paths)
    env.reset(seed=0)
    np.testing.assert_array_equal(env.render(), plain)
    refused = [(np.zeros((3, 2)), None, "paths"), (paths * np.nan, None, "paths"), (paths, [1.0], "scores")]
    for bad_paths, bad_scores, name in refused:
        with pytest.raises(ValueError, match=name):
            env.unwrapped.set_candidates(bad_paths, bad_scores)


def test_vector_render_is_the_single_one():
    native = make_vec("PathPlanning-v0", num_envs=2, render_mode="rgb_array", render_size=64)
    native.reset(seed=0)
    native.step(np.zeros((2, 2)))
    single = make("PathPlanning-v0", render_mode="rgb_array", render_size=64)
    single.reset(seed=1)
    single.step(np.zeros(2))
    images = native.render()
    assert len(images) == 2
    np.testing.assert_array_equal(images[1], single.render())
    assert make_vec("PathPlanning-v0", num_envs=2).render() is None


def test_human_mode_draws_on_every_step(monkeypatch):
    import pygame

    monkeypatch.setattr(PathPlanningEnv, "metadata", PathPlanningEnv.metadata | {"render_fps": 10_000})
    env = make("PathPlanning-v0", render_mode="human")
    reference = make("PathPlanning-v0", render_mode="rgb_array")
    for e in (env, reference):
        e.reset(seed=0)
    for action in ([0.0, 0.0], [0.5, 0.5]):
        env.step(action)
        reference.step(action)
        shown = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
        np.testing.assert_array_equal(shown, reference.render())
    env.close()
    env.close()
