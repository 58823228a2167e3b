"""Coverage and poses against shapely and symmetry."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely import affinity
from shapely.geometry import Polygon

from rnce.envs.pusht.coverage import coverage
from rnce.envs.pusht.geometry import AREA, BAR, GOAL, OUTLINE, STEM, Pose, pose_error, relative, transform

near = st.floats(180.0, 330.0)
angles = st.floats(-10.0, 10.0)
poses = st.builds(Pose, near, near, angles)


def shapely_t(pose):
    turned = affinity.rotate(Polygon(OUTLINE), pose.angle, origin=(0, 0), use_radians=True)
    return affinity.translate(turned, pose.x, pose.y)


@settings(max_examples=300, deadline=None)
@given(poses, poses)
def test_equals_shapely(block, goal):
    expected = shapely_t(block).intersection(shapely_t(goal)).area / AREA
    assert coverage(block, goal) == pytest.approx(expected, abs=1e-9)


@given(poses, poses)
def test_is_symmetric_and_in_range(block, goal):
    assert 0.0 <= coverage(block, goal) <= 1.0
    assert coverage(block, goal) == pytest.approx(coverage(goal, block), abs=1e-9)


@given(poses)
def test_mirror_image_of_the_task(block):
    mirrored = Pose(512.0 - block.y, 512.0 - block.x, math.pi / 2 - block.angle)
    assert coverage(mirrored, GOAL) == pytest.approx(coverage(block, GOAL), abs=1e-9)


@pytest.mark.parametrize(
    ("offset", "expected"), [((0, 0, 0), 1.0), ((1, 0, 0), 0.973), ((2, 0, 0), 0.947), ((200, 200, 0), 0.0)]
)
def test_known_values(offset, expected):
    shifted = Pose(*(a + b for a, b in zip(GOAL, offset)))
    assert coverage(shifted, GOAL) == pytest.approx(expected, abs=5e-3)


def test_area_is_that_of_the_boxes():
    assert sum((box.right - box.left) * (box.bottom - box.top) for box in (BAR, STEM)) == AREA
    assert Polygon(OUTLINE).area == AREA


@given(poses, poses)
def test_relative_undoes_transform(pose, frame):
    points = transform(tuple(transform(OUTLINE, relative(pose, frame))), frame)
    for found, expected in zip(points, transform(OUTLINE, pose)):
        assert found == pytest.approx(expected, abs=1e-9)


def test_pose_error_takes_the_short_way_round():
    distance, turn = pose_error(Pose(3.0, 4.0, 0.1), Pose(0.0, 0.0, 2 * math.pi - 0.1))
    assert (distance, turn) == (5.0, pytest.approx(0.2))
