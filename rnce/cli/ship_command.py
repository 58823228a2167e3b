"""`rnce ship` and `rnce ship-scores`."""

from pathlib import Path
from typing import Annotated

import tyro


def ship(
    run: Annotated[Path, tyro.conf.Positional],
    name: Annotated[str, tyro.conf.Positional],
    sampler: str | None = None,
    samples: int | None = None,
) -> None:
    """Copy a trained policy into the package, in half precision, with its training curve.

    Example: rnce ship runs/pusht pusht/i-r-nce

    Args:
        run: The --out folder of `rnce train`.
        name: Task and method under which `rnce.load_policy` will find it.
        sampler: The sampler chosen for it, by name or in parts such as mcmc_steps=20,step_size=1e-3.
        samples: Candidates ranked per plan, where the preset's number is not what was chosen.
    """
    from rnce.eval.adapters import parse_sampler
    from rnce.policies.shipping import ship as ship_policy

    print(ship_policy(run, name, None if sampler is None else parse_sampler(sampler), samples))


def ship_scores(results: Annotated[Path, tyro.conf.Positional]) -> None:
    """Write reported results into the shipped policies they belong to, so that users know what to expect.

    Example: rnce ship-scores eval/results/pusht.json

    Args:
        results: What `rnce eval --json` or `rnce bench` wrote. Rows with another number of samples, another sampler or
            longer episodes than the policy ships with are passed over.
    """
    from rnce.eval.compare import load_results
    from rnce.policies.shipping import record_scores

    recorded = record_scores(load_results(results))
    if not recorded:
        raise ValueError(f"{results} has no result of a policy that ships, measured as it ships")
    print("recorded for " + ", ".join(recorded))
