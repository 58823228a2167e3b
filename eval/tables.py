"""Results as text: aligned for a terminal, or as Markdown for a page."""

from collections.abc import Sequence

from rnce.eval.metrics import LOWER_IS_BETTER
from rnce.eval.statistics import Difference


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned with spaces, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]).rstrip()
        for row in (header, *rows)
    ]
    return "\n".join([lines[0], "  ".join("─" * width for width in widths), *lines[1:]])


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figure(summary: dict, interval: str = "ci95") -> str:
    """`mean ± half width`, or the mean alone where there is no interval."""
    low, high = summary.get(interval) or (None, None)
    if low is None or high is None:
        return f"{summary['mean']:.3f}"
    return f"{summary['mean']:.3f} ± {(high - low) / 2:.3f}"


def difference_text(difference: Difference | None) -> str:
    """A paired difference with its interval."""
    if difference is None:
        return "—"
    return f"{difference.mean:+.3f} [{difference.interval.low:+.3f}, {difference.interval.high:+.3f}]"


def bounds(summary: dict, interval: str) -> str:
    """`[low, high]`, empty where there is none."""
    low, high = summary.get(interval) or (None, None)
    return "" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"


def result_table(result: dict) -> str:
    """One evaluation: every metric with its intervals, as `rnce eval` prints it."""
    metrics = result["metrics"]
    if not metrics:
        return "no episode was finished"
    rows = [
        [
            name + (" ↓" if name in LOWER_IS_BETTER else ""),
            f"{summary['mean']:.4f}",
            bounds(summary, "ci95"),
            bounds(summary, "ci95_environments"),
            bounds(summary, "ci95_clopper_pearson"),
        ]
        for name, summary in metrics.items()
    ]
    return table(["metric", "mean", "95 % (paper's)", "95 % (environments)", "95 % (Clopper–Pearson)"], rows)


def headline(result: dict) -> str:
    """What was evaluated, in a line."""
    parts = [
        result["policy"],
        result["env"],
        f"seeds {result['seeds'][0]}:{result['seeds'][1]} × {result['rollouts']}",
        f"{result['episodes']} episodes",
    ]
    optional = {
        "samples": "ℓ = {}",
        "sampler": "sampler {}",
        "ranker": "ranked by {}",
        "lead": "planned {} steps ahead",
        "params": "{:,} parameters",
    }
    parts += [text.format(result[key]) for key, text in optional.items() if result.get(key) is not None]
    return " · ".join(parts)


def planning_line(result: dict) -> str:
    """Planning time, where it was measured."""
    plan = result["plan_ms"]
    if plan["p50"] is None:
        return "planning time: not measured"
    environments = "one environment" if plan["environments"] == 1 else f"{plan['environments']} environments at once"
    line = f"plan for {environments}: {plan['p50']:.2f} ms median, {plan['p95']:.2f} ms 95th percentile"
    if "deadline" not in plan:
        return line
    late = f"{plan['late']:.0%} LATE" if plan["late"] else "none late"
    return f"{line}; {late} (due after {plan['deadline']:.0f} ms)"


def failures(result: dict, most: int = 5) -> list[str]:
    """The first failed episodes, with their seeds and messages."""
    failed = result["failed"]
    lines = [f"failed: seed {e['seed']} rollout {e['rollout']}: {e['error']}" for e in failed[:most]]
    return lines + ([f"… and {len(failed) - most} more failed episodes"] if len(failed) > most else [])


def summary_text(result: dict) -> str:
    """All that `rnce eval` prints of one evaluation."""
    lines = [headline(result), result_table(result), planning_line(result), *failures(result)]
    modes = result.get("modes_per_seed")
    if modes:
        several = sum(len(counts) for counts in modes.values()) / len(modes)
        lines.append(f"winding classes reached without collision: {several:.2f} per scene over {len(modes)} scenes")
    if result["interrupted"]:
        lines.append("interrupted: these are the episodes finished so far")
    return "\n".join(lines)
