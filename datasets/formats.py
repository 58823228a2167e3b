"""The formats on disk: told apart by their content, and how each is read and written."""

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rnce.datasets.dataset import Dataset
from rnce.datasets.errors import UnknownDatasetError

__all__ = ["FORMATS", "detect", "read", "write"]


class _Format(NamedTuple):
    module: str
    what: str
    # Any of these files gives a folder away.
    files: tuple[str, ...]
    # What must be installed, and the extra of this package that brings it.
    needs: tuple[str, str] | None = None

    def function(self, name: str) -> Callable[..., Any]:
        if self.needs and importlib.util.find_spec(self.needs[0]) is None:
            raise ImportError(f"a {self.what} needs {self.needs[0]}: pip install 'rnce[{self.needs[1]}]'")
        return getattr(importlib.import_module(self.module), name)


FORMATS: dict[str, _Format] = {
    "zarr": _Format("rnce.datasets.replay", "zarr replay buffer", ("zarr.json", ".zgroup")),
    "minari": _Format(
        "rnce.datasets.minari_format",
        "Minari dataset",
        ("data/main_data.hdf5", "data/metadata.json"),
        ("minari", "minari"),
    ),
    "lerobot": _Format("rnce.datasets.lerobot_format", "LeRobot dataset", ("meta/info.json",), ("pyarrow", "lerobot")),
}


def detect(folder: Path) -> str:
    """The name of a folder's format."""
    for name, candidate in FORMATS.items():
        if any((folder / file).is_file() for file in candidate.files):
            return name
    known = "; ".join(f"a {each.what} has {' or '.join(each.files)}" for each in FORMATS.values())
    raise UnknownDatasetError(f"{folder} is in no known format: {known}")


def read(folder: Path) -> Dataset:
    """Open a folder in any of the formats."""
    return FORMATS[detect(folder)].function("read")(folder)


def write(dataset: Dataset, folder: Path, name: str, *, overwrite: bool = False, progress: bool = False) -> None:
    """Write a dataset in one of the formats: under a temporary name first, then renamed."""
    FORMATS[name].function("write")(dataset, folder, overwrite=overwrite, progress=progress)
