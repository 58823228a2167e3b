"""Training runs whose curves are looked at: the package's own loop, in a folder that is thrown away."""

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from rnce import datasets
from rnce.eval.bhattacharyya import bhattacharyya_of_densities
from rnce.policies import Policy, Task
from rnce.policies.data import TrainingSet
from rnce.policies.recipe import Recipe
from rnce.policies.train import TrainingError, train

GRID = np.linspace(-4.0, 4.0, 96)


class Trained(NamedTuple):
    """What came of a run: lines of metrics, and the policy, or None and why training stopped."""

    curve: list[dict[str, Any]]
    policy: Policy | None
    failure: str | None


def train_curve(task: Task, recipe: Recipe, data: TrainingSet, seed: int = 0) -> Trained:
    """Train and read the metrics back. Posterior collapse is what some of these runs are for, so nobody is warned."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the posterior of the positive")
        policy, failure = None, None
        try:
            policy = train(task, recipe, data, Path(folder) / "run", seed=seed, progress=False)
        except TrainingError as error:
            failure = str(error)
        lines = (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
    return Trained([json.loads(line) for line in lines], policy, failure)


def seconds_per_round(curve: list[dict[str, Any]]) -> float:
    """Median over the blocks of a curve's last stage; compilation is in the first block of a stage."""
    last = [row for row in curve if row["stage"] == curve[-1]["stage"]]
    spent, rounds = (np.diff([row[key] for row in last]) for key in ("seconds", "round"))
    return float(np.median(spent / rounds))


def energy_bc(policy: Policy, problem: datasets.SyntheticName) -> float:
    """The smallest Bhattacharyya coefficient over contexts between the energy's density and the true one, on a grid.

    Nothing is sampled: this is the energy alone, whatever a sampler would make of it.
    """
    truth = datasets.load(problem)
    points = np.stack(np.meshgrid(GRID, GRID, indexing="ij"), axis=-1).reshape(-1, 2).astype(np.float32)
    return min(
        bhattacharyya_of_densities(
            _normalized(np.asarray(policy.score(context, points[:, None]), float)),
            _normalized(truth.log_density(context, points)),
            GRID,
        )
        for context in truth.contexts
    )


def _normalized(log_density: Float[np.ndarray, " cells"]) -> Float[np.ndarray, "n n"]:
    density = np.exp(log_density - log_density.max()).reshape(len(GRID), -1)
    return density / np.trapezoid(np.trapezoid(density, GRID, axis=1), GRID)
