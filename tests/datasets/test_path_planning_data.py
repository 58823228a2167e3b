"""Snippets, recoveries and the store."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from test_stochgpmp import FAST

import rnce.datasets as datasets
from rnce.datasets import path_planning_generation as generation
from rnce.datasets.errors import DatasetError
from rnce.datasets.path_planning import load_snippets
from rnce.datasets.path_planning_generation import GenerationConfig, generate
from rnce.datasets.snippets import (
    SnippetConfig,
    cut_and_refine,
    displace_and_replan,
    even_speed,
    plan_times,
    snippet_rows,
)
from rnce.datasets.stochgpmp import Schedule
from rnce.envs.path_planning.geometry import min_clearance

SNIPPETS = SnippetConfig(refining=Schedule(4, 8, 0.3, 0.05), replanning=Schedule(8, 8, 0.5, 0.05))
CIRCLE = np.array([[0.0, 0.0, 0.2]], np.float32)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(generation, "BATCH", 3)
    monkeypatch.setattr("rnce.datasets.snippets.CHUNK", 32)


def arc(n: int = 50) -> np.ndarray:
    """Half round the circle, at constant speed."""
    angle = np.linspace(np.pi, 0, n)
    return 0.3 * np.stack([np.cos(angle), np.sin(angle)], axis=-1).astype(np.float32)


def test_rollouts_plan_at():
    assert plan_times(50).tolist() == [0, 10, 20, 30, 40]


def test_padding_is_that_of_rollouts():
    rows = snippet_rows(np.array([0, 10, 40]), 50)
    assert rows.tolist() == [
        [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        [8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20],
        [38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 49],
    ]


def test_even_speed_by_hand():
    path = np.array([[0.0, 0.0], [0.1, 0.0], [0.3, 0.0], [0.3, 0.3]], np.float32)
    np.testing.assert_allclose(even_speed(path[None])[0], [[0, 0], [0.2, 0], [0.3, 0.1], [0.3, 0.3]], atol=1e-6)
    np.testing.assert_allclose(even_speed(arc()[None])[0], arc(), atol=1e-6)
    assert even_speed(path[None][:0]).shape == (0, 4, 2)
    np.testing.assert_allclose(even_speed(arc()[None], 42)[0], arc(42), atol=1e-3)


def test_with_waypoints_to_spare_the_last_plan_may_wait_at_the_goal():
    config = GenerationConfig(planner=FAST, snippets=replace(SNIPPETS, spare=8))
    paths, scene = np.repeat(arc(42)[None], 32, axis=0), np.zeros(32, int)
    rng, circles = np.random.default_rng(0), np.repeat(CIRCLE[None], 32, axis=0)
    got, _ = generation._snippets(jax.random.key(0), rng, paths, scene, circles, config)
    last = got.reshape(32, 5, 13, 2)[:, -1]
    waiting = (last == arc(42)[-1]).all(axis=(1, 2))
    assert 0 < waiting.sum() < 32
    np.testing.assert_array_equal(last[:, -2:], np.broadcast_to(arc(42)[-1], (32, 2, 2)))


def test_snippets_are_pieces_of_the_path():
    times = np.array([0, 9, 20, 33, 40, 44])
    m = len(times)
    paths = np.repeat(arc()[None], m, axis=0)
    got = cut_and_refine(jax.random.key(0), paths, times, np.repeat(CIRCLE[None], m, axis=0), SNIPPETS, FAST)
    assert got.shape == (m, 13, 2)
    np.testing.assert_array_equal(got[0, :3], paths[0, [0, 0, 0]])
    np.testing.assert_array_equal(got[4, -2:], paths[0, [49, 49]])
    np.testing.assert_array_equal(got[2, [0, -1]], paths[0, [18, 30]])  # the ends of the piece
    np.testing.assert_allclose(got, paths[0][snippet_rows(times, 50)], atol=0.05)
    assert (min_clearance(got, CIRCLE) > 0.005).all()


@pytest.mark.parametrize("time", [10, 40])
def test_recoveries_start_displaced_and_end_at_the_goal(time):
    m = 40
    paths, circles = np.repeat(arc()[None], m, axis=0), np.repeat(CIRCLE[None], m, axis=0)
    rng = np.random.default_rng(0)
    got, good = displace_and_replan(jax.random.key(0), rng, paths, time, circles, SNIPPETS, FAST)
    off = got[:, 2] - arc()[time]
    assert 0.02 < off.std() < 0.04
    np.testing.assert_allclose(got[:, 0] - arc()[time - 2], 0.8 * off, atol=1e-6)  # it drifted there
    assert good.mean() > 0.5
    assert (min_clearance(got[good], CIRCLE) > 0.005).all()
    if time == 40:  # nine moves are left, and it arrives in time
        np.testing.assert_allclose(got[:, -2:], np.broadcast_to(arc()[-1], (m, 2, 2)), atol=1e-6)
    else:
        remaining = np.linalg.norm(got[good, -1] - arc()[20], axis=-1)
        assert np.median(remaining) < np.median(np.linalg.norm(off, axis=-1))


def test_round_trip_and_contract(tmp_path):
    config = GenerationConfig(scenes=5, seed=20, paths=4, planner=FAST, snippets=SNIPPETS)
    generate(tmp_path / "a.zarr", config, progress=False)
    assert [file.name for file in tmp_path.iterdir()] == ["a.zarr"]

    snippets = load_snippets(tmp_path / "a.zarr")
    m = len(snippets["positions"])
    assert snippets["positions"].shape == (m, 13, 2)
    assert snippets["positions"].dtype == snippets["scene_obstacles"].dtype == np.float32
    assert snippets["scene_index"].dtype == np.int32
    assert snippets["scene_obstacles"].shape == (5, 10, 3)
    assert snippets["scene_seed"].tolist() == [20, 21, 22, 23, 24]
    assert set(snippets["scene_index"]) == set(range(5))
    n_cut = 5 * 4 * 5
    assert 0.8 * n_cut / 0.6 <= m <= n_cut / 0.6 + 8  # two fifths are recoveries, less those that were refused
    circles = snippets["scene_obstacles"][snippets["scene_index"]]
    assert (min_clearance(snippets["positions"], circles) > 0.004).all()
    assert (np.abs(snippets["positions"]) <= 1).all()
    still = (snippets["positions"][:, 0] == snippets["positions"][:, 2]).all(axis=-1)
    assert still.sum() == 5 * 4  # the first plan of every path, and nothing else, has no speed

    episodes = datasets.load("path-planning", path=tmp_path / "a.zarr")
    assert len(episodes) == 20
    assert set(episodes.lengths) == {49}
    episode = episodes[7]
    np.testing.assert_array_equal(episode["position"][1:], episode["action"][:-1])
    np.testing.assert_allclose(episode["action"][-1], episode["goal"], atol=1e-6)
    assert min_clearance(episode["position"], episode["obstacles"]) > 0.005
    assert episodes.observation_keys == ("position", "obstacles", "goal")

    with pytest.raises(DatasetError, match="exists already"):
        generate(tmp_path / "a.zarr", config, progress=False)


def test_a_stopped_run_goes_on(tmp_path, monkeypatch):
    config = GenerationConfig(scenes=6, seed=20, paths=2, planner=FAST, snippets=SNIPPETS)
    whole = generation.make_batch
    made: list[int] = []

    def interrupted(seeds, config):
        if made:
            raise KeyboardInterrupt
        made.append(seeds.start)
        return whole(seeds, config)

    monkeypatch.setattr(generation, "make_batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        generate(tmp_path / "a.zarr", config, progress=False)
    assert not (tmp_path / "a.zarr").exists()

    def counted(seeds, config):
        made.append(seeds.start)
        return whole(seeds, config)

    monkeypatch.setattr(generation, "make_batch", counted)
    other = GenerationConfig(scenes=6, seed=20, paths=3, planner=FAST, snippets=SNIPPETS)
    with pytest.raises(DatasetError, match="other settings"):
        generate(tmp_path / "a.zarr", other, progress=False)
    shorter = GenerationConfig(scenes=3, seed=20, paths=2, planner=FAST, snippets=SNIPPETS)
    assert generation._open_parts(tmp_path / "a.zarr.parts", shorter)  # fewer scenes are the same settings
    generate(tmp_path / "a.zarr", config, progress=False)
    assert made == [20, 23]  # what was finished is not made again
    generate(tmp_path / "b.zarr", config, progress=False)
    first, second = load_snippets(tmp_path / "a.zarr"), load_snippets(tmp_path / "b.zarr")
    for key, values in first.items():
        np.testing.assert_array_equal(values, second[key], err_msg=key)


@pytest.mark.parametrize(("scenes", "seed"), [(2, 49_999), (1, 50_500), (1, 100_000), (1, -1)])
def test_only_training_scenes(scenes, seed):
    with pytest.raises(ValueError, match="not all for training"):
        GenerationConfig(scenes=scenes, seed=seed)


@pytest.mark.parametrize("change", [{"recoveries": 1.0}, {"recovery_size": 0.0}, {"jitter": 10}])
def test_settings_are_checked(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        SnippetConfig(**change)


def test_a_store_without_snippets_is_named(tmp_path):
    store = datasets.Dataset({"action": np.zeros((3, 2))}, np.array([3]))
    datasets.write_replay(store, tmp_path / "x.zarr")
    with pytest.raises(DatasetError, match=r"scenes/obstacles.*rnce data path-planning"):
        load_snippets(tmp_path / "x.zarr")
