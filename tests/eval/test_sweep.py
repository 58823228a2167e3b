"""Grids: the paper's are complete and fit the recipes; a sweep runs, resumes and ranks."""

import dataclasses
import json

import pytest
from small_sweep import OPTIONS, small_sweep, write_demonstrations

from rnce.eval import grids, sweep
from rnce.policies.networks import ConcatSquash
from rnce.policies.presets import recipe_for


def test_sizes_of_the_papers_grids():
    sizes = {name: len(grids.points(grid)) for name, grid in grids.PAPER_GRIDS.items()}
    assert sizes["pinwheel/nf"] == 2 * 2 * 2 * 3
    assert sizes["pinwheel/ibc"] == 2 * 2 * 2 * 4 * 4 * 2
    assert sizes["path-planning/diffusion-phi"] == 2 * 3 * 2 * 2 * 2 * 2 * 2 * 3
    assert sizes["pusht/i-r-nce"] == 2 * 3 * 3 * 2 * 2


@pytest.mark.parametrize("name", list(grids.PAPER_GRIDS))
def test_every_paper_point_changes_its_recipe(name):
    task, _, method = name.partition("/")
    recipe = recipe_for(task, method, "paper")
    if hasattr(recipe.method, "proposal"):  # the paper's kind of proposal, whose depth is searched
        recipe = dataclasses.replace(recipe, method=dataclasses.replace(recipe.method, proposal=ConcatSquash()))
    first, last = (grids.points(grids.PAPER_GRIDS[name])[i] for i in (0, -1))
    assert grids.apply(recipe, first) != grids.apply(recipe, last)


def test_a_point_reaches_its_places():
    recipe = recipe_for("pinwheel", "nf")
    changed = grids.apply(
        recipe, {"method.field.width": 32, "optimizer.field.learning_rate": 0.5, "perturbation": 0.01, "sampler.x": 1}
    )
    assert changed.method.field.width == 32
    assert {phase.optimizer.learning_rate for stage in changed.stages for phase in stage.phases} == {0.5}
    assert changed.perturbation == (0.01, 0.005)
    assert grids.apply(recipe, {}) == recipe
    joined = {"rounds+phase.field.steps_per_round": (7, 3), "method.field.width+method.field.context_width": 16}
    changed = grids.apply(recipe, joined)
    assert (changed.rounds, changed.stages[0].phases[0].steps_per_round) == (7, 3)
    assert changed.method.field.width == changed.method.field.context_width == 16


@pytest.mark.parametrize(
    ("key", "match"),
    [
        ("method.field.no_such", "has no 'no_such'"),
        ("optimizer.nothing.learning_rate", "no phase trains 'nothing'"),
        ("nonsense", "not a path"),
    ],
)
def test_wrong_keys_are_named(key, match):
    with pytest.raises(ValueError, match=match):
        grids.apply(recipe_for("pinwheel", "nf"), {key: 1})


def test_limit_draws_the_same_points_every_time():
    grid = {"a": range(10), "b": range(10)}
    assert grids.chosen_points(grid, 7) == grids.chosen_points(grid, 7)
    assert len(grids.chosen_points(grid, 7)) == 7
    assert len(grids.chosen_points(grid, None)) == 100


def test_grid_words():
    grid = grids.parse_grid(["method.field.width=64,128", "sampler.step_size=1e-3", "x=hmc"])
    assert grid == {"method.field.width": [64, 128], "sampler.step_size": [1e-3], "x": ["hmc"]}
    with pytest.raises(ValueError, match="KEY=VALUE"):
        grids.parse_grid(["width"])


def test_samplers_share_a_training(tmp_path):
    grid = {"method.field.width": [8, 16], "sampler.steps": [2, 4, 8]}
    todo = sweep.trials("pinwheel/nf", grid, tmp_path, **OPTIONS)
    assert [len(trial.samplers) for trial in todo] == [3, 3]
    assert len({trial.folder for trial in todo}) == 2


def test_sweep_ranks_and_resumes(tmp_path, monkeypatch):
    trained = []

    def fake_training(trial, folder):
        trained.append(dict(trial.training)["width"])
        return None if trained[-1] == 99 else folder

    def fake_measure(trial, folder, sampler):
        return {"metric": "score", "mean": dict(trial.training)["width"] / 100 + sampler["steps"], "ci95": [0, 1]}

    monkeypatch.setattr(sweep, "_trained", fake_training)
    monkeypatch.setattr(sweep, "_measured", fake_measure)
    grid = {"width": [1, 2, 99], "sampler.steps": [0, 1]}
    results = sweep.sweep("pusht/nf", grid, tmp_path, progress=False, **OPTIONS)
    assert [result.get("mean") for result in results] == [1.02, 1.01, 0.02, 0.01, None, None]
    assert trained == [1, 2, 99]
    assert sweep.sweep("pusht/nf", grid, tmp_path, progress=False, **OPTIONS) == results
    assert trained == [1, 2, 99]
    text = sweep.sweep_table(results)
    assert "over the parameter budget" in text
    assert text.splitlines()[2].split() == ["width=2", "sampler.steps=1", "1.0200", "[0.000,", "1.000]"]
    assert json.loads((tmp_path / "sweep.json").read_text()) == results


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory):
    return write_demonstrations(tmp_path_factory.mktemp("data") / "path_planning.zarr")


@pytest.fixture(scope="module")
def alone(demonstrations, tmp_path_factory):
    return small_sweep(demonstrations, tmp_path_factory.mktemp("alone"))


def test_a_sweep_trains_and_measures_every_point(alone):
    assert len(alone) == 2
    assert {result["metric"] for result in alone} == {"collision"}
    assert [result["mean"] for result in alone] == sorted(result["mean"] for result in alone)


def test_two_processes_find_what_one_finds(demonstrations, alone, tmp_path):
    assert small_sweep(demonstrations, tmp_path, workers=2) == alone
    trained = sorted(tmp_path.glob("*/policy/model.safetensors"))
    before = [file.stat().st_mtime_ns for file in trained]
    assert small_sweep(demonstrations, tmp_path, workers=2) == alone  # goes on where it stopped: nothing is left to do
    assert [file.stat().st_mtime_ns for file in trained] == before
    assert len(before) == 2


def test_real_sweep_on_a_synthetic_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "SAMPLES", 64)
    monkeypatch.setattr(sweep, "CONTEXTS", {"pinwheel": (5,)})
    results = sweep.sweep("pinwheel/nf", {"sampler.steps": [2]}, tmp_path, progress=False, **OPTIONS)
    assert 0 < results[0]["mean"] < 1
    assert list(tmp_path.glob("*/policy/config.json"))
