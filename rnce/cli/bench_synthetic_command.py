"""`rnce bench synthetic`."""

from pathlib import Path


def bench_synthetic(
    runs: Path = Path("runs/synthetic"),
    results: Path = Path("eval/results"),
    methods: tuple[str, ...] = ("nf", "ibc", "r-nce", "i-r-nce", "diffusion", "diffusion-phi"),
    workers: int = 2,
    steps: int | None = None,
    shipped: bool = False,
    ship: bool = False,
    json: Path | None = None,
) -> None:
    """Train all methods on pinwheel and spiral with the paper's sizes and compare their samples with the truth.

    Example: rnce bench synthetic --runs runs/synthetic

    Args:
        runs: Where the trainings go; finished ones are not repeated.
        results: Where the table (synthetic.json) and the pictures go.
        methods: Which methods.
        workers: Trainings at a time, one core each.
        steps: Rounds instead of the preset's, for a quick look.
        shipped: Measure the shipped policies instead of training.
        ship: Copy the trained policies into the package.
        json: A second copy of the figures.
    """
    from rnce.eval import bench_synthetic as bench
    from rnce.eval.files import check_writable, write_json

    if json:
        check_writable(json)
    outcome = bench.bench(methods, runs, results, workers=workers, steps=steps, train=not shipped)
    if ship and not shipped:
        bench.ship(methods, runs)
    print(f"{'':14} {'parameters':>10} {'minutes':>8}   minimum BC over contexts")
    for problem, rows in outcome["problems"].items():
        for name, row in rows.items():
            params, minutes = row.get("params", ""), row.get("train_minutes", "")
            print(f"{problem:9} {name:14} {params:>7} {minutes:>8}   {row['min_bc']:.4f}")
    print(f"{outcome['minutes']} minutes; table and pictures in {results}")
    if json:
        write_json(json, outcome)
