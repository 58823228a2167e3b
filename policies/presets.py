"""The recipes of the shipped policies (`cpu`) and of the paper (`paper`), for every task and method."""

import dataclasses
import difflib
from collections.abc import Callable
from typing import Any, Literal

from rnce.policies.bridges import EDM, Interpolant
from rnce.policies.methods import (
    IBC,
    IRNCE,
    METHODS,
    NF,
    RNCE,
    Diffusion,
    DiffusionPhi,
    EnergyMethod,
    EnergySampler,
    FlowSampler,
    with_budget,
)
from rnce.policies.networks import NetworkConfig, PairNetwork, ResidualMLP, ShallowField, paper_sizes
from rnce.policies.recipe import Optimizer, Phase, Recipe, Stage

WarmStart = Literal["score", "none"]
ProposalTraining = Literal["joint", "pretrained", "adversarial"]


def recipe_for(
    task: str,
    method: str,
    preset: str = "cpu",
    warm_start: WarmStart | None = None,
    proposal: ProposalTraining | None = None,
) -> Recipe:
    """The recipe of a task, a method and a preset; unknown tasks (your own data) take Push-T's without its noise.

    `warm_start` overrides how the preset starts energies: "score" matching before ranking, or "none": pure ranking.
    `proposal` overrides how the proposal is trained.
    """
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(METHODS)}."
        raise ValueError(f"there is no method {method!r}; {hint}")
    presets = {"cpu": CPU, "paper": PAPER}
    if preset not in presets:
        raise ValueError(f"preset={preset!r}: use 'cpu' or 'paper'.")
    recipes = presets[preset]
    if task in recipes:
        recipe = recipes[task](method)
    else:
        recipe = dataclasses.replace(recipes["pusht"](method), perturbation=(0.0, 0.0))
    if warm_start is not None:
        recipe = with_warm_start(recipe, warm_start)
    return recipe if proposal is None else with_proposal(recipe, proposal)


def with_warm_start(recipe: Recipe, warm_start: WarmStart) -> Recipe:
    """The recipe with its energy started by score matching, or by nothing: pure ranking is the paper's method."""
    if not isinstance(recipe.method, EnergyMethod):
        raise ValueError(f"warm_start={warm_start!r} is for energies; {recipe.method_name} has none.")
    stages = tuple(stage for stage in recipe.stages if stage.name != "warm")
    if warm_start == "none":
        method = dataclasses.replace(recipe.method, score_weight=0.0)
        return dataclasses.replace(recipe, method=method, stages=stages)
    if warm_start != "score":
        raise ValueError(f"warm_start={warm_start!r}: use 'score' or 'none'.")
    if len(stages) < len(recipe.stages):
        return recipe
    last = stages[-1]
    proposals = tuple(phase for phase in last.phases if phase.trains != "energy")
    warm = _warm_stage(last.rounds, proposals)
    method = dataclasses.replace(recipe.method, score_weight=0.1)
    return dataclasses.replace(recipe, method=method, stages=(*stages[:-1], warm, last))


def with_proposal(recipe: Recipe, training: ProposalTraining) -> Recipe:
    """The recipe with its proposal trained beside the energy, before it and then left alone, or against it."""
    if not isinstance(recipe.method, EnergyMethod) or recipe.method.proposal is None:
        raise ValueError(f"proposal={training!r} is for energies with a learned proposal; this recipe has none.")
    proposals = {phase for stage in recipe.stages for phase in stage.phases if phase.trains == "proposal"}
    if training == "joint":
        return recipe
    if training == "pretrained":
        later = tuple(
            dataclasses.replace(stage, phases=tuple(phase for phase in stage.phases if phase not in proposals))
            for stage in recipe.stages
        )
        return dataclasses.replace(recipe, stages=(Stage("pretrain", recipe.rounds, tuple(proposals)), *later))
    if training == "adversarial":
        against = {phase: dataclasses.replace(phase, loss="adversary") for phase in proposals}
        stages = tuple(
            dataclasses.replace(stage, phases=tuple(against.get(phase, phase) for phase in stage.phases))
            for stage in recipe.stages
        )
        return dataclasses.replace(recipe, stages=stages)
    raise ValueError(f"proposal={training!r}: use 'joint', 'pretrained' or 'adversarial'.")


