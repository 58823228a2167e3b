"""The native format: round trips, appends, and every way a store can be broken."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

from rnce.datasets import (
    DamagedDatasetError,
    Dataset,
    DatasetError,
    ReplayWriter,
    UnknownDatasetError,
    load,
    read_replay,
    write_replay,
)


def toy(episodes: int = 3, image: bool = True) -> Dataset:
    rng = np.random.default_rng(0)
    ends = np.cumsum(rng.integers(40, 80, episodes))
    steps = int(ends[-1])
    arrays = {
        "state": rng.normal(size=(steps, 5)).astype(np.float32),
        "action": rng.normal(size=(steps, 2)).astype(np.float32),
        "reward": np.zeros(steps, np.float32),
    }
    if image:
        arrays["img"] = rng.integers(0, 256, (steps, 96, 96, 3)).astype(np.uint8)
    return Dataset(arrays, ends, {"scene": rng.normal(size=(episodes, 4))}, attributes={"env": "Toy-v0"})


def assert_same(one: Dataset, other: Dataset) -> None:
    assert np.array_equal(one.episode_ends, other.episode_ends)
    assert set(one.arrays) == set(other.arrays)
    for key in one.arrays:
        left, right = one.arrays[key][:], other.arrays[key][:]
        assert left.dtype == right.dtype
        assert np.array_equal(left, right)
    for key in one.episode_arrays:
        assert np.array_equal(one.episode_arrays[key], other.episode_arrays[key])


def write_v2(dataset: Dataset, path: Path) -> None:
    """As the original tools write it: zarr 2, blosc-zstd, a folder of chunks 161 steps long."""
    from numcodecs import Blosc

    root = zarr.open_group(path, mode="w", zarr_format=2)
    for key, array in dataset.arrays.items():
        codec = Blosc("zstd", clevel=5, shuffle=2)
        chunks = (161, *array.shape[1:])
        made = root.create_array(
            f"data/{key}", shape=array.shape, dtype=array.dtype, chunks=chunks, compressors=codec,
            config={"write_empty_chunks": True},
        )  # fmt: skip
        made[:] = array[:]
    root.create_array("meta/episode_ends", data=dataset.episode_ends)


def test_round_trip(tmp_path: Path):
    dataset = toy()
    write_replay(dataset, tmp_path / "toy.zarr")
    again = load(tmp_path / "toy.zarr")
    assert_same(dataset, again)
    assert set(again.observation_keys) == {"state", "img", "scene"}
    assert again.action_keys == ("action",)
    assert again.attributes == {"env": "Toy-v0"}
    assert os.listdir(tmp_path) == ["toy.zarr"]  # no temporary files are left


def test_zarr_2_and_a_stranger_s_zarr_3(tmp_path: Path):
    dataset = toy()
    write_v2(dataset, tmp_path / "two")
    assert_same(read_replay(tmp_path / "two"), Dataset(dataset.arrays, dataset.episode_ends))
    root = zarr.open_group(tmp_path / "three", mode="w")
    for key, array in dataset.arrays.items():
        root.create_array(f"data/{key}", data=array[:])  # the empty chunks of `reward` are left out
    root.create_array("meta/episode_ends", data=dataset.episode_ends)
    assert_same(read_replay(tmp_path / "three"), Dataset(dataset.arrays, dataset.episode_ends))


def test_images_stay_on_disk_until_sliced(tmp_path: Path):
    dataset = toy()
    write_replay(dataset, tmp_path / "toy.zarr")
    again = read_replay(tmp_path / "toy.zarr")
    assert isinstance(again.arrays["state"], np.ndarray)
    assert not isinstance(again.arrays["img"], np.ndarray)
    shutil.rmtree(tmp_path / "toy.zarr" / "data" / "img" / "c")
    with pytest.raises(DamagedDatasetError, match="'data/img': chunk c/0/0/0/0 is missing"):
        read_replay(tmp_path / "toy.zarr")
    episode = toy()[1]
    assert np.array_equal(episode["img"], dataset.arrays["img"][episode.rows])
    pairs = toy().gather(toy().windows(2, 4))
    assert pairs.context["img"].shape == (toy().steps, 2, 96, 96, 3)


@pytest.mark.parametrize("rows", [slice(3, 9), slice(None, None, 7), 5, -1, [4, 2, 2], slice(0, 0)])
def test_lazy_arrays_slice_like_numpy(tmp_path: Path, rows: object):
    dataset = toy(1)
    write_replay(dataset, tmp_path / "toy.zarr")
    assert np.array_equal(read_replay(tmp_path / "toy.zarr").arrays["img"][rows], dataset.arrays["img"][rows])


def test_an_existing_folder_is_kept_unless_told(tmp_path: Path):
    write_replay(toy(2), tmp_path / "toy.zarr")
    with pytest.raises(DatasetError, match="exists already"):
        write_replay(toy(3), tmp_path / "toy.zarr")
    write_replay(toy(3), tmp_path / "toy.zarr", overwrite=True)
    assert len(read_replay(tmp_path / "toy.zarr")) == 3


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path):
    class Unreadable:
        shape, dtype = (toy(1).steps, 96, 96, 3), np.dtype(np.uint8)

        def __getitem__(self, rows: object, /) -> np.ndarray:
            raise OSError("disk gone")

    broken = Dataset({**toy(1, image=False).arrays, "img": Unreadable()}, toy(1).episode_ends)
    with pytest.raises(OSError, match="disk gone"):
        write_replay(broken, tmp_path / "toy.zarr")
    assert os.listdir(tmp_path) == []


def test_append(tmp_path: Path):
    dataset = toy(4)
    writer = ReplayWriter(tmp_path / "toy.zarr", {"env": "Toy-v0"})
    for number, episode in enumerate(dataset):
        steps = {key: episode[key] for key in dataset.arrays}
        assert writer.append_episode(steps, {"scene": episode["scene"]}) == number + 1
    assert_same(dataset, read_replay(tmp_path / "toy.zarr"))


def test_append_to_a_zarr_2_store(tmp_path: Path):
    dataset = toy(2)
    write_v2(dataset, tmp_path / "two")
    extra = {key: array[:5] for key, array in dataset.arrays.items()}
    assert ReplayWriter(tmp_path / "two").append_episode(extra) == 3
    again = read_replay(tmp_path / "two")
    assert np.array_equal(again[2]["state"], dataset.arrays["state"][:5])
    assert np.array_equal(again[1]["img"], dataset[1]["img"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.pop("action"), "the episode has"),
        (lambda e: e.update(action=e["action"][:, :1]), r"rows of shape \(2,\), got \(1,\)"),
        (lambda e: e.update(action=e["action"][:-1]), "has 9 rows"),
        (lambda e: e.update(state=e["state"] * np.nan), "'state' is not finite in row 0"),
        (lambda e: e.update(state=e["state"].astype(complex)), "'data/state' is float32, got complex128"),
        (lambda e: e.update({key: value[:0] for key, value in e.items()}), "increasing"),
    ],
)
def test_a_bad_episode_is_refused_and_changes_nothing(tmp_path: Path, change, message: str):
    dataset = toy(2, image=False)
    dataset = Dataset(dataset.arrays, dataset.episode_ends)
    write_replay(dataset, tmp_path / "toy.zarr")
    episode = {key: array[:10] for key, array in dataset.arrays.items()}
    change(episode)
    with pytest.raises(DatasetError, match=message):
        ReplayWriter(tmp_path / "toy.zarr").append_episode(episode)
    assert_same(dataset, read_replay(tmp_path / "toy.zarr"))


@pytest.mark.parametrize("stop_before", ["data/state", "data/action", "meta/episode_ends", "the end's value"])
def test_an_append_cut_short_loses_that_episode_only(tmp_path: Path, monkeypatch, stop_before: str):
    """Stop at each step of an append; what was there before stays, and the next append goes well."""
    import rnce.datasets.replay as replay

    class KilledError(BaseException):
        pass

    dataset = Dataset(toy(2, image=False).arrays, toy(2).episode_ends)
    path = tmp_path / "toy.zarr"
    write_replay(dataset, path)
    episode = {key: array[:30] for key, array in dataset.arrays.items()}
    original = replay._write_rows

    def dying(array: zarr.Array, start: int, values: np.ndarray) -> None:
        if array.path == stop_before:
            raise KilledError
        if array.path == "meta/episode_ends":  # grown, not filled
            array.resize((start + 1,))
            raise KilledError
        original(array, start, values)

    monkeypatch.setattr(replay, "_write_rows", dying)
    with pytest.raises(KilledError):
        ReplayWriter(path).append_episode(episode)
    assert_same(dataset, read_replay(path))
    monkeypatch.undo()
    assert ReplayWriter(path).append_episode(episode) == 3
    assert np.array_equal(read_replay(path)[2]["state"], episode["state"])


RECORDER = """
import sys, numpy as np
from rnce.datasets import ReplayWriter
writer, number = ReplayWriter(sys.argv[1]), 0
while True:
    number += 1
    values = np.full((300, 400), number, np.float32)
    writer.append_episode({"state": values, "action": values[:, :2]})
    print(number, flush=True)
