"""Bad clients: the server stays up, its memory does not grow, and other robots notice nothing."""

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

from rnce.client import RemotePolicy
from rnce.eval.server_process import ServerProcess
from rnce.eval.soak import MISDEEDS, misbehave, soak


@pytest.fixture(scope="module")
def process(policy, tmp_path_factory) -> Iterator[ServerProcess]:
    """A process of its own, so that its memory can be watched."""
    folder = tmp_path_factory.mktemp("served") / "policy"
    policy.save(folder)
    with ServerProcess(folder, "--max-batch", "1") as running:
        yield running
        assert running.alive
        assert "Traceback" not in running.close()


@pytest.fixture
def bystander(process, policy) -> Iterator:
    """A robot in the middle of an episode; whatever the others do, its next actions are what they were to be."""
    rng = np.random.default_rng(0)
    with RemotePolicy(port=process.port) as remote:
        remote.reset(seed=1)
        policy.reset(seed=1)
        steps = rng.uniform(100, 400, (12, 5))
        for obs in steps[:2]:
            np.testing.assert_array_equal(remote.act(obs), policy.act(obs))
        yield remote
        for obs in steps[2:]:
            np.testing.assert_array_equal(remote.act(obs), policy.act(obs))


@pytest.mark.parametrize("name", MISDEEDS)
def test_misdeeds_are_refused_and_nobody_else_notices(name, process, bystander):
    async def several() -> None:
        await asyncio.gather(*(misbehave(process.url, name, seed) for seed in range(8)))

    asyncio.run(several())
    assert process.alive


def test_a_thousand_connections_leave_nothing_behind(process, bystander):
    def connect(times: int) -> float:
        async def in_a_row() -> None:
            for number in range(times):
                await misbehave(process.url, "connect and leave", number)

        asyncio.run(in_a_row())
        return process.memory()

    before = connect(100)
    assert connect(1000) - before < 4.0  # megabytes: 4 kB a connection would show


def test_memory_does_not_grow_under_misdeeds(process, bystander):
    def everything(first: int, times: int) -> float:
        async def in_a_row() -> None:
            for number in range(first, first + times):
                await misbehave(process.url, list(MISDEEDS)[number % len(MISDEEDS)], number)

        asyncio.run(in_a_row())
        return process.memory()

    before = everything(0, 10 * len(MISDEEDS))
    assert everything(1000, 40 * len(MISDEEDS)) - before < 4.0


def test_a_short_soak(process, policy):
    figures = soak(process, policy, 2.5, robots=3, rogues=2, progress=False)
    assert figures["alive"]
    assert figures["complaints"] == []
    assert figures["answers"] >= 60
    assert sum(figures["misdeeds"].values()) >= 2


def test_a_server_that_cannot_start_says_why(tmp_path):
    with pytest.raises(ValueError, match="there is no policy or checkpoint folder"):
        ServerProcess(tmp_path / "nothing")
