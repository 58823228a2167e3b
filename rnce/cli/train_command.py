"""`rnce train`."""

from pathlib import Path
from typing import Annotated, Literal

import tyro


def train(
    name: Annotated[str, tyro.conf.Positional],
    /,
    preset: Literal["cpu", "paper"] = "cpu",
    data: Path | None = None,
    steps: int | None = None,
    out: Path | None = None,
    resume: bool = False,
    seed: int = 0,
    warm_start: Literal["score", "none"] | None = None,
    proposal: Literal["joint", "pretrained", "adversarial"] | None = None,
) -> None:
    """Train a policy: TASK/METHOD, where TASK is pusht, path-planning, pinwheel, spiral or a name for your own --data.

    Example: rnce train pusht/i-r-nce --out runs/pusht

    Args:
        name: Task and method, such as pusht/i-r-nce or my-robot/nf.
        preset: Sizes and steps: `cpu` is what the shipped policies were trained with, `paper` the paper's.
        data: Dataset folder; for the named tasks, where their data is kept.
        steps: Rounds of training instead of the preset's.
        out: Folder for metrics, checkpoints and the policy; runs/TASK/METHOD if not given.
        resume: Continue the run in the folder.
        seed: Of initialisation, batches and noise.
        warm_start: Start the energy by score matching, or by nothing (pure ranking); the preset decides if not given.
        proposal: Train the proposal beside the energy, before it, or against it; beside it if not given.
    """
    from rnce.training import train_policy

    policy = train_policy(
        name,
        preset=preset,
        data=data,
        steps=steps,
        out=out,
        resume=resume,
        seed=seed,
        warm_start=warm_start,
        proposal=proposal,
    )
    folder = (out or Path("runs") / name) / "policy"
    print(f"{policy.name}: {policy.n_params:,} parameters in {folder}; load it with rnce.load_policy({str(folder)!r})")
