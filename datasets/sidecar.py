"""A small file beside a converted dataset that says what the other format has no word for.

With it, converting to Minari or LeRobot and back restores names, shapes and the arrays that are stored once per
episode; other readers ignore it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rnce.datasets.dataset import Dataset, StepArray
from rnce.datasets.errors import DamagedDatasetError

__all__ = ["read_sidecar", "restore", "write_sidecar"]

FILE = "rnce.json"


def write_sidecar(dataset: Dataset, folder: Path, stored_as: Mapping[str, str] | None = None) -> None:
    """Note the dataset's own names, shapes and types in a folder; `stored_as` maps the other format's names to them."""
    described = {
        "stored_as": dict(stored_as or {}),
        "arrays": {key: _describe(array) for key, array in dataset.arrays.items()},
        "episode_arrays": {key: _describe(array) for key, array in dataset.episode_arrays.items()},
        "observation_keys": list(dataset.observation_keys),
        "action_keys": list(dataset.action_keys),
        "attributes": dict(dataset.attributes),
    }
    (folder / FILE).write_text(json.dumps(described, indent=2))


def read_sidecar(folder: Path) -> dict[str, Any] | None:
    """What `write_sidecar` noted, or None for a folder that somebody else wrote."""
    if not (folder / FILE).is_file():
        return None
    try:
        return json.loads((folder / FILE).read_text())
    except ValueError as error:
        raise DamagedDatasetError(f"{folder / FILE} cannot be read ({error})") from error


def restore(dataset: Dataset, folder: Path) -> Dataset:
    """A dataset as it was before it was converted, where that was noted.

    What was stored once per episode has been repeated at every step meanwhile; its first row is taken.
    """
    noted = read_sidecar(folder)
    if noted is None:
        return dataset
    starts = dataset.episode_ends - dataset.lengths
    try:
        return Dataset(
            {key: _as_noted(dataset.arrays[key], **noted["arrays"][key]) for key in noted["arrays"]},
            dataset.episode_ends,
            {
                key: np.asarray(
                    dataset.episode_arrays[key] if key in dataset.episode_arrays else dataset.arrays[key][starts]
                )
                .reshape(len(dataset), *described["shape"])
                .astype(described["dtype"])
                for key, described in noted["episode_arrays"].items()
            },
            observation_keys=tuple(noted["observation_keys"]),
            action_keys=tuple(noted["action_keys"]),
            attributes=noted["attributes"],
            name=dataset.name,
        )
    except (KeyError, TypeError) as error:
        raise DamagedDatasetError(f"{folder / FILE} does not fit the data beside it: {error}") from error


class _CastArray:
    """Another array with its rows cast and reshaped when they are read."""

    def __init__(self, array: StepArray, shape: tuple[int, ...], dtype: np.dtype):
        self._array = array
        self.shape, self.dtype = (array.shape[0], *shape), dtype

    def __getitem__(self, rows: Any) -> np.ndarray:
        values = np.asarray(self._array[rows])
        leading = values.shape[: values.ndim - (len(self._array.shape) - 1)]
        return values.reshape(*leading, *self.shape[1:]).astype(self.dtype)


def _describe(array: StepArray) -> dict[str, Any]:
    return {"shape": list(array.shape[1:]), "dtype": np.dtype(array.dtype).name}


def _as_noted(array: StepArray, shape: list[int], dtype: str) -> StepArray:
    if isinstance(array, np.ndarray):
        return array.reshape(len(array), *shape).astype(dtype)
    if tuple(shape) == tuple(array.shape[1:]) and np.dtype(dtype) == array.dtype:
        return array
    return _CastArray(array, tuple(shape), np.dtype(dtype))
