"""What one connection's messages mean.

A message is a map with the observation under the policy's keys, and perhaps one of these:

- `reset` (true): a new episode begins with this observation; alone, before the next one;
- `seed` (a whole number, with `reset`): of the episode's random stream;
- `step` (true): play the connection's chunk and plan only when it ends. The answer is one `action`.

Without `step` every message is answered by a new plan: `actions` (horizon × dim), of which the client plays as many as
it likes, and the `scores` of the ranked candidates. The observation may then be the window of the last `n_ctx` steps;
a single one joins those that came before.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from rnce.policies import Policy
from rnce.policies.realtime import Planned, PlanRequest, Timeline, Timing
from rnce.serving.wire import WireError, pack, unpack

CONTROLS = ("reset", "seed", "step")
Planner = Callable[[PlanRequest], Awaitable[tuple[Planned, int]]]


def metadata(policy: Policy) -> dict[str, Any]:
    """What a client needs to know: the first frame of every connection."""
    task = policy.task
    taken = [key for key in task.observation if key in CONTROLS]
    if taken:
        raise ValueError(f"{policy.name} observes {taken[0]!r}, which is a word of the protocol; rename the key.")
    return {
        "policy": policy.name,
        "env_id": task.env_id,
        "observation": {key: {"shape": list(shape), "dtype": "<f4"} for key, shape in task.observation.items()},
        "bare_key": task.bare_key,
        "actions": {"shape": list(task.event_shape), "dtype": "<f4", "low": task.action_low, "high": task.action_high},
        "execute": task.execute,
        "n_ctx": task.n_ctx,
        "samples": policy.samples,
        "controls": list(CONTROLS),
    }


class Session:
    """The history, chunk and random stream of one connection."""

    def __init__(self, policy: Policy, plan: Planner, lead: int, timing: Timing) -> None:
        self._task, self._plan, self._lead, self._timing = policy.task, plan, lead, timing
        self._line = self._episode(None)
        self._total_ms: float | None = None

    def _episode(self, seed: int | None) -> Timeline:
        return Timeline(self._task, seed, self._lead, self._timing)

    async def answer(self, frame: bytes | str) -> bytes:
        """The reply to a frame. What is wrong with one raises ValueError and changes nothing."""
        began = time.perf_counter()
        if isinstance(frame, str):
            raise WireError("a text frame came; send a binary one with a msgpack map")
        message = unpack(frame)
        if not isinstance(message, dict):
            raise WireError(f"a msgpack {type(message).__name__} came; send a map with the observation")
        reset, step, seed = (_control(message, *words) for words in (("reset", bool), ("step", bool), ("seed", int)))
        if seed is not None and not reset:
            raise WireError("seed came without reset; a random stream begins with an episode")
        before, self._line = self._line, self._episode(seed) if reset else self._line
        try:
            if reset and not any(key in message for key in self._task.observation):
                reply: dict[str, Any] = {"reset": True}
            else:
                reply = await (self._step(message) if step else self._infer(message))
        except ValueError:
            self._line = before
            raise
        # Time between the end of the last request and now is the client's; openpi's servers tell of the last total too.
        if self._total_ms is not None:
            reply.setdefault("server_timing", {})["prev_total_ms"] = self._total_ms
        self._total_ms = 1e3 * (time.perf_counter() - began)
        return pack(reply)

    async def _infer(self, obs: dict[str, Any]) -> dict[str, Any]:
        (plan, seconds), batch = await self._plan(self._line.demand(obs))
        late = self._timing.add(seconds)
        # A list: clients that cut chunks into steps cut every array they find, and there are as many scores as samples.
        timing = {"infer_ms": 1e3 * seconds, "batch": batch, "late": late}
        return {"actions": plan.actions[0], "scores": plan.scores[0].tolist(), "server_timing": timing}

    async def _step(self, obs: dict[str, Any]) -> dict[str, Any]:
        began, line, late = time.perf_counter(), self._line, self._timing.late
        request = line.observe(obs)
        if request is not None:
            line.pending = asyncio.ensure_future(self._planned(request))
        if line.waits and isinstance(line.pending, asyncio.Future):
            await asyncio.wait([line.pending])  # what went wrong is raised by the line
        action = line.next_action()
        timing = {"infer_ms": 1e3 * (time.perf_counter() - began), "late": self._timing.late > late}
        return {"action": action, "planned": request is not None, "server_timing": timing}

    async def _planned(self, request: PlanRequest) -> Planned:
        planned, _ = await self._plan(request)
        return planned

    def close(self) -> None:
        """Nobody waits for a plan in the making any more."""
        if isinstance(self._line.pending, asyncio.Future):
            self._line.pending.cancel()


def _control(message: dict[str, Any], word: str, kind: type) -> Any:
    value = message.get(word)
    if value is None:
        return None
    if type(value) is not kind or (kind is int and not 0 <= value < 2**32):
        raise WireError(f"{word} is {str(value)[:40]!r}; use {'true or false' if kind is bool else '0 to 4294967295'}")
    return value
