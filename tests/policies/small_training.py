"""A training run of seconds: two stages, twelve rounds, a checkpoint after every round."""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tiny

from rnce.policies import Policy, train
from rnce.policies.methods import IBC, EnergySampler
from rnce.policies.recipe import Optimizer, Phase, Recipe, Stage

TASK = tiny.one_step_task(2)
ROUNDS = 12


def recipe(**changes: Any) -> Recipe:
    phases = [Phase("energy", loss, Optimizer(1e-2, warmup=2), 2, 16) for loss in ("score", "rank")]
    stages = (Stage("warm", 6, (phases[0],)), Stage("rank", 6, (phases[1],)))
    settings = IBC(tiny.mlp(), proposal=None, negatives=7, sampler=EnergySampler(mcmc_steps=2))
    return Recipe("ibc", settings, stages, **{"ema": 0.9, "rounds_per_block": 1, "perturbation": (0.2, 0.1)} | changes)


def data(scale: float = 1.0):
    rng = np.random.default_rng(0)
    events = scale * rng.normal(size=(256, 2)).astype(np.float32)
    return tiny.one_step_set(rng.normal(size=(256, 1)).astype(np.float32), events)


def run(out: Path, *, scale: float = 1.0, **options: Any) -> Policy:
    settings = {"minutes_per_checkpoint": 0.0, "progress": False, "recipe": recipe()} | options
    return train.train(TASK, settings.pop("recipe"), data(scale), out, **settings)


if __name__ == "__main__":  # slow enough to be killed in the middle
    save = train._save

    def slow_save(*args: Any) -> None:
        save(*args)
        time.sleep(0.3)

    train._save = slow_save
    run(Path(sys.argv[1]))
