"""From a finished training run to a policy that ships with the package."""

import shutil
from pathlib import Path
from typing import Any

from rnce.policies.policy import PRETRAINED, load_policy


def ship(run: Path, name: str, sampler: Any = None, samples: int | None = None, root: Path = PRETRAINED) -> Path:
    """Copy a run's policy into the package in half precision, with its training curve; returns where it is.

    `sampler` and `samples` are what was chosen for it on selection seeds, where that is not what it was trained with.
    """
    if not (run / "policy" / "config.json").exists():
        raise ValueError(f"run={str(run)!r} holds no finished policy; give the --out folder of `rnce train`.")
    policy = load_policy(str(run / "policy")).with_options(samples=samples, sampler=sampler)
    target = root / name
    policy.save(target, half=True)
    shutil.copy(run / "metrics.jsonl", target / "curve.jsonl")
    return target
