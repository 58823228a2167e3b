"""Where recordings that are not part of the repository may be found."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def find(name):
    """The path of a recording; skips the test where there is none."""
    folder = Path(os.environ.get("RNCE_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / name).exists():
        pytest.skip(f"{name} is not in {folder}; set RNCE_DATA to the folder that holds it")
    return folder / name
