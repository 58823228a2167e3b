"""Two evaluations on the same environments, paired: the difference of each figure with its interval."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rnce.eval.files import read_json
from rnce.eval.metrics import LOWER_IS_BETTER
from rnce.eval.statistics import Difference, paired_difference
from rnce.eval.tables import table


def load_results(path: Path) -> list[dict]:
    """The evaluations in a file written by `rnce eval` or `rnce bench`: one, a list, or under "results"."""
    document = read_json(path)
    results = document.get("results", [document]) if isinstance(document, dict) else document
    for result in results:
        if not isinstance(result, dict) or not {"policy", "env", "metrics", "per_seed"} <= set(result):
            raise ValueError(f"{path} does not hold a result of rnce eval (policy, env, metrics, per_seed)")
    return results


def compare(a: dict, b: dict) -> dict[str, Difference]:
    """A minus B for every metric both have, over the seeds both have."""
    if a["env"] != b["env"]:
        raise ValueError(f"cannot compare results of {a['env']} and {b['env']}")
    seeds = sorted(set(a["per_seed"]["seed"]) & set(b["per_seed"]["seed"]))
    if len(seeds) < 2:
        raise ValueError(f"A covers seeds {a['seeds']} and B {b['seeds']}; a comparison needs two or more in common")
    differences = {}
    for name in a["metrics"]:
        if name in b["metrics"]:
            pairs = [(x, y) for x, y in zip(_column(a, name, seeds), _column(b, name, seeds)) if None not in (x, y)]
            if len(pairs) > 1:
                differences[name] = paired_difference(*np.array(pairs, dtype=np.float64).T)
    return differences


def _column(result: dict, name: str, seeds: Sequence[float]) -> list[float | None]:
    values = dict(zip(result["per_seed"]["seed"], result["per_seed"][name]))
    return [values[seed] for seed in seeds]


def verdict(name: str, difference: Difference) -> str:
    """Who is better, where the interval leaves no doubt."""
    low, high = difference.interval
    if low <= 0 <= high:
        return "no clear difference"
    return "A is better" if (difference.mean < 0) == (name in LOWER_IS_BETTER) else "B is better"


def comparison_table(a: dict, b: dict, differences: dict[str, Difference]) -> str:
    """The comparison as `rnce compare` prints it."""
    rows = [
        [
            name,
            f"{a['metrics'][name]['mean']:.4f}",
            f"{b['metrics'][name]['mean']:.4f}",
            f"{difference.mean:+.4f}",
            f"[{difference.interval.low:+.4f}, {difference.interval.high:+.4f}]",
            f"{difference.p_value:.4f}",
            verdict(name, difference),
        ]
        for name, difference in differences.items()
    ]
    names = [f"{letter}: {label(result)}" for letter, result in (("A", a), ("B", b))]
    n_seeds = max(len(difference.per_environment) for difference in differences.values())
    header = ["metric", "A", "B", "A − B", "95 % (environments)", "p", ""]
    return "\n".join([*names, f"paired over {n_seeds} environments", table(header, rows)])


def label(result: dict) -> str:
    """A short name for a result in a legend."""
    samples = "" if result.get("samples") is None else f" ℓ={result['samples']}"
    sampler = "" if result.get("sampler") is None else f" {result['sampler']}"
    ranker = "" if result.get("ranker") is None else f" ranked by {result['ranker']}"
    lead = "" if result.get("lead") is None else f" planned {result['lead']} steps ahead"
    return f"{result['policy']}{samples}{sampler}{ranker}{lead}"
