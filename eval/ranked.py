"""Candidates of one policy, ranked by the likelihood of another: draw with one, judge with the other."""

from collections.abc import Mapping
from typing import Any

import numpy as np


class RankedBy:
    """Acts as `policy`, except that `ranker` picks among its candidates.

    Both are policies of the package for the same task. Only their public interface is used, so a plan is made twice:
    once to see the candidates and once by the policy itself, to advance its history and random streams.
    """

    batched = True

    def __init__(self, policy: Any, ranker: Any) -> None:
        if policy.task.event_shape != ranker.task.event_shape or policy.env_id != ranker.env_id:
            raise ValueError(f"{ranker.name} cannot rank the candidates of {policy.name}: they are for different tasks")
        self._policy, self._ranker = policy, ranker
        self.chunk, self.env_id = policy.chunk, policy.env_id
        self.name = f"{policy.name} ranked by {ranker.name}"
        self.n_params = policy.n_params + ranker.n_params
        self._history: list[list[Any]] = []

    def reset(self, seed: np.ndarray, mask: np.ndarray) -> None:
        """Forget the episodes of these rows."""
        self._policy.reset(seed=seed, mask=mask)
        if not self._history:
            self._history = [[] for _ in seed]
            self._played = np.full(len(seed), self.chunk)
            self._chunks = np.zeros((len(seed), *self._policy.task.event_shape))
        for row in np.flatnonzero(mask):
            self._history[row] = []
            self._played[row] = self.chunk

    def act(self, obs: Any) -> np.ndarray:
        """The next action of the chunk that the ranker chose."""
        for row, past in enumerate(self._history):
            past.append(_row(obs, row))
            del past[: -self._ranker.task.n_ctx]
        due = np.flatnonzero(self._played == self.chunk)
        if len(due):
            samples = self._policy.plan(obs).samples
            for row in due.tolist():
                scores = self._ranker.score(self._window(row), samples[row])
                self._chunks[row] = samples[row, np.nanargmax(scores)]
            self._played[due] = 0
        self._policy.act(obs)
        action = self._chunks[np.arange(len(self._played)), self._played]
        self._played += 1
        return action

    def _window(self, row: int) -> Any:
        """The last observations, the first repeated where there are too few, as at an episode's start."""
        past = self._history[row]
        past = [past[0]] * (self._ranker.task.n_ctx - len(past)) + past
        if isinstance(past[0], Mapping):
            return {key: np.stack([step[key] for step in past]) for key in past[0]}
        return np.stack(past)


def _row(obs: Any, row: int) -> Any:
    return {key: np.array(part[row]) for key, part in obs.items()} if isinstance(obs, Mapping) else np.array(obs[row])
