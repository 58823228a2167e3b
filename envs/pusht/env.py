"""The Gymnasium environment around the Push-T scene: checks what comes in and arranges what goes out."""

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from rnce.envs.pusht.coverage import coverage
from rnce.envs.pusht.geometry import CANVAS, CORNERS, GOAL, Point, Pose, pose_error, transform
from rnce.envs.pusht.physics import CONTROL_HZ, SUBSTEPS, Scene
from rnce.envs.pusht.starts import INITS, draw_goal, draw_start

OBS_TYPES = ("state", "environment_state_agent_pos", "pixels", "pixels_agent_pos")
_ALIASES = {"keypoints": "environment_state_agent_pos"}
_RESET_OPTIONS = ("state", "goal_pose", "reset_to_state")
# The agent can press the block through a wall, though not far: it has to stay in touch from inside the canvas.
_BLOCK_LOW, _BLOCK_HIGH = -CANVAS / 2, 1.5 * CANVAS
_ON_CANVAS, _BLOCK_RANGE, _ANY = (0.0, CANVAS), (_BLOCK_LOW, _BLOCK_HIGH), (-math.inf, math.inf)
_STATE_LIMITS = {
    "agent x": _ON_CANVAS,
    "agent y": _ON_CANVAS,
    "block x": _BLOCK_RANGE,
    "block y": _BLOCK_RANGE,
    "block angle": _ANY,
}
_GOAL_LIMITS = {"goal x": _ON_CANVAS, "goal y": _ON_CANVAS, "goal angle": _ANY}


