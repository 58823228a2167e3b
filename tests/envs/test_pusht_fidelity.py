"""Push-T does what gym-pusht 0.1.8 did and what the human demonstrations recorded."""

import math

import gymnasium as gym
import numpy as np
import pytest
from shared_data import find

import rnce  # noqa: F401
from rnce.envs.pusht import PushTEnv
from rnce.envs.pusht.geometry import GOAL, Pose
from rnce.envs.pusht.physics import Scene
from rnce.envs.pusht.rendering import Camera


@pytest.fixture(scope="module")
def golden():
    with np.load(find("pusht_golden.npz")) as file:
        return {name: file[name] for name in file}


@pytest.fixture(scope="module")
def demonstrations():
    zarr = pytest.importorskip("zarr")
    root = zarr.open_group(find("pusht_cchi_v7_replay.zarr"), mode="r")
    ends = root["meta/episode_ends"][:].tolist()
    bounds = list(zip([0, *ends], ends))
    return {"group": root, "state": root["data/state"][:], "action": root["data/action"][:], "episodes": bounds}


@pytest.mark.parametrize("index", range(23))
def test_golden_trajectories(golden, index):
    env = PushTEnv()
    obs, _ = env.reset(options={"state": golden["init"][index]})
    np.testing.assert_array_equal(obs, golden["init"][index])
    for step, action in enumerate(golden["actions"][index]):
        obs, reward, terminated, _, info = env.step(action)
        np.testing.assert_allclose(obs, golden["states"][index, step], rtol=0, atol=1e-6)
        assert abs(info["coverage"] - golden["coverage"][index, step]) < 1e-9
        assert abs(reward - golden["reward"][index, step]) < 1e-9
        assert terminated == golden["terminated"][index, step]


def test_golden_starts_follow_from_their_seeds(golden):
    env = PushTEnv()
    for seed, init in zip(golden["seed"].tolist(), golden["init"]):
        np.testing.assert_allclose(env.reset(seed=seed)[0], init, rtol=0, atol=1e-9)


def test_golden_images(golden):
    env = PushTEnv(obs_type="pixels")
    for states, images in zip(golden["states"][:, ::20], golden["images"]):
        for state, image in zip(states, images):
            obs, _ = env.reset(options={"state": state})
            assert np.abs(obs.astype(int) - image).mean() < 0.5


def test_recorded_demonstrations_replay(demonstrations):
    """Open loop from the recorded first state; the block stays within a pixel of where it was recorded."""
    good = 0
    for start, end in demonstrations["episodes"]:
        states = demonstrations["state"][start:end].astype(float)
        scene = Scene()
        scene.place(tuple(states[0, :2].tolist()), Pose(*states[0, 2:].tolist()))
        worst = 0.0
        for action, expected in zip(demonstrations["action"][start : end - 1].tolist(), states[1:].tolist()):
            scene.push(tuple(action))
            worst = max(worst, math.dist(scene.block[:2], expected[2:4]))
        good += worst < 1.0
    assert len(demonstrations["episodes"]) == 206
    assert good >= 200


def test_recorded_demonstrations_start_from_legacy_seeds(demonstrations):
    env = gym.make("PushT-v0", init="legacy")
    for seed, (start, _) in enumerate(demonstrations["episodes"]):
        obs, _ = env.reset(seed=seed)
        np.testing.assert_allclose(obs, demonstrations["state"][start], rtol=0, atol=1e-4)


def test_recorded_frames_render_again(demonstrations):
    images = demonstrations["group"]["data/img"]
    frames = np.sort(np.random.default_rng(0).choice(len(demonstrations["state"]), 200, replace=False))
    camera = Camera(96, 96)
    differences = []
    for frame in frames.tolist():
        x, y, *block = demonstrations["state"][frame].tolist()
        image = camera.take((x, y), Pose(*block), GOAL)
        differences.append(np.abs(image.astype(float) - images[frame]).mean())
    assert np.mean(differences) < 0.1


def test_contacts_are_those_a_collision_callback_counts():
    scene, counted = Scene(), []

    def count(arbiter, space, data):
        counted.append(len(arbiter.contact_point_set.points))

    space = scene._space
    if hasattr(space, "on_collision"):
        space.on_collision(0, 0, post_solve=count)
    else:  # pymunk 6
        space.add_collision_handler(0, 0).post_solve = count  # pyright: ignore
    rng = np.random.default_rng(1)
    scene.place((256.0, 450.0), Pose(256.0, 256.0, 0.3))
    touched = 0
    for _ in range(60):  # into the block, into the walls with it, and past it
        target = tuple(rng.uniform(0.0, 512.0, size=2).tolist())
        for _ in range(6):
            counted.clear()
            contacts = scene.push(target)
            assert contacts == sum(counted)
            touched += contacts > 0
    assert touched > 30
