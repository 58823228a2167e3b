"""Observation images against drawing everything and resizing it the plain way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnce.envs.pusht.geometry import GOAL, Pose
from rnce.envs.pusht.rendering import SIDE, Camera, Canvas

anywhere = st.floats(-150.0, 662.0)
on_canvas = st.floats(0.0, 512.0)


def resize(pixels, width, height):
    """Bilinear, in floating point, all of it."""

    def blend(lines, count):
        position = np.clip((np.arange(count) + 0.5) * SIDE / count - 0.5, 0, SIDE - 1)
        first = np.minimum(position.astype(int), SIDE - 2)
        share = (position - first)[:, None, None]
        return lines[first] * (1 - share) + lines[first + 1] * share

    rgb = pixels.view(np.uint8).reshape(SIDE, SIDE, 4)[..., :3].astype(float)
    return blend(blend(rgb, height).swapaxes(0, 1), width).swapaxes(0, 1)


@pytest.fixture(scope="module")
def cameras():
    return {size: Camera(*size) for size in ((96, 96), (64, 48), (100, 33), (600, 512))}


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([(96, 96), (64, 48), (100, 33), (600, 512)]),
    st.tuples(on_canvas, on_canvas),
    st.builds(Pose, anywhere, anywhere, st.floats(-7.0, 7.0)),
    st.sampled_from([GOAL, Pose(200.0, 300.0, 2.0)]),
)
def test_sampling_where_something_moved_equals_sampling_everything(cameras, size, agent, block, goal):
    image = cameras[size].take(agent, block, goal)
    canvas = Canvas()
    canvas.draw(agent, block, goal)
    np.testing.assert_array_equal(canvas.pixels, cameras[size].canvas.pixels)
    assert np.abs(image - resize(canvas.pixels, *size)).max() <= 1.01


def test_images_do_not_share_memory():
    camera = Camera(96, 96)
    first = camera.take((100.0, 100.0), GOAL, GOAL)
    kept = first.copy()
    camera.take((400.0, 100.0), Pose(100.0, 300.0, 0.0), GOAL)
    np.testing.assert_array_equal(first, kept)
