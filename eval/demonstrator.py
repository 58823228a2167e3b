"""The planner that made the demonstrations, on the scenes of an evaluation: the bar a learned policy is held to."""

from collections.abc import Iterable

import numpy as np
from tqdm import tqdm

from rnce.envs.path_planning import collided, scene_for_seed
from rnce.eval.recorders import path_metrics, path_modes

PATHS = 16


def demonstrator(seeds: Iterable[int], progress: bool = True) -> dict:
    """Cost, length and winding classes of the planner's collision-free paths, averaged per scene.

    A scene in which it finds none is left out of the costs and counted in `unsolved`.
    """
    from rnce.datasets import plan

    per_seed: dict[str, list[float | None]] = {name: [] for name in ("cost", "length", "classes")}
    listed = list(seeds)
    for seed in tqdm(listed, desc="demonstrator", unit="scene", disable=not progress):
        scene = scene_for_seed(seed)
        paths = np.asarray(plan(*scene, n=PATHS, seed=seed), dtype=np.float64)
        free = paths[~collided(paths, scene.obstacles)]
        obstacles, goals = (np.broadcast_to(part, (len(free), *part.shape)) for part in (scene.obstacles, scene.goal))
        figures = path_metrics(free, obstacles, goals) if len(free) else []
        for name in ("cost", "length"):
            per_seed[name].append(float(np.mean([f[name] for f in figures])) if figures else None)
        per_seed["classes"].append(float(len(set(path_modes(free, obstacles, goals)))) if figures else None)
    solved = [cost for cost in per_seed["cost"] if cost is not None]
    return {
        "cost": float(np.mean(solved)) if solved else None,
        "unsolved": len(listed) - len(solved),
        "per_seed": {"seed": [float(seed) for seed in listed], **per_seed},
    }


def against_demonstrator(result: dict, figures: dict) -> dict:
    """The policy's cost over the demonstrator's on the scenes both have, and classes reached where there are several.

    `classes` averages over the scenes in which the demonstrator found two or more winding classes.
    """
    ours, theirs = result["per_seed"], figures["per_seed"]
    cost = dict(zip(theirs["seed"], theirs["cost"]))
    pairs = [(x, cost.get(seed)) for seed, x in zip(ours["seed"], ours["cost"])]
    both = np.array([pair for pair in pairs if None not in pair], dtype=np.float64)
    several = [str(int(s)) for s, n in zip(theirs["seed"], theirs["classes"]) if n is not None and n >= 2]
    reached = [len(result.get("modes_per_seed", {}).get(seed, {})) for seed in several]
    return {
        "cost_ratio": float(both[:, 0].mean() / both[:, 1].mean()) if len(both) else None,
        "classes": float(np.mean(reached)) if reached else None,
        "scenes_with_several_classes": len(several),
    }
