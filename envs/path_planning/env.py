"""``PathPlanning-v0``: from a start to a goal, around circles, one waypoint at a time."""

from typing import Any, ClassVar, cast

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike, NDArray

from rnce.envs.path_planning import dynamics
from rnce.envs.path_planning.geometry import CostWeights
from rnce.envs.path_planning.rendering import Renderer
from rnce.envs.path_planning.scenes import Scene, SceneParams, sample_scenes

Observation = dict[str, NDArray[np.float64]]


class PathPlanningEnv(gym.Env[Observation, NDArray[np.float64]]):
    """Reach the goal around the circles along a short, even path.

    Args:
        render_mode: ``"rgb_array"``, ``"human"`` or None.
        n_obstacles: Number of circles.
        radius_range: Their radii are uniform in it.
        n_waypoints: Waypoints of an episode, the start included; it is truncated after one move less.
        weights: Weights of the cost, as :class:`CostWeights` or a dict with some of its fields.
        min_start_goal_distance: Of a drawn scene.
        min_clearance: Of start and goal from every circle in a drawn scene.
        render_size: Side of the rendered image in pixels.
    """

    # Gymnasium declares this class variable as one of instances.
    metadata: ClassVar[dict[str, Any]] = {  # pyright: ignore[reportIncompatibleVariableOverride]
        "render_modes": ["human", "rgb_array"],
        "render_fps": 10,
    }

    def __init__(
        self,
        render_mode: str | None = None,
        n_obstacles: int = 10,
        radius_range: tuple[float, float] = (0.10, 0.25),
        n_waypoints: int = 50,
        weights: CostWeights | dict[str, float] | None = None,
        min_start_goal_distance: float = 1.0,
        min_clearance: float = 0.08,
        render_size: int = 512,
    ) -> None:
        self.params = SceneParams(n_obstacles, radius_range, min_start_goal_distance, min_clearance)
        self.n_waypoints = dynamics.checked_n_waypoints(n_waypoints)
        self.weights = dynamics.checked_weights(weights)
        observation_space, self.action_space = dynamics.make_spaces(self.params)
        # Gymnasium types a Dict space as one whose elements are spaces.
        self.observation_space = cast("gym.Space[Observation]", observation_space)
        self.render_mode = render_mode
        self._renderer = Renderer(render_mode, render_size, self.metadata)
        self._state: dynamics.State | None = None
        self._path = np.empty((self.n_waypoints, 2))

    @property
    def path(self) -> NDArray[np.float64]:
        """The waypoints so far, the start first."""
        return self._path[: int(self._current().moves) + 1].copy()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start in a scene drawn from the seed, or in the one that ``options`` sets.

        Options ``obstacles`` (K, 3), ``start`` (2,) and ``goal`` (2,) fix these parts; the rest is drawn around them.
        """
        given = dynamics.given_by_options(options or {}, self.params)
        super().reset(seed=seed)
        rows = sample_scenes([self.np_random], self.params, {name: part[None] for name, part in given.items()})
        scene = Scene(*(part[0] for part in rows))
        self._state = dynamics.initial_state(scene)
        self._path[0] = scene.start
        self._renderer.candidates = None
        self._renderer.after_step(self._state, self._path[:1])
        return dynamics.observation(self._state), self._info()

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Move straight to the waypoint ``action`` in [-1, 1]². Reward: minus the increase of the cost."""
        before = self._current()
        if before.moves >= self.n_waypoints - 1:
            raise ResetNeeded(f"the episode ended after {self.n_waypoints - 1} moves: call reset()")
        waypoint = dynamics.checked_waypoint(action, (2,))
        self._state = after = dynamics.move(before, waypoint, self.weights)
        n_moves = int(after.moves)
        self._path[n_moves] = waypoint
        cost_before, cost_after = (dynamics.cost_terms(s, self.weights).total for s in (before, after))
        self._renderer.after_step(after, self._path[: n_moves + 1])
        truncated = n_moves == self.n_waypoints - 1
        return dynamics.observation(after), float(cost_before - cost_after), False, truncated, self._info()

    def set_candidates(self, paths: ArrayLike | None, scores: ArrayLike | None = None) -> None:
        """Draw these paths (n, length, 2) in the following renders, coloured by ``scores`` (n,): the best is brightest.

        They stay until they are set again (None removes them) or the environment is reset.
        """
        self._renderer.set_candidates(paths, scores)

    def render(self) -> NDArray[np.uint8] | None:
        """An image (H, W, 3) in ``rgb_array`` mode; in ``human`` mode steps draw by themselves."""
        return self._renderer.render(self._current(), self.path)

    def close(self) -> None:
        """Close the window, if there is one."""
        self._renderer.close()

    def _current(self) -> dynamics.State:
        if self._state is None:
            raise ResetNeeded("call reset() first")
        return self._state

    def _info(self) -> dict[str, Any]:
        return {name: value.item() for name, value in dynamics.info(self._current(), self.weights).items()}
