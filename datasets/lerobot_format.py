"""LeRobot v3 datasets to and from ours.

A LeRobot dataset is a folder: `meta/info.json` describes the features, `meta/episodes` where each episode lies,
`meta/tasks.parquet` the tasks, `meta/stats.json` ranges and moments, `data` holds one row per step with images as PNG.
Names lose their prefix on reading: `observation.state` is our `state` and `observation.images.top` our `top`.
Videos are decoded when they are sliced. Images are written as PNG, without loss.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from rnce.datasets.dataset import Dataset, StepArray, is_lazy
from rnce.datasets.errors import DamagedDatasetError, DatasetError
from rnce.datasets.lerobot_columns import RowGroups, image_column, video_column
from rnce.datasets.replay import replaced_folder
from rnce.datasets.sidecar import read_sidecar, restore, write_sidecar

__all__ = ["read", "write"]

VERSION = "v3.0"
CHUNK_FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
FILE_BYTES = 100 * 2**20
FILES_PER_CHUNK = 1000
INDEX_FEATURES = {"timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64"}
INDEX_FEATURES |= {"task_index": "int64"}
# Names that LeRobot has for our bookkeeping.
BOOKKEEPING = {"reward": "next.reward", "terminated": "next.done"}


def read(folder: Path) -> Dataset:
    """Open a LeRobot v3 dataset by its folder. Images and videos are decoded when they are sliced."""
    folder = Path(folder).absolute()  # pictures are read later, perhaps from another working folder
    info = _info(folder)
    files = sorted((folder / "data").glob("*/*.parquet"))
    if not files:
        raise DamagedDatasetError(f"{folder}: there is no data/chunk-*/file-*.parquet")
    groups = RowGroups(files)
    owner = np.asarray(groups.column("episode_index"))
    if np.any(np.diff(owner) < 0):
        row = 1 + int(np.argmax(np.diff(owner) < 0))
        raise DamagedDatasetError(f"{folder}: array 'episode_index' decreases in row {row}")
    ends = np.flatnonzero(np.diff(owner, append=owner[-1] + 1)) + 1
    for what, found in (("total_frames", len(owner)), ("total_episodes", len(ends))):
        if info.get(what, found) != found:
            raise DamagedDatasetError(f"{folder}: meta/info.json says {what} is {info[what]}, the data have {found}")
    features = {key: each for key, each in info["features"].items() if key not in INDEX_FEATURES}
    names = (read_sidecar(folder) or {}).get("stored_as") or _short_names(features)
    arrays: dict[str, StepArray] = {}
    for feature, described in features.items():
        if described["dtype"] == "string":
            continue  # instructions have no place in an array of numbers
        arrays[names[feature]] = _array(folder, info, groups, feature, ends)
    dataset = Dataset(
        arrays,
        ends,
        observation_keys=tuple(
            names[key] for key in features if key.startswith("observation") and names[key] in arrays
        ),
        action_keys=tuple(names[key] for key in features if key.startswith("action")),
        attributes={"fps": info.get("fps"), "tasks": _tasks(folder)},
        name=folder.name,
    )
    return restore(dataset, folder)


def write(dataset: Dataset, folder: Path, *, overwrite: bool = False, progress: bool = False) -> None:
    """Write a LeRobot v3 dataset: images as PNG inside the parquet files, one row group per episode.

    The frame rate is the dataset's attribute `fps`, else 10; the task its attribute `tasks`, else its name.
    """
    fps = dataset.attributes.get("fps") or 10
    tasks = list(dataset.attributes.get("tasks") or [dataset.name])
    columns = {key: _Column.of(dataset, key) for key in (*dataset.arrays, *dataset.episode_arrays)}
    stats = {column.feature: _Moments(column) for column in columns.values()}
    with replaced_folder(Path(folder), overwrite) as temporary, _RollingWriter(temporary / "data") as writer:
        located: list[dict[str, Any]] = []
        for episode in tqdm(dataset, desc="episodes", unit="episode", disable=not progress):
            rows = np.arange(episode.rows.start, episode.rows.stop)
            table: dict[str, Any] = {}
            for key, column in columns.items():
                values = episode[key]
                if key in dataset.episode_arrays:
                    values = np.repeat(np.asarray(values)[None], episode.length, axis=0)
                stats[column.feature].add(values)
                table[column.feature] = column.encode(values, f"{dataset.name}: array {key!r}")
            table["timestamp"] = pa.array(((rows - rows[0]) / fps).astype(np.float32))
            table["frame_index"] = pa.array(rows - rows[0])
            table["episode_index"] = pa.array(np.full(len(rows), episode.index))
            table["index"] = pa.array(rows)
            table["task_index"] = pa.array(np.zeros(len(rows), np.int64))
            chunk, file = writer.write(pa.table(table))
            located.append(
                {
                    "episode_index": episode.index,
                    "tasks": tasks[:1],
                    "length": episode.length,
                    "dataset_from_index": int(rows[0]),
                    "dataset_to_index": int(rows[-1]) + 1,
                    "data/chunk_index": chunk,
                    "data/file_index": file,
                    "meta/episodes/chunk_index": 0,
                    "meta/episodes/file_index": 0,
                }
            )
        features = {column.feature: column.description for column in columns.values()}
        features |= {key: {"dtype": dtype, "shape": [1], "names": None} for key, dtype in INDEX_FEATURES.items()}
        _write_meta(temporary, features, located, tasks, fps, {key: each.result() for key, each in stats.items()})
        write_sidecar(dataset, temporary, {column.feature: key for key, column in columns.items()})


class _Column(NamedTuple):
    """How one of our arrays is stored."""

    feature: str
    shape: tuple[int, ...]
    dtype: np.dtype
    image: bool

    @classmethod
    def of(cls, dataset: Dataset, key: str) -> "_Column":
        array: StepArray = dataset.arrays[key] if key in dataset.arrays else dataset.episode_arrays[key]
        image = is_lazy(array.shape, np.dtype(array.dtype)) and array.shape[-1] in (1, 3, 4) and len(array.shape) == 4
        name = key.replace("/", ".")  # LeRobot uses the slash for itself
        if key in dataset.observation_keys:
            name = f"observation.images.{name}" if image else f"observation.{name}"
        return cls(BOOKKEEPING.get(key, name), tuple(array.shape[1:]), np.dtype(array.dtype), image)

    @property
    def description(self) -> dict[str, Any]:
        names = ["height", "width", "channels"] if self.image else None
        dtype = "image" if self.image else self.dtype.name
        return {"dtype": dtype, "shape": list(self.shape) or [1], "names": names}

    def encode(self, values: np.ndarray, what: str) -> pa.Array:
        if self.image:
            return pa.array([{"bytes": _png(frame, what), "path": None} for frame in values], _IMAGE)
        # LeRobot keeps vectors of one element as scalars.
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        for size in reversed(self.shape if self.shape != (1,) else ()):
            flat = pa.FixedSizeListArray.from_arrays(flat, size) if size else flat
        return flat


class _Moments:
    """Ranges and moments of one feature; images by channel and in [0, 1], as LeRobot wants them."""

    def __init__(self, column: _Column):
        self._image = column.image
        self._count = 0
        self._low: Any = np.inf
        self._high: Any = -np.inf
        self._sum: Any = 0.0
        self._squares: Any = 0.0

    def add(self, values: np.ndarray) -> None:
        numbers = values.astype(np.float64)
        axes = (0, 1, 2) if self._image else 0
        if self._image:
            numbers = numbers / 255
        self._count += len(values)
        self._low = np.minimum(self._low, numbers.min(axis=axes))
        self._high = np.maximum(self._high, numbers.max(axis=axes))
        # Sums of means, so that images of any size weigh alike.
        self._sum = self._sum + numbers.mean(axis=axes) * len(values)
        self._squares = self._squares + (numbers**2).mean(axis=axes) * len(values)

    def result(self) -> dict[str, Any]:
        mean = self._sum / self._count
        std = np.sqrt(np.maximum(self._squares / self._count - mean**2, 0))
        out = {"min": self._low, "max": self._high, "mean": mean, "std": std}
        shape = (-1, 1, 1) if self._image else (-1,) if np.ndim(mean) == 0 else np.shape(mean)
        return {**{key: np.reshape(value, shape).tolist() for key, value in out.items()}, "count": [self._count]}


class _RollingWriter:
    """Parquet files of bounded size below a folder, one row group per table."""

    def __init__(self, folder: Path):
        self._folder, self._number, self._writer, self._path = folder, 0, None, folder

    def __enter__(self) -> "_RollingWriter":
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, table: pa.Table) -> tuple[int, int]:
        if self._writer is not None and self._path.stat().st_size > FILE_BYTES:
            self._writer.close()
            self._writer = None
            self._number += 1
        chunk, file = divmod(self._number, FILES_PER_CHUNK)
        if self._writer is None:
            self._path = self._folder / f"{CHUNK_FILE.format(chunk_index=chunk, file_index=file)}.parquet"
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, table.schema, compression="snappy")
        self._writer.write_table(table)
        return chunk, file


_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def _info(folder: Path) -> dict[str, Any]:
    try:
        info = json.loads((folder / "meta" / "info.json").read_text())
    except (OSError, ValueError) as error:
        raise DamagedDatasetError(f"{folder}/meta/info.json cannot be read ({error})") from error
    version = str(info.get("codebase_version"))
    if not version.startswith("v3"):
        raise DatasetError(
            f"{folder}: a LeRobot dataset of version {version}; this reads {VERSION}, which "
            "lerobot.datasets.v30.convert_dataset_v21_to_v30 makes of v2.1"
        )
    if not isinstance(info.get("features"), dict):
        raise DamagedDatasetError(f"{folder}/meta/info.json has no features")
    return info


def _short_names(features: Mapping[str, Any]) -> dict[str, str]:
    ours = {theirs: own for own, theirs in BOOKKEEPING.items()}
    short = {
        key: ours.get(key, key.removeprefix("observation.images.").removeprefix("observation.")) for key in features
    }
    taken = list(short.values())
    return {key: name if taken.count(name) == 1 else key for key, name in short.items()}


def _array(folder: Path, info: Mapping[str, Any], groups: RowGroups, feature: str, ends: np.ndarray) -> StepArray:
    described = info["features"][feature]
    shape = tuple(described["shape"])
    if described["dtype"] in ("image", "video") and (described.get("names") or [""])[0] in ("channel", "channels"):
        shape = (*shape[1:], shape[0])  # some writers list the channels first; the pictures have them last
    if described["dtype"] == "image":
        return image_column(groups, feature, shape)
    if described["dtype"] == "video":
        return video_column(folder, info, feature, ends, shape)
    values = np.asarray(groups.column(feature))
    return values.reshape(len(values), *shape).astype(described["dtype"])


def _tasks(folder: Path) -> list[str]:
    path = folder / "meta" / "tasks.parquet"
    if not path.is_file():
        return []
    table = pq.read_table(path)
    texts = next((name for name in table.column_names if name != "task_index"), None)
    if texts is None:
        return []
    order = np.argsort(table.column("task_index").to_numpy())
    return [str(table.column(texts)[int(row)]) for row in order]


def _png(frame: np.ndarray, what: str) -> bytes:
    import imageio.v3 as iio

    if frame.dtype != np.uint8:
        exact = frame.astype(np.uint8)
        if not np.array_equal(exact, frame):
            raise DatasetError(f"{what} holds images whose values are not whole numbers from 0 to 255")
        frame = exact
    if frame.shape[-1] == 1:
        frame = frame[..., 0]
    return iio.imwrite("<bytes>", frame, extension=".png")


def _write_meta(
    folder: Path,
    features: Mapping[str, Any],
    located: list[dict[str, Any]],
    tasks: list[str],
    fps: float,
    stats: Mapping[str, Any],
) -> None:
    episodes = folder / "meta" / "episodes" / f"{CHUNK_FILE.format(chunk_index=0, file_index=0)}.parquet"
    episodes.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(located), episodes)
    pq.write_table(_tasks_table(tasks), folder / "meta" / "tasks.parquet")
    (folder / "meta" / "stats.json").write_text(json.dumps(stats, indent=2))
    info = {
        "codebase_version": VERSION,
        "robot_type": None,
        "total_episodes": len(located),
        "total_frames": sum(each["length"] for each in located),
        "total_tasks": len(tasks),
        "chunks_size": FILES_PER_CHUNK,
        "data_files_size_in_mb": FILE_BYTES // 2**20,
        "video_files_size_in_mb": 500,
        "fps": fps,
        "splits": {"train": f"0:{len(located)}"},
        "data_path": f"data/{CHUNK_FILE}.parquet",
        "video_path": None,
        "features": features,
    }
    (folder / "meta" / "info.json").write_text(json.dumps(info, indent=2))


def _tasks_table(tasks: list[str]) -> pa.Table:
    """LeRobot reads the tasks with pandas and expects their texts as its index."""
    table = pa.table({"task_index": pa.array(range(len(tasks)), pa.int64()), "task": tasks})
    columns = [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": dtype, "metadata": None}
        for name, kind, dtype in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    ]
    pandas = {"index_columns": ["task"], "column_indexes": [], "columns": columns, "pandas_version": "2.0.0"}
    return table.replace_schema_metadata({"pandas": json.dumps(pandas)})
