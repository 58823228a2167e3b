"""Minari and LeRobot: round trips without loss, in both directions, and damage that is named."""

import json
import shutil
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pyarrow.parquet as pq
import pytest

from rnce.datasets import DamagedDatasetError, Dataset, DatasetError, load
from rnce.datasets.formats import FORMATS, detect, read, write


def toy() -> Dataset:
    rng = np.random.default_rng(0)
    ends = np.array([12, 30, 37])
    return Dataset(
        {
            "state": rng.normal(size=(37, 5)).astype(np.float32),
            "keypoint": rng.normal(size=(37, 9, 2)),
            "camera/left": rng.integers(0, 256, (37, 48, 48, 3)).astype(np.uint8),
            "img": rng.integers(0, 256, (37, 40, 40, 3)).astype(np.float32),
            "action": rng.normal(size=(37, 2)).astype(np.float32),
            "gripper": rng.integers(0, 2, (37, 1)),
            "reward": rng.normal(size=37).astype(np.float32),
            "n_contacts": rng.integers(0, 3, (37, 1)).astype(np.float32),
        },
        ends,
        {"scene": rng.normal(size=(3, 10, 3)).astype(np.float32), "seed": np.array([5, 6, 7])},
        attributes={"env": "Toy-v0", "fps": 10},
        name="toy",
    )


def assert_same(one: Dataset, other: Dataset) -> None:
    assert np.array_equal(one.episode_ends, other.episode_ends)
    assert list(one.arrays) == list(other.arrays)
    assert list(one.episode_arrays) == list(other.episode_arrays)
    for left, right in ((one.arrays, other.arrays), (one.episode_arrays, other.episode_arrays)):
        for key in left:
            assert np.array_equal(left[key][:], right[key][:]), key
            assert left[key].dtype == right[key].dtype
            assert left[key].shape == right[key].shape
    assert one.observation_keys == other.observation_keys
    assert one.action_keys == other.action_keys
    assert one.attributes == other.attributes


