"""Who may import whom, read from the source."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = {"envs", "policies", "datasets", "eval"}
MAY_IMPORT = {
    "envs": {"envs"},
    "policies": {"policies"},
    "datasets": {"datasets", "envs"},
    "eval": PARTS,
    "rnce": PARTS,
}
SOURCES = sorted(path for folder in [*MAY_IMPORT, "tests"] for path in (ROOT / folder).rglob("*.py"))


def imported_modules(path: Path) -> set[str]:
    """Every module named in an import, at any depth of the file; `from a import b` counts as a and a.b."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_layers(path):
    modules = imported_modules(path)
    bare = {name for name in modules if name.split(".")[0] in PARTS}
    assert not bare, f"import rnce.{min(bare)} instead of {min(bare)}"

    folder = path.relative_to(ROOT).parts[0]
    allowed = MAY_IMPORT.get(folder, PARTS)
    used = {name.split(".")[1] for name in modules if name.startswith("rnce.")} & PARTS
    assert used <= allowed, f"{folder} may import {sorted(allowed)}, but this imports {sorted(used - allowed)}"
    if folder in PARTS - {"eval"}:
        assert "rnce" not in modules, f"{folder} must not import the front door"


def test_environments_do_not_import_jax():
    for path in (ROOT / "envs").rglob("*.py"):
        assert not {name.split(".")[0] for name in imported_modules(path)} & {"jax", "flax", "optax"}, path
