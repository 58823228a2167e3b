"""Push-T in pictures: small observation images, fast, and large ones for people.

Both start from the same 512 × 512 canvas, drawn as gym-pusht draws it, down to the rounding of coordinates and the
shape of its thick lines: policies trained on recorded images should see the same pixels here.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rnce.envs.pusht.geometry import (
    AGENT_RADIUS,
    BAR,
    CANVAS,
    OUTLINE,
    STEM,
    WALL_HIGH,
    WALL_LOW,
    Point,
    Pose,
    transform,
)
from rnce.envs.quiet_pygame import pygame

SIDE = int(CANVAS)
Pixel = tuple[int, int]
Colour = tuple[int, int, int]

BACKGROUND: Colour = (255, 255, 255)
GOAL_GREEN: Colour = (144, 238, 144)
GOAL_EDGE: Colour = (46, 139, 87)
WALL_GREY: Colour = (211, 211, 211)
BLOCK_EDGE: Colour = (119, 136, 153)
BLOCK_FILL: Colour = (143, 163, 184)
AGENT_EDGE: Colour = (65, 105, 225)
AGENT_FILL: Colour = (78, 126, 255)
TARGET_RED: Colour = (220, 20, 60)
TEXT: Colour = (60, 60, 60)

EDGE = 2  # half the width of a thick line


class Rect(NamedTuple):
    """Pixels left … right − 1, top … bottom − 1."""

    left: int
    top: int
    right: int
    bottom: int


class Canvas:
    """The full-size picture. What never moves (goal and walls) is drawn once for each goal."""

    def __init__(self) -> None:
        self.pixels = np.zeros((SIDE, SIDE), dtype=np.uint32)  # shares its memory with the surface: no copies
        self.surface = pygame.image.frombuffer(self.pixels.view(np.uint8), (SIDE, SIDE), "RGBX")
        self.goal: Pose | None = None
        self.clean = np.zeros_like(self.pixels)
        self._dirty: list[Rect] = []

    def draw(self, agent: Point, block: Pose, goal: Pose) -> list[Rect]:
        """Draw the scene; returns where it differs from the picture without agent and block."""
        if goal != self.goal:
            self._draw_goal_and_walls(goal)
        for left, top, right, bottom in self._dirty:
            self.pixels[top:bottom, left:right] = self.clean[top:bottom, left:right]
        boxes = [_to_pixels(transform(box.corners, block)) for box in (BAR, STEM)]
        for corners in boxes:
            pygame.draw.polygon(self.surface, BLOCK_FILL, corners)
            _draw_thick_outline(self.surface, BLOCK_EDGE, corners)
        (centre,) = _to_pixels([agent])
        radius = int(AGENT_RADIUS)
        pygame.draw.circle(self.surface, AGENT_EDGE, centre, radius)
        pygame.draw.circle(self.surface, AGENT_FILL, centre, radius - 2 * EDGE)
        self._dirty = [_bounds([*boxes[0], *boxes[1]], 2 * EDGE), _bounds([centre], radius + 1)]
        if any(_near_wall(rect) for rect in self._dirty):
            _draw_walls(self.surface)  # walls lie on top
        return self._dirty

    def _draw_goal_and_walls(self, goal: Pose) -> None:
        self.goal = goal
        self.surface.fill(BACKGROUND)
        for box in (BAR, STEM):
            pygame.draw.polygon(self.surface, GOAL_GREEN, _to_pixels(transform(box.corners, goal)))
        _draw_walls(self.surface)
        self.clean[:] = self.pixels
        self._dirty = []


class Camera:
    """Observation images: the canvas sampled at width × height points, each a blend of four pixels.

    The arithmetic is that of OpenCV's bilinear resize, which made the recorded images, with its 11-bit weights. For an
    image of 96² it needs 192² of the 512² pixels, and of these only the ones where agent and block are.
    """

    def __init__(self, width: int, height: int) -> None:
        self.canvas = Canvas()
        self._columns, self._rows = _Taps.spread(width), _Taps.spread(height)
        # Both neighbours in a column, one below the other, are rows 2i and 2i + 1; those in a row are two tables.
        self._indices = self._rows.indices.reshape(-1, 1) * SIDE + self._columns.indices.T[:, None, :]
        self._column_weights = np.repeat(self._columns.weights.T, 4, axis=1)
        self._row_weights = self._rows.weights.reshape(-1, 1)
        self._goal: Pose | None = None
        self._clean = np.zeros((height, width, 3), dtype=np.uint8)

    def take(self, agent: Point, block: Pose, goal: Pose) -> np.ndarray:
        """An RGB image (height, width, 3) of the scene."""
        regions = self.canvas.draw(agent, block, goal)
        if goal != self._goal:
            self._goal = goal
            self._sample(self.canvas.clean, Rect(0, 0, SIDE, SIDE), self._clean)
        image = self._clean.copy()
        for region in regions:
            self._sample(self.canvas.pixels, region, image)
        return image

    def _sample(self, pixels: np.ndarray, region: Rect, image: np.ndarray) -> None:
        """Fill the part of the image that sees the region."""
        left, right = self._columns.seeing(region.left, region.right)
        top, bottom = self._rows.seeing(region.top, region.bottom)
        # Lines of pixels are kept as flat lines of channels: numpy is fast along long last axes.
        rows, columns = slice(2 * top, 2 * bottom), slice(left, right)
        channels, across = slice(4 * left, 4 * right), 0
        for indices, weights in zip(self._indices, self._column_weights):
            seen = pixels.ravel().take(indices[rows, columns]).view(np.uint8)
            across = across + seen * weights[channels]
        down = ((across >> 4) * self._row_weights[rows]) >> 16
        blend = (down[0::2] + down[1::2] + 2) >> 2
        image[top:bottom, left:right] = blend.reshape(bottom - top, right - left, 4)[..., :3]


class _Taps(NamedTuple):
    """For each pixel of a resized line, the two neighbours on the canvas that it blends."""

    indices: np.ndarray  # (count, 2)
    weights: np.ndarray  # (count, 2), sum to 2048
    first: list[int]  # the first of the two, for searching

    @classmethod
    def spread(cls, count: int) -> "_Taps":
        """`count` pixels spread evenly over the canvas."""
        position = (np.arange(count) + 0.5) * (SIDE / count) - 0.5
        first = np.clip(np.floor(position), 0, SIDE - 2).astype(np.int64)
        share = np.round(np.clip(position - first, 0.0, 1.0) * 2048).astype(np.int32)
        return cls(np.stack([first, first + 1], axis=1), np.stack([2048 - share, share], axis=1), first.tolist())

    def seeing(self, start: int, stop: int) -> tuple[int, int]:
        """The range of pixels that blend any of start … stop − 1."""
        return bisect_left(self.first, start - 1), bisect_left(self.first, stop)


def picture(canvas: Canvas, target: Point | None, label: str, size: Pixel) -> np.ndarray:
    """The canvas with the target's marker and a label, as an RGB image (height, width, 3)."""
    surface = _resized(annotate(canvas, target, label), size)
    return np.ascontiguousarray(np.swapaxes(pygame.surfarray.array3d(surface), 0, 1))


