"""The rollout loop and everything that must not change its results."""

import dataclasses
import json
import random

import gymnasium as gym
import numpy as np
import peer_policies
import pytest

import rnce  # noqa: F401  (registers the environments)
from rnce.eval import adapters
from rnce.eval import evaluate as evaluate_module
from rnce.eval.environments import SeparateEnvironments, make_environments
from rnce.eval.evaluate import evaluate
from rnce.eval.rollout import Runner
from rnce.eval.settings import Job, Settings

BATCHED = "peer_policies:BatchedWanderer"


def settings(policy="peer_policies:Wanderer", seeds=(50_000, 50_008), **options):
    return Settings(policy, "PathPlanning-v0", seeds, **options)


def run(*args, workers=1, **options):
    return evaluate(settings(*args, **options), workers=workers, progress=False)


def test_result_follows_a_plain_loop():
    """The harness adds nothing to what a hand-written episode gives."""
    for episode in run(rollouts=2).episodes:
        env = gym.make("PathPlanning-v0")
        policy = peer_policies.Wanderer()
        obs, _ = env.reset(seed=episode.seed)
        policy.reset(seed=Job(episode.seed, episode.rollout).policy_seed)
        done, info = False, {}
        while not done:
            obs, _, terminated, truncated, info = env.step(policy.act(obs))
            done = terminated or truncated
        assert episode.steps == 49
        assert episode.metrics["collision"] == info["collided"]
        for name in ("cost", "cost_goal", "cost_obstacle", "cost_smoothness", "goal_distance"):
            assert episode.metrics[name] == pytest.approx(info[name], rel=1e-9)


def test_native_batch_equals_separate_environments():
    rng = np.random.default_rng(0)
    native = make_environments("PathPlanning-v0", 3)
    separate = SeparateEnvironments("PathPlanning-v0", 3)
    assert type(native) is not type(separate)
    for environments in (native, separate):
        environments.reset([0, 1, 2], [5, 6, 7])
    for _ in range(49):
        actions = rng.uniform(-1.2, 1.2, size=(3, 2))
        assert native.step([0, 2], actions) == separate.step([0, 2], actions)
        for key, part in native.observation.items():
            np.testing.assert_array_equal(part, separate.observation[key])
    for row in (0, 2):
        assert native.outcome(row) == separate.outcome(row)


def test_rollouts_differ_and_repeat():
    first, second = run(rollouts=3), run(rollouts=3)
    assert first.episodes == second.episodes
    assert len({episode.metrics["cost"] for episode in first.episodes}) == 24


@pytest.mark.parametrize("policy", ["peer_policies:Wanderer", BATCHED])
def test_bits_do_not_depend_on_workers_or_order(policy):
    options = {"policy": policy, "rollouts": 9, "slots": 8}
    alone = run(**options)
    assert len(settings(**options).shards) > 2
    assert run(**options, workers=2).episodes == alone.episodes
    shards = list(enumerate(settings(**options).shards))
    random.Random(0).shuffle(shards)
    runner = Runner(settings(**options))
    shuffled = {index: runner.run(jobs).episodes for index, jobs in shards}
    assert [episode for _, episodes in sorted(shuffled.items()) for episode in episodes] == alone.episodes


def test_a_batched_policy_plans_for_all_rows_at_once():
    peer_policies.BatchedWanderer.plans = 0
    Runner(settings(BATCHED, slots=16)).run([Job(50_000 + i, 0) for i in range(40)])
    # Three waves of five plans; rows without an episode must not ask for plans of their own.
    assert peer_policies.BatchedWanderer.plans == 15


def test_slots_depend_on_the_episodes_only():
    assert settings().n_slots == 8
    assert settings(seeds=(0, 5)).n_slots == 8
    big = settings(seeds=(0, 256), rollouts=32)
    assert big.n_slots == 64
    assert sum(map(len, big.shards)) == 256 * 32
    assert len({job.policy_seed for job in big.jobs}) == 256 * 32


def test_a_failing_episode_fails_alone():
    good, bad = run(rollouts=4), run("peer_policies:RaisesSometimes", rollouts=4)
    for clean, episode in zip(good.episodes, bad.episodes):
        luck = Job(episode.seed, episode.rollout).policy_seed % 3
        if luck == 0:
            assert "RuntimeError: stream" in str(episode.error)
            assert "\n" not in str(episode.error)
            assert episode.steps == 19
        elif luck == 1:
            assert episode.error == "the policy returned [nan, nan]"
        else:
            assert episode == clean
    document = bad.to_json()
    assert document["episodes"] + len(document["failed"]) == 32
    assert {"seed", "rollout", "error"} == set(document["failed"][0])


def test_a_batch_that_raises_is_run_again_row_by_row():
    good, bad = run(BATCHED, rollouts=2), run("peer_policies:BatchedRaises", rollouts=2)
    unlucky = [Job(e.seed, e.rollout).policy_seed % 5 == 0 for e in good.episodes]
    assert any(unlucky)
    for clean, episode, failed in zip(good.episodes, bad.episodes, unlucky):
        assert episode.error == ("RuntimeError: a singular matrix somewhere in the batch" if failed else None)
        assert failed or episode == clean


