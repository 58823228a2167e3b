"""Push-T as an environment: spaces, options, errors, determinism, hostile actions."""

import math
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import rnce  # noqa: F401
from rnce.envs.pusht import OBS_TYPES, PushTEnv

STATE = [100.0, 120.0, 300.0, 280.0, 1.25]


@pytest.mark.filterwarnings("ignore:.*symmetric and normalized:UserWarning")  # the action is a place on the canvas
@pytest.mark.parametrize("random_goal", [False, True])
@pytest.mark.parametrize("render_mode", ["rgb_array", "human", None])
@pytest.mark.parametrize("obs_type", [*OBS_TYPES, "keypoints"])
def test_gymnasium_accepts_it(obs_type, render_mode, random_goal, monkeypatch):
    monkeypatch.setitem(PushTEnv.metadata, "render_fps", 10_000)  # no waiting for the eye
    env = gym.make("PushT-v0", obs_type=obs_type, render_mode=render_mode, random_goal=random_goal)
    check_env(env.unwrapped, skip_render_check=render_mode is None)
    env.close()


def parts_of(obs_type):
    space = PushTEnv(obs_type=obs_type).observation_space
    assert isinstance(space, gym.spaces.Dict)
    return {name: (part.shape, np.dtype(part.dtype).name) for name, part in space.items()}


def test_spaces_are_those_of_gym_pusht():
    shapes = {"state": (5,), "pixels": (96, 96, 3)}
    for obs_type, shape in shapes.items():
        assert PushTEnv(obs_type=obs_type).observation_space.shape == shape
    assert parts_of("pixels_agent_pos") == {
        "pixels": ((96, 96, 3), "uint8"),
        "agent_pos": ((2,), "float64"),
    }
    assert parts_of("keypoints") == {
        "environment_state": ((16,), "float64"),
        "agent_pos": ((2,), "float64"),
    }
    assert PushTEnv().action_space == gym.spaces.Box(0, 512, (2,), np.float32)
    assert PushTEnv(obs_type="pixels", observation_width=64, observation_height=48).reset(seed=0)[0].shape == (
        48,
        64,
        3,
    )


def test_200_steps():
    env = gym.make("PushT-v0")
    env.reset(seed=0)
    ends = [env.step(np.array([20.0, 20.0]))[3] for _ in range(200)]
    assert ends == [False] * 199 + [True]


@pytest.mark.parametrize("obs_type", OBS_TYPES)
def test_requested_state_is_the_next_observation(obs_type):
    env = PushTEnv(obs_type=obs_type)
    obs, info = env.reset(seed=0, options={"state": STATE})
    np.testing.assert_array_equal([*info["pos_agent"], *info["block_pose"]], STATE)
    np.testing.assert_array_equal(info["vel_agent"], [0.0, 0.0])
    if obs_type == "state":
        np.testing.assert_array_equal(obs, STATE)
    if obs_type == "environment_state_agent_pos":
        turn = np.array([[math.cos(1.25), math.sin(1.25)], [-math.sin(1.25), math.cos(1.25)]])
        bar = np.array([[-60, 0], [60, 0], [60, 30], [-60, 30]]) @ turn + STATE[2:4]
        np.testing.assert_allclose(obs["environment_state"].reshape(8, 2)[:4], bar)
    _, _, _, _, info = env.step(STATE[:2])
    np.testing.assert_allclose([*info["pos_agent"], *info["block_pose"]], STATE, rtol=0, atol=1e-9)


def test_gym_pushts_option_lands_where_gym_pusht_lands():
    obs, _ = PushTEnv().reset(options={"reset_to_state": [0.0, 10.0, 20.0, 30.0, 1.0]})
    np.testing.assert_allclose(obs, [0.0, 10.0, 57.866196, 50.686398, 1.0], atol=1e-5)


@pytest.mark.parametrize("obs_type", OBS_TYPES)
def test_the_goal_moves_and_is_observed(obs_type):
    env = PushTEnv(obs_type=obs_type, random_goal=True)
    _, first = env.reset(seed=1)
    obs, second = env.reset()
    assert not np.array_equal(first["goal_pose"], second["goal_pose"])
    if obs_type == "state":
        np.testing.assert_array_equal(obs[5:], second["goal_pose"])
    elif obs_type == "environment_state_agent_pos":
        np.testing.assert_array_equal(obs["goal_pose"], second["goal_pose"])
    else:
        image = obs if obs_type == "pixels" else obs["pixels"]
        other, _ = env.reset(
            options={"goal_pose": [200, 300, 0.0], "state": [*second["pos_agent"], *second["block_pose"]]}
        )
        assert not np.array_equal(image, other if obs_type == "pixels" else other["pixels"])


