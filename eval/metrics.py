"""The summary of many episodes: means with intervals, per seed and by mode."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from rnce.eval.settings import Episode
from rnce.eval.statistics import Interval, bootstrap_interval, clopper_pearson, normal_interval

BINARY = {"success", "collision"}  # these also get a Clopper–Pearson interval
LOWER_IS_BETTER = {
    *("collision", "cost", "cost_goal", "cost_obstacle", "cost_smoothness", "goal_distance", "length"),
    "steps_to_success",
}
# What tasks are ranked by.
MAIN_METRIC = {
    **dict.fromkeys(("PushT-v0", "PushTEasy-v0", "PushTPixels-v0"), "score"),
    "PathPlanning-v0": "collision",
}
DEFAULT_METRIC = "return"


def main_metric(env_id: str) -> str:
    """The figure a task is ranked by."""
    return MAIN_METRIC.get(env_id, DEFAULT_METRIC)


def summarize(episodes: Sequence[Episode]) -> dict[str, dict]:
    """Mean and intervals of every metric over the episodes that did not fail.

    `ci95` is the paper's (all episodes independent), `ci95_environments` the honest one (whole environments drawn
    again), `ci95_clopper_pearson` the exact binomial one for rates.
    """
    done = [episode for episode in episodes if episode.error is None]
    names = dict.fromkeys(name for episode in done for name in episode.metrics)
    return {name: _summary(name, [e for e in done if name in e.metrics]) for name in names}


def _summary(name: str, episodes: Sequence[Episode]) -> dict:
    values = np.array([episode.metrics[name] for episode in episodes])
    seeds = np.array([episode.seed for episode in episodes])
    figures: dict[str, Any] = {
        "mean": float(values.mean()),
        "ci95": _json(normal_interval(values)),
        "ci95_environments": _json(bootstrap_interval(values, seeds)),
    }
    if name in BINARY:
        figures["ci95_clopper_pearson"] = _json(clopper_pearson(int(values.sum()), len(values)))
    return figures


def _json(interval: Interval) -> list[float | None]:
    """An unbounded interval has no number in JSON."""
    return [bound if np.isfinite(bound) else None for bound in interval]


def per_seed(episodes: Sequence[Episode]) -> dict[str, list[float | None]]:
    """Mean of every metric for each seed, in order: what a paired comparison and the per-scene plot need."""
    done = [episode for episode in episodes if episode.error is None]
    seeds = sorted({episode.seed for episode in episodes})
    names = dict.fromkeys(name for episode in done for name in episode.metrics)
    table: dict[str, list[float | None]] = {"seed": [float(seed) for seed in seeds]}
    grouped: dict[int, list[Episode]] = {seed: [] for seed in seeds}
    for episode in done:
        grouped[episode.seed].append(episode)
    for name in names:
        values = [[e.metrics[name] for e in grouped[seed] if name in e.metrics] for seed in seeds]
        table[name] = [float(np.mean(v)) if v else None for v in values]
    return table


def modes_per_seed(episodes: Sequence[Episode]) -> dict[int, Counter[str]]:
    """How often each mode was taken on each seed, collision-free episodes only: a way through a wall is no way."""
    modes: dict[int, Counter[str]] = {}
    for episode in episodes:
        if episode.mode is not None and not episode.metrics.get("collision"):
            modes.setdefault(episode.seed, Counter())[episode.mode] += 1
    return modes
