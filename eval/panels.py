"""Pictures of what policies did: all paths of a scene by mode, Push-T episodes by time, the energy over a scene."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Polygon

from rnce.envs.path_planning import Scene, scene_for_seed
from rnce.envs.pusht.geometry import CANVAS, OUTLINE, Pose, transform
from rnce.eval.plots import COLORS
from rnce.eval.replay import Recorded, Track, path_of, replay
from rnce.eval.settings import Episode

BEGIN, END, TARGET = "#c3e2e3", "#27213f", "#66c2a5"  # the paper's colours of Push-T
COLLIDED = "#cc3311"
_TIME = LinearSegmentedColormap.from_list("time", [BEGIN, END])


def draw_scene(axes: Axes, scene: Scene) -> None:
    """Obstacles, start and goal."""
    for x, y, radius in scene.obstacles:
        axes.add_patch(Circle((x, y), radius, facecolor="#c6cad0", edgecolor="#969ca4", lw=0.6))
    axes.plot(*scene.start, "o", color="#3c3c3c", ms=5, zorder=4)
    axes.plot(*scene.goal, "*", color="#f08c1e", ms=11, zorder=4)
    axes.set(xlim=(-1, 1), ylim=(-1, 1), aspect="equal", xticks=[], yticks=[])


def draw_paths(axes: Axes, scene: Scene, paths: np.ndarray, modes: Sequence[str], collided: Sequence[bool]) -> None:
    """All paths of one scene, coloured by winding class (common ones first), those that collide dashed in red."""
    draw_scene(axes, scene)
    ranks = {mode: i for i, (mode, _) in enumerate(Counter(modes).most_common())}
    colors = [COLLIDED if hit else COLORS[ranks[mode] % len(COLORS)] for mode, hit in zip(modes, collided)]
    alpha = float(np.clip(12 / len(paths), 0.06, 0.8))
    styles = ["--" if hit else "-" for hit in collided]
    axes.add_collection(LineCollection(list(paths), colors=colors, linestyles=styles, linewidths=0.8, alpha=alpha))


def path_panels(results: Sequence[Recorded], names: Sequence[str], seeds: Sequence[int]) -> Figure:
    """A row per policy, a column per scene: all rollouts whose actions were kept."""
    figure = Figure(figsize=(2.6 * len(seeds), 2.8 * len(results)), layout="constrained")
    grid = figure.subplots(len(results), len(seeds), squeeze=False)
    for row, (result, name) in enumerate(zip(results, names)):
        for column, seed in enumerate(seeds):
            axes = grid[row, column]
            episodes = _kept(result, seed)
            paths = np.stack([path_of(replay(result.settings, episode)) for episode in episodes])
            hits = [bool(episode.metrics["collision"]) for episode in episodes]
            draw_paths(axes, scene_for_seed(seed), paths, [episode.mode or "" for episode in episodes], hits)
            cost = np.mean([episode.metrics["cost"] for episode in episodes])
            axes.set_title(f"collisions {np.mean(hits):.3f}, cost {cost:.3f}", fontsize=7)
            if column == 0:
                axes.set_ylabel(name)
            if row == len(results) - 1:
                axes.set_xlabel(f"scene {seed}")
    return figure


def draw_pusht(axes: Axes, track: Track, every: int = 10) -> None:
    """One Push-T episode: the block every few steps and the agent's way, light at the beginning and dark at the end."""
    last = len(track.infos) - 1
    axes.add_patch(
        Polygon(_outline(track.infos[0]["goal_pose"]), closed=True, facecolor=TARGET, edgecolor="none", alpha=0.6)
    )
    for step in sorted({*range(0, last, every), last}):
        color = _TIME(step / max(last, 1))
        outline = _outline(track.infos[step]["block_pose"])
        axes.add_patch(Polygon(outline, closed=True, facecolor="none", edgecolor=color, lw=0.9))
    agent = np.stack([np.asarray(info["pos_agent"]) for info in track.infos])
    segments = np.stack([agent[:-1], agent[1:]], axis=1)
    axes.add_collection(LineCollection(list(segments), colors=_TIME(np.linspace(0, 1, last)), linewidths=1.2))
    axes.set(xlim=(0, CANVAS), ylim=(CANVAS, 0), aspect="equal", xticks=[], yticks=[])


