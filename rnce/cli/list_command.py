"""`rnce list`: what can be made, loaded and trained."""

from importlib.util import find_spec
from pathlib import Path


def list_everything() -> None:
    """List environments, policies and datasets.

    Example: rnce list
    """
    from rnce.datasets import NAMES
    from rnce.envs import ENVIRONMENTS

    sections = {
        'environments — gymnasium.make("NAME")': [spec["id"] for spec in ENVIRONMENTS],
        'policies — rnce.load_policy("NAME")': shipped_policies(),
        'datasets — rnce.datasets.load("NAME")': list(NAMES),
    }
    for title, names in sections.items():
        print(title)
        for name in names or ["(none ships with this version)"]:
            print(f"  {name}")


def shipped_policies() -> list[str]:
    """Names of the checkpoints inside the package, found by their files: importing `rnce.policies` would import JAX."""
    spec = find_spec("rnce.policies")
    folders = [Path(folder) / "pretrained" for folder in (spec.submodule_search_locations or () if spec else ())]
    return sorted(
        str(config.parent.relative_to(folder)) for folder in folders for config in folder.glob("*/*/config.json")
    )
