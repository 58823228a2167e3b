"""Reading the columns of a LeRobot dataset: numbers, pictures and videos."""

import io
import subprocess
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rnce.datasets.errors import DamagedDatasetError
from rnce.datasets.piecewise import PiecewiseArray

__all__ = ["RowGroups", "image_column", "video_column"]


class RowGroups:
    """The parquet files of a dataset as one sequence of rows that is read by row group."""

    def __init__(self, paths: Iterable[Path]):
        self._groups: list[tuple[pq.ParquetFile, Path, int]] = []
        counts: list[int] = []
        for path in paths:
            try:
                file = pq.ParquetFile(path, memory_map=True)
            except (pa.ArrowException, OSError) as error:
                raise DamagedDatasetError(f"{path} is damaged ({error})") from error
            for group in range(file.num_row_groups):
                self._groups.append((file, path, group))
                counts.append(file.metadata.row_group(group).num_rows)
        self.ends = np.cumsum(counts, dtype=np.int64)

    def column(self, name: str) -> np.ndarray:
        """All numbers of a column."""
        return np.concatenate([_numbers(self.read(group, name), name) for group in range(len(self._groups))])

    def read(self, number: int, name: str) -> pa.Array:
        """One row group of a column."""
        file, path, group = self._groups[number]
        if name not in file.schema_arrow.names:
            raise DamagedDatasetError(f"{path}: array {name!r} is missing")
        try:
            return file.read_row_group(group, columns=[name]).column(name).combine_chunks()
        except (pa.ArrowException, OSError) as error:
            raise DamagedDatasetError(f"{path}: array {name!r}: row group {group} is damaged ({error})") from error


def image_column(groups: RowGroups, name: str, shape: tuple[int, ...]) -> PiecewiseArray:
    """Pictures inside the parquet files, decoded when they are sliced."""
    import imageio.v3 as iio

    def read(group: int, rows: np.ndarray) -> np.ndarray:
        column = groups.read(group, name)
        out = np.empty((len(rows), *shape), np.uint8)
        for place, row in enumerate(rows.tolist()):
            try:
                out[place] = iio.imread(io.BytesIO(column[row].as_py()["bytes"])).reshape(shape)
            except Exception as error:  # the decoders raise many types
                raise DamagedDatasetError(
                    f"array {name!r}: row {row} of row group {group} is no image of shape {shape} ({error})"
                ) from error
        return out

    return PiecewiseArray(groups.ends, shape, np.uint8, read)


def video_column(
    folder: Path, info: Mapping[str, Any], name: str, ends: np.ndarray, shape: tuple[int, ...]
) -> PiecewiseArray:
    """Frames of MP4 files, in which every episode is a stretch; decoded an episode at a time."""
    stretches = _stretches(folder, info, name)
    if len(stretches) != len(ends):
        raise DamagedDatasetError(f"{folder}: meta/episodes lists {len(stretches)} episodes, the data have {len(ends)}")

    @lru_cache(maxsize=2)  # neighbouring windows lie in the same episode
    def decode(episode: int) -> np.ndarray:
        path, start = stretches[episode]
        count = int(np.diff(ends, prepend=0)[episode])
        # Half a frame early, so that rounding cannot skip the first one.
        frames = _frames(path, max(0.0, start - 0.5 / info["fps"]), count, shape)
        if len(frames) != count:
            raise DamagedDatasetError(f"{path}: episode {episode} has {len(frames)} frames for {count} steps")
        return frames

    return PiecewiseArray(ends, shape, np.uint8, lambda episode, rows: decode(episode)[rows])


def _frames(path: Path, start: float, count: int, shape: tuple[int, ...]) -> np.ndarray:
    import imageio_ffmpeg

    if not path.is_file():
        raise DamagedDatasetError(f"{path} is missing")
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-ss", f"{start:.6f}", "-i", str(path)]
    command += ["-frames:v", str(count), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    if ran.returncode or len(ran.stdout) % int(np.prod(shape)):
        why = " ".join(ran.stderr.decode(errors="replace").split()) or f"frames are not of shape {shape}"
        raise DamagedDatasetError(f"{path} cannot be decoded ({why})")
    return np.frombuffer(ran.stdout, np.uint8).reshape(-1, *shape)


def _stretches(folder: Path, info: Mapping[str, Any], name: str) -> list[tuple[Path, float]]:
    """The file of each episode and the second at which it starts there."""
    wanted = [f"videos/{name}/{each}" for each in ("chunk_index", "file_index", "from_timestamp")]
    files = sorted((folder / "meta" / "episodes").glob("*/*.parquet"))
    try:
        rows = [row for file in files for row in pq.read_table(file, columns=["episode_index", *wanted]).to_pylist()]
        rows.sort(key=lambda row: row["episode_index"])
        located = [[row[key] for key in wanted] for row in rows]
        path = info["video_path"]
        return [
            (folder / path.format(video_key=name, chunk_index=chunk, file_index=file), float(start))
            for chunk, file, start in located
        ]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DamagedDatasetError(f"{folder}/meta/episodes does not say where {name!r} lies ({error})") from error


def _numbers(column: pa.Array, name: str) -> np.ndarray:
    """Nested lists of equal length as one array."""
    shape = [len(column)]
    while pa.types.is_nested(column.type):
        before = len(column)
        column = column.flatten()
        shape.append(len(column) // max(before, 1))
    if column.null_count or np.prod(shape, dtype=np.int64) != len(column):
        raise DamagedDatasetError(f"array {name!r} has missing values or rows of different lengths")
    return column.to_numpy(zero_copy_only=False).reshape(shape)
