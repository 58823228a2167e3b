"""The wheel holds exactly the tree, under `rnce` and nowhere else."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("envs", "policies", "datasets", "eval")


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory) -> set[str]:
    # Built from a copy: a `build` folder in the tree could slip old files into the wheel.
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("rnce", *PARTS):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = target.glob("*.whl")
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def tree_files() -> set[str]:
    def below(folder: str) -> list[str]:
        paths = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        return [str(path.relative_to(ROOT)) for path in paths]

    return {*below("rnce"), *(f"rnce/{name}" for part in PARTS for name in below(part))}


def test_wheel_is_the_tree(wheel_files):
    tree = tree_files()
    assert sorted(wheel_files - tree) == []
    assert sorted(tree - wheel_files) == [], "list new folders in pyproject.toml: packages, or package-data"


def test_only_rnce_is_installed(wheel_files):
    assert {name.split("/")[0] for name in wheel_files} == {"rnce"}


def test_import_brings_no_heavy_module():
    heavy = ["jax", "flax", "optax", "matplotlib", "pygame", "pymunk", "shapely", "zarr", "tyro"]
    code = f"import sys, rnce; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_versions_agree():
    import tomllib

    import rnce

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == rnce.__version__
    pinned = {line.split("==")[0].lower() for line in (ROOT / "requirements.txt").read_text().splitlines()}
    wanted = {requirement.split(">")[0].split("[")[0].lower() for requirement in project["dependencies"]}
    assert wanted <= pinned
