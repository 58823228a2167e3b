"""What the planner's bench says, on paths by hand."""

import numpy as np

from rnce.envs.path_planning.scenes import Scene
from rnce.eval.bench_planner import Spent, as_table, assess, has_way

START, GOAL = np.array([-0.8, 0.0]), np.array([0.8, 0.0])
CIRCLE = np.array([[0.0, 0.0, 0.25]])
WALL = np.array([[0.0, y, 0.25] for y in np.linspace(-1, 1, 6)])


def over(height: float) -> np.ndarray:
    x = np.linspace(-0.8, 0.8, 50)
    path = np.stack([x, height * np.cos(x / 0.8 * np.pi / 2)], axis=-1)
    path[[0, -1]] = START, GOAL  # exactly, as planned paths have them: the line between goes right through the centre
    return path


def test_has_way():
    assert has_way(CIRCLE, START, GOAL)
    assert not has_way(WALL, START, GOAL)


def test_figures_by_hand():
    scene = Scene(CIRCLE[None], START[None], GOAL[None])
    paths = np.stack([over(0.5), over(-0.5), over(-0.45), over(0.0)])[None]
    figures = assess(paths, scene, Spent(0.004, 0.008))
    assert figures["free"] == figures["accepted"] == 0.75
    assert figures["classes"] == figures["accepted_classes"] == 2
    assert figures["solved"] == figures["solvable"] == 1
    assert (figures["ms"], figures["cpu_ms"]) == (1.0, 2.0)
    assert "75.00%" in as_table({"by hand": figures})
