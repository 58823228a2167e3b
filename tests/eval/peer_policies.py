"""Policies as strangers write them; the tests name their factories as `peer_policies:NAME`."""

import os
import signal
from pathlib import Path

import numpy as np


def toward_goal(obs):
    return obs["position"] + (obs["goal"] - obs["position"]) / 10


def make_function():
    return toward_goal


class Wanderer:
    """Single rows, with a state of its own."""

    env_id = "PathPlanning-v0"

    def reset(self, seed: int = 0):
        self.seed, self.rng, self.steps = seed, np.random.default_rng(seed), 0

    def act(self, obs):
        assert obs["position"].shape == (2,)
        self.steps += 1
        return toward_goal(obs) + self.rng.normal(size=2) * 0.02


class RaisesSometimes(Wanderer):
    """A third of the streams raise in the middle of the episode; another third return NaN."""

    def act(self, obs):
        action = super().act(obs)
        if self.steps == 20 and self.seed % 3 == 0:
            raise RuntimeError(f"stream {self.seed}\nis unlucky")
        return action * np.nan if self.steps == 30 and self.seed % 3 == 1 else action


class WrongShape:
    def act(self, obs):
        return np.zeros(3)


class BatchedWanderer:
    """All rows in one compiled call, in chunks, with a random stream per row."""

    batched = True
    chunk = 10
    env_id = "PathPlanning-v0"
    n_params = 8
    plans = 0

    def __init__(self):
        import jax
        import jax.numpy as jnp

        weights = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2)), jnp.float32)

        @jax.jit
        def plan(keys, position, goal):
            step = (goal - position) / 20 + jnp.concatenate([position, goal], axis=-1) @ weights * 1e-3
            noise = jax.vmap(lambda key: jax.random.normal(key, (self.chunk, 2)))(keys)
            return position[:, None] + jnp.cumsum(step[:, None] + 0.01 * noise, axis=1)

        self._plan = plan

    def reset(self, seed, mask):
        if not hasattr(self, "_keys"):
            self._keys = np.zeros((len(seed), 2), np.uint32)
            self._used = np.full(len(seed), self.chunk)
            self._chunks = np.zeros((len(seed), self.chunk, 2))
        for row in np.flatnonzero(mask):
            self._keys[row] = (0, seed[row])
            self._used[row] = self.chunk

    def act(self, obs):
        need = self._used == self.chunk
        if need.any():
            BatchedWanderer.plans += 1
            chunks = self._plan(self._keys, obs["position"].astype(np.float32), obs["goal"].astype(np.float32))
            self._chunks[need] = np.asarray(chunks)[need]
            self._keys[need, 0] += 1
            self._used[need] = 0
        action = self._chunks[np.arange(len(need)), self._used]
        self._used += 1
        return action


class BatchedRaises(BatchedWanderer):
    """The batch raises because of some rows and does not say which."""

    def act(self, obs):
        if ((self._keys[:, 0] == 2) & (self._keys[:, 1] % 5 == 0) & (self._used == self.chunk)).any():
            raise RuntimeError("a singular matrix somewhere in the batch")
        return super().act(obs)


class KillsItsProcess(Wanderer):
    """The first process that gets here with the marker still there takes it and dies; with `always` every one does."""

    def act(self, obs):
        marker = Path(os.environ["RNCE_TEST_MARKER"])
        if self.steps == 20 and marker.exists():
            if marker.read_text() != "always":
                marker.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().act(obs)


class Interrupts(Wanderer):
    """As if someone pressed Ctrl-C in the middle, once."""

    calls = 0

    def act(self, obs):
        Interrupts.calls += 1
        if Interrupts.calls == 1500:
            raise KeyboardInterrupt
        return super().act(obs)


class Gentle:
    """Any Gymnasium environment: Pendulum."""

    def act(self, obs):
        return np.zeros(1)


NOT_A_POLICY = 3


def make_nothing():
    return NOT_A_POLICY
