"""From a finished training run to a policy that ships with the package, and what it scored."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rnce.policies.checkpoint import CONFIG
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


def record_scores(documents: Sequence[Mapping[str, Any]], root: Path = PRETRAINED) -> list[str]:
    """Write reported figures into the shipped policies they belong to; returns the names of these policies.

    A document is what `rnce eval --json` writes. It counts if the policy was measured as it ships: with its
    own number of samples, its own sampler, and episodes of the environment's own length.
    """
    recorded = []
    for document in documents:
        file = root / document["policy"] / CONFIG
        if not file.exists() or any(
            document.get(key) is not None for key in ("sampler", "ranker", "lead", "max_steps")
        ):
            continue
        config = json.loads(file.read_text())
        if document["samples"] not in (None, config["samples"]):
            continue
        metrics = {name: {key: row[key] for key in ("mean", "ci95")} for name, row in document["metrics"].items()}
        config["score"] = {key: document[key] for key in ("env", "seeds", "rollouts", "episodes")} | {
            "metrics": metrics
        }
        temporary = file.with_suffix(".tmp")
        temporary.write_text(json.dumps(config, indent=1) + "\n")
        os.replace(temporary, file)
        recorded.append(document["policy"])
    return recorded
