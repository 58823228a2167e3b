"""What is evaluated, as plain data: it travels to workers, heads the journal and decides every random stream."""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

MAX_SLOTS = 64
MAX_CANDIDATES = 512  # in one compiled call: more do not fit the caches, and are slower
SHARDS = 8  # enough to share between workers; fewer where episodes are few


class Job(NamedTuple):
    """One episode to run: the environment's seed and the number of the rollout in it."""

    seed: int
    rollout: int

    @property
    def policy_seed(self) -> int:
        """The policy's random stream: a function of the two numbers alone, so order and company do not matter."""
        return int(np.random.SeedSequence([self.seed, self.rollout]).generate_state(1)[0] >> 1)


@dataclass(frozen=True)
class Settings:
    """One evaluation. Two runs with equal settings give equal episodes, bit for bit, however they are spread."""

    policy: str
    env: str
    seeds: tuple[int, int]
    """first and one past the last"""
    rollouts: int = 1
    samples: int | None = None
    """candidates ranked per plan; None leaves the policy's own"""
    sampler: str | None = None
    ranker: str | None = None
    """another policy, whose score picks among the candidates"""
    lead: int | None = None
    """steps before a chunk's end at which the next one is planned; None leaves the policy's own, mostly 0"""
    max_steps: int | None = None
    env_options: tuple[tuple[str, object], ...] = ()
    """keyword arguments of the environment, such as ("obs_type", "keypoints")"""
    keep_actions: int = 0
    """for how many of the first seeds the actions are kept, for pictures and videos"""
    slots: int | None = None
    """environments planned for in one compiled call; None chooses by the number of episodes"""

    def __post_init__(self) -> None:
        low, high = self.seeds
        if not 0 <= low < high:
            raise ValueError(f"seeds must be A:B with 0 ≤ A < B, got {low}:{high}")
        for name in ("rollouts", "samples", "max_steps", "slots"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")

    @property
    def jobs(self) -> list[Job]:
        """Every episode, in the order of the results."""
        return [Job(seed, rollout) for seed in range(*self.seeds) for rollout in range(self.rollouts)]

    @property
    def n_slots(self) -> int:
        """Rows of the compiled batch. It depends on the settings only, never on the number of workers."""
        n_jobs = (self.seeds[1] - self.seeds[0]) * self.rollouts
        fitting = max(1, MAX_CANDIDATES // (self.samples or 1))
        return self.slots or min(MAX_SLOTS, fitting, 1 << (n_jobs - 1).bit_length())

    @property
    def shards(self) -> list[list[Job]]:
        """The jobs in the portions that workers take. Which episode meets which slot is decided inside a shard."""
        jobs, waves = self.jobs, -(-len(self.jobs) // self.n_slots)
        size = self.n_slots * max(1, waves // SHARDS)
        return [jobs[i : i + size] for i in range(0, len(jobs), size)]

    def to_json(self) -> dict:
        """The same as plain JSON types."""
        return {**dataclasses.asdict(self), "seeds": list(self.seeds), "env_options": dict(self.env_options)}


@dataclass(frozen=True)
class Episode:
    """What came of one job."""

    seed: int
    rollout: int
    steps: int
    metrics: dict[str, float]
    mode: str | None = None
    """which of several ways the policy took, where the task can tell"""
    error: str | None = None
    """why the episode failed; its metrics are then empty"""
    actions: list[list[float]] | None = None

    def to_json(self) -> dict:
        """Without the fields that say nothing."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