@pytest.mark.parametrize("name", FORMATS)
def test_round_trip(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    dataset = toy()
    monkeypatch.chdir(tmp_path)
    folder = Path("toy-v0")
    write(dataset, folder, name)
    assert detect(folder) == name
    again = load(folder)
    monkeypatch.chdir("/")  # what is read later must still be found
    if name == "zarr":  # lists its arrays in order of name
        again = Dataset(
            {key: again.arrays[key] for key in dataset.arrays}, again.episode_ends,
            {key: again.episode_arrays[key] for key in dataset.episode_arrays},
            again.observation_keys, again.action_keys, again.attributes,
        )  # fmt: skip
    assert_same(dataset, again)
    assert not isinstance(again.arrays["camera/left"], np.ndarray)  # images stay on disk
    assert again.arrays["camera/left"][[30, 2, 2]].tolist() == dataset.arrays["camera/left"][[30, 2, 2]].tolist()
    assert again.gather(again.windows(2, 4)).context["img"].shape == (37, 2, 40, 40, 3)
    assert [each.name for each in tmp_path.iterdir()] == ["toy-v0"]


@pytest.mark.parametrize("name", FORMATS)
def test_an_existing_folder_is_kept_unless_told(tmp_path: Path, name: str):
    write(toy(), tmp_path / "toy-v0", name)
    with pytest.raises(DatasetError, match="exists already"):
        write(toy(), tmp_path / "toy-v0", name)
    write(toy(), tmp_path / "toy-v0", name, overwrite=True)


@pytest.mark.parametrize("name", ["minari", "lerobot"])
def test_a_missing_extra_is_named(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ImportError, match=rf"pip install 'rnce\[{name}\]'"):
        write(toy(), tmp_path / "toy", name)


def test_minari_opens_what_we_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import minari

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    dataset = toy()
    write(dataset, tmp_path / "toy-v0", "minari")
    opened = minari.load_dataset("toy-v0")
    assert opened.total_episodes == 3
    assert opened.total_steps == 37
    episode = opened[1]
    assert np.array_equal(episode.actions, dataset[1]["action"])
    assert np.array_equal(episode.observations["state"][:-1], dataset[1]["state"])
    assert np.array_equal(episode.observations["camera"]["left"][:-1], dataset[1]["camera/left"])
    assert opened.observation_space["state"].contains(episode.observations["state"][0])
    assert episode.truncations.tolist() == [False] * 17 + [True]


def test_what_minari_wrote_survives_reading_and_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nested spaces, the observation after the last action, infos and metadata all come back."""
    import minari
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    rng = np.random.default_rng(0)
    box = gym.spaces.Box(-1, 1, (3,), np.float64)
    observation_space = gym.spaces.Dict({"arm": gym.spaces.Dict({"joints": box}), "goal": box})
    buffers = [
        EpisodeBuffer(
            observations={"arm": {"joints": rng.uniform(-1, 1, (n + 1, 3))}, "goal": rng.uniform(-1, 1, (n + 1, 3))},
            actions=list(rng.integers(0, 4, n)),
            rewards=list(rng.normal(size=n)),
            terminations=list(np.arange(n) == n - 1),
            truncations=[False] * n,
            infos={"distance": rng.normal(size=n + 1)},
        )
        for n in (4, 7)
    ]
    warnings.simplefilter("ignore")  # Minari's own, about an environment that is not given
    original = minari.create_dataset_from_buffers(
        "their/task-v0", buffers, observation_space=observation_space, action_space=gym.spaces.Discrete(4),
        author="A", algorithm_name="B", author_email="C", code_permalink="D", description="E",
    )  # fmt: skip
    warnings.simplefilter("error")
    dataset = read(tmp_path / "their" / "task-v0")
    assert dataset.observation_keys == ("arm/joints", "goal")
    assert dataset.action_keys == ("action",)
    assert dataset[1]["distance"].shape == (7,)
    for way in (tmp_path / "zarr", None):  # straight, and by way of a replay buffer
        if way is not None:
            write(dataset, way, "zarr")
            dataset = read(way)
        write(dataset, tmp_path / "again-v0", "minari", overwrite=True)
        copy = minari.load_dataset("again-v0")
        assert copy.observation_space == original.observation_space
        assert copy.action_space == original.action_space
        assert copy.storage.metadata["author"] == {"A"}
        assert copy.storage.metadata["algorithm_name"] == "B"
        for left, right in zip(original.iterate_episodes(), copy.iterate_episodes(), strict=True):
            assert np.array_equal(left.observations["arm"]["joints"], right.observations["arm"]["joints"])
            assert np.array_equal(left.observations["goal"], right.observations["goal"])
            assert np.array_equal(left.infos["distance"], right.infos["distance"])
            for key in ("actions", "rewards", "terminations", "truncations"):
                assert np.array_equal(getattr(left, key), getattr(right, key))
                assert getattr(left, key).dtype == getattr(right, key).dtype


def test_a_damaged_minari_dataset(tmp_path: Path):
    write(toy(), tmp_path / "toy-v0", "minari")
    file = tmp_path / "toy-v0" / "data" / "main_data.hdf5"
    file.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(DamagedDatasetError, match="episode 0 cannot be read"):
        load(tmp_path / "toy-v0")


def test_minari_names_that_could_not_be_found_again(tmp_path: Path):
    with pytest.raises(ValueError, match="Malformed"):
        write(toy(), tmp_path / "not a name", "minari")


def test_lerobot_layout(tmp_path: Path):
    dataset = toy()
    folder = tmp_path / "toy"
    write(dataset, folder, "lerobot")
    info = json.loads((folder / "meta" / "info.json").read_text())
    assert info["codebase_version"] == "v3.0"
    assert (info["total_episodes"], info["total_frames"], info["fps"]) == (3, 37, 10)
    assert info["features"]["observation.state"] == {"dtype": "float32", "shape": [5], "names": None}
    assert info["features"]["observation.images.camera.left"]["dtype"] == "image"
    table = pq.read_table(folder / info["data_path"].format(chunk_index=0, file_index=0))
    assert set(table.column_names) == set(info["features"])
    assert table["index"].to_pylist() == list(range(37))
    assert table["episode_index"].to_pylist() == [0] * 12 + [1] * 18 + [2] * 7
    assert table["frame_index"].to_pylist()[12:15] == [0, 1, 2]
    assert table["timestamp"].to_pylist()[13] == pytest.approx(0.1)
    assert table["next.reward"].to_pylist() == pytest.approx(dataset.arrays["reward"][:].tolist())
    assert table["observation.images.img"][0].as_py()["bytes"].startswith(b"\x89PNG")
    episodes = pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [(each["dataset_from_index"], each["dataset_to_index"]) for each in episodes] == [
        (0, 12),
        (12, 30),
        (30, 37),
    ]
    assert pq.read_table(folder / "meta" / "tasks.parquet").to_pydict() == {"task_index": [0], "task": ["toy"]}
    stats = json.loads((folder / "meta" / "stats.json").read_text())
    assert stats["action"]["mean"] == pytest.approx(dataset.arrays["action"][:].mean(axis=0).tolist(), rel=1e-5)
    assert stats["action"]["std"] == pytest.approx(dataset.arrays["action"][:].std(axis=0).tolist(), rel=1e-5)
    assert np.shape(stats["observation.images.img"]["mean"]) == (3, 1, 1)
    assert stats["observation.images.img"]["max"][0][0][0] == pytest.approx(1)


def test_lerobot_of_another_writer(tmp_path: Path):
    """Without our own notes, names lose their prefix and what was stored once per episode is there at every step."""
    dataset = toy()
    write(dataset, tmp_path / "toy", "lerobot")
    (tmp_path / "toy" / "rnce.json").unlink()
    again = load(tmp_path / "toy")
    assert set(again.observation_keys) == {"state", "keypoint", "camera.left", "img", "gripper", "scene"}
    assert again.action_keys == ("action",)
    assert np.array_equal(again.arrays["keypoint"][:], dataset.arrays["keypoint"][:])
    assert again.arrays["scene"].shape == (37, 10, 3)
    assert again.attributes == {"fps": 10, "tasks": ["toy"]}


def test_lerobot_splits_large_datasets_into_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rnce.datasets.lerobot_format.FILE_BYTES", 1000)
    monkeypatch.setattr("rnce.datasets.lerobot_format.FILES_PER_CHUNK", 2)
    write(toy(), tmp_path / "toy", "lerobot")
    assert sorted(str(file.relative_to(tmp_path / "toy" / "data")) for file in tmp_path.rglob("data/*/*.parquet")) == [
        "chunk-000/file-000.parquet",
        "chunk-000/file-001.parquet",
        "chunk-001/file-000.parquet",
    ]
    assert_same(toy(), load(tmp_path / "toy"))


def test_lerobot_videos(tmp_path: Path):
    """Two episodes in one MP4 file; frames are flat grey levels, which survive the codec."""
    import imageio_ffmpeg

    grey = np.arange(20, 220, 10)
    dataset = Dataset(
        {"state": grey[:, None].astype(np.float32), "action": np.zeros((20, 1), np.float32)}, np.array([8, 20])
    )
    folder = tmp_path / "toy"
    write(dataset, folder, "lerobot")
    (folder / "rnce.json").unlink()
    path = folder / "videos" / "observation.images.top" / "chunk-000" / "file-000.mp4"
    path.parent.mkdir(parents=True)
    writer = imageio_ffmpeg.write_frames(str(path), (64, 48), fps=10, macro_block_size=1)
    writer.send(None)
    for level in grey.tolist():
        writer.send(np.full((48, 64, 3), level, np.uint8).tobytes())
    writer.close()
    info = json.loads((folder / "meta" / "info.json").read_text())
    names = ["height", "width", "channels"]
    info["features"]["observation.images.top"] = {"dtype": "video", "shape": [48, 64, 3], "names": names}
    info["video_path"] = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    episodes = folder / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(episodes)
    for key, values in {"chunk_index": [0, 0], "file_index": [0, 0], "from_timestamp": [0.0, 0.8]}.items():
        table = table.append_column(f"videos/observation.images.top/{key}", [values])
    pq.write_table(table, episodes)
    again = load(folder)
    assert again.arrays["top"].shape == (20, 48, 64, 3)
    frames = again.arrays["top"][:].astype(float).mean(axis=(1, 2, 3))
    assert frames == pytest.approx(grey, abs=4)
    assert again[1]["top"].mean(axis=(1, 2, 3)) == pytest.approx(grey[8:], abs=4)
    path.unlink()
    with pytest.raises(DamagedDatasetError, match=r"file-000\.mp4 is missing"):
        load(folder).arrays["top"][3]


def _cut(folder: Path) -> None:
    file = next(folder.glob("data/*/*.parquet"))
    file.write_bytes(file.read_bytes()[:-100])


def _edit_info(**changes: object):
    def edit(folder: Path) -> None:
        path = folder / "meta" / "info.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return edit


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_cut, r"file-000\.parquet is damaged"),
        (lambda folder: shutil.rmtree(folder / "data"), "there is no data"),
        (lambda folder: (folder / "meta" / "info.json").write_text("{"), "cannot be read"),
        (_edit_info(total_frames=99), "total_frames is 99, the data have 37"),
        (_edit_info(codebase_version="v2.1"), "version v2.1"),
        (
            _edit_info(features={"observation.x": {"dtype": "float32", "shape": [2]}}),
            "array 'observation.x' is missing",
        ),
        (lambda folder: (folder / "rnce.json").write_text("{}"), "does not fit"),
    ],
)
def test_damaged_lerobot_datasets(tmp_path: Path, damage, message: str):
    write(toy(), tmp_path / "toy", "lerobot")
    if "observation.x" in message:
        (tmp_path / "toy" / "rnce.json").unlink()
    damage(tmp_path / "toy")
    with pytest.raises(DatasetError, match=message):
        load(tmp_path / "toy")


def test_images_that_are_no_images_cannot_be_written_as_such(tmp_path: Path):
    dataset = Dataset({"img": np.full((4, 40, 40, 3), 0.5, np.float32), "action": np.zeros((4, 1))}, np.array([4]))
    with pytest.raises(DatasetError, match="'img' holds images whose values are not whole numbers"):
        write(dataset, tmp_path / "toy", "lerobot")
    assert list(tmp_path.iterdir()) == []
