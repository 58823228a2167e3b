"""A first look: one policy in each environment, rolled out, tabled, pictured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from rnce.eval.files import replacing
from rnce.eval.recorders import recorder_for
from rnce.eval.scripted_planners import GridPlanner, ShootingPusher

FIRST_SEED = 50_000  # seeds from 100,000 on are for reported figures only
Image = NDArray[np.uint8]


@dataclass(frozen=True)
class DemoTask:
    """What is shown of an environment, and by whom."""

    name: str
    env_id: str
    shipped: tuple[str, ...]
    """names of trained policies, the first that ships is shown"""
    scripted: Callable[[], Any]
    """shown where there is none"""
    metrics: tuple[str, ...]
    frame_every: int


TASKS = (
    DemoTask(
        name="pusht",
        env_id="PushT-v0",
        shipped=("pusht/i-r-nce", "pusht/r-nce"),
        scripted=ShootingPusher,
        metrics=("score", "final_coverage", "success"),
        frame_every=2,
    ),
    DemoTask(
        name="path-planning",
        env_id="PathPlanning-v0",
        shipped=("path-planning/r-nce", "path-planning/i-r-nce"),
        scripted=GridPlanner,
        metrics=("collision", "cost", "goal_distance"),
        frame_every=1,
    ),
)


@dataclass(frozen=True)
class DemoResult:
    """What one task's demo found and where it put it."""

    task: DemoTask
    policy: str
    metrics: dict[str, float]
    episodes: int
    picture: Path
    video: Path


def run_demo(out: Path, episodes: int = 3, tasks: Sequence[DemoTask] = TASKS) -> list[DemoResult]:
    """Roll out a policy in each environment and write a picture and a GIF of the first episode of each."""
    return [_run_task(task, out, episodes) for task in tasks]


def table(results: Sequence[DemoResult]) -> str:
    """The figures, and where the pictures are."""
    lines = []
    for result in results:
        figures = "   ".join(f"{name} {result.metrics[name]:.3f}" for name in result.task.metrics)
        lines += [
            f"{result.task.env_id} · {result.policy} · {result.episodes} episodes",
            f"  {figures}",
            f"  {result.picture}   {result.video}",
        ]
    return "\n".join(lines)


def choose_policy(task: DemoTask) -> tuple[Any, str]:
    """The first of the task's policies that ships, else the scripted one; and what to call it.

    One that ships but does not load is an error: the scripted one must not hide it.
    """
    import rnce
    from rnce.policies import pretrained_policies

    shipped = pretrained_policies()
    for name in task.shipped:
        if name in shipped:
            return rnce.load_policy(name), name
    policy = task.scripted()
    return policy, f"{policy.name} (no trained policy ships yet)"


def _run_task(task: DemoTask, out: Path, episodes: int) -> DemoResult:
    policy, name = choose_policy(task)
    env = gym.make(task.env_id, render_mode="rgb_array", render_size=384)
    figures, frames = [], []
    for index in tqdm(range(episodes), desc=task.env_id, leave=False):
        metrics, seen = _episode(env, policy, FIRST_SEED + index, task.frame_every if index == 0 else None)
        figures.append(metrics)
        frames += seen
    env.close()
    picture, video = out / f"{task.name}.png", out / f"{task.name}.gif"
    _write_picture(picture, frames[-1])
    _write_gif(video, frames, seconds_per_frame=task.frame_every / env.metadata["render_fps"])
    means = {key: float(np.mean([metrics[key] for metrics in figures])) for key in task.metrics}
    return DemoResult(task, name, means, episodes, picture, video)


def _episode(env: gym.Env, policy: Any, seed: int, frame_every: int | None) -> tuple[dict[str, float], list[Image]]:
    """One episode's figures, and its frames if `frame_every` says which."""
    recorder, frames, steps = recorder_for(env.unwrapped.spec.id)(), [], 0  # pyright: ignore[reportOptionalMemberAccess]
    observation, info = env.reset(seed=seed)
    recorder.start(observation, info)
    policy.reset(seed=seed)
    candidates: list[tuple[np.ndarray, np.ndarray]] = []
    while True:
        if frame_every:
            _show_candidates(env.unwrapped, policy, observation, steps, candidates)
        observation, reward, terminated, truncated, info = env.step(policy.act(observation))
        recorder.step(observation, float(reward), info)
        ended, steps = terminated or truncated, steps + 1
        if frame_every and (ended or steps % frame_every == 0):
            frames.append(env.render())
        if ended:
            return recorder.metrics(), frames


def _show_candidates(
    env: Any, policy: Any, observation: Any, steps: int, shown: list[tuple[np.ndarray, np.ndarray]]
) -> None:
    """Where the environment can draw what a policy ranks, and it ranks, show it: all plans of the episode so far.

    Likelihoods of different plans cannot be compared, so each candidate is coloured by its place in its own plan.
    """
    if hasattr(env, "set_candidates") and hasattr(policy, "plan") and steps % policy.chunk == 0:
        plan = policy.plan(observation)
        here = np.broadcast_to(observation["position"], (len(plan.samples), 1, 2))
        shown.append((np.concatenate([here, plan.samples], axis=1), plan.scores.argsort().argsort()))
        env.set_candidates(*map(np.concatenate, zip(*shown)))


def _write_picture(path: Path, image: Image) -> None:
    import imageio.v3 as iio

    with replacing(path) as temporary:
        iio.imwrite(temporary, image)


def _write_gif(path: Path, frames: Sequence[Image], seconds_per_frame: float) -> None:
    """A palette of 64 colours is plenty for flat drawings and makes small files."""
    from PIL import Image as Pillow

    pictures = [Pillow.fromarray(frame).quantize(64, dither=Pillow.Dither.NONE) for frame in frames]
    with replacing(path) as temporary:
        pictures[0].save(
            temporary,
            save_all=True,
            append_images=pictures[1:],
            duration=[round(1000 * seconds_per_frame)] * (len(frames) - 1) + [1500],
            loop=0,
            optimize=True,
        )
