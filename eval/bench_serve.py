"""Throughput of a server: many robots that always have a request under way, against one."""

import asyncio
import time
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect

from rnce.serving.wire import pack, unpack


def throughput(url: str, clients: int, seconds: float) -> dict[str, Any]:
    """Plans a second, and the milliseconds that a robot waits for one."""
    return asyncio.run(_throughput(url, clients, seconds))


def compare(url: str, clients: int, seconds: float, rounds: int = 3) -> dict[str, Any]:
    """One robot and many in turns, so that a busy machine slows both; medians, and the median of the rounds' ratios."""
    pairs = [(throughput(url, 1, seconds), throughput(url, clients, seconds)) for _ in range(rounds)]
    one, many = ({key: float(np.median([pair[i][key] for pair in pairs])) for key in pairs[0][i]} for i in (0, 1))
    ratios = [many["plans_per_second"] / one["plans_per_second"] for one, many in pairs]
    return {
        "clients": clients,
        "one": one,
        "many": many,
        "ratio": float(np.median(ratios)),
        "lowest_ratio": min(ratios),
    }


def example_observation(metadata: dict[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Numbers of the right shapes, inside the range of the actions, which mostly are positions too."""
    low, high = (np.mean(metadata["actions"][side] or [default]) for side, default in (("low", -1.0), ("high", 1.0)))
    return {
        key: rng.uniform(low + 0.2 * (high - low), high - 0.2 * (high - low), part["shape"]).astype(np.float32)
        for key, part in metadata["observation"].items()
    }


async def _throughput(url: str, clients: int, seconds: float) -> dict[str, Any]:
    began = asyncio.Event()
    robots = [asyncio.create_task(_robot(url, began, seconds, seed)) for seed in range(clients)]
    await asyncio.sleep(0.2)
    began.set()
    answers = [answer for robot in robots for answer in await robot]
    waited, together = np.array(answers).T
    p50, p95 = np.percentile(1e3 * waited, [50, 95])
    return {
        "plans_per_second": len(answers) / seconds,
        "p50_ms": float(p50),
        "p95_ms": float(p95),
        "batch": float(np.mean(together)),
    }


async def _robot(url: str, began: asyncio.Event, seconds: float, seed: int) -> list[tuple[float, int]]:
    """Ask as soon as the last answer is there; seconds and batch size of each answer."""
    async with connect(url, compression=None) as socket:
        request = pack(example_observation(unpack(_bytes(await socket.recv())), np.random.default_rng(seed)))
        await _ask(socket, request)
        await began.wait()
        end, answers = time.perf_counter() + seconds, []
        while (now := time.perf_counter()) < end:
            answer = await _ask(socket, request)
            answers.append((time.perf_counter() - now, answer["server_timing"]["batch"]))
        return answers


async def _ask(socket: ClientConnection, request: bytes) -> dict[str, Any]:
    await socket.send(request)
    return unpack(_bytes(await socket.recv()))


def _bytes(frame: bytes | str) -> bytes:
    if isinstance(frame, str):
        raise ValueError(f"the server says: {frame}")
    return frame
