"""Where datasets are kept on this machine."""

import os
from pathlib import Path

from rnce.datasets.errors import DatasetNotFoundError

__all__ = ["DATA_VARIABLE", "cache_folder", "locate"]

DATA_VARIABLE = "RNCE_DATA"


def cache_folder() -> Path:
    """The folder for data that can be fetched or made again: `$XDG_CACHE_HOME/rnce` or `~/.cache/rnce`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rnce"


def locate(name: str, folder: str, path: str | Path | None, command: str) -> Path:
    """Find a dataset: at `path`, else where RNCE_DATA points, else in the cache folder.

    Each place may be the dataset itself or a folder that holds it.

    Args:
        name: The dataset's name, for the message.
        folder: What the dataset's own folder is called.
        path: Where the caller says it is.
        command: What makes or fetches it.
    """
    variable = os.environ.get(DATA_VARIABLE)
    # An explicit argument is not a hint: when it is wrong, something else must not be loaded in its place.
    places = [Path(path)] if path is not None else [*([Path(variable)] if variable else []), cache_folder()]
    for place in places:
        if (place / folder).is_dir():
            return place / folder
        if place.is_dir() and (place.name == folder or path is not None):
            return place
    looked = " and ".join(str(place / folder) for place in places)
    unset = "" if variable or path is not None else f" ({DATA_VARIABLE} is not set)"
    raise DatasetNotFoundError(f"dataset {name!r} was not found; looked at {looked}{unset}. Get it with `{command}`")
