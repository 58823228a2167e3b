"""Files that are either whole or absent, and outputs that are refused before the work rather than after it."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PROBE = bytes(1 << 20)


def check_writable(path: Path) -> None:
    """Raise if a file could not be written here now: the folder is made and a megabyte written, flushed and removed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError("it is a folder")
        with tempfile.NamedTemporaryFile(dir=path.parent) as probe:
            probe.write(_PROBE)
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` to write to; it takes the place of `path` when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}-{path.name}")  # the suffix stays: writers choose the format by it
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write JSON, whole or not at all. NaN is refused: it is not JSON."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON; a damaged file is named."""
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
