"""`rnce bench harness`."""

from pathlib import Path


def harness(json: Path | None = None) -> None:
    """Time the evaluation harness with policies that cost nothing, against the bare environments.

    Example: rnce bench harness

    Args:
        json: File for the figures.
    """
    from rnce.eval import bench_harness
    from rnce.eval.files import check_writable, write_json

    if json:
        check_writable(json)
    figures = bench_harness.measure()
    print(bench_harness.report(figures))
    if json:
        write_json(json, figures)