def test_solved_where_the_block_lies_on_a_moved_goal():
    env = PushTEnv()
    pose = [200.0, 300.0, 0.5]
    _, info = env.reset(options={"goal_pose": pose, "state": [50.0, 50.0, *pose]})
    np.testing.assert_array_equal(info["goal_pose"], pose)
    np.testing.assert_array_equal(info["pose_error"], [0.0, 0.0])
    _, reward, terminated, truncated, info = env.step([50.0, 50.0])
    assert (reward, terminated, truncated, info["is_success"]) == (1.0, True, False, True)
    _, info = env.reset(seed=0)
    np.testing.assert_allclose(info["goal_pose"], [256.0, 256.0, math.pi / 4])


def test_the_threshold_sets_success_and_reward():
    state = [50.0, 50.0, 258.0, 256.0, math.pi / 4]  # coverage about 0.947
    for threshold, solved in ((0.9, True), (0.95, False)):
        env = PushTEnv(success_threshold=threshold)
        env.reset(options={"state": state})
        _, reward, terminated, _, info = env.step(state[:2])
        assert terminated is info["is_success"] is solved
        assert reward == min(info["coverage"] / threshold, 1.0)


def test_easy_starts_near_the_goal_and_unsolved():
    env = gym.make("PushTEasy-v0")
    for seed in range(50):
        _, info = env.reset(seed=seed)
        assert 0.2 < info["coverage"] <= 0.95
        assert info["pose_error"][0] <= 30.0
        assert info["pose_error"][1] <= math.radians(20.0)
        assert info["n_contacts"] == 0


def test_legacy_without_a_seed_draws_from_the_environments_generator():
    env = PushTEnv(init="legacy")
    env.reset(seed=5)
    first = env.reset()[0]
    env.reset(seed=5)
    np.testing.assert_array_equal(env.reset()[0], first)
    assert not np.array_equal(env.reset()[0], first)


# --- pictures ---


def test_render_marks_the_target_and_observations_do_not():
    env = PushTEnv(obs_type="pixels", render_size=256, observation_width=512, observation_height=512)
    env.reset(options={"state": STATE})
    obs, *_ = env.step([400.0, 60.0])
    red = np.array([220, 20, 60])
    assert env.render().shape == (256, 256, 3)
    assert (np.abs(env.render()[30, 200].astype(int) - red) < 40).all()
    assert (obs[60, 400] == 255).all()
    assert not (obs == red).all(axis=-1).any()


def test_an_image_is_the_same_however_the_scene_came_about():
    moved, fresh = PushTEnv(obs_type="pixels"), PushTEnv(obs_type="pixels")
    obs, info = moved.reset(seed=3)
    rng = np.random.default_rng(0)
    for _ in range(50):
        obs, *_, info = moved.step(rng.uniform(0.0, 512.0, size=2))
    state = [*info["pos_agent"], *info["block_pose"]]
    np.testing.assert_array_equal(fresh.reset(options={"state": state})[0], obs)


def test_rendering_changes_no_bits():
    quiet, drawn = PushTEnv(render_mode=None), PushTEnv(render_mode="rgb_array")
    np.testing.assert_array_equal(quiet.reset(seed=4)[0], drawn.reset(seed=4)[0])
    for action in np.random.default_rng(0).uniform(100.0, 400.0, size=(20, 2)):
        drawn.render()
        np.testing.assert_array_equal(quiet.step(action)[0], drawn.step(action)[0])


def test_human_mode_draws_on_every_step_at_the_control_rate(monkeypatch):
    from rnce.envs.pusht import rendering

    shown = []
    monkeypatch.setattr(rendering.Window, "show", lambda self, surface, rate: shown.append((surface.copy(), rate)))
    env = PushTEnv(obs_type="pixels", render_mode="human")
    obs, _ = env.reset(seed=0)
    assert obs.shape == (96, 96, 3)
    for count in range(2, 5):
        obs, *_ = env.step([100.0, 50.0 * count])
        assert obs.shape == (96, 96, 3)
        assert len(shown) == count
    assert env.render() is None
    assert {rate for _, rate in shown} == {10}
    env.close()
    env.close()


def test_pixels_without_pictures_need_no_window():
    code = "import rnce, sys, gymnasium as gym; gym.make('PushT-v0').reset(seed=0); sys.exit('pygame' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- errors ---

