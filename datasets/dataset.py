"""A dataset in memory or on disk: step arrays that are cut into episodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from rnce.datasets.errors import DamagedDatasetError
from rnce.datasets.windows import Windows, windows

__all__ = ["ArraySpec", "Dataset", "Episode", "Pairs", "Spec", "StepArray"]

# Rows larger than this (images) stay on disk until they are sliced.
LAZY_ROW_BYTES = 4096

# Neither seen by a policy nor done by one.
BOOKKEEPING = frozenset({"reward", "terminated", "truncated", "done", "timestamp", "n_contacts", "seed"})


class StepArray(Protocol):
    """Anything sliced like a numpy array with one row per step; reading may be deferred until then."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of steps first."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """Type of one element."""
        ...

    def __getitem__(self, rows: Any, /) -> np.ndarray:
        """Read rows."""
        ...


@dataclass(frozen=True)
class ArraySpec:
    """One named array: the shape of one step's value, its type and its range over the dataset.

    The range of images is that of their type and None for float images: finding it would mean reading them.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    low: np.ndarray | None
    high: np.ndarray | None


class Spec(NamedTuple):
    """What a policy sees and what it does, by name."""

    observations: dict[str, ArraySpec]
    actions: dict[str, ArraySpec]


class Pairs(NamedTuple):
    """Gathered windows: arrays of shape (n, n_ctx, ...) and (n, n_pred, ...)."""

    context: dict[str, np.ndarray]
    event: dict[str, np.ndarray]


@dataclass(frozen=True)
class Episode(Mapping[str, np.ndarray]):
    """Named arrays of one episode. An array is read when it is asked for."""

    dataset: "Dataset"
    index: int

    @property
    def rows(self) -> slice:
        """Where the episode lies in the step arrays."""
        ends = self.dataset.episode_ends
        return slice(int(ends[self.index - 1]) if self.index else 0, int(ends[self.index]))

    def __getitem__(self, key: str) -> np.ndarray:
        if key in self.dataset.episode_arrays:
            return self.dataset.episode_arrays[key][self.index]
        return self.dataset.arrays[key][self.rows]

    def __iter__(self) -> Iterator[str]:
        yield from self.dataset.arrays
        yield from self.dataset.episode_arrays

    def __len__(self) -> int:
        return len(self.dataset.arrays) + len(self.dataset.episode_arrays)

    @property
    def length(self) -> int:
        """Number of steps."""
        return self.rows.stop - self.rows.start


@dataclass(frozen=True)
class Dataset:
    """Episodes with named arrays. `len` and iteration are over episodes.

    Keys that start with "action" are actions and bookkeeping such as rewards is neither; the rest are observations.
    Say otherwise with `observation_keys` and `action_keys`.

    Args:
        arrays: One row per step; numpy arrays, or arrays that are read from disk when sliced.
        episode_ends: For each episode, the number of the row after its last.
        episode_arrays: One row per episode: what does not change during an episode, such as its scene.
        observation_keys: Names of the arrays that are observations.
        action_keys: Names of the arrays that are actions.
        attributes: Anything else that is known of the data; plain JSON values.
        name: For messages and plots.
    """

    arrays: Mapping[str, StepArray]
    episode_ends: np.ndarray
    episode_arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    observation_keys: tuple[str, ...] = ()
    action_keys: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = "dataset"

    def __post_init__(self) -> None:
        ends = np.asarray(self.episode_ends, dtype=np.int64)
        object.__setattr__(self, "episode_ends", ends)
        _check(self.name, self.arrays, ends, self.episode_arrays)
        named = [*self.arrays, *self.episode_arrays]
        if not self.action_keys:
            object.__setattr__(self, "action_keys", tuple(key for key in self.arrays if key.startswith("action")))
        if not self.observation_keys:
            rest = tuple(key for key in named if key not in self.action_keys and key not in BOOKKEEPING)
            object.__setattr__(self, "observation_keys", rest)
        for key in (*self.observation_keys, *self.action_keys):
            if key not in named:
                raise DamagedDatasetError(f"{self.name}: there is no array {key!r}; it has {', '.join(named)}")

    def __len__(self) -> int:
        return len(self.episode_ends)

    def __getitem__(self, index: int) -> Episode:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"{self.name}: episode {index} of {count}")
        return Episode(self, index % count)

    def __iter__(self) -> Iterator[Episode]:
        return (Episode(self, index) for index in range(len(self)))

    @property
    def steps(self) -> int:
        """Number of steps in all episodes."""
        return int(self.episode_ends[-1]) if len(self) else 0

    @property
    def lengths(self) -> np.ndarray:
        """Number of steps of each episode."""
        return np.diff(self.episode_ends, prepend=0)

    @cached_property
    def spec(self) -> Spec:
        """Shapes, types and ranges of observations and actions."""
        return Spec(
            {key: self.array_spec(key) for key in self.observation_keys},
            {key: self.array_spec(key) for key in self.action_keys},
        )

    def array_spec(self, key: str) -> ArraySpec:
        """Shape, type and range of one array."""
        array = self.arrays[key] if key in self.arrays else self.episode_arrays[key]
        return ArraySpec(tuple(array.shape[1:]), np.dtype(array.dtype), *_range(array))

    def windows(self, n_ctx: int, n_pred: int) -> Windows:
        """Index arrays of all (context, event) pairs; see `rnce.datasets.windows`."""
        return windows(self.episode_ends, n_ctx, n_pred)

    def gather(
        self, chosen: Windows, observations: Sequence[str] | None = None, actions: Sequence[str] | None = None
    ) -> Pairs:
        """Read the arrays of windows: all of them, or rows `Windows(*(part[rows] for part in all_of_them))`.

        What is stored once per episode appears in the context without a time axis.

        Args:
            chosen: The windows to read.
            observations: Keys for the context; None means all observations.
            actions: Keys for the event; None means all actions.
        """
        seen = self.observation_keys if observations is None else observations
        done = self.action_keys if actions is None else actions
        return Pairs(
            {
                key: self.episode_arrays[key][chosen.episode]
                if key in self.episode_arrays
                else _take(self.arrays[key], chosen.context)
                for key in seen
            },
            {key: _take(self.arrays[key], chosen.event) for key in done},
        )


def is_lazy(shape: Sequence[int], dtype: np.dtype) -> bool:
    """Whether an array's rows are so large that it should stay on disk."""
    return int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize > LAZY_ROW_BYTES


