"""Videos of evaluated episodes, rendered afterwards from their actions."""

import warnings
from pathlib import Path

import imageio.v2 as imageio
from tqdm import tqdm

from rnce.eval.files import replacing
from rnce.eval.replay import Recorded, replay

FRAMES_PER_SECOND = 10  # real time for Push-T


def write_videos(result: Recorded, folder: Path, rollouts: int = 1, progress: bool = True) -> list[Path]:
    """Film the first rollouts of every seed whose actions were kept; H.264, which browsers play."""
    chosen = [e for e in result.episodes if e.actions and e.error is None and e.rollout < rollouts]
    written = []
    for episode in tqdm(chosen, desc="videos", unit="ep", disable=not progress):
        count = "" if result.settings.samples is None else f"-samples-{result.settings.samples}"
        path = folder / f"seed-{episode.seed}-rollout-{episode.rollout}{count}.mp4"
        frames = replay(result.settings, episode, render=True).frames
        with (
            replacing(path) as temporary,
            warnings.catch_warnings(),
            imageio.get_writer(temporary, fps=FRAMES_PER_SECOND, codec="libx264", pixelformat="yuv420p") as writer,
        ):
            # The encoder is a program of its own, started when the first frame comes. JAX warns of any fork, but one
            # that runs another program at once is harmless.
            warnings.filterwarnings("ignore", message="os.fork", category=RuntimeWarning)
            for frame in frames:
                # imageio's types forget in `with` that this is a writer.
                writer.append_data(frame)  # pyright: ignore[reportAttributeAccessIssue]
        written.append(path)
    return written
