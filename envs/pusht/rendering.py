"""Push-T in pictures: small observation images, fast, and large ones for people.

Both start from the same 512 × 512 canvas, drawn as gym-pusht draws it, down to the rounding of coordinates and the
shape of its thick lines: policies trained on recorded images should see the same pixels here.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from rnce.envs.pusht.geometry import (
    AGENT_RADIUS,
    BAR,
    CANVAS,
    CORNERS,
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

    def union(self, other: "Rect") -> "Rect":
        """The smallest rectangle that holds both."""
        return Rect(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )


WHOLE = Rect(0, 0, SIDE, SIDE)


class Sheet:
    """A full-size picture as a surface to draw on and, without copying, as an array of 32-bit pixels."""

    def __init__(self) -> None:
        self.pixels = np.zeros((SIDE, SIDE), dtype=np.uint32)
        pixel_bytes: Any = self.pixels.view(np.uint8)  # any buffer will do, though pygame's types name only some
        self.surface = pygame.image.frombuffer(pixel_bytes, (SIDE, SIDE), "RGBX")

    def restore(self, region: Rect, source: "Sheet") -> None:
        """Copy a region from another sheet."""
        left, top, right, bottom = region
        self.pixels[top:bottom, left:right] = source.pixels[top:bottom, left:right]


class Canvas(Sheet):
    """The scene. Three sheets lie on each other, and only what moved is drawn again: goal, block, agent."""

    def __init__(self) -> None:
        super().__init__()
        self.goal: Pose | None = None
        self._block: Pose | None = None
        self._goal_sheet, self._block_sheet = Sheet(), Sheet()
        self._block_region = self._agent_region = WHOLE

    def draw(self, agent: Point, block: Pose, goal: Pose) -> list[Rect]:
        """Draw the scene; returns the regions that may differ from the scene drawn before."""
        changed = []
        if goal != self.goal:
            self.goal, self._block = goal, None
            self._draw_goal(goal)
            self._block_region = WHOLE
        if block != self._block:
            self._block = block
            before, self._block_region = self._block_region, self._draw_block(block)
            changed.append(before.union(self._block_region))
            self.restore(changed[0], self._block_sheet)
        self.restore(self._agent_region, self._block_sheet)
        before, self._agent_region = self._agent_region, self._draw_agent(agent)
        return [*changed, before.union(self._agent_region)]

    def _draw_goal(self, goal: Pose) -> None:
        surface = self._goal_sheet.surface
        surface.fill(BACKGROUND)
        for box in (BAR, STEM):
            pygame.draw.polygon(surface, GOAL_GREEN, _to_pixels(transform(box.corners, goal)))
        _draw_walls(surface, WHOLE)

    def _draw_block(self, block: Pose) -> Rect:
        sheet = self._block_sheet
        sheet.restore(self._block_region, self._goal_sheet)
        corners = _to_pixels(transform(CORNERS, block))
        for box in (corners[:4], corners[4:]):
            pygame.draw.polygon(sheet.surface, BLOCK_FILL, box)
            _draw_thick_outline(sheet.surface, BLOCK_EDGE, box)
        region = _bounds(corners, 2 * EDGE)
        _draw_walls(sheet.surface, region)
        return region

    def _draw_agent(self, agent: Point) -> Rect:
        (centre,) = _to_pixels([agent])
        radius = int(AGENT_RADIUS)
        pygame.draw.circle(self.surface, AGENT_EDGE, centre, radius)
        pygame.draw.circle(self.surface, AGENT_FILL, centre, radius - 2 * EDGE)
        region = _bounds([centre], radius + 1)
        _draw_walls(self.surface, region)
        return region


class Camera:
    """Observation images: the canvas sampled at width × height points, each a blend of four pixels.

    The arithmetic is that of OpenCV's bilinear resize, which made the recorded images, with its 11-bit weights. For an
    image of 96² it needs 192² of the 512² pixels, and of these only the ones where something moved.
    """

    def __init__(self, width: int, height: int) -> None:
        self.canvas = Canvas()
        self._columns, self._rows = _Taps.spread(width), _Taps.spread(height)
        # Both neighbours in a column, one below the other, are rows 2i and 2i + 1; those in a row are two tables.
        self._indices = self._rows.indices.reshape(-1, 1) * SIDE + self._columns.indices.T[:, None, :]
        self._column_weights = np.repeat(self._columns.weights.T, 4, axis=1)
        self._row_weights = self._rows.weights.reshape(-1, 1)
        self._image = np.zeros((height, width, 3), dtype=np.uint8)

    def take(self, agent: Point, block: Pose, goal: Pose) -> np.ndarray:
        """An RGB image (height, width, 3) of the scene."""
        for region in self.canvas.draw(agent, block, goal):
            self._sample(region)
        return self._image.copy()

    def _sample(self, region: Rect) -> None:
        """Renew the part of the image that sees the region."""
        left, right = self._columns.seeing(region.left, region.right)
        top, bottom = self._rows.seeing(region.top, region.bottom)
        # Lines of pixels are kept as flat lines of channels, and most steps work in place: numpy likes both.
        rows, channels = slice(2 * top, 2 * bottom), slice(4 * left, 4 * right)
        seen = self.canvas.pixels.ravel().take(self._indices[:, rows, left:right]).view(np.uint8)
        across = seen[0] * self._column_weights[0, channels]
        across += seen[1] * self._column_weights[1, channels]
        across >>= 4
        across *= self._row_weights[rows]
        across >>= 16
        blend = across[0::2] + across[1::2]
        blend += 2
        blend >>= 2
        self._image[top:bottom, left:right] = blend.reshape(bottom - top, right - left, 4)[..., :3]


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


def _draw_walls(surface: "pygame.Surface", region: Rect) -> None:
    """Walls lie on top of everything, so they are drawn again where something was drawn over them."""
    low, high, width = int(WALL_LOW) - EDGE, int(WALL_HIGH) - EDGE, 2 * EDGE + 1
    if region.left >= low + width and region.top >= low + width and region.right <= high and region.bottom <= high:
        return
    length = high + width - low
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
