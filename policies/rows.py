"""What each robot of a batch remembers: its history, the chunk it plays and the one in the making.

A plan may begin some steps before it is needed (`lead`). Its first action is for the step at which it began, so when it
takes over, as many of its actions as have passed since are skipped. A plan made on the spot is the same with none
passed. If a plan is not there when its time comes, the old chunk plays on while it has actions left.
"""

import dataclasses
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from rnce.policies.task import Task


@dataclasses.dataclass
class Rows:
    """The state of a batch of robots; arrays have one entry per row."""

    execute: int  # actions played from each plan
    history: dict[str, np.ndarray]  # (rows, n_ctx, ...)
    fresh: np.ndarray  # no observation yet
    chunk: np.ndarray  # the actions being played
    played: np.ndarray  # index of the next action
    end: np.ndarray  # index at which the next plan takes over
    upcoming: np.ndarray  # the next chunk, where `ready`
    planning: np.ndarray  # a plan has begun that has not taken over
    ready: np.ndarray  # it has been made
    age: np.ndarray  # steps since it began
    plans: np.ndarray  # plans begun, which is the position in the random stream
    seeds: np.ndarray

    @classmethod
    def create(cls, task: Task, seeds: np.ndarray) -> "Rows":
        """New episodes."""
        size = len(seeds)
        return cls(
            execute=task.execute,
            history={key: np.zeros((size, task.n_ctx, *shape), np.float32) for key, shape in task.observation.items()},
            fresh=np.ones(size, bool),
            chunk=np.zeros((size, *task.event_shape), np.float32),
            played=np.zeros(size, int),
            end=np.zeros(size, int),
            upcoming=np.zeros((size, *task.event_shape), np.float32),
            planning=np.zeros(size, bool),
            ready=np.zeros(size, bool),
            age=np.zeros(size, int),
            plans=np.zeros(size, np.uint32),
            seeds=seeds,
        )

    @property
    def size(self) -> int:
        """How many robots."""
        return len(self.seeds)

    def restart(self, mask: np.ndarray, seeds: np.ndarray) -> None:
        """New episodes in the rows where `mask` is true."""
        self.seeds[mask], self.plans[mask], self.fresh[mask] = seeds[mask], 0, True
        self.drop(mask)

    def drop(self, mask: np.ndarray) -> None:
        """Forget the chunk and the plan in the making: the next action needs a plan made on the spot."""
        self.played[mask] = self.end[mask] = 0
        self.planning[mask] = self.ready[mask] = False

    def pushed(self, steps: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The history with these observations appended; a new episode's is filled with its first."""
        history = {}
        for key, past in self.history.items():
            moved = np.concatenate([past[:, 1:], steps[key][:, None]], axis=1)
            moved[self.fresh] = steps[key][self.fresh][:, None]
            history[key] = moved
        return history

    def remember(self, history: dict[str, np.ndarray]) -> None:
        """Keep a history made by `pushed`."""
        self.history, self.fresh = history, np.zeros(self.size, bool)

    def due(self, lead: int) -> np.ndarray:
        """Rows whose next plan is to begin with the present observation."""
        return ~self.planning & (self.end - self.played <= lead)

    def begin(self, mask: np.ndarray) -> None:
        """A plan begins in these rows."""
        self.planning |= mask
        self.age[mask] = 0
        self.plans[mask] += 1

    def arrive(self, mask: np.ndarray, chunks: np.ndarray) -> None:
        """The plans of these rows are there."""
        self.upcoming[mask] = chunks[mask]
        self.ready |= mask

    @property
    def late(self) -> np.ndarray:
        """Rows whose plan is not there though its time has come."""
        return ~self.ready & (self.played >= self.end)

    @property
    def exhausted(self) -> np.ndarray:
        """Rows that are late and have nothing left to play."""
        return self.late & ((self.end == 0) | (self.played >= self.chunk.shape[1]))

    def next_actions(self) -> np.ndarray:
        """The present action of every row; plans that are ready take over where their time has come."""
        swap = self.ready & (self.played >= self.end)
        self.chunk[swap] = self.upcoming[swap]
        self.played[swap] = self.age[swap]
        self.end[swap] = np.minimum(self.age[swap] + self.execute, self.chunk.shape[1])
        self.planning[swap] = self.ready[swap] = False
        actions = self.chunk[np.arange(self.size), self.played]
        self.played += 1
        self.age += 1
        return actions


def row_seeds(seed: Any, size: int) -> np.ndarray:
    """One 32-bit seed per row."""
    if seed is None:
        seed = secrets.randbits(32)
    seeds = np.asarray(seed)
    if seeds.ndim == 1 and len(seeds) != size:
        raise ValueError(f"seed has {len(seeds)} numbers; the batch has {size} rows.")
    if seeds.ndim == 0:  # row 0 of a batch is the single robot of that seed
        return ((int(seeds) + 0x9E3779B1 * np.arange(size, dtype=np.uint64)) % 2**32).astype(np.uint32)
    return (seeds.astype(np.uint64) % 2**32).astype(np.uint32)
