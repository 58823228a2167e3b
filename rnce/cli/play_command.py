"""`rnce play`."""

from pathlib import Path
from typing import Annotated, Literal

import tyro


def play(
    task: Annotated[Literal["pusht", "path-planning"], tyro.conf.Positional],
    seed: int = 0,
    steps: int | None = None,
    record: Path | None = None,
) -> None:
    """Drive an environment with the mouse, and record demonstrations.

    Example: rnce play pusht --record my_demos.zarr

    Hold the left button to move towards the pointer. Enter keeps the episode and starts the next, R discards it,
    Q quits. Episodes that end by themselves are kept.

    Args:
        task: What to play.
        seed: Start state of the first episode; the next have the following seeds.
        steps: Stop after so many steps.
        record: Zarr replay buffer to append the episodes to; it is created if it does not exist.
    """
    from rnce.play import TASKS
    from rnce.play import play as play_task

    if steps is not None and steps < 1:
        raise ValueError(f"--steps must be 1 or more, got {steps}")
    played = play_task(TASKS[task], seed, steps, record)
    print(f"{played} steps played" + (f", recorded to {record}" if record and record.exists() else ""))