def test_wrong_shapes_are_said_per_episode():
    result = run("peer_policies:WrongShape")
    assert len(result.failed) == 8
    assert "shape (3,), expected (2,)" in str(result.failed[0].error)
    assert result.to_json()["metrics"] == {}


@pytest.mark.parametrize("always", [False, True])
def test_a_killed_worker_is_replaced(always, tmp_path, monkeypatch):
    marker = tmp_path / "marker"
    monkeypatch.setenv("RNCE_TEST_MARKER", str(marker))
    clean = run("peer_policies:KillsItsProcess")
    marker.write_text("always" if always else "once")
    result = run("peer_policies:KillsItsProcess", workers=2)
    if always:
        assert len(result.failed) == 8
        assert "died 3 times" in str(result.failed[0].error)
    else:
        assert result.episodes == clean.episodes


def test_bad_input_in_a_worker_is_one_line():
    with pytest.raises(ValueError, match="no_such_module"):
        run("no_such_module:make", workers=2, rollouts=16)


def test_ctrl_c_keeps_what_is_there_and_resume_finishes(tmp_path):
    journal = tmp_path / "journal"
    what = settings("peer_policies:Interrupts", rollouts=8, slots=8)
    peer_policies.Interrupts.calls = 0
    stopped = evaluate(what, journal=journal, progress=False)
    assert stopped.interrupted
    assert 0 < len(stopped.episodes) < 64
    with journal.open("a") as file:
        file.write('{"shard": 7, "episo')  # as if killed while writing
    resumed = evaluate(what, journal=journal, resume=True, progress=False)
    assert not resumed.interrupted
    assert not journal.exists()
    assert resumed.episodes == evaluate(what, progress=False).episodes
    assert resumed.episodes[: len(stopped.episodes)] == stopped.episodes


def test_resume_refuses_another_evaluation(tmp_path):
    journal = tmp_path / "journal"
    peer_policies.Interrupts.calls = 0
    what = settings("peer_policies:Interrupts", rollouts=8, slots=8)
    evaluate(what, journal=journal, progress=False)
    with pytest.raises(ValueError, match="rollouts was 8 and is now 9"):
        evaluate(dataclasses.replace(what, rollouts=9), journal=journal, resume=True, progress=False)
    with pytest.raises(ValueError, match="needs a journal"):
        evaluate(what, resume=True, progress=False)


def test_finished_work_is_not_run_again(tmp_path, monkeypatch):
    journal = tmp_path / "journal"
    what = settings("peer_policies:Interrupts", rollouts=8, slots=8)
    peer_policies.Interrupts.calls = 0
    evaluate(what, journal=journal, progress=False)
    done = len(journal.read_text().splitlines()) - 1
    assert done > 0
    ran = []
    original = evaluate_module._run

    def spy(settings, shards, *rest):
        ran.extend(shards)
        return original(settings, shards, *rest)

    monkeypatch.setattr(evaluate_module, "_run", spy)
    evaluate(what, journal=journal, resume=True, progress=False)
    assert ran == list(range(done, 8))


def test_json_has_the_fixed_keys():
    document = run(BATCHED, rollouts=2).to_json()
    keys = {"policy", "env", "params", "seeds", "rollouts", "samples", "episodes", "metrics", "plan_ms"}
    assert keys <= set(document)
    assert {"collision", "cost", "goal_distance"} <= set(document["metrics"])
    assert {"mean", "ci95", "ci95_environments", "ci95_clopper_pearson"} <= set(document["metrics"]["collision"])
    assert document["params"] == 8
    assert document["plan_ms"]["p50"] <= document["plan_ms"]["p95"]
    assert document["per_seed"]["seed"] == list(range(50_000, 50_008))
    json.dumps(document, allow_nan=False)


def test_any_gymnasium_environment_is_measured_by_its_return():
    result = evaluate(Settings("peer_policies:Gentle", "Pendulum-v1", (0, 3), max_steps=20), progress=False)
    assert [episode.steps for episode in result.episodes] == [20] * 3
    assert result.to_json()["metrics"]["return"]["mean"] < 0


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"seeds": (5, 5)}, "A < B"),
        ({"rollouts": 0}, "rollouts must be at least 1"),
        ({"policy": "peer_policies:nothing_here"}, "nothing_here"),
        ({"policy": "peer_policies:make_nothing"}, "neither a function nor has an act method"),
        ({"policy": "peer_policies:make_function", "samples": 8}, "with_options"),
    ],
)
def test_bad_settings_are_named(change, match):
    with pytest.raises(ValueError, match=match):
        run(**change)


def test_unknown_environment_is_one_line():
    with pytest.raises(ValueError, match="NoSuch-v0"):
        evaluate(Settings("peer_policies:make_function", "NoSuch-v0", (0, 1)), progress=False)


def test_function_policies_fit():
    assert adapters.adapt(peer_policies.make_function, 2, 2).chunk == 1
    assert len(run("peer_policies:make_function").episodes) == 8
