"""A tiny Push-T policy with random weights, and a server for it in a thread."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "policies"))  # for the tiny policies


@pytest.fixture(scope="session")
def policy():
    import tiny

    from rnce.training import PUSHT

    return tiny.untrained("nf", PUSHT)


@pytest.fixture(scope="session")
def server(policy) -> Iterator:
    from rnce.serving.server import Server

    with Server(policy, port=0, max_batch=4) as running:
        yield running
