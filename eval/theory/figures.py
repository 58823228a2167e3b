"""A picture of each claim, drawn from its numbers alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure

from rnce.eval.plots import COLORS, save

GREY = "#888888"


def draw(name: str, part: dict[str, Any], folder: Path) -> list[Path]:
    """Write the picture of a part as PNG and PDF."""
    return save(PICTURES[name](part), folder / name)


def ibc_bias(part: dict[str, Any]) -> Figure:
    """Landscapes shifted to a maximum of zero, as in the paper; bands are 95 % intervals of the sampled objective."""
    counts = sorted({row["K"] for row in part["landscapes"]})
    figure, panels = _panels(len(counts), sharey=True)
    mu = np.array(part["mu"])
    for axes, count in zip(panels, counts):
        axes.plot(mu, part["mle"], color=COLORS[7], ls="--", label="maximum likelihood")
        for row in (row for row in part["landscapes"] if row["K"] == count):
            color = COLORS[0] if row["method"] == "r-nce" else COLORS[1]
            top = max(row["objective"])
            sampled, error = np.array(row["sampled"]) - top, 1.96 * np.array(row["standard_error"])
            axes.fill_between(mu, sampled - error, sampled + error, color=color, alpha=0.3, lw=0)
            label = f"{row['method'].upper()}, peak at {row['peak']:.3f}"
            axes.plot(mu, np.array(row["objective"]) - top, color=color, lw=1.2, label=label)
            axes.axvline(row["peak"], color=color, lw=0.8, ls=":")
        axes.set(title=f"K = {count}", xlabel="μ of the energy", ylim=(-2.0, 0.1))
        axes.legend(loc="lower center", fontsize=7)
    panels[0].set_ylabel("objective − its maximum")
    return figure


def density_ratio(part: dict[str, Any]) -> Figure:
    """Energies against the two candidates for their optimum."""
    figure, panels = _panels(2, sharey=True)
    for axes, (method, title) in zip(panels, {"ibc": "IBC", "r-nce": "R-NCE"}.items()):
        row = next(row for row in part["rows"] if row["method"] == method)
        energies = np.array(part["energies"][method])
        for i, (key, label) in enumerate((("log_ratio", "log p/q"), ("log_density", "log p"))):
            text = f"{label}: RMS {row['rms_from_' + key]:.2f} nats"
            axes.scatter(part[key], energies, s=5, color=COLORS[i], alpha=0.7, lw=0, label=text)
        axes.axline((0, 0), slope=1, color=GREY, lw=0.8)
        axes.set(title=f"energy of {title}", xlabel="log p/q or log p at the data, centred", xlim=(-3, 3), ylim=(-3, 3))
        axes.legend(loc="upper left", fontsize=7)
    panels[0].set_ylabel("energy, centred")
    return figure


def any_proposal(part: dict[str, Any]) -> Figure:
    """Estimates around the truth, and how their error falls with n."""
    figure, (left, right) = _panels(2)
    n = np.array([float(key) for key in part["rows"][0]["rmse_of_mean_by_n"]])
    order = sorted(range(len(part["rows"])), key=lambda i: -part["rows"][i]["variance_over_mle"])  # wide clouds below
    for i in order:
        row = part["rows"][i]
        left.scatter(row["means"], row["stds"], s=5, color=COLORS[i], lw=0, label=row["proposal"])
        right.loglog(n, list(row["rmse_of_mean_by_n"].values()), "o-", color=COLORS[i], ms=4)
        right.loglog(n, np.sqrt(row["asymptotic_variance_of_mean"] / n), ls="--", color=COLORS[i], lw=0.8)
    left.plot(part["truth"]["mean"], part["truth"]["std"], "+", color=COLORS[7], ms=12)
    left.set(
        xlabel="estimated mean",
        ylabel="estimated standard deviation",
        title=f"n = {part['n']}, K = {part['negatives']}",
    )
    left.legend(loc="upper left", fontsize=7)
    right.set(xlabel="n", ylabel="RMS error of the mean", title="dashed: from −∇²L⁻¹")
    right.minorticks_off()
    right.set_yticks([0.02, 0.05, 0.1, 0.2], ["0.02", "0.05", "0.1", "0.2"])
    right.set_xticks(n, [f"{value:g}" for value in n])
    return figure


def normality(part: dict[str, Any]) -> Figure:
    """Variance against K, and quantiles of n·KL."""
    figure, (left, right) = _panels(2)
    rows = part["rows"]
    counts = np.array([row["K"] for row in rows])
    k = np.geomspace(0.9, 20, 50)
    left.plot(k, 1 + 1 / k, color=GREY, lw=1, label="1 + 1/K")
    left.fill_between(k, 0.9 * (1 + 1 / k), 1.1 * (1 + 1 / k), color=GREY, alpha=0.15, lw=0, label="± 10 %")
    left.plot(
        counts, [row["variance_over_inverse_information"] for row in rows], "o", color=COLORS[0], label="measured"
    )
    redraws = part["redraws"]
    label = f"{redraws['draws_for_each_datum']} draws of the negatives"
    left.plot([redraws["K"]], [redraws["variance_over_inverse_information"]], "s", color=COLORS[1], label=label)
    left.set(xscale="log", xlabel="K", ylabel="n·Cov(θ̂) over I⁻¹, mean eigenvalue", title=f"n = {part['n']}")
    left.set_xticks(counts, [str(count) for count in counts])
    left.minorticks_off()
    left.legend(fontsize=7)
    for i, row in enumerate(rows):
        label = f"K = {row['K']}, KS {row['ks_statistic']:.3f}"
        right.plot(row["kl_quantiles_paper"], row["kl_quantiles"], ".", ms=3, color=COLORS[i], label=label)
    right.axline((0, 0), slope=1, color=GREY, lw=0.8)
    right.set(xlabel="quantiles of ½(1 + 1/K)·χ²(2)", ylabel="quantiles of n·KL")
    right.legend(fontsize=7)
    return figure


def fisher(part: dict[str, Any]) -> Figure:
    """tr(I⁻¹J) from estimates, by quadrature and as stated."""
    figure, (axes,) = _panels(1)
    rows, x = part["rows"], np.arange(len(part["rows"]))
    axes.bar(x - 0.27, [row["paper"] for row in rows], 0.26, color=COLORS[6], label="paper: 3/σ² + 4μ²/σ⁴")
    axes.bar(x, [row["trace"] for row in rows], 0.26, color=COLORS[0], label="quadrature: 3/σ²")
    simulated = np.array([row["simulated"] for row in rows])
    half = np.array([(row["simulated_ci95"][1] - row["simulated_ci95"][0]) / 2 for row in rows])
    axes.bar(x + 0.27, simulated, 0.26, yerr=half, color=COLORS[1], label="estimates: n·FI / (1 + 1/K)")
    axes.set_xticks(x, [f"N({row['mean']:g}, {row['std']:g}²)" for row in rows])
    axes.set_ylabel("tr(I⁻¹J)")
    axes.legend(fontsize=7, loc="upper left")
    return figure


def saddle(part: dict[str, Any]) -> Figure:
    """The objective over both means, and its two sections through the saddle."""
    figure, (left, right) = _panels(2)
    means, values = np.array(part["means"]), np.array(part["objective"])
    levels = [-1.6, -0.8, -0.4, -0.2, -0.1, -0.03, 0.03, 0.1, 0.2, 0.4, 0.8, 1.2]
    shown = left.contourf(
        means,
        means,
        values - part["paper"],
        levels,
        cmap="RdBu_r",
        norm=SymLogNorm(0.1, vmin=-1.6, vmax=1.6),
        extend="both",
    )
    left.plot(1.0, 1.0, "k+", ms=10)
    left.set(xlabel="mean of the proposal", ylabel="mean of the energy", title=f"L + log(K + 1), K = {part['K']}")
    figure.colorbar(shown, ax=left, ticks=levels).ax.tick_params(labelsize=7)
    middle = len(means) // 2
    right.plot(means, values[middle], color=COLORS[0], label="true energy, over proposals")
    right.plot(means, values[:, middle], color=COLORS[1], label="true proposal, over energies")
    _saddle_line(right, part["paper"])
    right.set(xlabel="mean of the other", ylabel="L")
    right.legend(fontsize=7, loc="upper center")
    return figure


def adversarial(part: dict[str, Any]) -> Figure:
    """Objectives while training, one curve for each seed; final coefficients against cost."""
    figure, (left, right) = _panels(2)
    for i, row in enumerate(part["rows"]):
        for j, curve in enumerate(row["curves"]):
            label = row["training"] if j == 0 else None
            left.plot(
                curve["round"], curve["objective"], color=COLORS[i], lw=(2.4, 0.9)[i], label=label
            )  # they coincide
        right.plot([row["ms_per_round"]] * len(row["bc"]), row["bc"], "o", color=COLORS[i], label=row["training"])
    _saddle_line(left, part["saddle"])
    left.set(xlabel="round", ylabel="R-NCE objective")
    left.legend(fontsize=7)
    least = min(coefficient for row in part["rows"] for coefficient in row["bc"])
    right.set(xlabel="ms a round", ylabel="least BC over contexts", xlim=(0, None), ylim=(least - 0.02, 1.0))
    right.legend(fontsize=7)
    return figure


def profiles(part: dict[str, Any]) -> Figure:
    """The objective of every profile, with the saddle value; the warm start beside pure ranking."""
    figure, (left, right) = _panels(2, sharey=True)
    figure.set_figheight(3.9)  # with room for a legend below: curves fill the panels
    rows = {row["profile"]: row for row in part["rows"]}
    colors = dict(zip(rows, COLORS))
    warm, pure = "score warm start", "pre-trained, balanced"
    for axes, names in ((left, [name for name in rows if name != warm]), (right, [pure, warm])):
        for name in names:
            axes.plot(rows[name]["round"], rows[name]["objective"], color=colors[name], lw=1.2, label=name)
        _saddle_line(axes, part["saddle"])
        axes.set_xlabel("round")
    right.axvspan(0, rows[warm]["round"][0], color=colors[warm], alpha=0.08, lw=0)
    left.set_ylabel("R-NCE objective")
    left.set_ylim(bottom=max(left.get_ylim()[0], 3 * part["saddle"]), top=0.1)
    labelled = {label: line for axes in (left, right) for line, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(list(labelled.values()), list(labelled), loc="outside lower center", ncols=4, fontsize=7)
    return figure


def likelihood(part: dict[str, Any]) -> Figure:
    """Errors on two time scales; Hutchinson's errors beside the differences that a ranking has to see."""
    figure, (left, middle, right) = _panels(3)
    counts = [row["divergences"] for row in part["coarse"]]
    for i, (key, label) in enumerate(
        {"two_time_scales": "Gauss's points (this package)", "trapezoid": "trapezoid (paper)"}.items()
    ):
        left.loglog(counts, [row[key]["rms_error"] for row in part["coarse"]], "o-", ms=3, color=COLORS[i], label=label)
    left.axvline(64, color=GREY, lw=0.8, ls=":")
    left.set(
        xlabel="divergence times", ylabel="RMS error of log p, nats", title=f"exact divergence, {part['steps']} steps"
    )
    left.legend(fontsize=7)
    probes = [row["probes"] for row in part["hutchinson"]]
    enough = next(row for row in part["coarse"] if row["divergences"] == part["hutchinson_divergences"])[
        "two_time_scales"
    ]
    for axes, key in ((middle, "rms_error"), (right, "best_picked")):
        for i, (kind, label) in enumerate({"kept": "one ε for a path", "fresh": "new ε at every time"}.items()):
            values = [row[kind][key] for row in part["hutchinson"]]
            axes.plot(probes, values, "o-", ms=3, color=COLORS[i], label=label)
        axes.axhline(enough[key], color=COLORS[2], lw=1, label="exact divergence")
        axes.axvline(part["dim"], color=GREY, lw=0.8, ls=":")
        axes.set(xscale="log", xlabel="Hutchinson probes (dotted: dim)")
    middle.axhline(part["spread_of_log_prob"], color=COLORS[7], lw=1, ls="--", label="spread of log p itself")
    middle.set(yscale="log", ylabel="RMS error of log p, nats", ylim=(0.1 * enough["rms_error"], None))
    middle.legend(fontsize=7, loc="lower left")
    right.set(ylabel="best of 8 picked", ylim=(0, 1.05))
    return figure


def _panels(count: int, **options: Any) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(4.2 * count, 3.3), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(1, count, **options)))
    for axis in axes:
        axis.tick_params(labelsize=8)
    return figure, axes


def _saddle_line(axes: Axes, value: float) -> None:
    axes.axhline(value, color=GREY, lw=1, ls="--", label="−log(K + 1)")


PICTURES: dict[str, Callable[[dict[str, Any]], Figure]] = {
    "ibc-bias": ibc_bias,
    "density-ratio": density_ratio,
    "any-proposal": any_proposal,
    "normality": normality,
    "fisher": fisher,
    "saddle": saddle,
    "adversarial": adversarial,
    "profiles-pinwheel": profiles,
    "profiles-path-planning": profiles,
    "likelihood": likelihood,
}
