"""From a task's name or a dataset's path to what the training loop takes: the one place where data meets policies."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import rnce.datasets as datasets
from rnce.policies.data import TrainingSet
from rnce.policies.task import Task, infer_task

if TYPE_CHECKING:
    from rnce.policies import Policy
    from rnce.policies.presets import ProposalTraining, WarmStart

PUSHT = Task(
    name="pusht",
    env_id="PushT-v0",
    observation={"state": (5,)},
    bare_key="state",
    action_dim=2,
    n_ctx=2,
    n_pred=16,
    execute=8,
    features="pusht",
    relative_to=("state", 0),
    action_low=(0.0, 0.0),
    action_high=(512.0, 512.0),
)
PUSHT_PIXELS = dataclasses.replace(
    PUSHT,
    env_id="PushTPixels-v0",
    observation={"pixels": (96, 96, 3), "agent_pos": (2,)},
    bare_key=None,
    features="pusht-pixels",
    relative_to=("agent_pos", 0),  # where the perturbation acts
)
PATH_PLANNING = Task(
    name="path-planning",
    env_id="PathPlanning-v0",
    observation={"obstacles": (10, 3), "goal": (2,), "position": (2,)},
    bare_key=None,
    action_dim=2,
    n_ctx=3,
    n_pred=10,
    execute=10,
    features="path-planning",
    relative_to=("position", 0),
    action_low=(-1.0, -1.0),
    action_high=(1.0, 1.0),
)
SYNTHETIC_EXAMPLES = 50_000  # of the joint distribution, as in the paper


def synthetic_task(name: str) -> Task:
    """A conditional density in the plane, as a task of one action."""
    return Task(
        name=name, env_id=None, observation={"context": ()}, bare_key="context", action_dim=2, n_ctx=1, n_pred=1,
        execute=1, features=name,
    )  # fmt: skip


TASKS = ("pinwheel", "spiral", "path-planning", "pusht")


def task_of(name: str) -> Task:
    """The task of a name, without its data."""
    named = {"pusht": PUSHT, "path-planning": PATH_PLANNING}
    if name in named:
        return named[name]
    if name in TASKS:
        return synthetic_task(name)
    raise ValueError(f"there is no task {name!r}: use one of {', '.join(TASKS)}.")


def example_training(name: str, steps: int = 2000) -> tuple[Task, TrainingSet]:
    """A task with random data of the right shapes: as fast to train on as the real data."""
    task, rng = task_of(name), np.random.default_rng(0)
    if not task.env_id:
        return load_training(name)
    walk = np.cumsum(rng.normal(scale=0.02, size=(steps, task.action_dim)), axis=0).astype(np.float32)
    if name == "path-planning":
        scenes = {"scene_obstacles": rng.uniform(-1, 1, (8, 10, 3)), "scene_goal": rng.uniform(-1, 1, (8, 2))}
        count = steps // 13
        index = rng.integers(8, size=count)
        scenes = {key: value.astype(np.float32) for key, value in scenes.items()}
        return task, snippet_set(scenes | {"positions": walk[: 13 * count].reshape(count, 13, 2), "scene_index": index})
    state = 256 + 100 * rng.normal(size=(steps, 5)).astype(np.float32)
    windows = datasets.windows(np.array([steps]), task.n_ctx, task.n_pred)
    index = (windows.context.astype(np.int32), windows.event.astype(np.int32), windows.episode.astype(np.int32))
    return task, TrainingSet({"state": state}, {}, state[:, :2] + 100 * walk, *index)


def load_training(name: str, path: str | Path | None = None, preset: str = "cpu") -> tuple[Task, TrainingSet]:
    """The task and its training data; with a path and an unknown name, a stranger's dataset and the task it implies.

    The paper's Push-T policies see images, the others the state.
    """
    if name in ("pinwheel", "spiral"):
        contexts, events = datasets.load(name).sample_joint(SYNTHETIC_EXAMPLES, seed=0)
        return synthetic_task(name), one_step_set(contexts, events)
    if name == "pusht":
        from rnce.datasets.pusht import with_mirror

        if preset == "paper":
            return PUSHT_PIXELS, pixel_set(datasets.load("pusht", path=path))
        dataset = with_mirror(datasets.load("pusht", path=path))
        return PUSHT, training_set(dataset, PUSHT, ("state",))
    if name == "path-planning":
        from rnce.datasets.path_planning import load_snippets

        return PATH_PLANNING, snippet_set(load_snippets(path))
    if path is None:
        raise ValueError(f"there is no task {name!r}: use one of {', '.join(TASKS)}, or give your dataset with --data.")
    dataset = datasets.load(path)
    if not isinstance(dataset, datasets.Dataset):
        raise ValueError(
            f"{path} is a distribution to sample from; to train on it, use it as the task's name, without --data."
        )
    keys = tuple(key for key in dataset.observation_keys if key in dataset.arrays)
    action = np.asarray(dataset.arrays[dataset.action_keys[0]][:], np.float32)
    task = infer_task(name, {key: np.asarray(dataset.arrays[key][:]) for key in keys}, action)
    return task, training_set(dataset, task, keys)


def training_set(dataset: datasets.Dataset, task: Task, keys: tuple[str, ...]) -> TrainingSet:
    """All windows of a dataset of episodes."""
    windows = dataset.windows(task.n_ctx, task.n_pred)
    return TrainingSet(
        observations={key: np.asarray(dataset.arrays[key][:], np.float32) for key in keys},
        scenes={},
        actions=np.asarray(dataset.arrays[dataset.action_keys[0]][:], np.float32),
        context_index=windows.context.astype(np.int32),
        event_index=windows.event.astype(np.int32),
        scene_index=windows.episode.astype(np.int32),
    )


def pixel_set(dataset: datasets.Dataset) -> TrainingSet:
    """Images as bytes (0.7 GB in place of 2.8), and the agent's positions."""
    states = training_set(dataset, PUSHT, ("state",))
    images = dataset.arrays["img"]
    pixels = np.empty(images.shape, np.uint8)
    for start in range(0, len(pixels), 1024):
        pixels[start : start + 1024] = images[start : start + 1024]
    return states._replace(observations={"pixels": pixels, "agent_pos": states.observations["state"][:, :2]})


