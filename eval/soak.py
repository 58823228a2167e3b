"""A server under good robots and bad clients at once: does it stay up, keep its memory, and do the good ones notice?"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgpack
import numpy as np
from tqdm import tqdm
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from rnce.eval.bench_serve import example_observation
from rnce.eval.server_process import ServerProcess
from rnce.serving.wire import pack, unpack

Misdeed = Callable[[str, np.random.Generator], Awaitable[None]]


def soak(server: ServerProcess, seconds: float, robots: int = 8, rogues: int = 4, progress: bool = True) -> dict:
    """Run both for some time. Growth of the memory counts from the end of the first tenth: all has happened by then."""
    return asyncio.run(_soak(server, seconds, robots, rogues, progress))


async def misbehave(url: str, name: str, seed: int) -> None:
    """One misdeed by name. It raises if the server's answer is not a refusal in one line, or none."""
    await MISDEEDS[name](url, np.random.default_rng(seed))


async def _soak(server: ServerProcess, seconds: float, robots: int, rogues: int, progress: bool) -> dict:
    end, waited, misdeeds, complaints = time.monotonic() + seconds, [], Counter(), []
    tasks = [asyncio.create_task(_robot(server.url, end, waited, seed)) for seed in range(robots)]
    tasks += [asyncio.create_task(_rogue(server.url, end, misdeeds, seed)) for seed in range(rogues)]
    memory = []
    with tqdm(total=round(seconds), unit="s", desc="soak", disable=not progress) as bar:
        while time.monotonic() < end and server.alive:
            memory.append(server.memory())
            bar.set_postfix(MB=f"{memory[-1]:.0f}", answers=len(waited), misdeeds=misdeeds.total(), refresh=False)
            bar.update(min(1, bar.total - bar.n))
            await asyncio.sleep(min(1.0, max(0.0, end - time.monotonic())))
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, BaseException):
            complaints.append(f"{type(outcome).__name__}: {' '.join(str(outcome).split())}")
    settled = memory[len(memory) // 10 :] or [float("nan")]
    p50, p99, worst = np.percentile(1e3 * np.array(waited or [np.nan]), [50, 99, 100])
    return {
        "seconds": seconds,
        "robots": robots,
        "answers": len(waited),
        "p50_ms": round(float(p50), 2),
        "p99_ms": round(float(p99), 2),
        "worst_ms": round(float(worst), 2),
        "misdeeds": dict(sorted(misdeeds.items())),
        "memory_mb": round(float(np.median(settled[-5:])), 1),
        "memory_growth_mb": round(float(np.median(settled[-5:]) - np.median(settled[:5])), 1),
        "complaints": complaints,
        "alive": server.alive,
    }


async def _robot(url: str, end: float, waited: list[float], seed: int) -> None:
    """Ten times a second, an action. Episodes of one robot are equal, so what it gets must be, too."""
    rng = np.random.default_rng(seed)
    async with connect(url, compression=None) as socket:
        metadata = unpack(_bytes(await socket.recv()))
        episode, first = [example_observation(metadata, rng) for _ in range(20)], None
        spread = np.subtract(metadata["actions"]["high"] or 1.0, metadata["actions"]["low"] or -1.0)
        while first is None or time.monotonic() < end:
            actions = []
            for step, obs in enumerate(episode):
                began = time.perf_counter()
                start = {"reset": True, "seed": seed} if step == 0 else {}
                await socket.send(pack({**obs, **start, "step": True}))
                actions.append(unpack(_bytes(await socket.recv()))["action"])
                waited.append(time.perf_counter() - began)
                await asyncio.sleep(max(0.0, 0.1 - waited[-1]))
            first = np.stack(actions) if first is None else first
            # Other batch sizes are other programs, whose sums differ in the last bits; another's plan differs in all.
            off = np.max(np.abs(np.stack(actions) - first) / spread)
            if not off < 0.05:
                raise ValueError(f"robot {seed} got other actions in an equal episode: {off:.3f} of the range")


async def _rogue(url: str, end: float, done: Counter[str], seed: int) -> None:
    number = seed
    while number == seed or time.monotonic() < end:
        name = list(MISDEEDS)[number % len(MISDEEDS)]
        await misbehave(url, name, number)
        done[name] += 1
        number += 1
        await asyncio.sleep(0.01)


# What strangers do. All but the vanishing ones expect a line of text, or to be shown the door.


async def _refused(url: str, frame: bytes | str) -> None:
    async with connect(url, compression=None) as socket:
        await socket.recv()
        await socket.send(frame)
        answer = await asyncio.wait_for(socket.recv(), 60)
        if not isinstance(answer, str) or "\n" in answer or "Traceback" in answer:
            raise ValueError(f"not a refusal in one line: {answer!r:.200}")


def _array(**changes: Any) -> bytes:
    fields = {"__ndarray__": True, "data": b"\0" * 20, "dtype": "<f4", "shape": [5], **changes}
    return msgpack.Packer().pack({"state": {name.encode(): value for name, value in fields.items()}})


async def _random_bytes(url: str, rng: np.random.Generator) -> None:
    await _refused(url, b"\xc1" + rng.bytes(int(rng.integers(0, 2000))))  # no msgpack begins so


async def _truncated(url: str, rng: np.random.Generator) -> None:
    frame = _array()
    await _refused(url, frame[: int(rng.integers(1, len(frame)))])


async def _object_dtype(url: str, rng: np.random.Generator) -> None:
    await _refused(url, _array(dtype=str(rng.choice(["|O", "O", "O8", "V20", "<U5", "i4,O"]))))


async def _huge_shape(url: str, rng: np.random.Generator) -> None:
    await _refused(url, _array(shape=[int(size) for size in rng.integers(2**31, 2**62, rng.integers(1, 5))]))


async def _wrong_keys(url: str, rng: np.random.Generator) -> None:
    await _refused(url, pack({f"key{rng.integers(100)}": np.zeros(5)}))


async def _not_finite(url: str, rng: np.random.Generator) -> None:
    async with connect(url, compression=None) as socket:
        metadata = unpack(_bytes(await socket.recv()))
        obs = example_observation(metadata, rng)
        next(iter(obs.values())).flat[0] = rng.choice([np.nan, np.inf, -np.inf])
        await socket.send(pack(obs))
        if "not finite" not in str(await socket.recv()):
            raise ValueError("a value that is not finite was not refused")


async def _text_frame(url: str, rng: np.random.Generator) -> None:
    await _refused(url, "x" * int(rng.integers(0, 1000)))


async def _too_large(url: str, rng: np.random.Generator) -> None:
    socket = await connect(url, compression=None).__aenter__()
    await socket.recv()
    try:
        await socket.send(b"\0" * 2**22)
        await socket.recv()
    except ConnectionClosed as closed:  # shown the door, perhaps while still sending
        if closed.rcvd is not None and closed.rcvd.code != 1009:
            raise
        return
    raise ValueError("a frame of 4 MB was taken")


async def _vanish(url: str, rng: np.random.Generator) -> None:
    """Ask for a plan and be gone, without a goodbye."""
    socket = await connect(url, compression=None).__aenter__()
    obs = example_observation(unpack(_bytes(await socket.recv())), rng)
    await socket.send(pack({**obs, "step": True} if rng.random() < 0.5 else obs))
    await asyncio.sleep(float(rng.choice([0.0, 0.002])))
    socket.transport.abort()
    await socket.wait_closed()


async def _connect_and_leave(url: str, rng: np.random.Generator) -> None:
    async with connect(url, compression=None):
        pass


async def _not_a_websocket(url: str, rng: np.random.Generator) -> None:
    host, _, port = url.removeprefix("ws://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(rng.bytes(200) if rng.random() < 0.5 else b"POST / HTTP/1.1\r\n\r\n")
    await asyncio.sleep(0.001)
    writer.transport.abort()


async def _wrong_path(url: str, rng: np.random.Generator) -> None:
    try:
        async with connect(f"{url}/healthz", compression=None):
            pass
    except (InvalidHandshake, InvalidMessage):
        return
    raise ValueError("/healthz took a websocket")


MISDEEDS: dict[str, Misdeed] = {
    "random bytes": _random_bytes,
    "truncated": _truncated,
    "object dtype": _object_dtype,
    "huge shape": _huge_shape,
    "wrong keys": _wrong_keys,
    "not finite": _not_finite,
    "text frame": _text_frame,
    "too large": _too_large,
    "vanish": _vanish,
    "connect and leave": _connect_and_leave,
    "not a websocket": _not_a_websocket,
    "wrong path": _wrong_path,
}


def _bytes(frame: bytes | str) -> bytes:
    if isinstance(frame, str):
        raise ValueError(f"the server says: {frame}")
    return frame
