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
from rnce.policies.presets import recipe_for, with_proposal, with_warm_start
from rnce.policies.recipe import Optimizer, Phase, Recipe, Stage
from rnce.training import load_training

POINTS = 60  # of a curve
SCENES = 64  # planned where no data are given


@dataclasses.dataclass(frozen=True)
class Setting:
    """A task made small: what the profiles have in common.

    Attributes:
        energy: network of the energy.
        balanced: a proposal that can represent the data.
        small: one that cannot.
        half_width: of the uniform proposal that says nothing.
        negatives: K.
        rounds: of joint training.
        batch: examples of a ranking step.
        rate: highest learning rate of the proposal.
    """

    energy: NetworkConfig
    balanced: NetworkConfig
    small: NetworkConfig
    half_width: float
    negatives: int
    rounds: int
    batch: int
    rate: float


SETTINGS = {
    "pinwheel": Setting(
        energy=dataclasses.replace(plane_mlp(hidden=16, time_width=0), base="gaussian"),
        balanced=ShallowField(width=128, context_width=64, context_depth=1, joint_depth=1),
        small=ConcatSquash(width=16, depth=2),
        half_width=30.0,
        negatives=9,
        rounds=1200,
        batch=64,
        rate=3e-3,
    ),
    "path-planning": Setting(
        energy=PairNetwork(width=64, depth=2, context_width=64, base="gaussian"),
        balanced=ShallowField(width=256, context_width=128, context_depth=2, joint_depth=1),
        small=ShallowField(width=4, context_width=8, context_depth=1, joint_depth=0),
        half_width=4.0,
        negatives=15,
        rounds=600,
        batch=32,
        rate=3e-3,
    ),
}


def recipes(task: str, setting: Setting) -> dict[str, Recipe]:
    """A recipe for each profile."""
    base = recipe_for(task, "r-nce", warm_start="none")

    def joint(proposal: NetworkConfig, late: bool = True) -> Recipe:
        steps = 4 * setting.rounds
        optimizer = Optimizer(setting.rate, warmup=3 * steps // 5 if late else 0, final_fraction=0.1)
        phases = (
            Phase("proposal", "match", optimizer, 4, 128),
            Phase("energy", "rank", Optimizer(2e-3, final_fraction=0.1), 1, setting.batch),
        )
        return _with(base, setting, proposal, Stage("rank", setting.rounds, phases))

    balanced, small = joint(setting.balanced), joint(setting.small)
    alone = Stage("rank", setting.rounds, small.stages[0].phases[1:])
    return {
        "collapse": _with(base, setting, None, alone),
        "joint, balanced": balanced,
        "joint, small proposal": small,
        "pre-trained, balanced": with_proposal(joint(setting.balanced, late=False), "pretrained"),
        "pre-trained, small proposal": with_proposal(joint(setting.small, late=False), "pretrained"),
        "score warm start": with_warm_start(balanced, "score"),
    }


def _with(base: Recipe, setting: Setting, proposal: NetworkConfig | None, *stages: Stage) -> Recipe:
    method = RNCE(setting.energy, proposal, setting.half_width, negatives=setting.negatives, cells=8)
    block = max(1, setting.rounds // POINTS)
    return dataclasses.replace(base, method=method, stages=stages, ema=0.99, rounds_per_block=block)


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
    ranked = [row for row in run.curve if row["stage"] == "rank"]
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
