"""Pictures of a scene with pygame: circles, goal, the path so far and, optionally, candidate paths by score."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rnce.envs.path_planning.scenes import WORKSPACE

if TYPE_CHECKING:
    import pygame

    from rnce.envs.path_planning.dynamics import State

BACKGROUND = (250, 250, 248)
OBSTACLE = (198, 202, 208)
OBSTACLE_EDGE = (150, 156, 164)
HIT = (235, 150, 140)
HIT_EDGE = (200, 70, 60)
GOAL = (240, 140, 30)
START = (60, 60, 60)
PATH = (30, 90, 200)
WORST, BEST = np.array([205.0, 214.0, 228.0]), np.array([20.0, 150.0, 90.0])


def draw(
    state: "State",
    path: NDArray[np.float64],
    size: int,
    candidates: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> "pygame.Surface":
    """Draw one environment's state, its path (n, 2) and candidates (paths, brightness in [0, 1])."""
    from rnce.envs.quiet_pygame import pygame

    surface = pygame.Surface((size, size))
    surface.fill(BACKGROUND)
    scale = size / (2 * WORKSPACE)

    def pixels(points: NDArray[np.float64]) -> NDArray[np.float64]:
        return (points * [1.0, -1.0] + WORKSPACE) * scale  # y points up, rows count down

    def disc(centre: NDArray[np.float64], radius: float, colour: tuple[int, int, int]) -> None:
        x, y = np.rint(pixels(centre)).astype(int).tolist()
        pygame.gfxdraw.aacircle(surface, x, y, round(radius), colour)
        pygame.gfxdraw.filled_circle(surface, x, y, round(radius), colour)

    def line(points: NDArray[np.float64], colour: Any, width: int) -> None:
        if len(points) > 1:
            corners = pixels(points)
            pygame.draw.lines(surface, colour, False, corners.tolist(), width)
            pygame.draw.aalines(surface, colour, False, corners.tolist())

    hit = _hit(path, state.obstacles)
    for circle, was_hit in zip(state.obstacles, hit):
        disc(circle[:2], circle[2] * scale, HIT_EDGE if was_hit else OBSTACLE_EDGE)
        disc(circle[:2], circle[2] * scale - 2, HIT if was_hit else OBSTACLE)
    if candidates is not None:
        for index in np.argsort(candidates[1], kind="stable"):  # the best on top
            brightness = candidates[1][index]
            line(candidates[0][index], np.rint(WORST + brightness * (BEST - WORST)).astype(int).tolist(), 2)
    unit = size / 512
    disc(state.goal, 9 * unit, GOAL)
    disc(state.goal, 4 * unit, BACKGROUND)
    line(path, PATH, max(1, round(3 * unit)))
    for waypoint in path:
        disc(waypoint, 3 * unit, PATH)
    disc(path[0], 5 * unit, START)
    disc(path[-1], 6 * unit, PATH)
    return surface


class Renderer:
    """What the environments share of the rendering protocol: a mode, a window, candidates."""

    def __init__(self, mode: str | None, size: int, metadata: dict[str, Any]) -> None:
        if mode is not None and mode not in metadata["render_modes"]:
            raise ValueError(f"render_mode must be one of {metadata['render_modes']} or None, got {mode!r}")
        if not (isinstance(size, int | np.integer) and size >= 16):
            raise ValueError(f"render_size must be a whole number of pixels, 16 or more, got {size!r}")
        self.mode = mode
        self.size = int(size)
        self.fps = metadata["render_fps"]
        self.candidates: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        self._window: pygame.Surface | None = None
        self._clock: pygame.time.Clock | None = None

    def set_candidates(self, paths: ArrayLike | None, scores: ArrayLike | None) -> None:
        """Check and keep candidates; scores become brightness by rank, so outliers do not hide the rest."""
        if paths is None:
            self.candidates = None
            return
        array = np.array(paths, dtype=np.float64)
        if array.ndim != 3 or array.shape[-1] != 2 or not np.isfinite(array).all():
            raise ValueError(f"paths must be finite with shape (n, length, 2), got shape {array.shape}")
        order = np.zeros(len(array)) if scores is None else np.array(scores, dtype=np.float64)
        if order.shape != (len(array),) or np.isnan(order).any():
            raise ValueError(f"scores must be {len(array)} numbers, one for each of paths, got shape {order.shape}")
        brightness = np.searchsorted(np.sort(order), order, side="right") / max(len(order), 1)
        self.candidates = array, brightness

    def after_step(self, state: "State", path: NDArray[np.float64]) -> None:
        """In ``human`` mode, show the new state and wait for the control rate."""
        if self.mode == "human":
            self._show(draw(state, path, self.size, self.candidates))

    def image(self, state: "State", path: NDArray[np.float64]) -> NDArray[np.uint8]:
        """The picture (H, W, 3), whatever the mode."""
        return as_image(draw(state, path, self.size, self.candidates))

    def render(self, state: "State", path: NDArray[np.float64]) -> NDArray[np.uint8] | None:
        """What ``env.render()`` returns."""
        if self.mode == "rgb_array":
            return self.image(state, path)
        if self.mode == "human":
            self._show(draw(state, path, self.size, self.candidates))
        return None

    def close(self) -> None:
        """Close the window; rendering again opens a new one."""
        if self._window is not None:
            from rnce.envs.quiet_pygame import pygame

            pygame.display.quit()
            self._window = self._clock = None

    def _show(self, surface: "pygame.Surface") -> None:
        from rnce.envs.quiet_pygame import pygame

        if self._window is None or self._clock is None:
            pygame.display.init()
            pygame.display.set_caption("PathPlanning-v0")
            self._window = pygame.display.set_mode((self.size, self.size))
            self._clock = pygame.time.Clock()
        self._window.blit(surface, (0, 0))
        pygame.event.pump()
        pygame.display.flip()
        self._clock.tick(self.fps)


def as_image(surface: "pygame.Surface") -> NDArray[np.uint8]:
    """A surface as (height, width, 3)."""
    from rnce.envs.quiet_pygame import pygame

    return np.ascontiguousarray(np.swapaxes(pygame.surfarray.array3d(surface), 0, 1))


def _hit(path: NDArray[np.float64], obstacles: NDArray[np.float64]) -> NDArray[np.bool_]:
    from rnce.envs.path_planning.geometry import segment_clearance

    return (segment_clearance(path, obstacles) < 0).any(axis=0)
