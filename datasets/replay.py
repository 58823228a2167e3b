"""The native format on disk: a zarr replay buffer, `data/<key>` by step and `meta/episode_ends`.

Reads zarr 2 (as the original Push-T data are) and zarr 3, writes zarr 3. Further arrays in `meta/` hold one row per
episode. Stores written here carry the attribute `rnce`, and with it a promise that makes appending safe:

    an episode exists once its end is in `meta/episode_ends`, which is written last.

Rows after the last end are an append that was cut short; readers ignore them and the next append overwrites them.
"""

import itertools
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
import zarr.codecs
import zarr.errors
from tqdm import tqdm

from rnce.datasets.dataset import Dataset, StepArray, check_finite, is_lazy
from rnce.datasets.errors import DamagedDatasetError, DatasetError, DatasetNotFoundError

__all__ = ["ReplayWriter", "read", "read_replay", "write", "write_replay"]

MARK = "rnce"
SCHEMA = 1
CHUNK_BYTES = 2**20


def read_replay(path: str | Path, name: str | None = None) -> Dataset:
    """Open a replay buffer. Small arrays are read and checked now; images when they are sliced."""
    folder = Path(path).absolute()  # images are read later, perhaps from another working folder
    root = _open(folder, "r")
    mark = _mark(root)
    ends = _committed_ends(root)
    steps = int(ends[-1]) if len(ends) else 0
    arrays, episode_arrays = _children(root, "data"), _children(root, "meta")
    del episode_arrays["episode_ends"]
    return Dataset(
        arrays={key: _lazy_or_read(array, steps if mark else None) for key, array in arrays.items()},
        episode_ends=ends,
        episode_arrays={
            key: _CheckedArray(array, len(ends) if mark else None)[:] for key, array in episode_arrays.items()
        },
        observation_keys=tuple(mark.get("observation_keys", ())),
        action_keys=tuple(mark.get("action_keys", ())),
        attributes=mark.get("attributes", {}),
        name=name or folder.name,
    )


def write_replay(dataset: Dataset, path: str | Path, *, overwrite: bool = False, progress: bool = False) -> None:
    """Write a dataset as a zarr 3 replay buffer: under a temporary name first, then renamed.

    Args:
        dataset: What to write. Arrays that are on disk are copied piece by piece.
        path: The folder to make.
        overwrite: Replace an existing folder.
        progress: Show a progress bar.
    """
    with replaced_folder(Path(path), overwrite) as folder:
        root = zarr.open_group(folder, mode="w", zarr_format=3)
        root.attrs[MARK] = {
            "schema": SCHEMA,
            "observation_keys": list(dataset.observation_keys),
            "action_keys": list(dataset.action_keys),
            "attributes": dict(dataset.attributes),
        }
        for key, array in dataset.arrays.items():
            _create(root, f"data/{key}", array, progress)
        for key, array in dataset.episode_arrays.items():
            _create(root, f"meta/{key}", array, progress)
        _create(root, "meta/episode_ends", dataset.episode_ends, progress)


class ReplayWriter:
    """Appends episodes to a replay buffer, which the first one creates.

        writer = ReplayWriter("my_demos.zarr")
        writer.append_episode({"state": states, "action": actions})     # (steps, 5) and (steps, 2)

    Keep an episode in memory while it is played and append it when it ends. A process that is killed loses that
    episode only: everything appended before stays readable. One writer at a time.

    Args:
        path: The folder, new or existing (also one that was not written here).
        attributes: Plain JSON values to keep with a new store, such as the environment's name.
    """

    def __init__(self, path: str | Path, attributes: Mapping[str, Any] | None = None):
        self.path = Path(path)
        self.attributes = dict(attributes or {})

    def append_episode(
        self, arrays: Mapping[str, np.ndarray], episode_arrays: Mapping[str, np.ndarray] | None = None
    ) -> int:
        """Append one episode and return how many there are now.

        Args:
            arrays: One row per step, the same keys and shapes in every episode.
            episode_arrays: One value for the whole episode, such as a scene.
        """
        steps = {key: np.asarray(value) for key, value in arrays.items()}
        once = {key: np.asarray(value)[None] for key, value in (episode_arrays or {}).items()}
        length = len(next(iter(steps.values()), ()))
        # Building a dataset of the one episode checks it: lengths agree, nothing empty, all finite.
        episode = Dataset(steps, np.array([length]), once, attributes=self.attributes, name=f"episode for {self.path}")
        if not self.path.exists():
            write_replay(episode, self.path)
            return 1
        root = _open(self.path, "r+")
        stored = {**_prefixed(root, "data"), **_prefixed(root, "meta")}
        ends_array = stored.pop("meta/episode_ends")
        ends = _committed_ends(root)
        new = {
            **{f"data/{key}": value for key, value in steps.items()},
            **{f"meta/{key}": v for key, v in once.items()},
        }
        _check_matches(self.path, stored, new)
        if not _mark(root):
            read_replay(self.path)  # a store from elsewhere must be whole before it takes on our promise
            root.attrs[MARK] = {"schema": SCHEMA}
            (self.path / ".zmetadata").unlink(missing_ok=True)
        start = int(ends[-1]) if len(ends) else 0
        for key, value in new.items():
            _write_rows(stored[key], start if key.startswith("data/") else len(ends), value)
        _write_rows(ends_array, len(ends), np.array([start + length]))
        return len(ends) + 1