def pusht_panels(results: Sequence[Recorded], names: Sequence[str], seeds: Sequence[int], rollout: int = 0) -> Figure:
    """A row per policy, a column per start, the score above each, as in the paper."""
    figure = Figure(figsize=(2.4 * len(seeds), 2.6 * len(results)), layout="constrained")
    grid = figure.subplots(len(results), len(seeds), squeeze=False)
    for row, (result, name) in enumerate(zip(results, names)):
        for column, seed in enumerate(seeds):
            (episode,) = [episode for episode in _kept(result, seed) if episode.rollout == rollout]
            draw_pusht(grid[row, column], replay(result.settings, episode))
            grid[row, column].set_title(f"score {episode.metrics['score']:.3f}", fontsize=8)
            if column == 0:
                grid[row, column].set_ylabel(name)
            if row == len(results) - 1:
                grid[row, column].set_xlabel(f"start {seed}")
    return figure


def worst_panels(result: Recorded, count: int = 10) -> Figure:
    """The starts with the lowest mean score, in each the worst of the rollouts: what the policy cannot do yet."""
    kept = [episode for episode in result.episodes if episode.actions is not None and episode.error is None]
    by_seed: dict[int, list[Episode]] = {}
    for episode in kept:
        by_seed.setdefault(episode.seed, []).append(episode)
    mean = {seed: float(np.mean([e.metrics["score"] for e in episodes])) for seed, episodes in by_seed.items()}
    seeds = sorted(mean, key=lambda seed: mean[seed])[:count]
    columns = min(5, len(seeds))
    rows = -(-len(seeds) // columns)
    figure = Figure(figsize=(2.4 * columns, 2.7 * rows), layout="constrained")
    for axes, seed in zip(figure.subplots(rows, columns, squeeze=False).flat, seeds):
        worst = min(by_seed[seed], key=lambda episode: episode.metrics["score"])
        draw_pusht(axes, replay(result.settings, worst))
        axes.set_title(f"start {seed}: {worst.metrics['score']:.2f}, mean {mean[seed]:.2f}", fontsize=7)
    return figure


def landscape(
    score: Callable[[Any, np.ndarray], np.ndarray],
    scene: Scene,
    n_pred: int,
    samples: np.ndarray | None = None,
    resolution: int = 48,
    reach: float = 0.6,
) -> Figure:
    """The policy's score over a scene: of the straight, even chunk from the start to each point within reach.

    `score(observation, chunks)` is a policy's own; candidates `samples` (n, n_pred, 2) are drawn on top. Scores below
    the best by more than 50 nats share a colour: an energy falls without bound away from the data.
    """
    axis = np.linspace(-1, 1, resolution)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    near = points[np.linalg.norm(points - scene.start, axis=-1) < reach]
    fractions = np.arange(1, n_pred + 1)[:, None] / n_pred
    chunks = scene.start + fractions * (near[:, None] - scene.start)
    observation = {"obstacles": scene.obstacles, "goal": scene.goal, "position": scene.start}
    scores = np.asarray(score(observation, chunks), dtype=np.float64)
    values = np.full(len(points), np.nan)
    values[np.linalg.norm(points - scene.start, axis=-1) < reach] = np.maximum(scores, np.nanmax(scores) - 50)
    figure = Figure(figsize=(4.4, 3.8), layout="constrained")
    axes = figure.subplots()
    draw_scene(axes, scene)
    mesh = axes.pcolormesh(axis, axis, values.reshape(resolution, resolution), cmap="viridis", alpha=0.75, zorder=2)
    figure.colorbar(mesh, label="score of the straight chunk to here (nats)")
    if samples is not None:
        paths = np.concatenate([np.broadcast_to(scene.start, (len(samples), 1, 2)), samples], axis=1)
        axes.add_collection(LineCollection(list(paths), colors="white", linewidths=0.7, zorder=3))
    return figure


def _kept(result: Recorded, seed: int) -> list[Episode]:
    episodes = [e for e in result.episodes if e.seed == seed and e.actions is not None and e.error is None]
    if not episodes:
        raise ValueError(f"no episode of seed {seed} has its actions kept; evaluate with keep_actions")
    return episodes


def _outline(pose: Any) -> np.ndarray:
    return np.asarray(transform(OUTLINE, Pose(*pose)))
