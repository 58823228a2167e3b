"""The planner behind the path-planning demonstrations, measured side by side with OMPL's RRT-Connect."""

import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import ndimage
from tqdm import tqdm

from rnce.datasets.path_filter import acceptable, quality
from rnce.datasets.winding import class_labels, winding_numbers
from rnce.envs.path_planning.scenes import WORKSPACE, Scene, scenes_for_seeds

# Seeds between the selection and the test scenes, which nothing else uses.
FIRST_SEED = 70_000
BATCH = 32  # scenes planned at once
OMPL_SECONDS = 1.0  # limit for one path

ROWS = {
    "free": ("collision-free", "{:.2%}"),
    "solvable": ("scenes that have a way through", "{:.2%}"),
    "solved": ("of these, solved", "{:.2%}"),
    "free_of_solvable": ("of their paths, collision-free", "{:.2%}"),
    "length_ratio": ("length / straight line, mean", "{:.3f}"),
    "largest_turn": ("largest turn, median", "{:.1f}°"),
    "clearance": ("clearance, 5th percentile", "{:.3f}"),
    "classes": ("winding classes of free paths", "{:.2f}"),
    "accepted": ("accepted by the filter", "{:.2%}"),
    "accepted_classes": ("winding classes after the filter", "{:.2f}"),
    "accepted_scenes": ("scenes with accepted paths", "{:.2%}"),
    "ms": ("ms per path", "{:.2f}"),
    "cpu_ms": ("CPU ms per path", "{:.2f}"),
}


