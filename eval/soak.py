"""A server under good robots and bad clients at once: does it stay up, keep its memory, and do the good ones notice?"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgpack
import numpy as np
from tqdm import tqdm
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from rnce.eval.bench_serve import example_observation
from rnce.eval.server_process import ServerProcess
from rnce.policies import Policy
from rnce.serving.session import metadata
from rnce.serving.wire import pack, unpack

STEPS = 20  # of an episode
TOLERANCE = 0.01  # of the actions' range

Misdeed = Callable[[str, np.random.Generator], Awaitable[None]]


def soak(
    server: ServerProcess, policy: Policy, seconds: float, robots: int = 8, rogues: int = 4, progress: bool = True
) -> dict:
    """Run both for some time, against a server of this policy.

    Growth of the memory counts from the end of the first tenth: all has happened by then.
    """
    episodes = [steady_episode(policy, seed) for seed in range(robots)]
    return asyncio.run(_soak(server, policy, seconds, episodes, rogues, progress))


class SteadyEpisode(NamedTuple):
    """Observations, and what the policy itself does with them."""

    seed: int
    observations: list[dict[str, np.ndarray]]
    actions: np.ndarray


def steady_episode(policy: Policy, seed: int) -> SteadyEpisode:
    """An episode in which the number of robots planned for in one call does not matter.

    Other batch sizes are other programs, whose sums differ in the last bits. Far from the data a chain of steps may
    blow that up; such episodes are passed over, so that what a robot gets tells about the server.
    """
    rng, described = np.random.default_rng(seed), metadata(policy)
    while True:
        observations = [example_observation(described, rng) for _ in range(STEPS)]
        alone, *others = (_actions(policy, observations, seed, rows) for rows in (1, 2, 4, 8))
        if all(_distance(policy, batch, alone) < 0.1 * TOLERANCE for batch in others):
            return SteadyEpisode(seed, observations, alone[:, 0])


def _actions(policy: Policy, observations: list[dict[str, np.ndarray]], seed: int, rows: int) -> np.ndarray:
    policy.reset(seed=[seed] * rows)
    batches = ({key: np.repeat(value[None], rows, axis=0) for key, value in obs.items()} for obs in observations)
    return np.stack([policy.act(batch) for batch in batches])


def _distance(policy: Policy, actions: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, as a share of the actions' range."""
    task = policy.task
    spread = np.subtract(task.action_high or 1.0, task.action_low or -1.0)
    return float(np.max(np.abs(actions - expected) / spread))


async def misbehave(url: str, name: str, seed: int) -> None:
    """One misdeed by name. It raises if the server's answer is not a refusal in one line, or none."""
    await MISDEEDS[name](url, np.random.default_rng(seed))


async def _soak(
    server: ServerProcess, policy: Policy, seconds: float, episodes: list[SteadyEpisode], rogues: int, progress: bool
) -> dict:
    end, waited, misdeeds, complaints = time.monotonic() + seconds, [], Counter(), []
    tasks = [asyncio.create_task(_robot(server.url, policy, end, waited, episode)) for episode in episodes]
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
        "robots": len(episodes),
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


async def _robot(url: str, policy: Policy, end: float, waited: list[float], episode: SteadyEpisode) -> None:
    """Ten times a second, an action, which must be what the policy itself does."""
    async with connect(url, compression=None) as socket:
        _bytes(await socket.recv())
        played = 0
        while not played or time.monotonic() < end:
            actions = []
            for step, obs in enumerate(episode.observations):
                began = time.perf_counter()
                start = {"reset": True, "seed": episode.seed} if step == 0 else {}
                await socket.send(pack({**obs, **start, "step": True}))
                actions.append(unpack(_bytes(await socket.recv()))["action"])
                waited.append(time.perf_counter() - began)
                await asyncio.sleep(max(0.0, 0.1 - waited[-1]))
            played += 1
            off = _distance(policy, np.stack(actions), episode.actions)
            if not off < TOLERANCE:
                raise ValueError(f"robot {episode.seed} got other actions than the policy's: {off:.3f} of the range")


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
