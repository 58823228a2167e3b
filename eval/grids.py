"""Hyper-parameter grids: the paper's, as data, and how a point of a grid changes a training recipe.

A key is a path into the recipe: `method.…` is a field of the method's settings, `optimizer.NETWORK.…` and
`phase.NETWORK.…` belong to the phases that train a network, `rounds` is the length of training, `perturbation` the
noise on the data; `sampler.…` needs no training at all. Keys joined by + change together, to one value or to one each.
"""

import dataclasses
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rnce.policies.recipe import scaled

Grid = Mapping[str, Sequence[Any]]
Point = dict[str, Any]

SAMPLER = "sampler."
_RATES, _DECAYS = (1e-3, 5e-4), (0.0, 1e-4)


def _regression(**more: Sequence[Any]) -> Grid:
    return {"optimizer.field.learning_rate": _RATES, "optimizer.field.weight_decay": _DECAYS} | {
        key.replace("__", "."): values for key, values in more.items()
    }


_EDM = {"method__edm__sigma_data": (0.5, 1.0), "method__edm__sigma_max": (60.0, 80.0), "method__edm__rho": (7.0, 9.0)}
_TOKENS = {"method__field__width": (64, 80), "method__field__depth": (3, 4, 5)}
_PATH_ENERGY: Grid = {
    "method.energy.depth+method.proposal.depth": (3, 4, 5),
    "method.proposal.width": (64, 128, 256),
    "optimizer.energy.weight_decay": _DECAYS,
    "optimizer.proposal.weight_decay": _DECAYS,
    "phase.proposal.steps_per_round": (2, 4),
    "sampler.mcmc_steps": (500, 750),
}
_PUSHT: Grid = {
    "method.field.depth": (4, 6, 8),
    "optimizer.field.learning_rate": (1e-4, 2e-4, 5e-4),
    "perturbation": (0.0, 0.01),
}
_SYNTHETIC: dict[str, Grid] = {
    "nf": _regression(method__field__width=(64, 128), method__interpolant__alpha=(2.0, 3.0, 4.0)),
    "diffusion": _regression(method__field__width=(64, 128), **_EDM),
    "diffusion-phi": _regression(method__field__width=(64, 128), **_EDM),
    "ibc": {
        "method.energy.width": (64, 128),
        "optimizer.energy.learning_rate": _RATES,
        "optimizer.energy.weight_decay": _DECAYS,
        "method.negatives": (9, 63, 127, 255),
        "sampler.mcmc_steps": (250, 500, 750, 1000),
        "sampler.step_size": _RATES,
    },
    "r-nce": {
        "rounds+phase.proposal.steps_per_round+phase.energy.steps_per_round": ((4_000, 5, 5), (10_000, 5, 2)),
        "method.proposal.width": (32, 64),
        "optimizer.energy.learning_rate": _RATES,
        "optimizer.energy.weight_decay": _DECAYS,
        "optimizer.proposal.learning_rate": _RATES,
        "optimizer.proposal.weight_decay": _DECAYS,
        "sampler.mcmc_steps": (500, 1000),
        "sampler.step_size": _RATES,
    },
}

# Task and method -> the grid the paper searched (its tables of hyper-parameters).
PAPER_GRIDS: dict[str, Grid] = {
    **{f"{task}/{method}": grid for task in ("pinwheel", "spiral") for method, grid in _SYNTHETIC.items()},
    "path-planning/nf": _regression(**_TOKENS, method__interpolant__alpha=(2.0, 3.0)),
    "path-planning/diffusion": _regression(**_TOKENS, **_EDM),
    "path-planning/diffusion-phi": _regression(**_TOKENS, **_EDM, method__sigma_rel=(0.01, 0.02, 0.03)),
    "path-planning/ibc": _PATH_ENERGY,
    "path-planning/r-nce": _PATH_ENERGY,
    "pusht/nf": _PUSHT,
    "pusht/diffusion": _PUSHT,
    "pusht/diffusion-phi": _PUSHT,
    "pusht/i-r-nce": {
        "method.energy.depth": (6, 8),
        "optimizer.energy.weight_decay": (1e-5, 5e-6, 1e-6),
        "sampler.mcmc_steps": (750, 1000, 1250),
        "sampler.step_size": (5e-4, 1e-3),
        "sampler.start_time": (0.45, 0.5),
    },
}
BUDGETS = {"pinwheel": 22_000, "spiral": 22_000, "path-planning": 500_000, "pusht": 3_300_000}  # parameters, with "~"
BUDGET_SLACK = 1.05


