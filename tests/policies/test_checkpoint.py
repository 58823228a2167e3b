"""Checkpoints: what is written is read, and what is damaged is named."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
import tiny
from safetensors.numpy import load_file, save_file

import rnce
from rnce.policies import METHODS, CheckpointError, Task, pretrained_policies
from rnce.policies.checkpoint import load_checkpoint, save_checkpoint
from rnce.policies.config import from_json, to_json
from rnce.policies.presets import recipe_for
from rnce.policies.shipping import record_scores, ship

TASK = Task(
    "robot", None, {"state": (3,)}, "state", action_dim=2, n_ctx=2, n_pred=3, execute=2, relative_to=("state", 0)
)
CONFIG, WEIGHTS = "config.json", "model.safetensors"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint") / "policy"
    tiny.untrained("r-nce", TASK).save(folder)
    return folder


@pytest.fixture
def copy(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "copy")


def edit(folder, change):
    config = json.loads((folder / CONFIG).read_text())
    change(config)
    (folder / CONFIG).write_text(json.dumps(config))


def edit_weights(folder, change):
    arrays = load_file(folder / WEIGHTS)
    change(arrays)
    save_file(arrays, folder / WEIGHTS)


def test_round_trip(saved, tmp_path):
    checkpoint = load_checkpoint(saved)
    save_checkpoint(checkpoint, tmp_path / "again")
    for name in (CONFIG, WEIGHTS):
        assert (tmp_path / "again" / name).read_bytes() == (saved / name).read_bytes()


def test_saving_replaces_a_checkpoint_and_leaves_nothing_behind(copy, tmp_path):
    checkpoint = load_checkpoint(copy)
    checkpoint.params["energy"]["core"]["head"]["layer"]["bias"][:] = 9.0
    save_checkpoint(checkpoint, copy)
    assert load_checkpoint(copy).params["energy"]["core"]["head"]["layer"]["bias"] == 9.0
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
    assert sorted(path.name for path in copy.iterdir()) == [CONFIG, WEIGHTS]


def test_failed_saving_leaves_the_old_checkpoint(copy, monkeypatch, tmp_path):
    before = (copy / WEIGHTS).read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rnce.policies.checkpoint.save_file", full)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(load_checkpoint(copy), copy)
    assert (copy / WEIGHTS).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


DAMAGES = {
    "no config": (lambda f: (f / CONFIG).unlink(), CONFIG, "expected a checkpoint's config, found no such file"),
    "no json": (lambda f: (f / CONFIG).write_text("{"), CONFIG, "expected JSON, found a file that cannot be read"),
    "no text": (lambda f: (f / CONFIG).write_bytes(b"\xff\xfe\x00"), CONFIG, "expected JSON"),
    "list": (lambda f: (f / CONFIG).write_text("[1]"), CONFIG, "expected a JSON object, found list"),
    "newer": (lambda f: edit(f, lambda c: c.update(schema=99)), CONFIG, "key 'schema': expected 1, found 99; upgrade"),
    "foreign": (lambda f: edit(f, lambda c: c.pop("schema")), CONFIG, "key 'schema': expected 1, found None"),
    "no task": (lambda f: edit(f, lambda c: c.pop("task")), CONFIG, "key 'task': expected a value, found none"),
    "method": (
        lambda f: edit(f, lambda c: c.update(method="gan")),
        CONFIG,
        "key 'method': expected one of nf, .*, found 'gan'",
    ),
    "setting": (
        lambda f: edit(f, lambda c: c["settings"].update(negative=3)),
        CONFIG,
        "settings: unknown key 'negative'; did you mean 'negatives'",
    ),
    "network": (
        lambda f: edit(f, lambda c: c["settings"]["energy"].update(name="resnet")),
        CONFIG,
        "settings.energy: No network is called 'resnet'",
    ),
    "task key": (lambda f: edit(f, lambda c: c["task"].pop("n_pred")), CONFIG, "task: .*n_pred"),
    "task value": (lambda f: edit(f, lambda c: c["task"].update(execute=9)), CONFIG, "execute=9: use 1 to n_pred=3"),
    "task type": (lambda f: edit(f, lambda c: c.update(task=3)), CONFIG, "task: expected an object"),
    "no weights": (lambda f: (f / WEIGHTS).unlink(), WEIGHTS, "expected the weights, found no such file"),
    "truncated": (
        lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:-100]),
        WEIGHTS,
        "expected safetensors, found a damaged or truncated file",
    ),
    "noise": (lambda f: (f / WEIGHTS).write_bytes(b"x" * 64), WEIGHTS, "damaged or truncated"),
    "missing key": (
        lambda f: edit_weights(f, lambda a: a.pop("params/energy/core/head/layer/bias")),
        WEIGHTS,
        r"key 'params/energy/core/head/layer/bias': expected an array of \(1,\), found none",
    ),
    "extra key": (
        lambda f: edit_weights(f, lambda a: a.update(more=np.zeros(2))),
        WEIGHTS,
        r"key 'more': expected none, found an array of \(2,\)",
    ),
    "shape": (
        lambda f: edit_weights(f, lambda a: a.update({"normalizer/event_mean": np.zeros(5, np.float32)})),
        WEIGHTS,
        r"key 'normalizer/event_mean': expected shape \(6,\), found \(5,\)",
    ),
    "features": (
        lambda f: edit_weights(f, lambda a: a.update({"normalizer/feature_std": np.zeros(5, np.float32)})),
        WEIGHTS,
        r"key 'normalizer/feature_std': expected shape \(6,\), found \(5,\)",
    ),
    "type": (
        lambda f: edit_weights(f, lambda a: a.update({"normalizer/event_mean": np.zeros(6, np.int32)})),
        WEIGHTS,
        "key 'normalizer/event_mean': expected float32, found int32",
    ),
    "normalizer": (
        lambda f: edit_weights(f, lambda a: a.pop("normalizer/whiten")),
        WEIGHTS,
        "key 'normalizer/whiten': expected .*, found none",
    ),
    "mismatch": (
        lambda f: edit(f, lambda c: c["settings"]["energy"].update(width=9)),
        WEIGHTS,
        r"key 'params/energy/.*': expected shape .*9.*, found .*8",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(damage, copy):
    inflict, file, message = DAMAGES[damage]
    inflict(copy)
    with pytest.raises(CheckpointError, match=message) as caught:
        rnce.load_policy(str(copy))
    assert str(copy / file) in str(caught.value)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", ["pusht", "pinwheel", "path-planning", "my-robot"])
@pytest.mark.parametrize("preset", ["cpu", "paper"])
def test_settings_of_every_preset_survive_json(task, method, preset):
    recipe = recipe_for(task, method, preset)
    again = from_json(METHODS[method], json.loads(json.dumps(to_json(recipe.method))))
    assert again == recipe.method


@pytest.mark.parametrize("name", pretrained_policies() or [pytest.param("", marks=pytest.mark.skip("none shipped"))])
def test_shipped_policy_loads_and_acts(name):
    policy = rnce.load_policy(name)
    assert policy.name == name
    rng = np.random.default_rng(0)
    obs = {key: rng.uniform(0.1, 0.9, shape) for key, shape in policy.task.observation.items()}
    # Acting is the same for all: a single sample by the fastest sampler shows that weights and settings fit.
    quick = policy.with_options(samples=1, sampler=shortest(policy.checkpoint.method.sampler))
    quick.reset(seed=0)
    action = quick.act(obs)
    assert action.shape == (policy.task.action_dim,)
    assert np.isfinite(action).all()


def shortest(sampler):
    return {"steps": 2} if hasattr(sampler, "steps") else {"flow_steps": 2, "sde_steps": 1, "mcmc_steps": 1}


def test_shipped_in_half_precision_with_its_curve(tmp_path):
    policy = tiny.untrained("nf", TASK)
    policy.save(tmp_path / "run" / "policy")
    (tmp_path / "run" / "metrics.jsonl").write_text('{"round": 1}\n')
    target = ship(tmp_path / "run", "tiny/nf", {"steps": 3}, samples=2, root=tmp_path)
    shipped = rnce.load_policy(str(target))
    assert shipped.checkpoint.method.sampler.steps == 3
    assert shipped.samples == 2
    for ours, theirs in zip(jax.tree.leaves(policy.checkpoint.params), jax.tree.leaves(shipped.checkpoint.params)):
        assert theirs.dtype == np.float32
        np.testing.assert_allclose(theirs, ours, rtol=1e-3, atol=1e-6)
    assert (target / "curve.jsonl").exists()
    with pytest.raises(ValueError, match="no finished policy"):
        ship(tmp_path, "tiny/nf")


def test_scores_are_recorded_for_what_ships(tmp_path):
    """Only a result of the policy as it ships counts: its number of samples, its sampler, its episodes."""
    for name in ("tiny/nf", "tiny/ibc"):
        tiny.untrained("nf", TASK).save(tmp_path / name)
    samples = rnce.load_policy(str(tmp_path / "tiny/nf")).samples
    result = {
        "policy": "tiny/nf", "env": "E-v0", "seeds": [1, 3], "rollouts": 1, "episodes": 2, "samples": samples,
        "metrics": {"score": {"mean": 0.5, "ci95": [0.4, 0.6], "ci95_environments": [0.3, 0.7]}},
    }  # fmt: skip
    others = [{"samples": samples + 1}, {"max_steps": 300}, {"sampler": "proposal"}, {"policy": "my/own"}]
    assert record_scores([result | other for other in others], tmp_path) == []
    assert record_scores([result], tmp_path) == ["tiny/nf"]
    score = rnce.load_policy(str(tmp_path / "tiny/nf")).checkpoint.score
    assert score["metrics"] == {"score": {"mean": 0.5, "ci95": [0.4, 0.6]}}
    assert rnce.load_policy(str(tmp_path / "tiny/ibc")).checkpoint.score == {}


@pytest.mark.parametrize("task", ["pusht", "path-planning"])
def test_shipped_scores_are_the_committed_results(task):
    file = Path(__file__).parents[2] / "eval" / "results" / f"{task.replace('-', '_')}.json"
    if not file.exists():
        pytest.skip(f"{file.name} is not there yet")
    for result in json.loads(file.read_text())["results"]:
        checkpoint = rnce.load_policy(result["policy"]).checkpoint
        if result["samples"] == checkpoint.samples:
            means = {name: row["mean"] for name, row in checkpoint.score["metrics"].items()}
            assert means == {name: row["mean"] for name, row in result["metrics"].items()}