def regression(
    method: str, settings: Any, rounds: int, steps: int, batch: int, optimizer: Optimizer, **more: Any
) -> Recipe:
    """One network, one loss."""
    phase = Phase("field", "match", optimizer, steps, batch)
    return Recipe(method, settings, (Stage("match", rounds, (phase,)),), **more)


def ranking(
    method: str,
    settings: Any,
    *,
    rounds: int,
    proposal: Phase | None,
    energy: Phase,
    warm_rounds: int = 0,
    **more: Any,
) -> Recipe:
    """Proposal and energy together; before that, on demand, a warm start of the energy."""
    proposals = () if proposal is None else (proposal,)
    stages = (Stage("rank", rounds, (*proposals, energy)),)
    if warm_rounds:
        stages = (_warm_stage(warm_rounds, proposals), *stages)
    return Recipe(method, settings, stages, **more)


def _warm_stage(rounds: int, proposals: tuple[Phase, ...]) -> Stage:
    """Score matching; the proposals' learning rate falls once, over both stages: constant here, a cosine after."""
    steady = tuple(
        dataclasses.replace(phase, optimizer=dataclasses.replace(phase.optimizer, final_fraction=1.0))
        for phase in proposals
    )
    batch = proposals[0].batch_size if proposals else 256
    matching = Phase("energy", "score", Optimizer(1e-3, warmup=500, final_fraction=0.1), 3, batch)
    return Stage("warm", rounds, (*steady, matching))


# The robot tasks on two cores


def pusht_cpu(method: str) -> Recipe:
    """At most 3.3 M parameters."""
    return _robot(
        method,
        # Most weights see (x, t) only: shared by all candidates, they cost a plan next to nothing.
        field=ResidualMLP(width=256, depth=3, context_width=448, context_depth=2, joint_depth=2),
        energy=ResidualMLP(width=256, depth=3, context_width=256, context_depth=2, joint_depth=1, time_transform="log"),
        proposal=ShallowField(width=768, context_width=352, context_depth=2, joint_depth=2),
        # IBC's chain leads away from the data the longer it is; that of R-NCE is worth 0.04 of the score.
        sampler=EnergySampler(flow_steps=16, mcmc_steps=20, step_size=1e-3, final_step_size=1e-4, refined=4),
        two_stages={"mcmc_steps": 40, "refined": 8},
        # The mean of the two networks' velocities scored higher than either on the selection starts.
        three_stages={"start_time": 0.1, "sde_steps": 16, "sde_noise": 0.0, "sde_trust": 0.5, "refined": 2},
        batch=48,
        perturbation=(2.0, 1.0),  # px
        samples=8,
    )


def path_planning_cpu(method: str) -> Recipe:
    """At most 500 k parameters: every waypoint looks at every obstacle, in mirrored scenes too."""
    return _robot(
        method,
        field=PairNetwork(width=256, depth=2, context_width=104, conditioning="shift"),
        energy=PairNetwork(width=176, depth=2, context_width=80, conditioning="shift", time_transform="log"),
        proposal=ShallowField(width=256, context_width=128, context_depth=2, joint_depth=1),
        # Thirty Langevin steps take nine in ten of the collisions away that are left after ranking.
        sampler=EnergySampler(flow_steps=16, mcmc_steps=30, step_size=2e-2, final_step_size=1e-3, refined=12),
        batch=64,
        # Seeing a scene costs as much as a candidate in it: several noises for each.
        matched=96,
        draws=6,
        # Collisions of the flow on selection scenes: 0.073 after 1,500 rounds, 0.048 after these.
        flow_rounds=4500,
        # Collisions of diffusion-φ on selection scenes: 0.088 with the paper's 0.02, 0.053 with this.
        sigma_rel=0.2,
        perturbation=(0.004, 0.002),  # a step is about 0.03
        samples=48,
        reflect=True,
    )


