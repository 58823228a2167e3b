"""`rnce ship`."""

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
