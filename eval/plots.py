"""Figures of results: bars per scene, paired differences, what ranking brings. Each function returns a Figure."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rnce.eval.compare import label
from rnce.eval.files import replacing
from rnce.eval.metrics import BINARY
from rnce.eval.statistics import Difference, clopper_pearson

COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#222222")
_DPI = 150


def save(figure: Figure, path: Path) -> list[Path]:
    """Write the figure as PNG and PDF beside each other; `path` without or with either suffix."""
    stem = path.with_suffix("") if path.suffix in (".png", ".pdf") else path
    written = []
    for suffix in (".png", ".pdf"):
        target = stem.with_name(stem.name + suffix)
        with replacing(target) as temporary:
            figure.savefig(temporary, dpi=_DPI, bbox_inches="tight")
        written.append(target)
    return written


def per_scene_bars(results: Sequence[dict], metric: str = "collision") -> Figure:
    """A bar per scene and policy. Rates carry the scene's Clopper–Pearson interval, as in the paper."""
    scenes = [int(seed) for seed in results[0]["per_seed"]["seed"]]
    rows = -(-len(scenes) // 25)
    figure = Figure(figsize=(max(6.0, 0.5 * min(len(scenes), 25) + 2), 2.6 * rows + 0.4), layout="constrained")
    width = 0.8 / len(results)
    for row, axes in enumerate(np.atleast_1d(figure.subplots(rows, 1))):
        shown = slice(25 * row, 25 * (row + 1))
        x = np.arange(len(scenes[shown]))
        for i, result in enumerate(results):
            values = np.array([np.nan if v is None else v for v in result["per_seed"][metric][shown]], dtype=float)
            errors = _binomial_errors(values, result["rollouts"]) if metric in BINARY else None
            axes.bar(
                x + (i - (len(results) - 1) / 2) * width,
                values,
                width,
                yerr=errors,
                color=COLORS[i % len(COLORS)],
                error_kw={"lw": 0.7},
                label=f"{label(result)}: {_mean_text(result, metric)}",
            )
        axes.set_xticks(x, [str(scene) for scene in scenes[shown]], rotation=90, fontsize=6)
        axes.set_ylabel(metric.replace("_", " "))
        axes.margins(x=0.01)
        if row == 0:
            axes.legend(fontsize=7, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))  # the bars are full height
    return figure


def _binomial_errors(rates: np.ndarray, rollouts: int) -> np.ndarray:
    intervals = [
        (np.nan, np.nan) if np.isnan(rate) else clopper_pearson(round(rate * rollouts), rollouts) for rate in rates
    ]
    low, high = np.array(intervals).T
    return np.maximum(np.stack([rates - low, high - rates]), 0)


def _mean_text(result: dict, metric: str) -> str:
    summary = result["metrics"][metric]
    low, high = summary["ci95"]
    return f"{summary['mean']:.3f}" + ("" if low is None else f" ± {(high - low) / 2:.3f}")


def paired(a: dict, b: dict, metric: str, difference: Difference) -> Figure:
    """Left: each environment as a point (A against B). Right: the sorted differences with their mean and interval."""
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    values_b = dict(zip(b["per_seed"]["seed"], b["per_seed"][metric]))
    pairs = [
        (x, values_b[seed])
        for seed, x in zip(a["per_seed"]["seed"], a["per_seed"][metric])
        if x is not None and values_b.get(seed) is not None
    ]
    x, y = np.array(pairs, dtype=float).T
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    left.plot([low, high], [low, high], color="#bbbbbb", lw=1)
    left.scatter(x, y, s=14, alpha=0.6, color=COLORS[0])
    left.set(xlabel=f"A: {label(a)}", ylabel=f"B: {label(b)}", title=metric.replace("_", " "))
    ordered = np.sort(difference.per_environment)
    right.bar(np.arange(len(ordered)), ordered, width=1.0, color=np.where(ordered < 0, COLORS[1], COLORS[0]))
    right.axhspan(*difference.interval, color="#222222", alpha=0.15)
    right.axhline(difference.mean, color="#222222", lw=1)
    right.set(xlabel="environments, sorted", title=f"A − B = {difference.mean:+.4f}, p = {difference.p_value:.3g}")
    return figure


def curves(series: Mapping[str, Sequence[tuple[float, dict]]], xlabel: str, metric: str, logx: bool = True) -> Figure:
    """Mean and 95 % band of a metric against a number, one curve per name: points are (x, result)."""
    figure = Figure(figsize=(5, 3.6), layout="constrained")
    axes = figure.subplots()
    for i, (name, points) in enumerate(series.items()):
        points = sorted(points, key=lambda point: point[0])
        x = [point[0] for point in points]
        summaries = [point[1]["metrics"][metric] for point in points]
        mean = np.array([summary["mean"] for summary in summaries])
        bounds = np.array([[np.nan if b is None else b for b in summary["ci95_environments"]] for summary in summaries])
        color = COLORS[i % len(COLORS)]
        axes.plot(x, mean, "o-", color=color, label=name, ms=4)
        axes.fill_between(x, bounds[:, 0], bounds[:, 1], color=color, alpha=0.15, lw=0)
    if logx:
        axes.set_xscale("log")
        numbers = sorted({x for points in series.values() for x, _ in points})
        axes.set_xticks(numbers, [f"{x:g}" for x in numbers])
        axes.set_xticks([], minor=True)
    axes.set(xlabel=xlabel, ylabel=metric.replace("_", " "))
    axes.legend(fontsize=7)
    return figure


def ranking_curves(results: Sequence[dict], metric: str) -> Figure:
    """What ranking brings: the metric against the number of candidates ℓ, per policy."""
    series: dict[str, list[tuple[float, dict]]] = {}
    for result in results:
        series.setdefault(result["policy"], []).append((result["samples"] or 1, result))
    return curves(series, "candidates ranked per plan, ℓ", metric)
