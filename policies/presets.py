"""The recipes of the shipped policies (`cpu`) and of the paper (`paper`), for every task and method."""

import dataclasses
import difflib
from collections.abc import Callable
from typing import Any

from rnce.policies.bridges import EDM, Interpolant
from rnce.policies.methods import (
    IBC,
    IRNCE,
    METHODS,
    NF,
    RNCE,
    Diffusion,
    DiffusionPhi,
    EnergySampler,
    FlowSampler,
    with_budget,
)
from rnce.policies.networks import PairNetwork, ResidualMLP, ShallowField, paper_sizes
from rnce.policies.recipe import Optimizer, Phase, Recipe, Stage


def recipe_for(task: str, method: str, preset: str = "cpu") -> Recipe:
    """The recipe of a task, a method and a preset; unknown tasks (your own data) take Push-T's without its noise."""
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(METHODS)}."
        raise ValueError(f"there is no method {method!r}; {hint}")
    presets = {"cpu": CPU, "paper": PAPER}
    if preset not in presets:
        raise ValueError(f"preset={preset!r}: use 'cpu' or 'paper'.")
    recipes = presets[preset]
    if task in recipes:
        return recipes[task](method)
    return dataclasses.replace(recipes["pusht"](method), perturbation=(0.0, 0.0))


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
    warm: Phase | None = None,
    pretrain_rounds: int = 0,
    **more: Any,
) -> Recipe:
    """Proposal and energy together; before that, on demand, a warm start of the energy or a proposal of its own.

    A pre-trained proposal (`pretrain_rounds`) is left alone afterwards, as in the paper's ablation.
    """
    stages = []
    proposals = () if proposal is None else (proposal,)
    if pretrain_rounds:
        stages.append(Stage("pretrain", pretrain_rounds, proposals))
        proposals = ()
    if warm_rounds and warm is not None:
        stages.append(Stage("warm", warm_rounds, (*proposals, warm)))
    stages.append(Stage("rank", rounds, (*proposals, energy)))
    return Recipe(method, settings, tuple(stages), **more)


# Push-T on two cores


def pusht_cpu(method: str) -> Recipe:
    """At most 3.3 M parameters; see eval/results for what was tried."""
    common: dict[str, Any] = {"perturbation": (2.0, 1.0), "ema": 0.999, "samples": 8, "rounds_per_block": 50}
    flow = ResidualMLP(width=448, depth=4, context_width=256, context_depth=2, joint_depth=1, conditioning="film")
    if method in ("nf", "diffusion", "diffusion-phi"):
        optimizer = Optimizer(5e-4, warmup=1000)
        settings = {
            "nf": NF(flow, Interpolant(alpha=2.0), FlowSampler(24, 9)),
            "diffusion": Diffusion(flow, EDM(sigma_data=1.0), FlowSampler(24, 9)),
            "diffusion-phi": DiffusionPhi(flow, EDM(sigma_data=1.0), FlowSampler(24, 9)),
        }[method]
        return regression(method, settings, 4000, 20, 256, optimizer, **common)
    energy = ResidualMLP(width=288, depth=4, context_width=256, context_depth=2, joint_depth=1, time_transform="log")
    shared: dict[str, Any] = {
        "energy": energy,
        "proposal": ShallowField(width=640, context_width=256, context_depth=2, joint_depth=3),
        "interpolant": Interpolant(alpha=2.0),
        "negatives": 15,
        "cells": 16,
        "score_weight": 0.1,
        "sampler": EnergySampler(flow_steps=16),
    }
    settings = {
        "ibc": IBC(**{**shared, "score_weight": 0.0}),
        "r-nce": RNCE(**shared),
        "i-r-nce": IRNCE(**shared, times=2, final_times=1),
    }[method]
    return ranking(
        method,
        settings,
        rounds=12_000,
        proposal=Phase("proposal", "match", Optimizer(1e-3, warmup=500), 2, 256),
        energy=Phase("energy", "rank", Optimizer(3e-4, warmup=500), 1, 48),
        warm_rounds=0 if method == "ibc" else 3_000,
        warm=Phase("energy", "score", Optimizer(1e-3, warmup=500, final_fraction=0.1), 2, 256),
        **common,
    )


# Path planning on two cores


def path_planning_cpu(method: str) -> Recipe:
    """At most 500 k parameters: every waypoint looks at every obstacle, in mirrored scenes too."""
    common: dict[str, Any] = {
        "perturbation": (0.004, 0.002),  # a step is about 0.03
        "reflect": True,
        "ema": 0.999,
        "samples": 48,
        "rounds_per_block": 50,
    }
    flow = PairNetwork(width=160, depth=3, context_width=128, pair_width=16, pair_depth=2)
    if method in ("nf", "diffusion", "diffusion-phi"):
        settings = {
            "nf": NF(flow, Interpolant(alpha=2.0), FlowSampler(16, 7)),
            "diffusion": Diffusion(flow, EDM(sigma_data=1.0), FlowSampler(24, 9)),
            "diffusion-phi": DiffusionPhi(flow, EDM(sigma_data=1.0), FlowSampler(24, 9)),
        }[method]
        return regression(method, settings, 4000, 20, 256, Optimizer(1e-3, warmup=1000), **common)
    shared: dict[str, Any] = {
        "energy": PairNetwork(width=128, depth=2, context_width=96, pair_width=16, pair_depth=1, time_transform="log"),
        "proposal": ShallowField(width=256, context_width=128, context_depth=2, joint_depth=1),
        "interpolant": Interpolant(alpha=2.0),
        "negatives": 15,
        "cells": 16,
        "score_weight": 0.1,
        "sampler": EnergySampler(flow_steps=16),
    }
    settings = {
        "ibc": IBC(**{**shared, "score_weight": 0.0}),
        "r-nce": RNCE(**shared),
        "i-r-nce": IRNCE(**shared, times=2, final_times=1),
    }[method]
    return ranking(
        method,
        settings,
        rounds=12_000,
        proposal=Phase("proposal", "match", Optimizer(1e-3, warmup=500), 2, 256),
        energy=Phase("energy", "rank", Optimizer(5e-4, warmup=500), 1, 64),
        warm_rounds=0 if method == "ibc" else 3_000,
        warm=Phase("energy", "score", Optimizer(1e-3, warmup=500, final_fraction=0.1), 2, 256),
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
    three_stages = dataclasses.replace(chain, start_time=0.5, sde_steps=250, mcmc_steps=250, sde_noise=0.05)
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
