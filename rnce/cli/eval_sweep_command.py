"""`rnce sweep`."""

from pathlib import Path
from typing import Annotated, Literal

import tyro


def sweep(
    name: Annotated[str, tyro.conf.Positional],
    /,
    grid: tyro.conf.UseAppendAction[list[str]] = [],  # noqa: B006
    limit: int | None = None,
    preset: Literal["cpu", "paper"] = "paper",
    data: Path | None = None,
    steps: int | None = None,
    seeds: str = "50000:50025",
    rollouts: int = 4,
    samples: int | None = None,
    out: Path | None = None,
    workers: int = 1,
    ray: str | None = None,
) -> None:
    """Search hyper-parameters: train every point of a grid, choose on selection seeds. Run it again to go on.

    Example: rnce sweep pinwheel/nf --grid method.interpolant.alpha=2,3,4 --steps 2000 --out out/sweep

    Args:
        name: Task and method; without --grid the paper's grid for them is searched.
        grid: KEY=VALUE,VALUE… such as optimizer.field.learning_rate=1e-3,5e-4 or sampler.mcmc_steps=250,500; several.
        limit: How many points, drawn once and for all; the whole grid if not given.
        preset: Recipe that the points change.
        data: Dataset folder, where it is not found by itself.
        steps: Rounds of training instead of the recipe's.
        seeds: A:B of the environments to choose on; from 50000 to 50999.
        rollouts: Episodes per environment.
        samples: Candidates ranked per plan.
        out: Folder; out/sweep/NAME if not given.
        workers: Worker processes, one trial each.
        ray: Address of a Ray cluster, or "local".
    """
    from rnce.eval.grids import PAPER_GRIDS, parse_grid
    from rnce.eval.run import parse_seeds
    from rnce.eval.sweep import sweep as run_sweep
    from rnce.eval.sweep import sweep_table

    chosen = parse_grid(grid) if grid else PAPER_GRIDS.get(name)
    if chosen is None:
        raise ValueError(f"the paper has no grid for {name!r}; it has {', '.join(PAPER_GRIDS)}. Give one with --grid")
    low, high = parse_seeds(seeds)
    if high > 100_000:
        raise ValueError(f"--seeds {seeds}: seeds from 100000 on are for reporting; choose on 50000 to 50999")
    folder = out or Path("out/sweep") / name
    options = {"preset": preset, "data": None if data is None else str(data), "steps": steps}
    measure = {"seeds": (low, high), "rollouts": rollouts, "samples": samples}
    results = run_sweep(name, chosen, folder, workers, ray, limit, **options, **measure)
    print(sweep_table(results))
    print(f"written: {folder / 'sweep.json'}")
