"""Adversarial against non-adversarial R-NCE on the pinwheel: final coefficients, stability, cost of a step.

Everything is the same but the loss of the proposal: its own flow matching, or minus the energy's ranking loss,
differentiated through the negatives and their log-probabilities.
"""

import dataclasses
from typing import Any

import numpy as np

from rnce.eval.theory.training import Trained, energy_bc, seconds_per_round, train_curve
from rnce.policies.presets import ProposalTraining, recipe_for
from rnce.policies.recipe import Recipe, Stage
from rnce.training import load_training

POINTS = 50  # of a curve
TRAININGS: tuple[ProposalTraining, ...] = ("joint", "adversarial")


def small_recipe(training: ProposalTraining, rounds: int) -> Recipe:
    """The paper's networks, one step of the proposal and one of the energy in a round."""
    recipe = recipe_for("pinwheel", "r-nce", proposal=training)
    phases = tuple(dataclasses.replace(phase, steps_per_round=1) for phase in recipe.stages[0].phases)
    stages = (Stage("rank", rounds, phases),)
    return dataclasses.replace(recipe, stages=stages, ema=0.99, rounds_per_block=max(1, rounds // POINTS))


def adversarial(rounds: int = 800, seeds: int = 2) -> dict[str, Any]:
    """Both trainings from the same seeds."""
    task, data = load_training("pinwheel")
    rows = []
    for training in TRAININGS:
        recipe = small_recipe(training, rounds)
        runs = [train_curve(task, recipe, data, seed) for seed in range(seeds)]
        rows.append({"training": training, **_figures(runs), "curves": [_objective(run) for run in runs]})
    negatives = small_recipe("joint", rounds).method.negatives
    costs = [row["ms_per_round"] for row in rows]
    return {
        "K": negatives,
        "saddle": -float(np.log(negatives + 1)),
        "rounds": rounds,
        "rows": rows,
        "cost_ratio": costs[1] / costs[0],
    }


def _objective(run: Trained) -> dict[str, list[float]]:
    return {"round": [row["round"] for row in run.curve], "objective": [-row["rank"] for row in run.curve]}


def _figures(runs: list[Trained]) -> dict[str, Any]:
    """Over the seeds; stability is how far the objective moves from one block to the next in the second half."""
    late = [np.array(_objective(run)["objective"][len(run.curve) // 2 :]) for run in runs]
    return {
        "finished": sum(run.policy is not None for run in runs),
        "bc": [energy_bc(run.policy, "pinwheel") for run in runs if run.policy is not None],
        "final_objective": [float(values[-5:].mean()) for values in late],
        "unrest": float(np.mean([np.sqrt(np.mean(np.diff(values) ** 2)) for values in late])),
        "ms_per_round": float(1e3 * np.median([seconds_per_round(run.curve) for run in runs])),
    }