"""


def test_a_killed_recorder_loses_the_episode_it_was_writing_only(tmp_path: Path):
    path = tmp_path / "recorded.zarr"
    for kill_after in (1, 3, 8):
        before = len(read_replay(path)) if path.exists() else 0
        process = subprocess.Popen([sys.executable, "-c", RECORDER, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(kill_after)]
        process.send_signal(signal.SIGKILL)
        reported = max(map(int, "".join([*lines, process.stdout.read()]).split()))
        process.wait()
        process.stdout.close()
        after = read_replay(path)
        assert len(after) >= before + reported
        for number, episode in enumerate(list(after)[before:], start=1):
            assert np.all(episode["state"] == number)
            assert np.all(episode["action"] == number)


def chunk(path: Path, key: str) -> Path:
    folder = path / "data" / key
    return next(
        file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.startswith((".z", "zarr"))
    )


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("damage", ["truncated", "emptied", "removed", "garbage"])
@pytest.mark.parametrize("key", ["state", "img"])
def test_damaged_chunks_are_named(tmp_path: Path, version: int, damage: str, key: str):
    path = tmp_path / "toy.zarr"
    (write_v2 if version == 2 else write_replay)(toy(), path)
    file = chunk(path, key)
    content = file.read_bytes()
    if damage == "removed":
        file.unlink()
    else:
        file.write_bytes({"truncated": content[: len(content) // 2], "emptied": b"", "garbage": b"x" * 100}[damage])
    name = file.relative_to(path / "data" / key).as_posix()
    with pytest.raises(DamagedDatasetError, match=rf"'data/{key}': chunk {name} is (damaged|missing)"):
        read_replay(path).arrays[key][:]


def test_a_flipped_bit_is_noticed_in_our_own_stores(tmp_path: Path):
    path = tmp_path / "toy.zarr"
    write_replay(toy(), path)
    file = chunk(path, "state")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(DamagedDatasetError, match="'data/state': chunk c/0/0 is damaged"):
        read_replay(path)


def test_values_that_are_not_finite_are_named(tmp_path: Path):
    path = tmp_path / "toy.zarr"
    write_v2(toy(), path)
    state = zarr.open_array(path / "data" / "state", mode="r+")
    state[163, 1] = np.inf
    with pytest.raises(DamagedDatasetError, match=r"'data/state' is not finite in row 163, chunk 1\.0"):
        read_replay(path)


@pytest.mark.parametrize(
    ("ends", "message"),
    [([5, 3, 9], "entry 1 is 3"), ([5, 5, 9], "entry 1 is 5"), ([0, 9], "entry 0 is 0"), ([4, 8], "has 9 rows")],
)
def test_episode_ends_are_checked(tmp_path: Path, ends: list[int], message: str):
    root = zarr.open_group(tmp_path / "toy.zarr", mode="w")
    root.create_array("data/state", data=np.ones((9, 2)))
    root.create_array("meta/episode_ends", data=np.array(ends))
    with pytest.raises(DamagedDatasetError, match=message):
        read_replay(tmp_path / "toy.zarr")


@pytest.mark.parametrize(
    ("remove", "message"),
    [("meta/episode_ends", "'meta/episode_ends' is missing"), ("data", "group 'data' is missing")],
)
def test_missing_parts_are_named(tmp_path: Path, remove: str, message: str):
    write_replay(toy(1), tmp_path / "toy.zarr")
    shutil.rmtree(tmp_path / "toy.zarr" / remove)
    with pytest.raises(DamagedDatasetError, match=message):
        read_replay(tmp_path / "toy.zarr")


def test_broken_metadata_and_newer_schemas(tmp_path: Path):
    write_replay(toy(1), tmp_path / "toy.zarr")
    root = zarr.open_group(tmp_path / "toy.zarr", mode="r+")
    root.attrs["rnce"] = {"schema": 99}
    with pytest.raises(DatasetError, match="schema 99"):
        read_replay(tmp_path / "toy.zarr")
    (tmp_path / "toy.zarr" / "data" / "state" / "zarr.json").write_text("{")
    with pytest.raises(DamagedDatasetError, match="metadata cannot be read"):
        read_replay(tmp_path / "toy.zarr")


def test_a_folder_that_is_no_dataset(tmp_path: Path):
    with pytest.raises(UnknownDatasetError, match="no known format"):
        load(tmp_path)