def annotate(canvas: Canvas, target: Point | None, label: str) -> "pygame.Surface":
    """A copy of the canvas with the goal's outline over the block, a cross at the target and a label in the corner."""
    surface = canvas.surface.copy()
    if canvas.goal is not None:
        pygame.draw.aalines(surface, GOAL_EDGE, True, transform(OUTLINE, canvas.goal))
    if target is not None:
        ((x, y),) = _to_pixels([target])
        pygame.draw.line(surface, TARGET_RED, (x - 10, y), (x + 10, y), 3)
        pygame.draw.line(surface, TARGET_RED, (x, y - 10), (x, y + 10), 3)
    if not pygame.font.get_init():
        pygame.font.init()
    surface.blit(pygame.font.Font(None, 24).render(label, True, TEXT), (16, 14))
    return surface


class Window:
    """A window on the screen that shows pictures at a given rate."""

    def __init__(self, size: Pixel, title: str) -> None:
        pygame.display.init()
        self._screen = pygame.display.set_mode(size)
        pygame.display.set_caption(title)
        self._clock = pygame.time.Clock()

    def show(self, surface: "pygame.Surface", rate: float) -> None:
        """Show a picture, not before the last one has been up for 1 / rate seconds."""
        pygame.event.pump()
        self._screen.blit(_resized(surface, self._screen.get_size()), (0, 0))
        pygame.display.flip()
        self._clock.tick(rate)

    def close(self) -> None:
        """Close the window."""
        pygame.display.quit()


def _resized(surface: "pygame.Surface", size: Pixel) -> "pygame.Surface":
    return surface if surface.get_size() == size else pygame.transform.smoothscale(surface, size)


def _to_pixels(points: Iterable[Point]) -> list[Pixel]:
    return [(round(x), round(y)) for x, y in points]


def _bounds(points: list[Pixel], margin: int) -> Rect:
    """The smallest rectangle that holds the points and a margin, within the canvas."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return Rect(
        min(max(min(xs) - margin, 0), SIDE),
        min(max(min(ys) - margin, 0), SIDE),
        min(max(max(xs) + margin + 1, 0), SIDE),
        min(max(max(ys) + margin + 1, 0), SIDE),
    )


def _near_wall(region: Rect) -> bool:
    low, high = int(WALL_LOW) + 2 * EDGE, int(WALL_HIGH) - 2 * EDGE
    return region.left < low or region.top < low or region.right > high or region.bottom > high


def _draw_walls(surface: "pygame.Surface") -> None:
    low, length, width = int(WALL_LOW) - EDGE, int(WALL_HIGH - WALL_LOW) + 2 * EDGE + 1, 2 * EDGE + 1
    high = int(WALL_HIGH) - EDGE
    for x, y in ((low, low), (low, high)):
        surface.fill(WALL_GREY, (x, y, length, width))
        surface.fill(WALL_GREY, (y, x, width, length))


def _draw_thick_outline(surface: "pygame.Surface", colour: Colour, corners: list[Pixel]) -> None:
    """A closed line of half-width EDGE as gym-pusht draws it.

    Each side is a thick line, a polygon and a round cap. The polygon's offset is |normal|, component by component,
    which is skewed for every second side of a turned box; one can see it in the recorded images, so it stays.
    """
    pygame.draw.lines(surface, colour, True, corners, 2 * EDGE)
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1]):
        dx, dy = abs(y1 - y0), abs(x1 - x0)
        scale = EDGE / math.hypot(dx, dy)
        dx, dy = round(dx * scale), round(dy * scale)
        side = [(x0 - dx, y0 - dy), (x0 + dx, y0 + dy), (x1 + dx, y1 + dy), (x1 - dx, y1 - dy)]
        pygame.draw.polygon(surface, colour, side)
        pygame.draw.circle(surface, colour, (x0, y0), EDGE)
