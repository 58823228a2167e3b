"""Typical training profiles of R-NCE: the objective while proposal and energy learn, beside its saddle value.

Five that the paper describes, and the score-matching warm start of the energy beside pure ranking.
"""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from rnce.datasets.path_planning_generation import GenerationConfig, generate
from rnce.eval.theory.training import energy_bc, seconds_per_round, train_curve
from rnce.policies import Task
from rnce.policies.data import TrainingSet
from rnce.policies.methods import RNCE
from rnce.policies.networks import ConcatSquash, NetworkConfig, PairNetwork, ShallowField
from rnce.policies.networks.paper_sizes import plane_mlp
from rnce.policies.presets import recipe_for
from rnce.policies.recipe import Optimizer, Phase, Recipe, Stage
from rnce.training import load_training

POINTS = 60  # of a curve; they divide the rounds of every stage, so that it compiles once
SCENES = 64  # planned where no data are given


@dataclasses.dataclass(frozen=True)
class Setting:
    """A task made small: what the profiles have in common.

    Attributes:
        energy: network of the energy; untrained it is the prior, as the proposal is.
        balanced: a proposal that can represent the data.
        small: one that cannot.
        half_width: of the uniform proposal that says nothing.
        negatives: K.
        rounds: of ranking.
        batch: examples of a ranking step.
        steps: of the proposal in a round, when it learns at its full rate.
        rate: that learning rate.
    """

    energy: NetworkConfig
    balanced: NetworkConfig
    small: NetworkConfig
    half_width: float
    negatives: int
    rounds: int
    batch: int
    steps: int
    rate: float


SETTINGS = {
    "pinwheel": Setting(
        energy=dataclasses.replace(plane_mlp(hidden=36, time_width=10), base="gaussian"),
        balanced=plane_mlp(hidden=36, time_width=10),
        small=ConcatSquash(width=64, depth=2),
        half_width=30.0,
        negatives=9,
        rounds=480,
        batch=64,
        steps=24,
        rate=2e-3,
    ),
    "path-planning": Setting(
        energy=PairNetwork(width=64, depth=2, context_width=64, base="gaussian"),
        balanced=ShallowField(width=192, context_width=96, context_depth=1, joint_depth=1),
        small=ShallowField(width=4, context_width=8, context_depth=1, joint_depth=0),
        half_width=4.0,
        negatives=15,
        rounds=360,
        batch=32,
        steps=8,
        rate=3e-3,
    ),
}


def recipes(task: str, setting: Setting) -> dict[str, Recipe]:
    """A recipe for each profile."""
    base = recipe_for(task, "r-nce", warm_start="none")
    ranking = _ranking(3e-3, setting)
    warm = Stage("warm", setting.rounds // 2, (Phase("energy", "score", Optimizer(2e-3, warmup=20), 2, 256),))

    def profile(proposal: NetworkConfig | None, *stages: Stage) -> Recipe:
        method = RNCE(setting.energy, proposal, setting.half_width, negatives=setting.negatives, cells=8)
        block = max(1, setting.rounds // POINTS)
        return dataclasses.replace(base, method=method, stages=stages, ema=0.99, rounds_per_block=block)

    def together(proposal: NetworkConfig) -> Recipe:
        """The energy is ahead while the proposal learns at a fraction of its rate, which then catches up."""
        half = setting.rounds // 2
        slow, fast = (
            Phase("proposal", "match", Optimizer(rate), steps, 128)
            for rate, steps in ((1e-4, 1), (setting.rate, setting.steps))
        )
        return profile(
            proposal, Stage("ahead", half, (slow, ranking)), Stage("catch-up", half, (fast, _ranking(1e-3, setting)))
        )

    def pretrained(proposal: NetworkConfig, *between: Stage) -> Recipe:
        learning = Phase("proposal", "match", Optimizer(setting.rate), setting.steps, 128)
        return profile(
            proposal,
            Stage("pretrain", setting.rounds // 2, (learning,)),
            *between,
            Stage("rank", setting.rounds, (ranking,)),
        )

    return {
        "collapse": profile(None, Stage("rank", setting.rounds // 2, (ranking,))),
        "joint, balanced": together(setting.balanced),
        "joint, small proposal": together(setting.small),
        "pre-trained, balanced": pretrained(setting.balanced),
        "pre-trained, small proposal": pretrained(setting.small),
        "score warm start": pretrained(setting.balanced, warm),
    }


def _ranking(rate: float, setting: Setting) -> Phase:
    return Phase("energy", "rank", Optimizer(rate, warmup=20, final_fraction=0.1), 1, setting.batch)


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
    final = float(objective[-len(objective) // 10 :].mean())
    figures = {
        "profile": name,
        "failure": run.failure,
        "start": float(objective[0]),
        "highest": float(objective.max()),
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