class Spent(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> "Spent":
        """What the clocks show."""
        return cls(time.perf_counter(), time.process_time())

    def since(self, begin: "Spent") -> "Spent":
        """The difference."""
        return Spent(self.wall - begin.wall, self.cpu - begin.cpu)


def measure(n_scenes: int, margin: float, peer: bool) -> dict[str, dict[str, float]]:
    """Figures of both planners on the same scenes, 16 paths each."""
    scenes = scenes_for_seeds(range(FIRST_SEED, FIRST_SEED + n_scenes))
    paths, spent = run_stochgpmp(scenes, margin)
    figures = {"StochGPMP": assess(paths, scenes, spent)}
    if peer:
        peer_paths, peer_spent = run_ompl(scenes, margin, paths.shape[1])
        figures["RRT-Connect + simplify"] = assess(peer_paths, scenes, peer_spent)
    return figures


def assess(paths: np.ndarray, scenes: Scene, spent: Spent) -> dict[str, float]:
    """What there is to say about paths (scenes, n, waypoints, 2) that took so long."""
    measured = quality(paths, scenes.obstacles[:, None])
    free = measured.clearance > 0
    solvable = np.array([has_way(*scene) for scene in zip(*scenes)])
    accepted = acceptable(paths, scenes.obstacles)
    windings = winding_numbers(paths, scenes.obstacles[:, None])
    straight = np.linalg.norm(scenes.goal - scenes.start, axis=-1)[:, None]
    return {
        "free": float(free.mean()),
        "solvable": float(solvable.mean()),
        "solved": float(free[solvable].any(axis=1).mean()),
        "free_of_solvable": float(free[solvable].mean()),
        "length_ratio": float((measured.length / straight)[free].mean()),
        "largest_turn": float(np.median(measured.turn)),
        "clearance": float(np.quantile(measured.clearance, 0.05)),
        "classes": _mean_classes(windings, free),
        "accepted": float(accepted.mean()),
        "accepted_classes": _mean_classes(windings, accepted),
        "accepted_scenes": float(accepted.any(axis=1).mean()),
        "ms": 1e3 * spent.wall / free.size,
        "cpu_ms": 1e3 * spent.cpu / free.size,  # says more than the wall clock on a busy machine
    }


def has_way(obstacles: np.ndarray, start: np.ndarray, goal: np.ndarray, cells: int = 1000) -> bool:
    """Whether start and goal are in one piece of the free workspace, on a grid of 2 / cells."""
    axis = np.linspace(-WORKSPACE, WORKSPACE, cells + 1)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    free = np.all([(x - cx) ** 2 + (y - cy) ** 2 > r**2 for cx, cy, r in obstacles], axis=0)
    pieces = np.empty(free.shape, np.int32)
    ndimage.label(free, output=pieces)
    here, there = (pieces[tuple(np.round((end / WORKSPACE + 1) * cells / 2).astype(int))] for end in (start, goal))
    return bool(here == there)


def as_table(figures: dict[str, dict[str, float]]) -> str:
    """The figures side by side."""
    lines = [f"{'':34}" + "".join(f"{name:>24}" for name in figures)]
    for key, (label, form) in ROWS.items():
        lines.append(f"{label:34}" + "".join(f"{form.format(column[key]):>24}" for column in figures.values()))
    return "\n".join(lines)


def run_stochgpmp(scenes: Scene, margin: float) -> tuple[np.ndarray, Spent]:
    """Paths (scenes, 16, 50, 2) and the seconds they took, after a first batch that compiles."""
    import jax

    from rnce.datasets.stochgpmp import PlannerConfig, plan_scenes

    config = PlannerConfig(margin=margin)
    parts = [part.astype(np.float32) for part in scenes]

    def run(first: int) -> np.ndarray:
        # A last batch that is not full would be compiled again.
        rows = np.arange(first, first + BATCH) % len(parts[0])
        obstacles, start, goal = (part[rows] for part in parts)
        paths = plan_scenes(jax.random.key(first), obstacles, start, goal, config).path
        return np.asarray(paths, np.float64)

    run(0)
    starts = range(0, len(parts[0]), BATCH)
    begin = Spent.now()
    paths = np.concatenate([run(first) for first in tqdm(starts, desc="StochGPMP", unit="batch", leave=False)])
    spent = Spent.now().since(begin)
    used = len(parts[0]) / len(paths)
    return paths[: len(parts[0])], Spent(spent.wall * used, spent.cpu * used)


def run_ompl(scenes: Scene, margin: float, n: int) -> tuple[np.ndarray, Spent]:
    """The same with OMPL, in a process of its own: its bindings report leaks to stderr when a process ends."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _silence) as pool:
        jobs = [pool.submit(_ompl_paths, obstacles, start, goal, margin, n) for obstacles, start, goal in zip(*scenes)]
        done = [job.result() for job in tqdm(jobs, desc="RRT-Connect", unit="scene", leave=False)]
    paths, spent = zip(*done)
    return np.stack(paths), Spent(sum(one.wall for one in spent), sum(one.cpu for one in spent))


def _silence() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _ompl_paths(
    obstacles: np.ndarray, start: np.ndarray, goal: np.ndarray, margin: float, n: int
) -> tuple[np.ndarray, Spent]:
    from ompl import base, geometric, util

    util.setLogLevel(util.LogLevel.LOG_NONE)
    space = base.RealVectorStateSpace(2)
    bounds = base.RealVectorBounds(2)
    bounds.setLow(-1.0)
    bounds.setHigh(1.0)
    space.setBounds(bounds)

    def solve(radius_margin: float) -> np.ndarray | None:
        circles = [(x, y, (r + radius_margin) ** 2) for x, y, r in obstacles.tolist()]

        def valid(state: Sequence[float]) -> bool:
            px, py = state[0], state[1]
            return all((px - x) ** 2 + (py - y) ** 2 > r2 for x, y, r2 in circles)

        setup: Any = geometric.SimpleSetup(space)  # its stubs know neither a function as checker nor state[0]
        setup.setStateValidityChecker(valid)
        ends: list[Any] = [space.allocState(), space.allocState()]
        for state, point in zip(ends, (start, goal)):
            state[0], state[1] = point.tolist()
        setup.setStartAndGoalStates(*ends)
        setup.setPlanner(geometric.RRTConnect(setup.getSpaceInformation()))
        setup.solve(OMPL_SECONDS)
        if not setup.haveExactSolutionPath():
            return None
        setup.simplifySolution()
        path = setup.getSolutionPath()
        path.interpolate(50)
        points = np.array([[path.getState(i)[0], path.getState(i)[1]] for i in range(path.getStateCount())])
        return points if len(points) == 50 else points[np.linspace(0, len(points) - 1, 50).astype(int)]

    begin = Spent.now()
    paths = []
    for _ in range(n):
        # With the margin some scenes have no way through; then without; then the straight line stands for a failure.
        path = solve(margin)
        path = solve(0.0) if path is None else path
        paths.append(np.linspace(start, goal, 50) if path is None else path)
    return np.stack(paths), Spent.now().since(begin)


def draw(path: Path, seed: int, margin: float) -> None:
    """Draw one scene with its accepted paths, coloured by winding class, and the others dotted."""
    from rnce.datasets.path_plot import draw_scene

    scene = scenes_for_seeds([seed])
    paths, _ = run_stochgpmp(scene, margin)
    draw_scene(path, Scene(*(part[0] for part in scene)), paths[0], title=f"scene {seed}")


def _mean_classes(windings: np.ndarray, chosen: np.ndarray) -> float:
    return float(np.mean([len(set(class_labels(w[c]).tolist())) for w, c in zip(windings, chosen)]))
