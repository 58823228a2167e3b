"""Typical training profiles of R-NCE: the objective while proposal and energy learn, beside its saddle value.

Five that the paper describes, and the score-matching warm start of the energy beside pure ranking.
"""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from rnce.datasets.path_planning_generation import GenerationConfig, generate
from rnce.eval.theory.training import energy_bc, seconds_per_round, train_curve
from rnce.policies import Task
from rnce.policies.data import TrainingSet
from rnce.policies.methods import RNCE
from rnce.policies.networks import NetworkConfig, ResidualMLP, ShallowField
from rnce.policies.networks.paper_sizes import plane_mlp
from rnce.policies.presets import recipe_for
from rnce.policies.recipe import Optimizer, Phase, Recipe, Stage
from rnce.training import load_training

POINTS = 60  # of a curve; they divide the rounds of every stage, so that it compiles once
SCENES = 64  # planned where no data are given


@dataclasses.dataclass(frozen=True)
class Setting:
    """A task made small: what the profiles have in common. Rates are constant, as the paper's on the plane.

    Attributes:
        energy: network of the energy; untrained it is the prior, as the proposal is.
        balanced: a proposal that can represent the data.
        small: one that cannot.
        learning: of the proposal, in every round.
        ranking: of the energy, in every round.
        half_width: of the uniform proposal that says nothing.
        negatives: K.
        rounds: of ranking.
        noise: standard deviation of the noise on the actions.
    """

    energy: NetworkConfig
    balanced: NetworkConfig
    small: NetworkConfig
    learning: Phase
    ranking: Phase
    half_width: float
    negatives: int
    rounds: int
    noise: float = 0.0


def _learning(rate: float, steps: int) -> Phase:
    return Phase("proposal", "match", Optimizer(rate, "constant"), steps, 128)


def _ranking(rate: float, batch: int) -> Phase:
    return Phase("energy", "rank", Optimizer(rate, "constant"), 1, batch)


SETTINGS = {
    "pinwheel": Setting(
        energy=dataclasses.replace(plane_mlp(hidden=36, time_width=10), base="gaussian"),
        balanced=plane_mlp(hidden=36, time_width=10),
        small=plane_mlp(hidden=4, time_width=10),
        learning=_learning(5e-4, steps=4),
        ranking=_ranking(5e-3, batch=64),
        half_width=30.0,
        negatives=9,
        rounds=2400,
    ),
    "path-planning": Setting(
        energy=ResidualMLP(width=128, depth=3, context_width=96, context_depth=1, joint_depth=0, base="gaussian"),
        balanced=ShallowField(width=384, context_width=192, context_depth=2, joint_depth=2),
        small=ShallowField(width=32, context_width=48, context_depth=1, joint_depth=1),
        learning=_learning(1.5e-4, steps=1),
        ranking=_ranking(3e-3, batch=32),
        half_width=4.0,
        negatives=15,
        rounds=2400,
        noise=0.01,
    ),
}


def recipes(task: str, setting: Setting) -> dict[str, Recipe]:
    """A recipe for each profile."""
    base = recipe_for(task, "r-nce", warm_start="none")
    learning, ranking, rounds = setting.learning, setting.ranking, setting.rounds
    warm = Stage("warm", rounds // 4, (Phase("energy", "score", Optimizer(2e-3, warmup=20), 2, 256),))

    def profile(proposal: NetworkConfig | None, *stages: Stage) -> Recipe:
        return dataclasses.replace(
            base,
            method=RNCE(setting.energy, proposal, setting.half_width, negatives=setting.negatives, cells=8),
            stages=stages,
            perturbation=(setting.noise, setting.noise),
            ema=0.99,
            rounds_per_block=max(1, rounds // POINTS),
        )

    def together(proposal: NetworkConfig) -> Recipe:
        return profile(proposal, Stage("rank", rounds, (learning, ranking)))

    def pretrained(proposal: NetworkConfig, *between: Stage) -> Recipe:
        return profile(proposal, Stage("pretrain", rounds, (learning,)), *between, Stage("rank", rounds, (ranking,)))

    return {
        "collapse": profile(None, Stage("rank", rounds, (ranking,))),
        "joint, balanced": together(setting.balanced),
        "joint, small proposal": together(setting.small),
        "pre-trained, balanced": pretrained(setting.balanced),
        "pre-trained, small proposal": pretrained(setting.small),
        "score warm start": pretrained(setting.balanced, warm),
    }


def pinwheel() -> dict[str, Any]:
    """Profiles on the pinwheel."""
    return profiles("pinwheel", *load_training("pinwheel"))


def path_planning(data: Path | None = None) -> dict[str, Any]:
    """Profiles on path planning, from a dataset or from a few scenes planned here."""
    if data is not None:
        return profiles("path-planning", *load_training("path-planning", data))
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "scenes.zarr"
        generate(made, GenerationConfig(scenes=SCENES), progress=False)
        return profiles("path-planning", *load_training("path-planning", made))


def profiles(task_name: str, task: Task, data: TrainingSet, rounds: int | None = None) -> dict[str, Any]:
    """The curve of every profile, where it begins and ends, and how far it was from there in between."""
    setting = SETTINGS[task_name]
    if rounds is not None:
        setting = dataclasses.replace(setting, rounds=rounds)
    chance = -float(np.log(setting.negatives + 1))
    rows = [_profile(name, recipe, task, data, chance) for name, recipe in recipes(task_name, setting).items()]
    return {"K": setting.negatives, "saddle": chance, "rounds": setting.rounds, "rows": rows}


def _profile(name: str, recipe: Recipe, task: Task, data: TrainingSet, chance: float) -> dict[str, Any]:
    run = train_curve(task, recipe, data)
    ranked = [row for row in run.curve if "rank" in row]
    first = sum(stage.rounds for stage in recipe.stages if stage.name == "pretrain")
    objective = np.array([-row["rank"] for row in ranked])
    means = _running_means(objective, max(1, len(objective) // 10))
    final = float(means[-1])
    figures = {
        "profile": name,
        "failure": run.failure,
        "start": float(objective[0]),
        "highest": float(means.max()),
        "final": final,
        "final_above_saddle": final - chance,
        "final_posterior": ranked[-1]["posterior"],
        "ms_per_round": 1e3 * seconds_per_round(run.curve),
        "round": [row["round"] - first for row in ranked],
        "objective": objective,
    }
    if run.policy is not None and task.name == "pinwheel":
        figures["energy_bc"] = energy_bc(run.policy, "pinwheel")
    return figures


def _running_means(values: Float[np.ndarray, " n"], width: int) -> Float[np.ndarray, " m"]:
    """Over so many neighbours: the highest value of a noisy curve would be noise."""
    return np.convolve(values, np.full(width, 1 / width), mode="valid")