class PushTEnv(gym.Env[Any, np.ndarray]):
    """Push a T-shaped block onto its goal with a disc. README.md in this folder is the full description.

    Args:
        obs_type: ``"state"``, ``"environment_state_agent_pos"`` (or ``"keypoints"``), ``"pixels"`` or
            ``"pixels_agent_pos"``.
        render_mode: ``"rgb_array"``, ``"human"`` or ``None``.
        render_size: Side in pixels of the pictures and the window that `render` makes.
        observation_width: Width of observed images.
        observation_height: Height of observed images.
        init: Where episodes start: ``"uniform"`` (as gym-pusht 0.1.8), ``"legacy"`` (as Diffusion Policy) or
            ``"near_goal"``.
        random_goal: Draw a goal for each episode and make it part of the observation.
        success_threshold: Coverage above which the episode ends with success; the reward is 1 from there on.
        visualization_width: Another name for `render_size`, for code written for gym-pusht.
        visualization_height: Goes with `visualization_width`.
    """

    # Gymnasium declares this class variable as one of instances.
    metadata: ClassVar[dict[str, Any]] = {  # pyright: ignore[reportIncompatibleVariableOverride]
        "render_modes": ["rgb_array", "human"],
        "render_fps": CONTROL_HZ,
    }

    def __init__(
        self,
        obs_type: str = "state",
        render_mode: str | None = "rgb_array",
        render_size: int = int(CANVAS),
        observation_width: int = 96,
        observation_height: int = 96,
        init: str = "uniform",
        random_goal: bool = False,
        success_threshold: float = 0.95,
        visualization_width: int | None = None,
        visualization_height: int | None = None,
    ) -> None:
        self.obs_type = _one_of("obs_type", _ALIASES.get(obs_type, obs_type), (*OBS_TYPES, *_ALIASES))
        self.init = _one_of("init", init, INITS)
        if render_mode is not None:
            _one_of("render_mode", render_mode, self.metadata["render_modes"])
        self.render_mode = render_mode
        self._picture_size = (
            _positive("render_size", render_size if visualization_width is None else visualization_width),
            _positive("render_size", render_size if visualization_height is None else visualization_height),
        )
        self._image_size = (
            _positive("observation_width", observation_width),
            _positive("observation_height", observation_height),
        )
        self.random_goal = bool(random_goal)
        if not 0.0 < success_threshold < 1.0:
            raise ValueError(f"success_threshold is {success_threshold!r}; it must lie between 0 and 1, both excluded")
        self.success_threshold = float(success_threshold)

        self.action_space = spaces.Box(0.0, CANVAS, (2,), np.float32)
        self.observation_space = self._make_observation_space()
        self._scene: Scene | None = None
        self._goal = GOAL
        self._camera: Any = None  # for observations
        self._canvas: Any = None  # for `render`
        self._window: Any = None

    # --- Gymnasium's interface ---

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Options: ``state`` puts agent and block exactly there, ``goal_pose`` moves the goal, ``reset_to_state`` is
        gym-pusht's option and lands where gym-pusht lands.
        """
        wanted = _check_options(options)  # before anything changes
        super().reset(seed=seed)
        self._goal = Pose(*wanted["goal_pose"]) if "goal_pose" in wanted else GOAL
        if self.random_goal and "goal_pose" not in wanted:
            self._goal = draw_goal(self.np_random)
        if "state" in wanted or "reset_to_state" in wanted:
            x, y, *block = wanted.get("state") or wanted["reset_to_state"]
            agent, pose, exact = (x, y), Pose(*block), "state" in wanted
        else:
            agent, pose, exact = draw_start(self.init, self.np_random, seed, self._goal, self.success_threshold)

        self._scene = Scene()
        self._target: Point | None = None
        if exact:
            self._scene.place(agent, pose)
            self._contacts = 0
            # What pymunk gives back may differ from what it was given in the last bit.
            self._agent, self._block = agent, pose
        else:
            self._contacts = self._scene.place_like_gym_pusht(agent, pose)
            self._agent, self._block = tuple(self._scene.agent), self._scene.block
        self._coverage = coverage(self._block, self._goal)
        if self.render_mode == "human":
            self.render()
        return self._observation(), self._info()

    def step(self, action: ArrayLike) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move towards the target `action` (x, y) for a tenth of a second; targets off the canvas are clipped to it."""
        x, y = _check_numbers("action", action, ("x", "y"))
        if self._scene is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        self._target = min(max(x, 0.0), CANVAS), min(max(y, 0.0), CANVAS)
        self._contacts = self._scene.push(self._target)
        self._agent = self._scene.agent
        block = self._scene.block
        if block != self._block:
            self._block = block
            self._coverage = coverage(block, self._goal)
        reward = min(self._coverage / self.success_threshold, 1.0)
        if self.render_mode == "human":
            self.render()
        return self._observation(), reward, self._coverage > self.success_threshold, False, self._info()

    def render(self) -> Any:
        """A picture (render_size, render_size, 3) in mode rgb_array; in mode human it goes to the window."""
        if self.render_mode is None:
            raise ValueError('render_mode is None; to render, make the environment with render_mode="rgb_array"')
        if self._scene is None:
            raise gym.error.ResetNeeded("call reset() before render()")
        from rnce.envs.pusht import rendering

        if self._canvas is None:
            self._canvas = rendering.Canvas()
        canvas = self._canvas
        canvas.draw(self._agent, self._block, self._goal)
        label = f"coverage {self._coverage:.3f}"
        if self.render_mode == "rgb_array":
            return rendering.picture(canvas, self._target, label, self._picture_size)
        if self._window is None:
            self._window = rendering.Window(self._picture_size, "Push-T")
        self._window.show(rendering.annotate(canvas, self._target, label), self.metadata["render_fps"])
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None

    # --- what the agent sees ---

    def _make_observation_space(self) -> spaces.Space[Any]:
        agent = spaces.Box(0.0, CANVAS, (2,), np.float64)
        width, height = self._image_size
        image = spaces.Box(0, 255, (height, width, 3), np.uint8)
        goal_low, goal_high = [0.0] * 3, [CANVAS, CANVAS, 2 * math.pi]
        if self.obs_type == "state":
            low = [0.0, 0.0, _BLOCK_LOW, _BLOCK_LOW, 0.0]
            high = [CANVAS, CANVAS, _BLOCK_HIGH, _BLOCK_HIGH, 2 * math.pi]
            if self.random_goal:
                low, high = low + goal_low, high + goal_high
            return spaces.Box(np.array(low), np.array(high), dtype=np.float64)
        if self.obs_type == "pixels":
            return image
        if self.obs_type == "pixels_agent_pos":
            return spaces.Dict({"pixels": image, "agent_pos": agent})
        corners = spaces.Box(_BLOCK_LOW, _BLOCK_HIGH, (2 * len(CORNERS),), np.float64)
        keys: dict[str, spaces.Space[Any]] = {"environment_state": corners, "agent_pos": agent}
        if self.random_goal:
            keys["goal_pose"] = spaces.Box(np.array(goal_low), np.array(goal_high), dtype=np.float64)
        return spaces.Dict(keys)

    def _observation(self) -> Any:
        if self.obs_type == "state":
            x, y, angle = self._block
            numbers = [*self._agent, x, y, angle % (2 * math.pi)]
            return np.array(numbers + _wrapped(self._goal) if self.random_goal else numbers)
        if self.obs_type == "pixels":
            return self._image()
        agent = np.array(self._agent)
        if self.obs_type == "pixels_agent_pos":
            return {"pixels": self._image(), "agent_pos": agent}
        observation = {"environment_state": np.array(transform(CORNERS, self._block)).ravel(), "agent_pos": agent}
        if self.random_goal:
            observation["goal_pose"] = np.array(_wrapped(self._goal))
        return observation

    def _image(self) -> np.ndarray:
        if self._camera is None:  # who asks for no pictures does not load pygame
            from rnce.envs.pusht.rendering import Camera

            self._camera = Camera(*self._image_size)
        return self._camera.take(self._agent, self._block, self._goal)

    def _info(self) -> dict[str, Any]:
        assert self._scene is not None
        return {
            "coverage": self._coverage,
            "is_success": self._coverage > self.success_threshold,
            "n_contacts": -(-self._contacts // SUBSTEPS),  # per substep, rounded up
            "pos_agent": np.array(self._agent),
            "vel_agent": np.array(self._scene.agent_velocity),
            "block_pose": np.array(self._block),
            "goal_pose": np.array(self._goal),
            "pose_error": np.array(pose_error(self._block, self._goal)),
        }


def _wrapped(pose: Pose) -> list[float]:
    return [pose.x, pose.y, pose.angle % (2 * math.pi)]


def _one_of(name: str, value: object, allowed: Iterable[str]) -> str:
    allowed = list(allowed)
    if isinstance(value, str) and value in allowed:
        return value
    near = difflib.get_close_matches(str(value), allowed, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(f"{name} is {value!r}; allowed are {', '.join(map(repr, allowed))}{hint}")


def _positive(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} is {value!r}; it must be a whole number of pixels, at least 1")
    return int(value)


def _check_numbers(name: str, value: ArrayLike, parts: tuple[str, ...]) -> list[float]:
    """The numbers in `value`, one for each part, or an error that says what is wrong with them."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}; it must be {len(parts)} numbers ({', '.join(parts)})") from None
    if array.shape != (len(parts),):
        raise ValueError(f"{name} has shape {array.shape}; it must be {len(parts)} numbers ({', '.join(parts)})")
    numbers = array.tolist()
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{name} is {numbers}; its numbers ({', '.join(parts)}) must be finite")
    return numbers


def _check_options(options: Mapping[str, Any] | None) -> dict[str, list[float]]:
    """The reset options as plain numbers; what is None counts as not given."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    for name in given:
        _one_of("options", name, _RESET_OPTIONS)
    if "state" in given and "reset_to_state" in given:
        raise ValueError("options has both 'state' and 'reset_to_state'; give one of them")
    checked: dict[str, list[float]] = {}
    for name, value in given.items():
        limits = _GOAL_LIMITS if name == "goal_pose" else _STATE_LIMITS
        checked[name] = _check_numbers(f"options[{name!r}]", value, tuple(limits))
        for number, (part, (low, high)) in zip(checked[name], limits.items()):
            if not low <= number <= high:
                raise ValueError(f"options[{name!r}] has {part} {number}; it must lie in [{low:g}, {high:g}]")
    return checked
