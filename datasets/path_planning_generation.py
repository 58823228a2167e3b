"""`rnce data path-planning`: scenes, demonstrations, snippets, recoveries.

Scenes are worked through in batches. Each finished batch is a file in `PATH.parts/`, written under a temporary name and
renamed, so that what is stopped goes on where it was; at the end the parts become one store and are removed.
"""

import dataclasses
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from rnce.datasets.errors import DatasetError
from rnce.datasets.path_filter import acceptable
from rnce.datasets.path_planning import SNIPPET, write_path_planning
from rnce.datasets.snippets import SnippetConfig, cut_and_refine, displace_and_replan, even_speed, plan_times
from rnce.datasets.splits import TRAIN_SEEDS
from rnce.datasets.stochgpmp import PlannerConfig, plan_scenes
from rnce.datasets.winding import balance, class_labels, winding_numbers
from rnce.envs.path_planning.scenes import scenes_for_seeds

BATCH = 32  # scenes; more only take more memory
_INDICES = ("path_scene", "scene_index")  # count scenes from the first of the batch


@dataclass(frozen=True)
class GenerationConfig:
    """Everything that decides what is generated."""

    scenes: int = 10_000
    seed: int = 0
    """seed of the first scene; the others follow"""
    paths: int = 12
    """demonstrations per scene, the same number of every winding class as far as it goes"""
    planner: PlannerConfig = PlannerConfig()
    snippets: SnippetConfig = SnippetConfig()

    def __post_init__(self) -> None:
        if self.scenes < 1 or self.paths < 1:
            raise ValueError(f"scenes and paths must be at least 1, got {self.scenes} and {self.paths}")
        last = self.seed + self.scenes - 1
        if self.seed not in TRAIN_SEEDS or last not in TRAIN_SEEDS:
            raise ValueError(
                f"scene seeds {self.seed} to {last} are not all for training, which is {TRAIN_SEEDS.start} to "
                f"{TRAIN_SEEDS.stop - 1}; choose a smaller seed or fewer scenes"
            )


def generate(path: str | Path, config: GenerationConfig, progress: bool = True) -> None:
    """Make a dataset at `path`, or go on with one that was stopped."""
    path = Path(path)
    if path.exists():
        raise DatasetError(f"{path} exists already; choose another name or remove it")
    parts = _open_parts(path.with_name(path.name + ".parts"), config)
    end = config.seed + config.scenes
    batches = [range(start, min(start + BATCH, end)) for start in range(config.seed, end, BATCH)]
    with tqdm(total=config.scenes, desc=str(path), unit="scene", disable=not progress) as bar:
        for seeds in batches:
            part = _part_file(parts, seeds)
            if not part.exists():
                _write_part(part, make_batch(seeds, config))
            bar.update(len(seeds))
    merged = _merge([_part_file(parts, seeds) for seeds in batches])
    paths, path_scene = merged.pop("paths"), merged.pop("path_scene")
    write_path_planning(
        path, paths=paths, path_scene=path_scene, snippets=merged, attributes={"generation": _as_json(config)}
    )
    shutil.rmtree(parts)


def make_batch(seeds: range, config: GenerationConfig) -> dict[str, np.ndarray]:
    """Demonstrations and snippets of some scenes; those in which no path is good enough are left out.

    Every batch is planned with the same number of scenes, repeated where there are fewer, so that it is compiled once.
    """
    keys = jax.random.split(jax.random.fold_in(jax.random.key(0), seeds.start), 3)
    rng = np.random.default_rng([0, seeds.start])
    scenes = scenes_for_seeds(seeds)
    obstacles, start, goal = (part.astype(np.float32) for part in scenes)
    full = (np.resize(part, (BATCH, *part.shape[1:])) for part in (obstacles, start, goal))
    planned_paths = np.asarray(plan_scenes(keys[0], *full, config=config.planner).path)[: len(seeds)]
    planned_paths = even_speed(planned_paths.reshape(-1, *planned_paths.shape[2:])).reshape(planned_paths.shape)
    good = acceptable(planned_paths, obstacles)
    windings = winding_numbers(planned_paths, obstacles[:, None])

    solved = np.flatnonzero(good.any(axis=1))
    paths = np.concatenate(
        [np.empty((0, *planned_paths.shape[2:]), np.float32)]
        + [planned_paths[i][good[i]][balance(class_labels(windings[i][good[i]]), config.paths, rng)] for i in solved]
    )
    scene = np.repeat(np.arange(len(solved)), config.paths)
    circles = obstacles[solved][scene]
    quick = even_speed(paths, paths.shape[1] - config.snippets.spare) if config.snippets.spare else paths
    snippets, snippet_scene = _snippets(keys[1], rng, quick, scene, circles, config)
    recoveries, recovery_scene = _recoveries(keys[2], rng, quick, scene, circles, config)
    return {
        "paths": paths,
        "path_scene": scene.astype(np.int32),
        "positions": np.concatenate([snippets, recoveries]),
        "scene_index": np.concatenate([snippet_scene, recovery_scene]).astype(np.int32),
        "scene_obstacles": obstacles[solved],
        "scene_goal": goal[solved],
        "scene_seed": np.asarray(seeds, np.int32)[solved],
    }


