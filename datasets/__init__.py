"""Demonstrations in, (context, event) pairs out.

`load` opens a dataset by name or path. What needs more than numpy is imported when it is used.
"""

import difflib
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from rnce.datasets.dataset import ArraySpec, Dataset, Episode, Pairs, Spec
from rnce.datasets.errors import (
    DamagedDatasetError,
    DatasetError,
    DatasetNotFoundError,
    DownloadError,
    UnknownDatasetError,
)
from rnce.datasets.splits import SELECTION_SEEDS, TEST_SEEDS_START, TRAIN_SEEDS, seed_split
from rnce.datasets.windows import Windows, windows

if TYPE_CHECKING:
    from rnce.datasets.replay import ReplayWriter, read_replay, write_replay
    from rnce.datasets.stochgpmp import plan
    from rnce.datasets.synthetic import Pinwheel, Spiral, Synthetic

__all__ = [
    "NAMES",
    "SELECTION_SEEDS",
    "TEST_SEEDS_START",
    "TRAIN_SEEDS",
    "ArraySpec",
    "DamagedDatasetError",
    "Dataset",
    "DatasetError",
    "DatasetNotFoundError",
    "DownloadError",
    "Episode",
    "Pairs",
    "Pinwheel",
    "ReplayWriter",
    "Spec",
    "Spiral",
    "StoredName",
    "Synthetic",
    "SyntheticName",
    "UnknownDatasetError",
    "Windows",
    "load",
    "plan",
    "read_replay",
    "seed_split",
    "windows",
    "write_replay",
]

StoredName = Literal["pusht", "path-planning"]
SyntheticName = Literal["pinwheel", "spiral"]

# Name -> "module:function", called with the keyword `path` for those kept on disk.
_STORED = {
    "pusht": "rnce.datasets.pusht:load_pusht",
    "path-planning": "rnce.datasets.path_planning:load_path_planning",
}
_SYNTHETIC = {
    "pinwheel": "rnce.datasets.synthetic:Pinwheel",
    "spiral": "rnce.datasets.synthetic:Spiral",
}
NAMES = (*_STORED, *_SYNTHETIC)

_LAZY = {
    "Pinwheel": "rnce.datasets.synthetic",
    "ReplayWriter": "rnce.datasets.replay",
    "Spiral": "rnce.datasets.synthetic",
    "Synthetic": "rnce.datasets.synthetic",
    "plan": "rnce.datasets.stochgpmp",
    "read_replay": "rnce.datasets.replay",
    "write_replay": "rnce.datasets.replay",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@overload
def load(name_or_path: SyntheticName) -> "Synthetic": ...
@overload
def load(name_or_path: StoredName | Path, *, path: str | Path | None = None) -> "Dataset": ...
@overload
def load(name_or_path: str | Path, *, path: str | Path | None = None) -> "Dataset | Synthetic": ...


def load(name_or_path: str | Path, *, path: str | Path | None = None) -> "Dataset | Synthetic":
    """Open a dataset.

    `"pusht"` and `"path-planning"` are looked for at `path`, then where the environment variable RNCE_DATA points, then
    in the cache folder. `"pinwheel"` and `"spiral"` are distributions to sample from. Anything else is the path
    of a zarr replay buffer, a Minari dataset or a LeRobot dataset, told apart by what is inside.

    Args:
        name_or_path: A name from `NAMES`, or a folder.
        path: Where a named dataset is kept, when not in the usual places.
    """
    name = str(name_or_path)
    if name in _SYNTHETIC:
        return _import(_SYNTHETIC[name])()
    if name in _STORED:
        return _import(_STORED[name])(path=path)
    return _load_folder(Path(name_or_path))


def _load_folder(folder: Path) -> Dataset:
    if not folder.exists():
        near = difflib.get_close_matches(str(folder), NAMES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"names are {', '.join(NAMES)}"
        raise UnknownDatasetError(f"there is no dataset or folder {str(folder)!r}; {hint}")
    from rnce.datasets.formats import read

    return read(folder)


def _import(target: str) -> Callable[..., Any]:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
