"""Training: it resumes to the bit, stops with a reason, and loses nothing."""

import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
import small_training
import tiny

from rnce.policies import infer_task, load_policy, train
from rnce.policies.devices import own_cores, shared_by, use_cores
from rnce.policies.methods import RNCE
from rnce.policies.presets import recipe_for
from rnce.policies.recipe import Optimizer, Phase, Recipe, Stage, scaled
from rnce.policies.train import TrainingError, block_function, make_run

HERE = Path(__file__).parent
compiled = {}


@pytest.fixture(scope="module", autouse=True)
def compile_once():
    """Runs of this process share their programs; a killed one has those of its own process."""

    def shared(run, stage, rounds):
        key = (run.recipe, run.seed, stage.name, rounds)
        if key not in compiled:
            compiled[key] = block_function(run, stage, rounds)
        return compiled[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "block_function", shared)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that nothing interrupts."""
    out = tmp_path_factory.mktemp("run") / "out"
    return out, small_training.run(out)


def weights(policy):
    return jax.tree.leaves(policy.checkpoint.params)


def assert_same_bits(policy, other):
    for found, expected in zip(weights(policy), weights(other), strict=True):
        np.testing.assert_array_equal(found, expected)


def environment(flags: str = "") -> dict[str, str]:
    return os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}", "PYTHONPATH": str(HERE)}


def test_run_leaves_metrics_and_a_policy(finished):
    out, policy = finished
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [row["round"] for row in rows] == list(range(1, 13))
    assert [row["stage"] for row in rows] == ["warm"] * 6 + ["rank"] * 6
    assert all(np.isfinite(value) for row in rows for value in row.values() if isinstance(value, float))
    assert "score" in rows[0]
    assert {"rank", "posterior", "above_chance", "energy_loss"} <= rows[-1].keys()
    assert_same_bits(load_policy(out / "policy"), policy)
    assert policy.checkpoint.recipe["recipe"]["ema"] == 0.9
    assert policy.checkpoint.revision
    assert (out / "tensorboard").is_dir()


def test_killed_run_resumes_to_the_bit(finished, tmp_path):
    out = tmp_path / "out"
    child = subprocess.Popen([sys.executable, HERE / "small_training.py", str(out)], env=environment())
    moment = random.randint(1, 8)
    while len(lines(out)) < moment and child.poll() is None:
        time.sleep(0.02)
    time.sleep(random.uniform(0.0, 0.3))
    child.kill()
    assert child.wait() == -9, "the run was over before it was killed"
    assert not (out / "policy").exists()
    assert_same_bits(small_training.run(out, resume=True), finished[1])
    assert [json.loads(line)["round"] for line in lines(out)] == list(range(1, 13))


def lines(out: Path) -> list[str]:
    file = out / "metrics.jsonl"
    return file.read_text().splitlines() if file.exists() else []


def test_resume_between_stages(finished, tmp_path, monkeypatch):
    """The optimisers of the next stage start afresh, as without the interruption; half a line of metrics is dropped."""
    save = train._save

    def stop_after(manager, state, done, *more):
        save(manager, state, done, *more)
        if done == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(train, "_save", stop_after)
    with pytest.raises(KeyboardInterrupt):
        small_training.run(tmp_path / "out")
    monkeypatch.undo()
    with (tmp_path / "out" / "metrics.jsonl").open("a") as file:
        file.write('{"round": 7, "sta')
    assert_same_bits(small_training.run(tmp_path / "out", resume=True), finished[1])
    assert len(lines(tmp_path / "out")) == 12


def test_resume_of_a_finished_run_changes_nothing(finished):
    out, policy = finished
    assert_same_bits(small_training.run(out, resume=True), policy)


def test_refusals(finished, tmp_path):
    out, _ = finished
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(TrainingError, match=f"{out} holds a run already; add --resume"):
        small_training.run(out)
    other = dataclasses.replace(small_training.recipe(), ema=0.5)
    with pytest.raises(TrainingError, match=r"run.json: the run to resume has another recipe; use its settings"):
        small_training.run(out, resume=True, recipe=other)
    with pytest.raises(TrainingError, match="has another seed"):
        small_training.run(out, resume=True, seed=3)
    with pytest.raises(TrainingError, match="has another data"):
        small_training.run(out, resume=True, scale=2.0)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    with pytest.raises(TrainingError, match="holds no run to resume"):
        small_training.run(tmp_path / "nothing", resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r"cannot write to .*file/out: .*; choose another --out"):
        small_training.run(tmp_path / "file" / "out")
    unknown = dataclasses.replace(small_training.recipe(), stages=(Stage("odd", 1, (Phase("field", "match"),)),))
    with pytest.raises(TrainingError, match="stage 'odd' trains 'field' on 'match'; ibc has the networks energy"):
        small_training.run(tmp_path / "odd", recipe=unknown)


def test_loss_that_is_not_finite_stops_with_the_last_good_checkpoint(tmp_path):
    """A learning rate without bounds: the second round is lost, the first is not."""
    phase = Phase("energy", "score", Optimizer(1e30, "constant", clip=1e30), 1, 16)
    wild = dataclasses.replace(small_training.recipe(), stages=(Stage("wild", 6, (phase,)),))
    with pytest.raises(
        TrainingError, match=r"training 'energy' on 'score' left .* between rounds \d and \d, stage 'wild'"
    ):
        small_training.run(tmp_path / "out", recipe=wild)
    kept = [int(path.name) for path in (tmp_path / "out" / "checkpoints").iterdir() if path.name.isdigit()]
    assert not (tmp_path / "out" / "policy").exists()
    assert max(kept, default=0) < 3


def test_full_disk_leaves_earlier_checkpoints(tmp_path, monkeypatch):
    save = ocp.CheckpointManager.save

    def full(manager, step, *args, **kwargs):
        if step == 3:
            raise OSError(28, "No space left on device")
        return save(manager, step, *args, **kwargs)

    monkeypatch.setattr(ocp.CheckpointManager, "save", full)
    message = "cannot write the checkpoint of round 3: .*No space left on device.*at round 2 in .*--resume"
    with pytest.raises(TrainingError, match=message):
        small_training.run(tmp_path / "out")
    with ocp.CheckpointManager(tmp_path / "out" / "checkpoints") as manager:
        assert manager.latest_step() == 2
        arrays = manager.restore(2, args=ocp.args.StandardRestore())
    assert all(np.isfinite(value).all() for value in arrays.values())


def test_four_devices_give_the_result_of_one(finished, tmp_path):
    flags = "--xla_force_host_platform_device_count=4"
    code = f"import jax, small_training; assert len(jax.devices()) == 4; small_training.run({str(tmp_path / 'out')!r})"
    subprocess.run([sys.executable, "-c", code], env=environment(flags), check=True)
    policy = load_policy(tmp_path / "out" / "policy")
    assert policy.checkpoint.recipe["devices"] == 4
    # No loss sees a constant added to the energy: the gradient of some biases, and Adam's steps, are rounding errors.
    chunks = np.random.default_rng(0).normal(size=(64, 1, 2))
    scores = [made.score(np.zeros(1), chunks) for made in (policy, finished[1])]
    np.testing.assert_allclose(scores[0] - scores[0].mean(), scores[1] - scores[1].mean(), atol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "cores", "devices"), [((96, 64), 2, 2), ((96, 64), 6, 4), ((48, 9), 8, 3), ((7,), 4, 1)]
)
def test_as_many_cores_as_share_every_batch(sizes, cores, devices):
    stages = tuple(Stage("s", 1, (Phase("energy", "rank", batch_size=size),)) for size in sizes)
    assert shared_by([Recipe("ibc", None, stages)], cores) == devices


def test_the_command_gives_each_core_a_share(tmp_path):
    """In a process of its own; one that computes already keeps the devices it has."""
    before = len(jax.devices())
    use_cores([small_training.recipe()])
    assert len(jax.devices()) == before
    command = [sys.executable, "-m", "rnce", "train", "pinwheel/nf", "--steps", "1", "--out", str(tmp_path)]
    flags = {name: value for name, value in environment("").items() if name != "XLA_FLAGS"}
    subprocess.run(command, env=flags, check=True, capture_output=True)
    expected = shared_by([recipe_for("pinwheel", "nf")], len(own_cores()))
    assert load_policy(tmp_path / "policy").checkpoint.recipe["devices"] == expected


def test_going_on_with_other_devices_is_said(finished, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(finished[0], out)
    file = out / "run.json"
    file.write_text(file.read_text().replace('"devices": 1', '"devices": 2'))
    with pytest.warns(UserWarning, match="begun on 2 devices and goes on with 1"):
        assert_same_bits(small_training.run(out, resume=True), finished[1])  # it had ended


def test_batches_that_devices_cannot_share_are_named():
    recipe = small_training.recipe()
    method = recipe.method.create({"features": (1,)}, (1, 2))
    with pytest.raises(TrainingError, match="batch_size=16 of stage 'warm': use a multiple of the 3 devices"):
        train._check_phases(recipe, method, devices=3)


def test_perturbation_is_annealed_over_half_the_rounds():
    run = make_run(small_training.TASK, small_training.recipe(), small_training.data())
    found = [float(run.perturbation(jnp.asarray(n))) for n in (0, 3, 6, 11)]
    np.testing.assert_allclose(found, [0.2, 0.15, 0.1, 0.1], rtol=1e-5)


def test_collapse_of_the_posterior_is_said_once():
    with pytest.warns(UserWarning, match=r"posterior of the positive is 0.990: .* too easy"):
        assert train._warn_of_collapse({"posterior": 0.99}, warned=False)
    assert train._warn_of_collapse({"posterior": 0.99}, warned=True)
    assert not train._warn_of_collapse({"posterior": 0.5}, warned=False)


def test_scaled_recipes_keep_their_proportions():
    half = scaled(small_training.recipe(), 6)
    assert [stage.rounds for stage in half.stages] == [3, 3]
    assert scaled(small_training.recipe(), 1).rounds == 2  # every stage is run


def test_learning_rate_schedules():
    with pytest.raises(ValueError, match="schedule='linear': use 'constant' or 'cosine'"):
        Optimizer(schedule="linear").create(3)  # pyright: ignore[reportArgumentType]
    optimizer = Optimizer(1.0, warmup=5, weight_decay=0.0).create(10)
    one = jnp.ones(1)
    _, state = optimizer.update(one, optimizer.init(one), one)
    update, _ = optimizer.update(one, state, one)
    np.testing.assert_allclose(np.asarray(update), -0.2, rtol=1e-2)  # one fifth of the way up


def test_adversarial_training_and_a_proposal_that_is_left_alone():
    """A pre-trained proposal, an energy beside it that leaves it unchanged, then both against each other."""
    settings = RNCE(tiny.mlp(), tiny.shallow(), negatives=3, cells=2)
    slow = Optimizer(1e-3)
    proposal, energy = Phase("proposal", "match", slow, 1, 8), Phase("energy", "rank", slow, 1, 8)
    adversary = Phase("proposal", "adversary", slow, 1, 8)
    stages = (Stage("pretrain", 1, (proposal,)), Stage("rank", 1, (energy,)), Stage("duel", 1, (adversary, energy)))
    run = make_run(small_training.TASK, Recipe("r-nce", settings, stages), small_training.data())
    states, metrics = [run.start()], {}
    for number, stage in enumerate(stages):
        state = run.enter(stage, jax.tree.map(jnp.copy, states[-1]))
        state, metrics = block_function(run, stage, 1)(state, run.data, jnp.asarray(number))
        assert all(np.isfinite(value) for value in metrics.values())
        states.append(state)

    def changed(name, before, after):
        pairs = zip(
            jax.tree.leaves(states[before].params[name]), jax.tree.leaves(states[after].params[name]), strict=True
        )
        return [not np.array_equal(a, b) for a, b in pairs]

    assert all(changed("proposal", 0, 1))
    assert not any(changed("energy", 0, 1))
    assert not any(changed("proposal", 1, 2))
    assert any(changed("energy", 1, 2))
    assert any(changed("proposal", 2, 3))
    np.testing.assert_allclose(metrics["adversary"], -metrics["rank"], atol=0.5)


# A stranger's data


def stranger(steps: int = 400):
    """A robot whose actions are targets near its hand, which is somewhere in its state."""
    rng = np.random.default_rng(0)
    hand = np.cumsum(rng.normal(scale=0.1, size=(steps, 3)), axis=0).astype(np.float32)
    state = np.concatenate([rng.normal(size=(steps, 2)), hand, rng.normal(size=(steps, 1))], axis=1).astype(np.float32)
    return {"state": state, "force": rng.normal(size=(steps, 2)).astype(np.float32)}, hand + 0.05


def test_task_is_inferred_with_relative_actions():
    observations, actions = stranger()
    task = infer_task("robot", observations, actions, n_pred=8, execute=4)
    assert task.relative_to == ("state", 2)
    assert task.observation == {"state": (6,), "force": (2,)}
    assert (task.action_dim, task.n_pred, task.execute, task.bare_key) == (3, 8, 4, None)
    assert np.all(np.array(task.action_low) < actions.min(0))
    assert np.all(np.array(task.action_high) > actions.max(0))
    unrelated = infer_task("robot", {"force": observations["force"]}, actions)
    assert unrelated.relative_to is None
    assert unrelated.bare_key == "force"


def test_train_command_on_a_strangers_data(tmp_path, capsys):
    from rnce import datasets
    from rnce.cli import main

    observations, actions = stranger(80)
    writer = datasets.ReplayWriter(tmp_path / "demos.zarr")
    for part in (slice(0, 40), slice(40, 80)):
        writer.append_episode({key: value[part] for key, value in observations.items()} | {"action": actions[part]})
    out = tmp_path / "out"
    arguments = ["train", "my-robot/nf", "--data", str(tmp_path / "demos.zarr"), "--steps", "1", "--out", str(out)]
    main(arguments)
    assert "my-robot/nf: " in capsys.readouterr().out
    policy = load_policy(out / "policy")
    assert policy.task.relative_to == ("state", 2)
    assert policy.task.action_dim == 3
    assert policy.sample({key: value[0] for key, value in observations.items()}, 1, seed=0).shape == (1, 16, 3)
    with pytest.raises(SystemExit, match="2"):  # the folder holds a run
        main(arguments)
    assert "add --resume" in capsys.readouterr().err
