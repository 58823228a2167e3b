"""Requests of many robots, planned in one compiled call.

Batches have fixed sizes (powers of two), compiled before the first request; empty rows repeat the last. Two calls are
under way at a time, each for half of the robots that are there: while one half is computed, the answers to the other
half are sent and its next requests come in, so that the processor never waits for the network. Robots that were
answered together come back almost together, so a call waits for its half, a few milliseconds at most; a robot that is
alone never waits.
"""

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from rnce.policies import Plan, Policy
from rnce.policies.realtime import Planned, PlanRequest

CALLS = 2  # under way at a time
GATHER_SHARE, LONGEST_GATHER = 0.25, 0.005  # of the last call's time, and seconds


class Batcher:
    """Plans for whoever asks, in the order of asking. Threads compute; the event loop stays free."""

    def __init__(self, policy: Policy, max_batch: int) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch={max_batch}: use at least 1.")
        self.sizes = [*(2**i for i in range((max_batch - 1).bit_length())), max_batch]
        self._policy = policy
        self._waiting: deque[tuple[PlanRequest, float, asyncio.Future[tuple[Planned, int]]]] = deque()
        self._arrived = asyncio.Event()
        self._threads = ThreadPoolExecutor(CALLS, thread_name_prefix="rnce-plan")
        self._computing = 0  # robots whose plans are being made
        self._recent = deque([0, 0], maxlen=2)  # robots that were there when the last calls began
        self._last_seconds = 0.0

    def warm(self) -> None:
        """Compile every size."""
        for _ in self._threads.map(self._policy.warmup, self.sizes):
            pass

    async def plan(self, request: PlanRequest) -> tuple[Planned, int]:
        """One robot's plan, with its time from the request on, and how many were planned together."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((request, time.perf_counter(), future))
        self._arrived.set()
        return await future

    async def run(self) -> None:
        """Answer requests until cancelled."""
        try:
            await asyncio.gather(*(self._calls() for _ in range(CALLS)))
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _calls(self) -> None:
        """One call after the other."""
        while True:
            await self._gather()
            batch = self._take()
            if not batch:
                continue
            self._computing += len(batch)
            try:
                await self._answer(batch)
            finally:
                self._computing -= len(batch)

    async def _gather(self) -> None:
        """Until somebody waits; then a moment more, if others are likely to come."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        half = min(-(-max(self._recent) // CALLS), self.sizes[-1])
        until = time.perf_counter() + min(LONGEST_GATHER, GATHER_SHARE * self._last_seconds)
        while len(self._waiting) < half and (left := until - time.perf_counter()) > 0:
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), left)
            except TimeoutError:
                return

    def _take(self) -> list[tuple[PlanRequest, float, asyncio.Future[tuple[Planned, int]]]]:
        there = len(self._waiting) + self._computing
        half, batch = -(-there // CALLS), []
        while self._waiting and len(batch) < min(half, self.sizes[-1]):
            entry = self._waiting.popleft()
            if not entry[2].done():  # otherwise its robot has gone
                batch.append(entry)
        if batch:
            self._recent.append(there)
        return batch

    async def _answer(self, batch: list[tuple[PlanRequest, float, asyncio.Future[tuple[Planned, int]]]]) -> None:
        began, requests = time.perf_counter(), [request for request, _, _ in batch]
        try:
            plan = await asyncio.get_running_loop().run_in_executor(self._threads, self._compute, requests)
        except Exception as error:
            for _, _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        now = time.perf_counter()
        self._last_seconds = now - began
        for row, (_, asked, future) in enumerate(batch):
            if not future.done():
                own = Plan(*(part[row : row + 1] for part in plan))
                future.set_result((Planned(own, now - asked), len(batch)))

    def _compute(self, requests: list[PlanRequest]) -> Plan:
        size = next(size for size in self.sizes if size >= len(requests))
        rows = requests + [requests[-1]] * (size - len(requests))
        windows = {key: np.concatenate([row.windows[key] for row in rows]) for key in rows[0].windows}
        return self._policy.plan_windows(
            windows, np.concatenate([row.seeds for row in rows]), np.concatenate([row.plans for row in rows])
        )