BAD_ACTIONS = [[math.nan, 1.0], [1.0, math.inf], [1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 3.0, "up", None, [None, 1.0]]


@pytest.mark.parametrize("action", BAD_ACTIONS, ids=repr)
def test_bad_actions_are_refused_and_leave_the_scene_alone(action):
    env, other = PushTEnv(), PushTEnv()
    env.reset(seed=0)
    other.reset(seed=0)
    with pytest.raises(ValueError, match="action"):
        env.step(action)
    np.testing.assert_array_equal(env.step([200.0, 200.0])[0], other.step([200.0, 200.0])[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stat": STATE}, "did you mean 'state'"),
        ({"state": STATE[:4]}, r"options\['state'\] has shape \(4,\)"),
        ({"state": [math.nan, *STATE[1:]]}, r"options\['state'\] is \[nan"),
        ({"state": [-1.0, *STATE[1:]]}, r"agent x -1.0; .* \[0, 512\]"),
        ({"goal_pose": [0.0, 0.0]}, r"options\['goal_pose'\]"),
        ({"state": STATE, "reset_to_state": STATE}, "give one of them"),
    ],
)
def test_bad_options_are_refused_and_leave_the_scene_alone(options, message):
    env, other = PushTEnv(), PushTEnv()
    env.reset(seed=0)
    other.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.reset(seed=1, options=options)
    np.testing.assert_array_equal(env.step([200.0, 200.0])[0], other.step([200.0, 200.0])[0])
    np.testing.assert_array_equal(env.reset()[0], other.reset()[0])


@pytest.mark.parametrize(
    "arguments",
    [
        {"obs_type": "pixel"},
        {"render_mode": "ansi"},
        {"init": "random"},
        {"render_size": 0},
        {"observation_width": 1.5},
        {"success_threshold": 1.0},
        {"success_threshold": math.nan},
    ],
    ids=repr,
)
def test_bad_arguments_are_named(arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=f"{name} is {value!r}"):
        PushTEnv(**arguments)


def test_reset_comes_first():
    with pytest.raises(gym.error.ResetNeeded):
        PushTEnv().step([1.0, 2.0])
    with pytest.raises(gym.error.ResetNeeded):
        PushTEnv().render()
    with pytest.raises(ValueError, match="render_mode is None"):
        PushTEnv(render_mode=None).render()


# --- the same bits ---


def roll(env, seed=7, steps=40):
    rng = np.random.default_rng(0)
    env.reset(seed=seed)
    return np.stack([env.step(rng.uniform(0.0, 512.0, size=2).astype(np.float32))[0] for _ in range(steps)])


def test_same_bits_again_in_the_same_environment():
    env = PushTEnv()
    np.testing.assert_array_equal(roll(env), roll(env))


def test_same_bits_in_another_process():
    code = (
        "import hashlib, sys, numpy as np; from rnce.envs.pusht import PushTEnv\n"
        "env = PushTEnv(); rng = np.random.default_rng(0); env.reset(seed=7)\n"
        "rows = [env.step(rng.uniform(0.0, 512.0, size=2).astype(np.float32))[0] for _ in range(40)]\n"
        "sys.stdout.write(np.stack(rows).tobytes().hex())"
    )
    other = bytes.fromhex(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert roll(PushTEnv()).tobytes() == other


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_same_bits_in_a_vector(mode):
    options = {"context": "spawn"} if mode == "async" else {}
    vector = gym.make_vec("PushT-v0", num_envs=2, vectorization_mode=mode, vector_kwargs=options)
    single = roll(PushTEnv(), seed=8)
    rng = np.random.default_rng(0)
    try:
        vector.reset(seed=7)
        for expected in single:
            action = rng.uniform(0.0, 512.0, size=2).astype(np.float32)
            obs, *_ = vector.step(np.stack([action, action]))
            np.testing.assert_array_equal(obs[1], expected)
    finally:
        vector.close()


# --- hostile actions ---

targets = st.one_of(st.floats(-1e30, 1e30), st.floats(-50.0, 600.0), st.sampled_from([0.0, 512.0, -0.0, 1e308]))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**31),
    st.lists(st.tuples(targets, targets, st.integers(1, 6)), min_size=1, max_size=12),
    st.booleans(),
)
def test_nothing_bad_comes_out(seed, moves, chase):
    env = PushTEnv(obs_type="keypoints")
    _, info = env.reset(seed=seed)
    for x, y, times in moves:
        for _ in range(times):
            target = np.array([x, y]) if not chase else info["block_pose"][:2] + np.clip([x, y], -80, 80)
            obs, reward, _, _, info = env.step(target)
            assert env.observation_space.contains(obs)  # so the agent is on the canvas and nothing is NaN
            assert 0.0 <= info["coverage"] <= 1.0
            assert 0.0 <= reward <= 1.0
            assert info["n_contacts"] >= 0
            assert np.isfinite([*info["vel_agent"], *info["block_pose"], *info["pose_error"]]).all()


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_targets_are_clipped_to_the_canvas(x, y):
    env, clipped = PushTEnv(), PushTEnv()
    env.reset(options={"state": STATE})
    clipped.reset(options={"state": STATE})
    expected = clipped.step(np.clip([x, y], 0.0, 512.0))[0]
    np.testing.assert_array_equal(env.step([x, y])[0], expected)