def _robot(
    method: str,
    *,
    field: NetworkConfig,
    energy: NetworkConfig,
    proposal: NetworkConfig,
    sampler: EnergySampler,
    two_stages: dict[str, Any] | None = None,
    three_stages: dict[str, Any] | None = None,
    batch: int,
    matched: int = 256,
    draws: int = 1,
    flow_rounds: int = 1500,
    sigma_rel: float = 0.02,
    **task: Any,
) -> Recipe:
    """Flows regress; energies get a score warm start, then rank together with their proposal.

    `sampler` is IBC's; `two_stages` is what R-NCE samples differently, because its energy is the data's, and
    `three_stages` what I-R-NCE does, whose energy knows all times.
    """
    common: dict[str, Any] = {"rounds_per_block": 50, **task}
    flows = {
        "nf": NF(field, Interpolant(), FlowSampler(24, 3), draws=draws),
        "diffusion": Diffusion(field, EDM(sigma_data=1.0), FlowSampler(16, 7), draws=draws),
        "diffusion-phi": DiffusionPhi(field, EDM(sigma_data=1.0), FlowSampler(16, 7), sigma_rel, draws),
    }
    if method in flows:
        optimizer = Optimizer(7e-4, warmup=1000)
        return regression(method, flows[method], flow_rounds, 20, matched, optimizer, ema=0.98, **common)
    shared: dict[str, Any] = {"proposal": proposal, "cells": 16, "draws": draws}
    at_one, at_all_times = (dataclasses.replace(sampler, **more or {}) for more in (two_stages, three_stages))
    settings = {
        "ibc": IBC(energy, **shared, sampler=sampler),
        "r-nce": RNCE(energy, **shared, sampler=at_one, score_weight=0.1),
        "i-r-nce": IRNCE(energy, **shared, sampler=at_all_times, score_weight=0.1),
    }[method]
    warm = method != "ibc"
    return ranking(
        method,
        settings,
        rounds=5_000 if warm else 7_000,
        proposal=Phase("proposal", "match", Optimizer(7e-4, warmup=500), 3, matched),
        # Low: ranking refines an energy that score matching has shaped, and its batches are small.
        energy=Phase("energy", "rank", Optimizer(1.5e-4 if warm else 5e-4, warmup=300), 1, batch),
        warm_rounds=5_000 if warm else 0,
        ema=0.999,
        **common,
    )


# The synthetic problems: small enough for the paper's own sizes on a CPU


def plane(method: str) -> Recipe:
    """The paper's sizes and step counts: 20,000 steps of 128, constant learning rate; moving averages are ours."""
    networks, constant = paper_sizes.PAPER["plane"], Optimizer(1e-3, schedule="constant")
    common: dict[str, Any] = {"ema": 0.999, "samples": 1, "rounds_per_block": 200}
    flow_settings = {
        "nf": NF(networks["field"], Interpolant(alpha=2.0), FlowSampler(96, 33)),
        "diffusion": Diffusion(networks["field"], EDM(sigma_data=1.0, sigma_max=60.0), FlowSampler(96, 33)),
        "diffusion-phi": DiffusionPhi(networks["phi"], EDM(sigma_data=1.0, sigma_max=60.0), FlowSampler(96, 33)),
    }
    if method in flow_settings:
        return regression(method, flow_settings[method], 4000, 5, 128, constant, **common)
    chain = EnergySampler(flow_steps=48, kernel="mala", mcmc_steps=500, step_size=1e-2, final_step_size=2e-3)
    if method == "ibc":  # uniform negatives, as in the paper
        settings = IBC(networks["energy"], proposal=None, half_width=3.0, negatives=31, sampler=chain)
        return ranking(
            method, settings, rounds=4000, proposal=None, energy=Phase("energy", "rank", constant, 5, 128), **common
        )
    shared: dict[str, Any] = {"proposal": networks["proposal"], "negatives": 9, "cells": 12}
    three_stages = dataclasses.replace(chain, start_time=0.5, sde_steps=250, mcmc_steps=250, sde_noise=0.3)
    settings = {
        "r-nce": RNCE(networks["energy"], **shared, sampler=chain),
        "i-r-nce": IRNCE(networks["timed-energy"], **shared, times=2, final_times=1, sampler=three_stages),
    }[method]
    return ranking(
        method,
        settings,
        rounds=4000,
        proposal=Phase("proposal", "match", constant, 5, 128),
        energy=Phase("energy", "rank", constant, 5, 128),
        **common,
    )


