"""A device for each core: on a CPU, sharing a batch is faster than sharing every operation."""

import math
import os
from collections.abc import Iterable
from typing import Any

from rnce.policies.recipe import Recipe

MOST = 8  # each device has a copy of the data and of the optimiser's work


def own_cores() -> list[int]:
    """Numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def shared_by(recipes: Iterable[Recipe], cores: int) -> int:
    """How many of these cores can share every batch evenly."""
    sizes = [phase.batch_size for recipe in recipes for stage in recipe.stages for phase in stage.phases]
    whole = math.gcd(*sizes)
    return max(n for n in range(1, min(cores, MOST) + 1) if whole % n == 0)


def use_cores(recipes: Iterable[Recipe]) -> None:
    """Make JAX see as many CPU devices as cores can share the batches of these recipes.

    Only before JAX has begun to compute; after that, and where the caller has chosen a number, nothing changes.
    """
    import jax

    config: Any = jax.config
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "") or config.jax_num_cpu_devices > 0:
        return
    try:
        config.update("jax_num_cpu_devices", shared_by(recipes, len(own_cores())))
    except RuntimeError:  # JAX has begun
        return