@contextmanager
def replaced_folder(path: Path, overwrite: bool) -> Iterator[Path]:
    """A temporary folder that takes the name `path` when the block ends well, and is removed when it does not."""
    if path.exists() and not overwrite:
        raise DatasetError(f"{path} exists already; choose another name or pass overwrite")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        if path.exists():
            old = path.with_name(f".{path.name}.{os.getpid()}.old")
            path.rename(old)
            temporary.rename(path)
            shutil.rmtree(old)
        else:
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


class _CheckedArray:
    """A zarr array that is read when sliced, where every value that comes out has been checked."""

    def __init__(self, array: zarr.Array, length: int | None = None):
        self._array = array
        rows = array.shape[0] if length is None else min(length, array.shape[0])
        self.shape = (rows, *array.shape[1:])
        self.dtype = np.dtype(array.dtype)
        _check_chunks(array, rows)

    def __getitem__(self, rows: Any) -> np.ndarray:
        chosen = np.arange(self.shape[0])[rows]
        try:
            if isinstance(rows, slice) and len(chosen) and chosen[-1] - chosen[0] == len(chosen) - 1:
                values = self._array[int(chosen[0]) : int(chosen[-1]) + 1]
            else:
                picked = np.asarray(self._array.oindex[np.atleast_1d(chosen)])
                values = picked.reshape(*chosen.shape, *self.shape[1:])
        except Exception as error:  # zarr and its codecs raise many types
            raise _diagnosis(self._array, np.atleast_1d(chosen), error) from error
        values = np.asarray(values)
        try:
            check_finite(_store(self._array), self._array.path, values.reshape(-1, *self.shape[1:]))
        except DamagedDatasetError:
            bad = ~np.isfinite(values.reshape(chosen.size, -1)).all(axis=1)
            row = int(np.atleast_1d(chosen)[np.argmax(bad)])
            raise DamagedDatasetError(
                f"{_store(self._array)}: array {self._array.path!r} is not finite in row {row}, "
                f"chunk {_chunk_name(self._array, row // _grid(self._array)[0])}"
            ) from None
        return values

    def __len__(self) -> int:
        return self.shape[0]


def _lazy_or_read(array: zarr.Array, length: int | None) -> StepArray:
    checked = _CheckedArray(array, length)
    return checked if is_lazy(checked.shape, checked.dtype) else checked[:]


def _open(path: Path, mode: Any) -> zarr.Group:
    if not path.is_dir():
        raise DatasetNotFoundError(f"{path} is not a folder")
    try:
        root = zarr.open_group(path, mode=mode, use_consolidated=False)
        found = {f"{group}/{key}" for group in ("data", "meta") for key in _children(root, group)}
    except DatasetError:
        raise
    except Exception as error:
        raise DamagedDatasetError(f"{path}: the zarr metadata cannot be read ({error})") from error
    if "meta/episode_ends" not in found:
        raise DamagedDatasetError(f"{path}: array 'meta/episode_ends' is missing; is this a replay buffer?")
    schema = _mark(root).get("schema", SCHEMA)
    if schema > SCHEMA:
        raise DatasetError(f"{path}: written with schema {schema}, but this version reads up to {SCHEMA}; upgrade rnce")
    return root


def _mark(root: zarr.Group) -> dict[str, Any]:
    mark = root.attrs.get(MARK, {})
    return dict(mark) if isinstance(mark, Mapping) else {}


def _children(root: zarr.Group, group: str) -> dict[str, zarr.Array]:
    """Arrays of a subgroup in order of name; nested ones are named with slashes, as in `data/camera/left`."""
    if group not in root:
        raise DamagedDatasetError(f"{_folder(root.store)}: group {group!r} is missing; is this a replay buffer?")
    arrays: dict[str, zarr.Array] = {}
    for name, node in sorted(root[group].members()):  # type: ignore[union-attr]
        if isinstance(node, zarr.Array):
            arrays[name] = node
        else:
            arrays.update({f"{name}/{key}": array for key, array in _children(root, f"{group}/{name}").items()})
    return arrays


def _prefixed(root: zarr.Group, group: str) -> dict[str, zarr.Array]:
    return {f"{group}/{key}": array for key, array in _children(root, group).items()}


