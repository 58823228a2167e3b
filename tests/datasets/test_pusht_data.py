"""Push-T demonstrations: where they are looked for, what they are, and that the mirror is one."""

import os
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import rnce  # noqa: F401 (registers the environments)
from rnce.datasets import DamagedDatasetError, Dataset, DatasetNotFoundError, load, pusht, write_replay

SHARED = Path(os.environ.get("RNCE_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not (SHARED / pusht.FOLDER).is_dir(),
    reason=f"no {pusht.FOLDER} in {SHARED}; set RNCE_DATA to the folder that holds it",
)


def toy(steps: int) -> Dataset:
    return Dataset({"state": np.ones((steps, 5)), "action": np.ones((steps, 2))}, np.array([steps]))


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three stores told apart by their lengths: an argument's, RNCE_DATA's and the cache's."""
    for steps, name in enumerate(("argument", "variable", "cache/rnce"), start=1):
        write_replay(toy(steps), tmp_path / name / pusht.FOLDER)
    monkeypatch.setenv("RNCE_DATA", str(tmp_path / "variable"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_search_order(places: Path, monkeypatch: pytest.MonkeyPatch):
    assert load("pusht", path=places / "argument").steps == 1
    assert load("pusht", path=places / "argument" / pusht.FOLDER).steps == 1
    assert load("pusht").steps == 2
    monkeypatch.setenv("RNCE_DATA", str(places / "variable" / pusht.FOLDER))  # the store itself
    assert load("pusht").steps == 2
    monkeypatch.delenv("RNCE_DATA")
    assert load("pusht").steps == 3


def test_a_wrong_argument_is_not_made_good_by_another_place(places: Path):
    with pytest.raises(DatasetNotFoundError, match="nowhere"):
        load("pusht", path=places / "nowhere")


@pytest.mark.parametrize(("name", "command"), [("pusht", "rnce data pusht --download"), ("path-planning", "rnce data")])
def test_not_found_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, command: str):
    monkeypatch.delenv("RNCE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DatasetNotFoundError, match=rf"RNCE_DATA is not set.*`{command}"):
        load(name)


def test_other_data_are_not_verified():
    with pytest.raises(DamagedDatasetError, match="array 'state' has sha256"):
        pusht.verify(toy(3))


@needs_data
def test_the_published_demonstrations():
    data = load("pusht", path=SHARED)
    pusht.verify(data)
    assert (len(data), data.steps) == (206, 25_650)
    lengths = data.lengths
    assert (lengths.min(), np.median(lengths), lengths.max()) == (49, 122, 246)
    assert lengths.mean() == pytest.approx(124.5, abs=0.05)
    assert data.spec.observations["state"].shape == (5,)
    assert data.spec.observations["img"].shape == (96, 96, 3)
    assert data.spec.actions["action"].low is not None
    assert "n_contacts" not in data.observation_keys
    assert data.windows(2, 16).event.shape == (25_650, 16)
    assert data[205]["img"][:2].max() <= 255


@needs_data
def test_a_mirrored_human_episode_simulates_to_the_mirror_image():
    data = load("pusht", path=SHARED)
    for number in (3, 51, 170):
        episode = data[number]
        _check_mirror(episode["state"][0].astype(np.float64), episode["action"].astype(np.float64))


def test_a_mirrored_episode_simulates_to_the_mirror_image():
    """Push the block about with targets that chase it; needs no data."""
    rng = np.random.default_rng(0)
    state = np.array([100.0, 400.0, 220.0, 300.0, 1.0])
    targets = np.linspace([100, 400], [330, 240], 40) + rng.normal(scale=5, size=(40, 2))
    moved = _check_mirror(state, targets)
    assert moved > 10  # the block was really pushed


def _check_mirror(state: np.ndarray, actions: np.ndarray) -> float:
    states, coverage = _simulate(state, actions)
    reflected = pusht.mirror(state, actions)
    mirrored_states, mirrored_coverage = _simulate(*reflected)
    (expected,) = pusht.mirror(states)
    assert mirrored_states[:, :4] == pytest.approx(expected[:, :4], abs=1e-6)
    assert np.cos(mirrored_states[:, 4] - expected[:, 4]) == pytest.approx(1, abs=1e-9)
    assert mirrored_coverage == pytest.approx(coverage, abs=1e-9)
    return float(np.linalg.norm(states[-1, 2:4] - states[0, 2:4]))


def _simulate(state: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    env = gym.make("PushT-v0", max_episode_steps=1000)
    observation, _ = env.reset(options={"state": state})
    states, coverage = [observation], []
    for action in actions:
        observation, _, _, _, info = env.step(action)
        states.append(observation)
        coverage.append(info["coverage"])
    env.close()
    return np.array(states), np.array(coverage)


def test_mirrored_images_show_the_mirrored_state():
    env = gym.make("PushT-v0", obs_type="pixels")
    state = np.array([120.0, 150.0, 150.0, 200.0, 2.5])
    image, _ = env.reset(options={"state": state})
    expected, _ = env.reset(options={"state": pusht.mirror(state)[0]})
    mirrored = pusht.mirror(state, image=image)[1]
    # Where a line falls on the pixels differs, so a little is left; without mirroring it is ten times as much.
    left = np.abs(mirrored.astype(float) - expected).mean()
    assert 10 * left < np.abs(image.astype(float) - expected).mean()


@needs_data
def test_mirrored_keypoints_lie_on_the_mirrored_block():
    data = load("pusht", path=SHARED)
    state, keypoint = data.arrays["state"][:2000:40], data.arrays["keypoint"][:2000:40]
    mirrored_state, mirrored = pusht.mirror(state, keypoint=keypoint)
    assert _in_body(mirrored_state, mirrored) == pytest.approx(_in_body(state, keypoint), abs=1e-3)


def _in_body(state: np.ndarray, points: np.ndarray) -> np.ndarray:
    offset = (points - state[:, None, 2:4]).astype(np.float64)
    cos, sin = np.cos(state[:, 4]), np.sin(state[:, 4])
    turn = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)
    return offset @ turn


def test_mirroring_twice_changes_nothing():
    rng = np.random.default_rng(0)
    arrays = {
        "state": rng.uniform(0, 6, (7, 5)),
        "action": rng.uniform(0, 512, (7, 2)),
        "keypoint": rng.uniform(0, 512, (7, 9, 2)),
        "image": rng.integers(0, 256, (7, 8, 8, 3)),
    }
    twice = pusht.mirror(*pusht.mirror(**arrays))
    for before, after in zip(arrays.values(), twice, strict=True):
        assert after == pytest.approx(before)


def test_the_goal_mirrors_to_itself():
    goal = np.array([256.0, 256.0, 256.0, 256.0, np.pi / 4])
    assert pusht.mirror(goal)[0] == pytest.approx(goal)


def test_with_mirror_doubles_the_episodes():
    rng = np.random.default_rng(0)
    data = Dataset(
        {"state": rng.uniform(0, 6, (9, 5)).astype(np.float32), "action": rng.uniform(0, 512, (9, 2))}, np.array([4, 9])
    )
    doubled = pusht.with_mirror(data)
    assert doubled.episode_ends.tolist() == [4, 9, 13, 18]
    assert np.array_equal(doubled[1]["state"], data[1]["state"])
    assert np.array_equal(doubled[3]["action"], pusht.mirror(data[1]["state"], data[1]["action"])[1])
    assert doubled.arrays["state"].dtype == np.float32
