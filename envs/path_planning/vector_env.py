"""The natively batched form of ``PathPlanning-v0``: thousands of environments in one array program."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from rnce.envs.path_planning import dynamics
from rnce.envs.path_planning.env import Observation, PathPlanningEnv
from rnce.envs.path_planning.rendering import Renderer
from rnce.envs.path_planning.scenes import sample_scenes


class PathPlanningVectorEnv(VectorEnv[Observation, NDArray[np.float64], NDArray[Any]]):
    """``num_envs`` environments whose every row gives the bits :class:`PathPlanningEnv` gives with the same seed.

    Args:
        num_envs: How many.
        autoreset_mode: ``NEXT_STEP`` (Gymnasium's default: the step after an episode's end ignores the action, starts
            the next episode and has reward 0) or ``DISABLED`` (ended rows wait for ``reset(options={"reset_mask":
            mask})``). For ``SAME_STEP`` use ``vectorization_mode="sync"``.
        render_mode: None or ``"rgb_array"``.
        **kwargs: As for :class:`PathPlanningEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        if not (isinstance(num_envs, int | np.integer) and num_envs >= 1):
            raise ValueError(f"num_envs must be a whole number, 1 or more, got {num_envs!r}")
        mode = AutoresetMode(autoreset_mode)
        if mode == AutoresetMode.SAME_STEP:
            raise ValueError('autoreset_mode SAME_STEP: use gym.make_vec(..., vectorization_mode="sync") instead')
        single = PathPlanningEnv(**kwargs)
        self.params, self.weights, self.n_waypoints = single.params, single.weights, single.n_waypoints
        self.num_envs = int(num_envs)
        self.single_observation_space, self.single_action_space = single.observation_space, single.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 10, "autoreset_mode": mode}
        self.render_mode = render_mode
        self._autoreset = mode == AutoresetMode.NEXT_STEP
        self._renderer = Renderer(render_mode, kwargs.get("render_size", 512), self.metadata)
        self._rngs: list[Generator] = []
        self._state: dynamics.State | None = None
        self._paths = np.empty((self.num_envs, self.n_waypoints, 2))
        self._rows = np.arange(self.num_envs)

    @property
    def paths(self) -> list[NDArray[np.float64]]:
        """The waypoints so far of each environment."""
        return [path[: moves + 1].copy() for path, moves in zip(self._paths, self._current().moves)]

    def reset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start every environment, or those of ``options["reset_mask"]``.

        Args:
            seed: Row i gets ``seed + i``, or the i-th of a list.
            options: As for one environment: the same for all rows, or with a leading axis of one entry per row.
        """
        scene_options = dict(options or {})
        mask = self._checked_mask(scene_options.pop("reset_mask", None))
        given = dynamics.given_by_batched_options(scene_options, self.params, self.num_envs)
        self._seed(seed, mask)
        self._restart(np.flatnonzero(mask), given)
        return dynamics.observation(self._current()), self._info(mask)

    def step(
        self, actions: ArrayLike
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Move every environment to its waypoint."""
        before = self._current()
        waypoints = dynamics.checked_waypoint(actions, (self.num_envs, 2))
        ended = before.moves >= self.n_waypoints - 1
        any_ended = bool(ended.any())
        if any_ended and not self._autoreset:
            raise ResetNeeded(
                f"{int(ended.sum())} of {self.num_envs} episodes have ended: call "
                'reset(options={"reset_mask": mask}) for them'
            )
        self._state = dynamics.move(before, waypoints, self.weights)
        if any_ended:
            self._restart(np.flatnonzero(ended), {})
        after = self._state
        self._paths[self._rows, after.moves] = after.position
        cost_before, cost_after = (dynamics.cost_terms(state, self.weights).total for state in (before, after))
        rewards = np.where(ended, 0.0, cost_before - cost_after)
        truncated = after.moves == self.n_waypoints - 1
        everyone = np.ones(self.num_envs, np.bool_)
        return dynamics.observation(after), rewards, ~everyone, truncated, self._info(everyone)

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """One image (H, W, 3) per environment in ``rgb_array`` mode."""
        if self.render_mode is None:
            return None
        states = (dynamics.State(*(part[row] for part in self._current())) for row in self._rows)
        return tuple(self._renderer.image(state, path) for state, path in zip(states, self.paths))

    def _current(self) -> dynamics.State:
        if self._state is None:
            raise ResetNeeded("call reset() first")
        return self._state

    def _restart(self, rows: NDArray[np.int64], given: dict[str, NDArray[np.float64]]) -> None:
        rngs = [self._rngs[row] for row in rows.tolist()]
        fresh = dynamics.initial_state(
            sample_scenes(rngs, self.params, {name: part[rows] for name, part in given.items()})
        )
        if len(rows) == self.num_envs:
            self._state = fresh
        else:
            self._state = dynamics.State(*(_with_rows(a, rows, b) for a, b in zip(self._current(), fresh)))
        self._paths[rows, 0] = fresh.position

    def _seed(self, seed: int | Sequence[int | None] | None, mask: NDArray[np.bool_]) -> None:
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else seed
        if seeds is None:
            seeds = [None] * self.num_envs
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed must be one number or {self.num_envs}, one for each environment, got {len(seeds)}")
        if not self._rngs:
            self._rngs = [np_random(s)[0] for s in seeds]
        else:
            for row in np.flatnonzero(mask).tolist():
                if seeds[row] is not None:
                    self._rngs[row] = np_random(seeds[row])[0]

    def _checked_mask(self, mask: Any) -> NDArray[np.bool_]:
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        if self._state is None:
            raise ResetNeeded('options["reset_mask"] is for later: the first reset() is for all environments')
        array = np.asarray(mask)
        if array.shape != (self.num_envs,) or array.dtype != np.bool_ or not array.any():
            raise ValueError(
                f'options["reset_mask"] must be {self.num_envs} booleans, at least one of them True, got {mask!r:.80}'
            )
        return array

    def _info(self, mask: NDArray[np.bool_]) -> dict[str, Any]:
        """Gymnasium's convention: an array per name, and under ``_name`` which rows have it."""
        values = {name: value.copy() for name, value in dynamics.info(self._current(), self.weights).items()}
        return values | {f"_{name}": mask.copy() for name in values}


def _with_rows(array: NDArray[Any], rows: NDArray[np.int64], values: NDArray[Any]) -> NDArray[Any]:
    result = array.copy()
    result[rows] = values
    return result