def _take(array: StepArray, index: np.ndarray) -> np.ndarray:
    if isinstance(array, np.ndarray):
        return array[index]
    # Windows overlap: read each row from disk once.
    rows, inverse = np.unique(index, return_inverse=True)
    return array[rows][inverse.reshape(index.shape)]


def _range(array: StepArray) -> tuple[np.ndarray | None, np.ndarray | None]:
    dtype = np.dtype(array.dtype)
    if is_lazy(array.shape, dtype):
        if not np.issubdtype(dtype, np.integer):
            return None, None
        limits = np.iinfo(dtype)
        return np.full(array.shape[1:], limits.min, dtype), np.full(array.shape[1:], limits.max, dtype)
    if array.shape[0] == 0:
        return None, None
    values = array[:]
    return values.min(axis=0), values.max(axis=0)


def _check(
    name: str, arrays: Mapping[str, StepArray], ends: np.ndarray, episode_arrays: Mapping[str, np.ndarray]
) -> None:
    if ends.ndim != 1 or np.any(np.diff(ends, prepend=0) <= 0):
        bad = int(np.argmax(np.diff(ends, prepend=0) <= 0)) if ends.ndim == 1 else 0
        raise DamagedDatasetError(
            f"{name}: episode_ends must be strictly increasing from above 0; entry {bad} is {ends.ravel()[bad]}"
        )
    if not arrays:
        raise DamagedDatasetError(f"{name}: holds no arrays")
    steps = int(ends[-1]) if len(ends) else 0
    for key, array in arrays.items():
        if array.shape[0] != steps:
            raise DamagedDatasetError(
                f"{name}: array {key!r} has {array.shape[0]} rows, but the last episode ends at {steps}"
            )
        if isinstance(array, np.ndarray):
            check_finite(name, key, array)
    for key, array in episode_arrays.items():
        if array.shape[0] != len(ends):
            raise DamagedDatasetError(f"{name}: array {key!r} has {array.shape[0]} rows for {len(ends)} episodes")
        check_finite(name, key, array)


def check_finite(name: str, key: str, values: np.ndarray, first_row: int = 0) -> None:
    """Refuse NaN and infinity, naming the first row that holds one."""
    if np.issubdtype(values.dtype, np.floating) and not np.isfinite(values).all():
        row = first_row + int(np.argmax(~np.isfinite(values.reshape(len(values), -1)).all(axis=1)))
        raise DamagedDatasetError(f"{name}: array {key!r} is not finite in row {row}")
