"""The interpreter in which peers are installed that pin older versions: made by `make .venv-peers/.installed`."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = Path(os.environ.get("RNCE_PEERS_PYTHON", ROOT / ".venv-peers" / "bin" / "python"))


def run(*words: str) -> str:
    """What a script prints that runs beside the peers; skips where they are not installed."""
    if not PYTHON.exists():
        pytest.skip(f"no openpi-client and gym-pusht at {PYTHON}: make .venv-peers/.installed")
    environment = {**os.environ, "SDL_VIDEODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    result = subprocess.run([str(PYTHON), *words], capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
