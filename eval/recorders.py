"""What an episode is worth in each task: one recorder per environment watches it and states its figures."""

from typing import Any, Protocol

import numpy as np

from rnce.datasets.winding import winding_numbers
from rnce.envs.path_planning import CostWeights, collided, path_cost


class Recorder(Protocol):
    """Watches one episode."""

    def start(self, observation: Any, info: dict) -> None:
        """Take in the first observation."""

    def step(self, observation: Any, reward: float, info: dict) -> None:
        """Take in the result of one action."""

    def metrics(self) -> dict[str, float]:
        """The episode's figures so far."""
        ...

    def mode(self) -> str | None:
        """Which of several ways was taken, where the task can tell."""


class ReturnRecorder:
    """Any Gymnasium environment: the sum of rewards, and success where `info` says so."""

    def start(self, observation: Any, info: dict) -> None:
        """Begin."""
        self._return, self._success = 0.0, None

    def step(self, observation: Any, reward: float, info: dict) -> None:
        """Add the reward."""
        self._return += float(reward)
        self._success = info.get("is_success", self._success)

    def metrics(self) -> dict[str, float]:
        """`return` and perhaps `success`."""
        return {"return": self._return} | ({} if self._success is None else {"success": float(self._success)})

    def mode(self) -> None:
        """Nothing is known of modes."""


class PushTRecorder:
    """The paper's score is the best reward of the episode; final coverage and success are what users also ask for."""

    def start(self, observation: Any, info: dict) -> None:
        """Begin."""
        self._score, self._coverage, self._success, self._steps = 0.0, float(info["coverage"]), False, 0

    def step(self, observation: Any, reward: float, info: dict) -> None:
        """Keep the best reward and the last coverage."""
        self._steps += 1
        self._score = max(self._score, float(reward))
        self._coverage, self._success = float(info["coverage"]), bool(info["is_success"])

    def metrics(self) -> dict[str, float]:
        """`steps_to_success` exists only where there was one."""
        figures = {"score": self._score, "final_coverage": self._coverage, "success": float(self._success)}
        return figures | ({"steps_to_success": float(self._steps)} if self._success else {})

    def mode(self) -> None:
        """Push-T has no countable modes."""


class PathRecorder:
    """Path planning: collision, the paper's cost and its terms, goal distance; the winding class is the mode."""

    def start(self, observation: Any, info: dict) -> None:
        """Keep the scene and the start."""
        self._obstacles = np.asarray(observation["obstacles"], dtype=np.float64)
        self._goal = np.asarray(observation["goal"], dtype=np.float64)
        self._path = [np.asarray(observation["position"], dtype=np.float64)]

    def step(self, observation: Any, reward: float, info: dict) -> None:
        """Add a waypoint."""
        self._path.append(np.array(observation["position"], dtype=np.float64))

    def metrics(self) -> dict[str, float]:
        """All from the path itself."""
        (figures,) = path_metrics(np.stack(self._path)[None], self._obstacles[None], self._goal[None])
        return figures

    def mode(self) -> str | None:
        """On which side of each obstacle that matters the path went."""
        return path_modes(np.stack(self._path)[None], self._obstacles[None], self._goal[None])[0]


def path_metrics(
    paths: np.ndarray,
    obstacles: np.ndarray,
    goals: np.ndarray,
    weights: CostWeights = CostWeights(),  # noqa: B008
) -> list[dict[str, float]]:
    """Figures of each path (b, n, 2) among obstacles (b, k, 3) to goals (b, 2)."""
    terms = path_cost(paths, obstacles, goals, weights)
    columns = {
        "collision": collided(paths, obstacles).astype(np.float64),
        "cost": terms.total,
        "cost_goal": terms.goal,
        "cost_obstacle": terms.obstacle,
        "cost_smoothness": terms.smoothness,
        "goal_distance": np.linalg.norm(paths[:, -1] - goals, axis=-1),
        "length": np.linalg.norm(np.diff(paths, axis=1), axis=-1).sum(axis=-1),
    }
    return [{name: float(column[i]) for name, column in columns.items()} for i in range(len(paths))]


def path_modes(paths: np.ndarray, obstacles: np.ndarray, goals: np.ndarray) -> list[str]:
    """Winding class of each path as text.

    The goal is appended to each path: classes are comparable only between paths with the same ends, and those of a
    policy end near the goal rather than at it.
    """
    closed = np.concatenate([paths, goals[:, None]], axis=1)
    return [" ".join(map(str, numbers)) for numbers in winding_numbers(closed, obstacles)]


RECORDERS: dict[str, type[Recorder]] = {
    "PushT-v0": PushTRecorder,
    "PushTEasy-v0": PushTRecorder,
    "PushTPixels-v0": PushTRecorder,
    "PathPlanning-v0": PathRecorder,
}


def recorder_for(env_id: str) -> type[Recorder]:
    """The recorder of an environment; an unknown one is measured by its return."""
    return RECORDERS.get(env_id.split(":")[-1], ReturnRecorder)
