"""Policies without a network: a floor to compare with, and something to measure the harness by.

`rnce eval rnce.eval.scripted:straight_line --env PathPlanning-v0 --seeds 100000:100025`
"""

import numpy as np


class StraightLine:
    """Path planning: equal steps from the start to the goal, through whatever is in between."""

    batched = True
    env_id = "PathPlanning-v0"
    name = "straight line"
    n_params = 0
    steps = 49

    def reset(self, seed: np.ndarray, mask: np.ndarray) -> None:
        """Forget how far the episodes of these rows are."""
        self._left = np.where(mask, self.steps, getattr(self, "_left", self.steps))

    def act(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        """The next of the remaining equal steps."""
        position, goal = observation["position"], observation["goal"]
        action = position + (goal - position) / np.maximum(self._left, 1)[:, None]
        self._left = self._left - 1
        return action


class Hold:
    """Push-T: stay where the agent is. Costs nothing, so that what is measured is the harness."""

    batched = True
    env_id = "PushT-v0"
    name = "hold"
    n_params = 0

    def reset(self, seed: np.ndarray, mask: np.ndarray) -> None:
        """There is nothing to forget."""

    def act(self, observation: np.ndarray) -> np.ndarray:
        """The agent's position, the first two numbers of the state."""
        return np.array(observation[:, :2], dtype=np.float64)


class RandomTargets:
    """Push-T: a new random target every eight steps, from each row's own random stream."""

    batched = True
    env_id = "PushT-v0"
    name = "random targets"
    n_params = 0
    chunk = 8

    def reset(self, seed: np.ndarray, mask: np.ndarray) -> None:
        """New random streams and targets for these rows."""
        if not hasattr(self, "_rngs"):
            self._rngs = [np.random.default_rng(0) for _ in seed]
            self._step = np.zeros(len(seed), dtype=int)
            self._target = np.zeros((len(seed), 2))
        for row in np.flatnonzero(mask):
            self._rngs[row] = np.random.default_rng(seed[row])
            self._step[row] = 0

    def act(self, observation: np.ndarray) -> np.ndarray:
        """The target of this stretch."""
        for row in np.flatnonzero(self._step % self.chunk == 0):
            self._target[row] = self._rngs[row].uniform(50, 450, size=2)
        self._step += 1
        return self._target.copy()


straight_line, hold, random_targets = StraightLine, Hold, RandomTargets  # factories, as `rnce eval` takes them
