"""Policies as strangers write them; the tests name their factories as `peer_policies:NAME`."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

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


class LikeOwn:
    """The interface of the package's policies, without a network: straight chunks in random directions."""

    name, env_id, n_params = "path-planning/like-own", "PathPlanning-v0", 5

    def __init__(self, samples: int = 4, sampler: object = None):
        self.samples, self.sampler = samples, sampler
        self.task = SimpleNamespace(n_ctx=3, n_pred=10, event_shape=(10, 2))
        self.chunk = 10

    def with_options(self, **options):
        return LikeOwn(**{"samples": self.samples, "sampler": self.sampler} | options)

    def reset(self, seed, mask=None):
        seeds = np.atleast_1d(seed)
        if not hasattr(self, "_rows") or len(self._rows) != len(seeds):
            self._rows = [[0, 0, self.chunk, np.zeros((10, 2))] for _ in seeds]  # seed, plans, played, chunk
        for row in np.flatnonzero(np.ones(len(seeds), bool) if mask is None else mask):
            self._rows[row] = [int(seeds[row]), 0, self.chunk, np.zeros((10, 2))]

    def plan(self, obs):
        batched = obs["position"].ndim == 2
        positions = np.atleast_2d(obs["position"])
        samples = np.stack(
            [self._draw(p, self.samples, (seed, plans)) for p, (seed, plans, *_) in zip(positions, self._rows)]
        )
        scores = np.stack([self.score({"goal": goal}, s) for goal, s in zip(np.atleast_2d(obs["goal"]), samples)])
        actions = samples[np.arange(len(samples)), scores.argmax(axis=1)]
        plan = SimpleNamespace(actions=actions, samples=samples, scores=scores)
        return plan if batched else SimpleNamespace(**{key: value[0] for key, value in vars(plan).items()})

    def act(self, obs):
        if any(played == self.chunk for _, _, played, _ in self._rows):
            actions = self.plan(obs).actions
            for row, state in enumerate(self._rows):
                if state[2] == self.chunk:
                    state[1:] = state[1] + 1, 0, actions[row]
        for state in self._rows:
            state[2] += 1
        return np.stack([chunk[played - 1] for _, _, played, chunk in self._rows])

    def sample(self, obs, n, seed):
        return self._draw(obs["position"], n, (seed, 0))

    def score(self, obs, samples):
        goal = np.asarray(obs["goal"]).reshape(-1, 2)[-1]
        return -np.linalg.norm(samples[:, -1] - goal, axis=-1)

    def _draw(self, position, n, seed):
        directions = np.random.default_rng(seed).normal(size=(n, 1, 2)) * 0.2
        return np.clip(position + directions * np.arange(1, 11)[:, None] / 10, -1, 1)


class Contrary(LikeOwn):
    """Prefers what leads away from the goal."""

    def score(self, obs, samples):
        assert np.asarray(obs["position"]).shape == (3, 2)  # a window, as the policies take it
        return -super().score(obs, samples)


class Elsewhere(LikeOwn):
    env_id = "PushT-v0"
