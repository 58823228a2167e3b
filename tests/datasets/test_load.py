"""Names, specs, splits and the `rnce data` commands."""

import json
from pathlib import Path

import numpy as np
import pytest

import rnce.datasets as datasets
from rnce.cli import main
from rnce.datasets import DamagedDatasetError, Dataset, UnknownDatasetError, load, seed_split, write_replay


def toy() -> Dataset:
    rng = np.random.default_rng(0)
    return Dataset(
        {"state": rng.normal(size=(9, 3)).astype(np.float32), "action": rng.normal(size=(9, 2)), "reward": np.ones(9)},
        np.array([4, 9]),
        {"scene": rng.normal(size=(2, 4))},
        name="toy",
    )


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UnknownDatasetError, match="did you mean 'pinwheel'"):
        load("pinweel")
    with pytest.raises(UnknownDatasetError, match="names are pusht, path-planning, pinwheel, spiral"):
        load("/no/such/folder")


def test_everything_that_is_promised_exists():
    for name in datasets.__all__:
        assert getattr(datasets, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        datasets.nothing  # noqa: B018


def test_episodes_and_spec():
    data = toy()
    assert len(data) == 2
    assert [episode.length for episode in data] == [4, 5]
    assert set(data[0]) == {"state", "action", "reward", "scene"}
    assert data[-1]["state"].shape == (5, 3)
    assert data[1]["scene"].shape == (4,)
    with pytest.raises(IndexError, match="episode 2 of 2"):
        data[2]
    assert data.observation_keys == ("state", "scene")
    spec = data.spec
    assert spec.observations["state"].dtype == np.float32
    low, high = spec.actions["action"].low, spec.actions["action"].high
    assert low is not None
    assert high is not None
    assert np.array_equal(low, data.arrays["action"][:].min(axis=0))
    assert np.array_equal(high, data.arrays["action"][:].max(axis=0))


@pytest.mark.parametrize(
    ("arrays", "ends", "message"),
    [
        ({}, [3], "holds no arrays"),
        ({"state": np.ones((3, 1))}, [[3]], "increasing"),
        ({"state": np.array([0.0, np.nan, 0.0])}, [3], "'state' is not finite in row 1"),
        ({"state": np.ones((3, 1)), "action": np.ones((2, 1))}, [3], "'action' has 2 rows"),
    ],
)
def test_contradictions_are_refused(arrays: dict, ends: list, message: str):
    with pytest.raises(DamagedDatasetError, match=message):
        Dataset(arrays, np.array(ends))


def test_keys_must_exist_and_episode_arrays_fit():
    with pytest.raises(DamagedDatasetError, match="there is no array 'stat'; it has state, action"):
        Dataset({"state": np.ones((3, 1)), "action": np.ones((3, 1))}, np.array([3]), observation_keys=("stat",))
    with pytest.raises(DamagedDatasetError, match="'scene' has 2 rows for 1 episodes"):
        Dataset({"state": np.ones((3, 1))}, np.array([3]), {"scene": np.ones((2, 4))})


@pytest.mark.parametrize(
    ("seed", "split"),
    [(0, "train"), (49_999, "train"), (50_000, "selection"), (50_999, "selection"), (100_000, "test"), (2**31, "test")],
)
def test_seed_splits(seed: int, split: str):
    assert seed_split(seed) == split


@pytest.mark.parametrize("seed", [-1, 51_000, 99_999])
def test_seeds_of_no_split(seed: int):
    with pytest.raises(ValueError, match=f"seed={seed} belongs to no split"):
        seed_split(seed)


def test_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_replay(toy(), tmp_path / "toy.zarr")
    files = ["--plot", str(tmp_path / "toy.png"), "--json", str(tmp_path / "toy.json"), "--verify"]
    main(["data", "info", str(tmp_path / "toy.zarr"), *files])
    out = capsys.readouterr().out
    assert "2 episodes, 9 steps" in out
    assert "4 / 4.5 / 4.5 / 5" in out
    assert "every value was read" in out
    figures = json.loads((tmp_path / "toy.json").read_text())
    assert figures["episodes"] == 2
    assert figures["actions"]["action"]["shape"] == [2]
    assert figures["others"].keys() == {"reward"}
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_convert_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_replay(toy(), tmp_path / "toy.zarr")
    main(["data", "convert", str(tmp_path / "toy.zarr"), str(tmp_path / "toy-v0"), "--format", "minari"])
    main(["data", "convert", str(tmp_path / "toy-v0"), str(tmp_path / "toy"), "--format", "lerobot"])
    main(["data", "convert", str(tmp_path / "toy"), str(tmp_path / "again.zarr")])
    assert "2 episodes, 9 steps written" in capsys.readouterr().out
    again = load(tmp_path / "again.zarr")
    for key, values in toy().arrays.items():
        assert np.array_equal(again.arrays[key][:], values[:])
        assert again.arrays[key].dtype == values.dtype
    assert np.array_equal(again.episode_arrays["scene"], toy().episode_arrays["scene"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["info", "pinwheel"], "a distribution to sample from"),
        (["info", "nowhere"], "no dataset or folder 'nowhere'"),
        (["convert", "spiral", "out"], "nothing to convert"),
        (["pusht", "--path", "nowhere"], "rnce data pusht --download"),
        (["pusht", "--path", "nowhere", "--download", "--url", "ftp://x"], "must start with http"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["data", *words])
    assert stop.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert message in lines[0]