def _snippets(
    key: jax.Array,
    rng: np.random.Generator,
    paths: np.ndarray,
    scene: np.ndarray,
    circles: np.ndarray,
    config: GenerationConfig,
) -> tuple[np.ndarray, np.ndarray]:
    """One snippet of each path for each plan of a rollout."""
    plans = plan_times(paths.shape[1])
    jitter = rng.integers(-config.snippets.jitter, config.snippets.jitter + 1, (len(paths), len(plans)))
    jitter[:, -1] += rng.integers(0, config.snippets.spare + 1, len(paths))  # up to waiting at the goal
    times = np.where(plans > 0, plans + jitter, 0).reshape(-1)
    owner = np.repeat(np.arange(len(paths)), len(plans))
    cut = cut_and_refine(key, paths[owner], times, circles[owner], config.snippets, config.planner)
    return cut, scene[owner]


def _recoveries(
    key: jax.Array,
    rng: np.random.Generator,
    paths: np.ndarray,
    scene: np.ndarray,
    circles: np.ndarray,
    config: GenerationConfig,
) -> tuple[np.ndarray, np.ndarray]:
    """So many snippets from off the path that they are the share asked for, but for those that had to be dropped."""
    plans = plan_times(paths.shape[1])
    share = config.snippets.recoveries
    per_plan = round(len(paths) * len(plans) * share / (1 - share) / (len(plans) - 1))
    found = [(np.empty((0, SNIPPET, 2), np.float32), np.empty(0, np.int64))]
    for time in plans[1:] if per_plan else ():
        owner = np.resize(rng.permutation(len(paths)), per_plan)
        snippets, good = displace_and_replan(
            jax.random.fold_in(key, time), rng, paths[owner], int(time), circles[owner], config.snippets, config.planner
        )
        found.append((snippets[good], scene[owner][good]))
    positions, owners = zip(*found)
    return np.concatenate(positions), np.concatenate(owners)


def _part_file(parts: Path, seeds: range) -> Path:
    return parts / f"{seeds.start:06d}-{seeds.stop:06d}.npz"


def _open_parts(folder: Path, config: GenerationConfig) -> Path:
    """The folder of finished batches, which must have been made with the same settings, for any number of scenes."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "config.json"
    wanted = _as_json(config)
    del wanted["scenes"]  # what is unfinished may be made longer or shorter
    if settings.exists() and json.loads(settings.read_text()) != wanted:
        raise DatasetError(
            f"{folder} holds an unfinished dataset with other settings; repeat them to go on, or remove the folder"
        )
    temporary = settings.with_suffix(".tmp")
    temporary.write_text(json.dumps(wanted))
    os.replace(temporary, settings)
    return folder


def _write_part(part: Path, arrays: dict[str, np.ndarray]) -> None:
    temporary = part.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    os.replace(temporary, part)


def _merge(files: list[Path]) -> dict[str, np.ndarray]:
    """One after the other, with the scenes counted on."""
    parts: list[dict[str, np.ndarray]] = []
    n_scenes = 0
    for file in files:
        with np.load(file, allow_pickle=False) as stored:
            part = {key: stored[key] for key in stored}
        part.update({key: part[key] + np.int32(n_scenes) for key in _INDICES})
        n_scenes += len(part["scene_seed"])
        parts.append(part)
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _as_json(config: GenerationConfig) -> dict[str, Any]:
    return json.loads(json.dumps(dataclasses.asdict(config)))
