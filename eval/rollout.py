"""The rollout loop: a fixed number of slots, refilled as episodes end, planned for in one call.

A policy with a chunk of c actions plans every c steps. Slots begin new episodes only at multiples of c, so that rows
plan in the same call and none plans alone: a row whose episode ends in between idles for less than c
steps. Which episode meets which slot depends on the shard's jobs alone.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rnce.eval.adapters import RowPolicy, adapt, describe, policy_factory
from rnce.eval.environments import Environments, make_environments
from rnce.eval.settings import Episode, Job, Settings


@dataclass(frozen=True)
class ShardResult:
    """The episodes of one shard, in the order of its jobs, and what was noticed on the way."""

    episodes: list[Episode]
    plan_seconds: list[float]
    """of every plan but a process's first, which compiles"""
    rows_per_plan: int = 1
    params: int | None = None


def ignore(episode: Episode) -> None:
    """Nobody listens."""


class Runner:
    """A policy and its environments, made once per process and used for many shards."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        slots = settings.n_slots
        self._environments = make_environments(settings.env, slots, settings.max_steps, **dict(settings.env_options))
        (action_dim,) = self._environments.action_space.shape
        factory = policy_factory(
            settings.policy,
            samples=settings.samples,
            sampler=settings.sampler,
            ranker=settings.ranker,
            lead=settings.lead,
        )
        self._policy = adapt(factory, slots, action_dim)
        self._warm = False

    def run(self, jobs: Sequence[Job], on_episode: Callable[[Episode], None] = ignore) -> ShardResult:
        """Run one shard; `on_episode` hears of every episode as it ends."""
        keep = self._settings.seeds[0] + self._settings.keep_actions
        self._policy.plan_seconds.clear()
        loop = _Loop(self._policy, self._environments, self._settings.n_slots, keep, on_episode)
        loop.run(list(enumerate(jobs)))
        plans, self._warm = self._policy.plan_seconds[0 if self._warm else 1 :], True
        episodes = [loop.episodes[i] for i in range(len(jobs))]
        return ShardResult(episodes, plans, self._policy.rows_per_plan, self._policy.params)

    def close(self) -> None:
        """Release the environments."""
        self._environments.close()


class _Loop:
    """The state of one shard's rollouts."""

    def __init__(
        self,
        policy: RowPolicy,
        environments: Environments,
        slots: int,
        keep_actions_below: int,
        on_episode: Callable[[Episode], None],
    ) -> None:
        self.episodes: dict[int, Episode] = {}
        self._policy, self._environments, self._slots = policy, environments, slots
        self._keep_below, self._on_episode = keep_actions_below, on_episode
        self._job: list[tuple[int, Job] | None] = [None] * slots
        self._actions: list[list[list[float]]] = [[] for _ in range(slots)]
        self._steps = np.zeros(slots, dtype=int)

    def run(self, jobs: Sequence[tuple[int, Job]], first_row: int = 0) -> None:
        """Run jobs, which are filled in from `first_row` on."""
        waiting, clock = deque(jobs), 0
        while True:
            rows = self._active()
            if waiting and len(rows) < self._slots and (clock % self._policy.chunk == 0 or not rows):
                self._refill(waiting, first_row)
                rows, clock = self._active(), 0
            if not rows:
                return
            self._mirror(rows)
            try:
                actions, failed = self._policy.act(self._environments.observation, rows)
            except Exception as error:
                self._one_by_one(error)
                clock = 0
                continue
            clock += 1
            self._step([row for row in rows if row not in failed], actions, failed)

    def _active(self) -> list[int]:
        return [row for row, job in enumerate(self._job) if job is not None]

    def _mirror(self, rows: Sequence[int]) -> None:
        """Empty rows see what the first active one sees: nothing that could upset a policy on its own."""
        empty = [row for row, job in enumerate(self._job) if job is None]
        observation = self._environments.observation
        for part in observation.values() if isinstance(observation, dict) else [observation]:
            part[empty] = part[rows[0]]

    def _refill(self, waiting: deque[tuple[int, Job]], first_row: int) -> None:
        idle = [row for row, job in enumerate(self._job) if job is None]
        filled = [row for row in idle if row >= first_row][: len(waiting)]
        mask = np.zeros(self._slots, dtype=bool)
        mask[idle] = True  # those that stay empty too: otherwise they would ask for plans at their own times
        jobs: dict[int, Job] = {}
        for row in filled:
            self._job[row] = (_, jobs[row]) = waiting.popleft()
            self._actions[row], self._steps[row] = [], 0
        seeds = [jobs.get(row, jobs[filled[0]]).policy_seed for row in range(self._slots)]
        self._environments.reset(filled, [job.seed for job in jobs.values()])
        self._policy.reset(seeds, mask)

    def _step(self, rows: Sequence[int], actions: np.ndarray, failed: dict[int, str]) -> None:
        ended, refused = self._environments.step(rows, actions)
        for row in rows:
            if row in refused:
                continue
            self._steps[row] += 1
            if self._keeps_actions(row):
                self._actions[row].append(np.asarray(actions[row], dtype=np.float64).tolist())
        for row, message in {**failed, **refused}.items():
            self._finish(row, {}, None, message)
        for row in ended:
            self._finish(row, *self._environments.outcome(row), None)

    def _keeps_actions(self, row: int) -> bool:
        job = self._job[row]
        return job is not None and job[1].seed < self._keep_below

    def _finish(self, row: int, metrics: dict[str, float], mode: str | None, error: str | None) -> None:
        entry = self._job[row]
        assert entry is not None
        index, job = entry
        actions = self._actions[row] if self._keeps_actions(row) else None
        episode = Episode(job.seed, job.rollout, int(self._steps[row]), metrics, mode, error, actions)
        self.episodes[index] = episode
        self._job[row] = None
        self._on_episode(episode)

    def _one_by_one(self, error: Exception) -> None:
        """The batch raised, and does not say for which row: run each of its episodes again alone, in its own row."""
        suspects = [(row, job) for row, job in enumerate(self._job) if job is not None]
        if len(suspects) == 1:
            self._finish(suspects[0][0], {}, None, describe(error))
            return
        self._job = [None] * self._slots
        for row, job in suspects:
            self.run([job], first_row=row)
