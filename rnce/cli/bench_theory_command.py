"""`rnce bench theory`."""

from pathlib import Path


def bench_theory(
    out: Path = Path("eval/results"),
    only: tuple[str, ...] = (),
    data: Path | None = None,
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Compute the paper's claims: bias of IBC, consistency, normality, the saddle, training profiles, likelihoods.

    Example: rnce bench theory --only ibc-bias saddle

    Args:
        out: Where the numbers (theory.json) and the pictures (theory/) go.
        only: Parts to compute; the others stay as they are in theory.json.
        data: Path-planning demonstrations; without them a few scenes are planned.
        workers: Parts at a time, one core each.
        json: A second copy of the numbers.
    """
    from rnce.eval.files import check_writable, write_json
    from rnce.eval.theory import bench
    from rnce.eval.theory.statements import text

    unknown = [name for name in only if name not in bench.PARTS]
    if unknown:
        raise ValueError(f"only={unknown[0]!r}: use any of {', '.join(bench.PARTS)}.")
    if workers < 1:
        raise ValueError(f"workers={workers}: use 1 or more.")
    if json is not None:
        check_writable(json)
    outcome = bench.bench(only or tuple(bench.PARTS), out, data=data, workers=workers)
    print(text(outcome))
    print(f"numbers in {out / 'theory.json'}, pictures in {out / 'theory'}")
    if json is not None:
        write_json(json, outcome)
