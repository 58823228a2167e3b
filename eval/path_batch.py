"""Path planning with all rows in one array: a thousand episodes a second on one core."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rnce.envs.path_planning import dynamics
from rnce.envs.path_planning.env import PathPlanningEnv
from rnce.envs.path_planning.scenes import scenes_for_seeds
from rnce.eval.environments import box_actions, empty_rows, make_env
from rnce.eval.recorders import path_metrics, path_modes


class PathPlanningBatch:
    """The same episodes as one `PathPlanning-v0` per row, from the same pure functions."""

    def __init__(self, n: int, **options: Any) -> None:
        env = make_env("PathPlanning-v0", **options)
        single = env.unwrapped
        assert isinstance(single, PathPlanningEnv)
        self.action_space = box_actions("PathPlanning-v0", env)
        self.observation = empty_rows(env.observation_space, n)
        self._params, self._weights = single.params, single.weights
        self._paths = np.zeros((n, single.n_waypoints, 2))
        self._moves = np.zeros(n, dtype=int)
        self._outcomes: dict[int, tuple[dict[str, float], str]] = {}
        env.close()

    def reset(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Begin new episodes in these rows."""
        scenes = scenes_for_seeds(seeds, self._params)
        for key, part in (("obstacles", scenes.obstacles), ("goal", scenes.goal), ("position", scenes.start)):
            self.observation[key][rows] = part
        self._paths[rows, 0] = scenes.start
        self._moves[rows] = 0

    def step(self, rows: Sequence[int], actions: np.ndarray) -> tuple[list[int], dict[int, str]]:
        """Move to the waypoints; the adapters have refused what is not finite."""
        moved = np.asarray(rows, dtype=int)
        waypoints = dynamics.checked_waypoint(actions[moved], (len(moved), 2))
        self._moves[moved] += 1
        self._paths[moved, self._moves[moved]] = waypoints
        self.observation["position"][moved] = waypoints
        ended = moved[self._moves[moved] == self._paths.shape[1] - 1]
        if len(ended):
            self._measure(ended)
        return ended.tolist(), {}

    def _measure(self, rows: np.ndarray) -> None:
        paths, obstacles = self._paths[rows], self.observation["obstacles"][rows]
        goals = self.observation["goal"][rows]
        figures = path_metrics(paths, obstacles, goals, self._weights)
        self._outcomes.update(zip(rows.tolist(), zip(figures, path_modes(paths, obstacles, goals))))

    def outcome(self, row: int) -> tuple[dict[str, float], str | None]:
        """Metrics and winding class of the episode in this row."""
        return self._outcomes[row]

    def close(self) -> None:
        """Nothing to release."""
