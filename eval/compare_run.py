"""What `rnce compare` does: results from files or from evaluations, their difference, its picture."""

from pathlib import Path
from typing import Any

from rnce.eval.compare import compare, comparison_table, label, load_results
from rnce.eval.files import check_writable, write_json
from rnce.eval.metrics import main_metric
from rnce.eval.plots import paired, save
from rnce.eval.run import evaluate_and_write


def compare_and_write(a: str, b: str, picture: Path | None = None, json: Path | None = None, **options: Any) -> str:
    """Compare two result files or policies; returns the table. `options` are those of `evaluate_and_write`."""
    for output in filter(None, (picture, json)):
        check_writable(output)
    first, second = _result(a, options), _result(b, options)
    differences = compare(first, second)
    if not differences:
        raise ValueError(f"{a} and {b} have no metric in common")
    lines = [comparison_table(first, second, differences)]
    metric = main_metric(first["env"])
    if picture and metric in differences:
        lines += [f"written: {path}" for path in save(paired(first, second, metric, differences[metric]), picture)]
    if json:
        document = {
            name: {"difference": d.mean, "ci95": list(d.interval), "p": d.p_value} for name, d in differences.items()
        }
        write_json(json, {"a": label(first), "b": label(second), "env": first["env"], "differences": document})
    return "\n".join(lines)


def _result(name: str, options: dict[str, Any]) -> dict:
    if name.endswith(".json"):
        results = load_results(Path(name))
        if len(results) != 1:
            raise ValueError(f"{name} holds {len(results)} evaluations ({', '.join(map(label, results))}); compare one")
        return results[0]
    return evaluate_and_write(name, **options).results[0].to_json()
