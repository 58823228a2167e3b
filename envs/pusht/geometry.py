"""Numbers of the Push-T scene, and where the corners of the T are. Lengths are pixels of the 512 × 512 canvas."""

import math
from typing import NamedTuple

CANVAS = 512.0
WALL_LOW, WALL_HIGH, WALL_RADIUS = 5.0, 506.0, 2.0
AGENT_RADIUS = 15.0

Point = tuple[float, float]


class Box(NamedTuple):
    """An axis-aligned rectangle in the frame of the T."""

    left: float
    right: float
    top: float
    bottom: float

    @property
    def corners(self) -> tuple[Point, ...]:
        """In the order in which pymunk and gym-pusht give them."""
        return (
            (self.left, self.top),
            (self.right, self.top),
            (self.right, self.bottom),
            (self.left, self.bottom),
        )


class Pose(NamedTuple):
    """Where the origin of a T is (the middle of the bar's outer edge), and its angle in radians."""

    x: float
    y: float
    angle: float


BAR = Box(-60.0, 60.0, 0.0, 30.0)
STEM = Box(-15.0, 15.0, 30.0, 120.0)
CENTRE_OF_GRAVITY = (0.0, 45.0)
BLOCK_REACH = math.hypot(15.0, 75.0)  # from the centre of gravity to the farthest corner
AREA = 6300.0
GOAL = Pose(256.0, 256.0, math.pi / 4)

# A T whose origin is this far inside the canvas touches no wall, whatever its angle.
SAFE_LOW, SAFE_HIGH = 130.0, 382.0

# The outline of the T as one polygon, and the eight corners of its boxes.
OUTLINE: tuple[Point, ...] = (
    (-60.0, 0.0),
    (60.0, 0.0),
    (60.0, 30.0),
    (15.0, 30.0),
    (15.0, 120.0),
    (-15.0, 120.0),
    (-15.0, 30.0),
    (-60.0, 30.0),
)
CORNERS: tuple[Point, ...] = BAR.corners + STEM.corners


def transform(points: tuple[Point, ...], pose: Pose) -> list[Point]:
    """Points of the T's frame in the frame that `pose` is given in."""
    cos, sin = math.cos(pose.angle), math.sin(pose.angle)
    return [(pose.x + cos * x - sin * y, pose.y + sin * x + cos * y) for x, y in points]


def relative(pose: Pose, frame: Pose) -> Pose:
    """`pose` as seen from `frame`."""
    cos, sin = math.cos(frame.angle), math.sin(frame.angle)
    dx, dy = pose.x - frame.x, pose.y - frame.y
    return Pose(cos * dx + sin * dy, cos * dy - sin * dx, pose.angle - frame.angle)


def centre_of_gravity(pose: Pose) -> Point:
    """The centre of gravity of a T at `pose`."""
    return transform((CENTRE_OF_GRAVITY,), pose)[0]


def pose_error(pose: Pose, goal: Pose) -> tuple[float, float]:
    """Distance in pixels and smallest turn in radians, in [0, π], that separate two poses."""
    turn = math.remainder(pose.angle - goal.angle, 2 * math.pi)
    return math.hypot(pose.x - goal.x, pose.y - goal.y), abs(turn)