def one_step_set(contexts: np.ndarray, events: np.ndarray) -> TrainingSet:
    """Pairs of a context and an event."""
    rows = np.arange(len(events), dtype=np.int32)[:, None]
    return TrainingSet({"context": contexts}, {}, events, rows, rows, rows[:, 0])


def snippet_set(snippets: dict[str, np.ndarray]) -> TrainingSet:
    """Snippets of n_ctx past and n_pred future positions, in scenes."""
    positions, n_ctx = snippets["positions"], PATH_PLANNING.n_ctx
    count, length, _ = positions.shape
    rows = np.arange(count * length, dtype=np.int32).reshape(count, length)
    flat = positions.reshape(-1, 2).astype(np.float32)
    return TrainingSet(
        observations={"position": flat},
        scenes={"obstacles": snippets["scene_obstacles"], "goal": snippets["scene_goal"]},
        actions=flat,
        context_index=rows[:, :n_ctx],
        event_index=rows[:, n_ctx:],
        scene_index=snippets["scene_index"].astype(np.int32),
    )


def train_policy(
    name: str,
    *,
    preset: str = "cpu",
    data: str | Path | None = None,
    steps: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    seed: int = 0,
    warm_start: "WarmStart | None" = None,
    proposal: "ProposalTraining | None" = None,
) -> "Policy":
    """Train "<task>/<method>" with a preset. See `rnce train --help`."""
    from rnce.policies.devices import use_cores
    from rnce.policies.presets import recipe_for
    from rnce.policies.recipe import scaled
    from rnce.policies.train import train

    task_name, _, method = name.partition("/")
    if not method:
        raise ValueError(f"{name!r}: use TASK/METHOD, for example pusht/i-r-nce.")
    recipe = recipe_for(task_name, method, preset, warm_start, proposal)
    if preset == "cpu":
        use_cores([recipe])
    task, training = load_training(task_name, data, preset)
    if steps is not None:
        recipe = scaled(recipe, steps)
    return train(task, recipe, training, out or Path("runs") / task_name / method, seed=seed, resume=resume)
