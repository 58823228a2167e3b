"""Drive an environment with the mouse, and keep what you did as demonstrations.

Hold the left button: every tick of the control rate is then one step towards the pointer. Let go and time stands
still, so that a demonstration has no idle steps.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pygame

SIZE = 512
KEYS = "hold the left button to move · Enter keep and next · R discard and next · Q quit"

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """What playing needs to know of an environment."""

    env_id: str
    action: Callable[[Vector, Any], Vector]
    """pointer in [0, 1]² from the top left, observation -> action"""
    per_step: Callable[[Any], dict[str, Any]]
    """observation -> arrays to record at every step"""
    per_episode: Callable[[Any], dict[str, Any]]
    """first observation -> arrays to record once"""
    status: Callable[[dict[str, Any]], str]
    """info -> a few words for the title"""


def _towards(pointer: Vector, observation: dict[str, Vector], longest_step: float = 0.08) -> Vector:
    """A waypoint near enough that the path follows the hand; a demonstration's mean step is 0.033."""
    target = (2.0 * pointer - 1.0) * [1.0, -1.0]
    offset = target - observation["position"]
    return observation["position"] + offset * min(1.0, longest_step / max(float(np.linalg.norm(offset)), 1e-9))


TASKS = {
    "pusht": Task(
        env_id="PushT-v0",
        action=lambda pointer, _: 512.0 * pointer,
        per_step=lambda observation: {"state": observation},
        per_episode=lambda _: {},
        status=lambda info: f"coverage {info['coverage']:.2f}",
    ),
    "path-planning": Task(
        env_id="PathPlanning-v0",
        action=_towards,
        per_step=lambda observation: {"position": observation["position"]},
        per_episode=lambda observation: {"obstacles": observation["obstacles"], "goal": observation["goal"]},
        status=lambda info: f"cost {info['cost']:.2f}" + (" · collided" if info["collided"] else ""),
    ),
}


@dataclass
class Hand:
    """What mouse and keyboard say, from the events alone: so it can be played back."""

    pointer: Vector = field(default_factory=lambda: np.full(2, 0.5))
    holding: bool = False
    keep: bool = False
    discard: bool = False
    quit: bool = False

    def read(self, events: "Iterable[pygame.event.Event]") -> None:
        """Take in the events of one tick."""
        from rnce.envs.quiet_pygame import pygame

        self.keep = self.discard = False
        for event in events:
            if event.type == pygame.QUIT:
                self.quit = True
            elif event.type == pygame.KEYDOWN:
                self.quit |= event.key in (pygame.K_q, pygame.K_ESCAPE)
                self.keep |= event.key in (pygame.K_RETURN, pygame.K_KP_ENTER)
                self.discard |= event.key == pygame.K_r
            elif event.type in (pygame.MOUSEBUTTONDOWN, pygame.MOUSEBUTTONUP) and event.button == 1:
                self.holding = event.type == pygame.MOUSEBUTTONDOWN
            if event.type in (pygame.MOUSEMOTION, pygame.MOUSEBUTTONDOWN, pygame.MOUSEBUTTONUP):
                self.pointer = np.clip(np.array(event.pos, dtype=np.float64) / SIZE, 0.0, 1.0)


class Recording:
    """The steps of the episode that is being played, and the file that takes it when it is kept."""

    def __init__(self, task: Task, path: Path | None) -> None:
        self._task = task
        self._writer = None
        self.episodes = 0
        if path is not None:
            from rnce.datasets import ReplayWriter

            self._writer = ReplayWriter(path, {"env": task.env_id})

    def start(self, observation: Any, seed: int) -> None:
        """Forget the steps so far: a new episode begins."""
        self._steps: list[dict[str, Any]] = []
        self._once = {**self._task.per_episode(observation), "seed": np.int64(seed)}

    def step(self, observation: Any, action: Vector) -> None:
        """Add what was seen and what was done then."""
        self._steps.append({**self._task.per_step(observation), "action": action})

    def keep(self) -> None:
        """Write the episode, if there is anything to write and somewhere to write it."""
        if self._writer is None or not self._steps:
            return
        arrays = {key: np.stack([step[key] for step in self._steps]) for key in self._steps[0]}
        self.episodes = self._writer.append_episode(arrays, self._once)


def play(
    task: Task,
    seed: int = 0,
    steps: int | None = None,
    record: Path | None = None,
    events: "Callable[[], Iterable[pygame.event.Event]] | None" = None,
) -> int:
    """Open a window and play until it is closed; returns the number of steps played.

    Args:
        task: One of ``TASKS``.
        seed: Of the first episode; the next have the following seeds.
        steps: Stop after so many steps.
        record: Zarr replay buffer to which episodes are appended as they end or are kept by hand.
        events: Where events come from, for tests; by default the window.
    """
    from rnce.envs.quiet_pygame import pygame

    env = gym.make(task.env_id, render_mode="rgb_array", render_size=SIZE)
    recording, hand, clock, played = Recording(task, record), Hand(), pygame.time.Clock(), 0
    try:
        window = _open_window()
        events = events or pygame.event.get
        observation, info = env.reset(seed=seed)
        recording.start(observation, seed)
        while not hand.quit and (steps is None or played < steps):
            hand.read(events())
            ended = False
            if hand.holding:
                action = np.asarray(task.action(hand.pointer, observation), dtype=env.action_space.dtype)
                recording.step(observation, action)
                observation, _, terminated, truncated, info = env.step(action)
                played, ended = played + 1, terminated or truncated
            _show(window, env.render())
            pygame.display.set_caption(f"{task.env_id} · seed {seed} · {task.status(info)} · {KEYS}")
            if ended or hand.keep:
                recording.keep()
            if ended or hand.keep or hand.discard:
                seed, hand.holding = seed + 1, False
                observation, info = env.reset(seed=seed)
                recording.start(observation, seed)
            clock.tick(env.metadata["render_fps"])
    finally:
        pygame.display.quit()
        env.close()
    return played


def _open_window() -> "pygame.Surface":
    from rnce.envs.quiet_pygame import pygame

    try:
        pygame.display.init()
        driver = pygame.display.get_driver()
        # Without a display SDL falls back to a window nobody can see or close, unless one was asked for by name.
        if driver not in ("dummy", "offscreen") or "SDL_VIDEODRIVER" in os.environ:
            return pygame.display.set_mode((SIZE, SIZE))
    except pygame.error as error:
        raise OSError(f"cannot open a window: {error}") from error
    raise OSError("cannot open a window: there is no display; set DISPLAY, or run under xvfb-run")


def _show(window: "pygame.Surface", image: Any) -> None:
    from rnce.envs.quiet_pygame import pygame

    pygame.surfarray.blit_array(window, np.swapaxes(image, 0, 1))
    pygame.display.flip()