def _committed_ends(root: zarr.Group) -> np.ndarray:
    ends = _CheckedArray(_children(root, "meta")["episode_ends"])[:].astype(np.int64)
    # Growing the array and filling its new entry are two steps; between them the entry is zero.
    return ends[:-1] if _mark(root) and len(ends) and ends[-1] == 0 else ends


def _create(root: zarr.Group, key: str, values: StepArray, progress: bool) -> None:
    dtype = np.dtype(values.dtype)
    row_bytes = max(1, int(np.prod(values.shape[1:], dtype=np.int64)) * dtype.itemsize)
    rows = max(1, min(CHUNK_BYTES // row_bytes, 4096))
    array = root.create_array(
        key,
        shape=values.shape,
        dtype=dtype,
        chunks=(rows, *(max(1, size) for size in values.shape[1:])),
        compressors=[zarr.codecs.BloscCodec(cname="zstd", clevel=5), zarr.codecs.Crc32cCodec()],
        config={"write_empty_chunks": True},  # so that a chunk that is not there is a chunk that got lost
    )
    starts = range(0, values.shape[0], rows)
    for start in tqdm(starts, desc=key, unit="chunk", disable=not progress):
        array[start : start + rows] = values[start : start + rows]


def _write_rows(array: zarr.Array, start: int, values: np.ndarray) -> None:
    """Make the array end with `values` from row `start`; zarr replaces each file it touches by renaming."""
    array = array.with_config({"write_empty_chunks": True})
    array.resize((start + len(values), *array.shape[1:]))
    array[start:] = values


def _check_matches(path: Path, stored: Mapping[str, zarr.Array], new: Mapping[str, np.ndarray]) -> None:
    if stored.keys() != new.keys():
        raise DatasetError(f"{path} holds {', '.join(stored)}; the episode has {', '.join(new)}")
    for key, value in new.items():
        if value.shape[1:] != stored[key].shape[1:]:
            raise DatasetError(f"{path}: {key!r} has rows of shape {stored[key].shape[1:]}, got {value.shape[1:]}")
        if not np.can_cast(value.dtype, stored[key].dtype, "same_kind"):
            raise DatasetError(f"{path}: {key!r} is {stored[key].dtype}, got {value.dtype}")


def _check_chunks(array: zarr.Array, rows: int) -> None:
    """Check that the chunks are there and of the size they claim, without decoding them.

    A chunk that is not there reads as zeros. Where the writer is known to write every chunk, it is damage instead:
    writers of zarr 2 replay buffers and this module do, others of zarr 3 leave out empty chunks by default.
    """
    folder = _folder(array.store)
    codecs = [codec.__class__.__name__ for codec in array.compressors]
    complete = array.metadata.zarr_format == 2 or "Crc32cCodec" in codecs
    counts = [-(-size // chunk) for size, chunk in zip((rows, *array.shape[1:]), _grid(array), strict=True)]
    for coordinates in itertools.product(*map(range, counts)):
        key = array.metadata.encode_chunk_key(coordinates)
        file = folder / array.path / key
        if file.is_file():
            if codecs[-1:] in (["Blosc"], ["BloscCodec"]) and array.shards is None:
                _check_blosc(file, f"{folder}: array {array.path!r}: chunk {key}")
        elif complete:
            raise DamagedDatasetError(f"{folder}: array {array.path!r}: chunk {key} is missing")


def _check_blosc(file: Path, what: str) -> None:
    """Blosc believes the size in its header and reads past the end of a truncated buffer; so look first."""
    with file.open("rb") as stream:
        header = stream.read(16)
    size = file.stat().st_size
    claimed = int.from_bytes(header[12:16], "little")
    if len(header) < 16 or claimed != size:
        raise DamagedDatasetError(f"{what} is damaged (it has {size} bytes instead of {claimed})")


def _diagnosis(array: zarr.Array, rows: np.ndarray, error: Exception) -> DamagedDatasetError:
    """Which chunk it was: read those that the rows touch one by one."""
    size = _grid(array)[0]
    for number in np.unique(rows // size).tolist():
        try:
            array[number * size : (number + 1) * size]
        except Exception as cause:
            return DamagedDatasetError(
                f"{_store(array)}: array {array.path!r}: chunk {_chunk_name(array, number)} is damaged ({cause})"
            )
    return DamagedDatasetError(f"{_store(array)}: array {array.path!r} cannot be read ({error})")


def _grid(array: zarr.Array) -> tuple[int, ...]:
    return array.shards or array.chunks


def _chunk_name(array: zarr.Array, number: int) -> str:
    """The file's name; zero for the axes that replay buffers do not cut."""
    return array.metadata.encode_chunk_key((number, *(0 for _ in array.shape[1:])))


def _store(array: zarr.Array) -> str:
    return str(_folder(array.store))


def _folder(store: Any) -> Path:
    return Path(store.root)


read, write = read_replay, write_replay  # what `formats` calls