# The paper's sizes, for accelerators


def path_planning_paper(method: str) -> Recipe:
    """500 k parameters: transformers, a ConcatSquash proposal, 500,000 steps of 128."""
    networks = paper_sizes.PAPER["path-planning"]
    common: dict[str, Any] = {"perturbation": (0.01, 0.005), "whiten": False, "samples": 48, "rounds_per_block": 50}
    warm = Optimizer(5e-4, warmup=5000)
    return _paper(method, networks, common, warm, FlowSampler(375, 64), rounds=250_000, batch=(128, 128), negatives=63)


def pusht_paper(method: str) -> Recipe:
    """3.3 M parameters: images through a CoordConv ResNet, transformers, a CMHF proposal."""
    networks = paper_sizes.PAPER["pusht"]
    common: dict[str, Any] = {"perturbation": (2.56, 1.28), "whiten": False, "samples": 8, "rounds_per_block": 50}
    optimizer = Optimizer(2e-4, warmup=5000, weight_decay=1e-6)
    return _paper(
        method, networks, common, optimizer, FlowSampler(512, 48), rounds=100_000, batch=(128, 64), negatives=31
    )


def _paper(
    method: str,
    networks: dict[str, Any],
    common: dict[str, Any],
    optimizer: Optimizer,
    sampler: FlowSampler,
    *,
    rounds: int,
    batch: tuple[int, int],
    negatives: int,
) -> Recipe:
    flows = {
        "nf": lambda: NF(networks["field"], Interpolant(alpha=2.0), sampler),
        "diffusion": lambda: Diffusion(networks["field"], EDM(), sampler),
        "diffusion-phi": lambda: DiffusionPhi(networks["phi"], EDM(), sampler, sigma_rel=0.02),
    }
    if method in flows:
        return regression(method, flows[method](), 2 * rounds // 20, 20, batch[0], optimizer, **common)
    chain = EnergySampler(flow_steps=150, mcmc_steps=500, step_size=1e-4, final_step_size=1e-4)
    hmc = EnergySampler(150, 0.5, kernel="hmc", leapfrog_steps=50, step_size=1e-3, final_step_size=1e-3)
    interpolating: dict[str, Any] = {"interpolant": Interpolant(alpha=2.5), "times": 5, "final_times": 0}
    shared: dict[str, Any] = {"proposal": networks["proposal"], "negatives": negatives, "cells": 15, "substeps": 10}
    settings = {
        "ibc": lambda: IBC(networks["energy"], **shared, sampler=chain),
        "r-nce": lambda: RNCE(networks["energy"], **shared, sampler=chain),
        "i-r-nce": lambda: IRNCE(networks["timed-energy"], **shared, **interpolating, sampler=with_budget(hmc, 1000)),
    }[method]()
    return ranking(
        method,
        settings,
        rounds=rounds,
        proposal=Phase("proposal", "match", Optimizer(1e-3, weight_decay=1e-6), 4, batch[0]),
        energy=Phase("energy", "rank", optimizer, 2, batch[1]),
        **common,
    )


CPU: dict[str, Callable[[str], Recipe]] = {
    "pinwheel": plane,
    "spiral": plane,
    "path-planning": path_planning_cpu,
    "pusht": pusht_cpu,
}
PAPER: dict[str, Callable[[str], Recipe]] = {
    "pinwheel": plane,
    "spiral": plane,
    "path-planning": path_planning_paper,
    "pusht": pusht_paper,
}
