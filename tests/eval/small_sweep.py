"""A sweep over real trainings, as small as they get."""

import numpy as np

from rnce.datasets.path_planning import write_path_planning
from rnce.eval import sweep

OPTIONS = {"preset": "cpu", "data": None, "steps": 1, "seeds": (50_000, 50_002), "rollouts": 1, "samples": None}


def write_demonstrations(path):
    """A few snippets of straight lines: enough to train on for a moment."""
    rng = np.random.default_rng(0)
    steps = np.cumsum(rng.normal(scale=0.03, size=(64, 50, 2)), axis=1).astype(np.float32)
    snippets = {
        "scene_obstacles": np.tile(np.array([0.8, 0.8, 0.1], np.float32), (1, 10, 1)),
        "scene_goal": np.full((1, 2), 0.5, np.float32),
        "scene_seed": np.zeros(1, np.int32),
        "scene_index": np.zeros(64, np.int32),
        "positions": steps[:, :13],
    }
    write_path_planning(path, paths=steps, path_scene=np.zeros(64, np.int32), snippets=snippets, attributes={})
    return str(path)


def small_sweep(demonstrations, out, **spread):
    """Two trainings of one step."""
    small = {"phase.field.batch_size": [4], "phase.field.steps_per_round": [1], "method.draws": [1]}
    grid = small | {"method.field.width": [8, 16], "sampler.steps": [2]}
    options = OPTIONS | {"data": demonstrations, "samples": 1}
    return sweep.sweep("path-planning/nf", grid, out, progress=False, **spread, **options)
