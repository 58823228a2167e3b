"""Requests of many robots, planned in one compiled call.

Batches have fixed sizes (powers of four), compiled before the first request; empty rows repeat the last. While one
batch is computed the next one gathers. When a batch has been answered its robots come back almost together, so the next
one waits for about as many, a few milliseconds at most; a robot that is alone never waits.
"""

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from rnce.policies import Plan, Policy
from rnce.policies.realtime import Planned, PlanRequest

GATHER_SHARE, LONGEST_GATHER = 0.25, 0.005  # of the last plan's time, and seconds


class Batcher:
    """Plans for whoever asks, in the order of asking. One thread computes; the event loop stays free."""

    def __init__(self, policy: Policy, max_batch: int) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch={max_batch}: use at least 1.")
        self.sizes = [size for size in (1, 4, 16, 64, 256) if size < max_batch] + [max_batch]
        self._policy = policy
        self._waiting: deque[tuple[PlanRequest, float, asyncio.Future[tuple[Planned, int]]]] = deque()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rnce-plan")
        self._recent = (0, 0)  # robots in the last two batches
        self._last_seconds = 0.0

    def warm(self) -> None:
        """Compile every size."""
        for size in self.sizes:
            self._policy.warmup(size)

    async def plan(self, request: PlanRequest) -> tuple[Planned, int]:
        """One robot's plan, with its time from the request on, and how many were planned together."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((request, time.perf_counter(), future))
        self._arrived.set()
        return await future

    async def run(self) -> None:
        """Answer requests until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._gather()
                batch = self._take()
                if not batch:
                    continue
                began = time.perf_counter()
                try:
                    plan = await loop.run_in_executor(self._thread, self._compute, [request for request, _, _ in batch])
                except Exception as error:
                    for _, _, future in batch:
                        if not future.done():
                            future.set_exception(error)
                    continue
                now = time.perf_counter()
                self._last_seconds, self._recent = now - began, (self._recent[1], len(batch))
                for row, (_, asked, future) in enumerate(batch):
                    if not future.done():
                        own = Plan(*(part[row : row + 1] for part in plan))
                        future.set_result((Planned(own, now - asked), len(batch)))
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _gather(self) -> None:
        """Until somebody waits; then a moment more, if others are likely to come."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        expected = min(max(self._recent), self.sizes[-1])
        until = time.perf_counter() + min(LONGEST_GATHER, GATHER_SHARE * self._last_seconds)
        while len(self._waiting) < expected and (left := until - time.perf_counter()) > 0:
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), left)
            except TimeoutError:
                return

    def _take(self) -> list[tuple[PlanRequest, float, asyncio.Future[tuple[Planned, int]]]]:
        batch = []
        while self._waiting and len(batch) < self.sizes[-1]:
            entry = self._waiting.popleft()
            if not entry[2].done():  # its robot has gone
                batch.append(entry)
        return batch

    def _compute(self, requests: list[PlanRequest]) -> Plan:
        size = next(size for size in self.sizes if size >= len(requests))
        rows = requests + [requests[-1]] * (size - len(requests))
        windows = {key: np.concatenate([row.windows[key] for row in rows]) for key in rows[0].windows}
        return self._policy.plan_windows(
            windows, np.concatenate([row.seeds for row in rows]), np.concatenate([row.plans for row in rows])
        )