def points(grid: Grid) -> list[Point]:
    """Every combination, in a fixed order."""
    return [dict(zip(grid, values)) for values in itertools.product(*grid.values())]


def chosen_points(grid: Grid, limit: int | None) -> list[Point]:
    """All points, or `limit` of them drawn once and for all."""
    every = points(grid)
    if limit is None or limit >= len(every):
        return every
    return [every[i] for i in sorted(random.Random(0).sample(range(len(every)), limit))]


def split(point: Point) -> tuple[Point, Point]:
    """What changes training, and what changes the sampler only (without its prefix)."""
    training = {key: value for key, value in point.items() if not key.startswith(SAMPLER)}
    return training, {key.removeprefix(SAMPLER): value for key, value in point.items() if key.startswith(SAMPLER)}


def apply(recipe: Any, point: Point) -> Any:
    """The recipe with the training part of a point."""
    single = (pair for key, value in split(point)[0].items() for pair in _together(key, value))
    for key, value in single:
        head, *path = key.split(".")
        if head == "method":
            recipe = dataclasses.replace(recipe, method=_replaced(recipe.method, path, value, key))
        elif head in ("optimizer", "phase"):
            recipe = _in_phases(recipe, head, path, value, key)
        elif head == "rounds":
            recipe = scaled(recipe, value)
        elif head == "perturbation":
            recipe = dataclasses.replace(recipe, perturbation=(value, value / 2))  # annealed to half, as in the paper
        else:
            raise ValueError(f"{key!r} is not a path into a recipe; use method, optimizer, phase, sampler, …")
    return recipe


def _together(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    keys = key.split("+")
    return zip(keys, value if isinstance(value, tuple | list) else [value] * len(keys))


def _in_phases(recipe: Any, head: str, path: Sequence[str], value: Any, key: str) -> Any:
    network, *rest = path
    trained = {phase.trains for stage in recipe.stages for phase in stage.phases}
    if network not in trained:
        raise ValueError(f"{key!r}: no phase trains {network!r}; there are {', '.join(sorted(trained))}")
    inner = ["optimizer", *rest] if head == "optimizer" else rest
    stages = [
        dataclasses.replace(
            stage,
            phases=tuple(_replaced(p, inner, value, key) if p.trains == network else p for p in stage.phases),
        )
        for stage in recipe.stages
    ]
    return dataclasses.replace(recipe, stages=tuple(stages))


def _replaced(settings: Any, path: Sequence[str], value: Any, key: str) -> Any:
    """A copy of nested dataclasses with one field changed."""
    name, *rest = path
    known = {field.name for field in dataclasses.fields(settings)}
    if name not in known:
        raise ValueError(f"{key!r}: {type(settings).__name__} has no {name!r}; it has {', '.join(sorted(known))}")
    changed = _replaced(getattr(settings, name), rest, value, key) if rest else value
    return dataclasses.replace(settings, **{name: changed})


def parse_grid(words: Sequence[str]) -> Grid:
    """`method.field.width=64,128` and the like."""
    return dict(_parse(word) for word in words)


def _parse(word: str) -> tuple[str, list[Any]]:
    key, equals, values = word.partition("=")
    if not equals or not values:
        raise ValueError(f"--grid must be KEY=VALUE,VALUE…, such as method.field.width=64,128, got {word!r}")
    return key, list(map(_value, values.split(",")))


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def names(point: Point) -> Iterator[str]:
    """The point in words."""
    for key, value in point.items():
        yield f"{key}={value:g}" if isinstance(value, int | float) else f"{key}={value}"
