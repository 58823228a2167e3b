"""The demo, its scripted policies, and the bench of the batched environment."""

import json
from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import imageio.v3 as iio
import numpy as np
import pytest

import rnce
import rnce.policies
from rnce.cli import main
from rnce.envs.path_planning import collided, scene_for_seed
from rnce.eval import demo
from rnce.eval.bench_path_planning_env import measure
from rnce.eval.scripted_planners import GridPlanner, ShootingPusher, equal_steps, pulled_tight, shortest_path


def ship(monkeypatch, *names, policy=None):
    """As if these and no others were in the package."""
    monkeypatch.setattr(rnce.policies, "pretrained_policies", lambda: list(names))
    monkeypatch.setattr(rnce, "load_policy", lambda name: policy)


@pytest.mark.parametrize("task", demo.TASKS, ids=lambda task: task.name)
def test_demo_writes_a_picture_and_a_gif_and_says_who_played(task, tmp_path, monkeypatch):
    ship(monkeypatch)
    (result,) = demo.run_demo(tmp_path, episodes=1, tasks=[task])
    assert "scripted" in result.policy
    assert iio.imread(result.picture).shape[:2] == (384, 384)
    assert len(iio.imread(result.video)) > 5
    assert result.video.stat().st_size < 500_000
    assert set(result.metrics) == set(task.metrics)
    text = demo.table([result])
    assert str(result.picture) in text
    assert all(name in text for name in task.metrics)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{task.name}.gif", f"{task.name}.png"]


def test_a_shipped_policy_takes_the_place_of_the_scripted_one(monkeypatch):
    task = demo.TASKS[1]
    trained = GridPlanner()
    ship(monkeypatch, task.shipped[1], policy=trained)
    assert demo.choose_policy(task) == (trained, task.shipped[1])
    scripted, name = demo.choose_policy(replace(task, shipped=()))
    assert isinstance(scripted, GridPlanner)
    assert "scripted" in name


def test_a_shipped_policy_that_does_not_load_is_not_hidden(monkeypatch):
    def damaged(name):
        raise ValueError("model.safetensors is cut short")

    ship(monkeypatch, demo.TASKS[0].shipped[0])
    monkeypatch.setattr(rnce, "load_policy", damaged)
    with pytest.raises(ValueError, match="cut short"):
        demo.choose_policy(demo.TASKS[0])


def test_what_a_policy_ranks_is_drawn(tmp_path, monkeypatch):
    class Ranking(GridPlanner):
        chunk = 10

        def plan(self, observation):
            spread = np.random.default_rng(0).normal(0, 0.1, (8, 10, 2)).cumsum(axis=1)
            return SimpleNamespace(samples=observation["position"] + spread, scores=np.arange(8.0))

    pictures = []
    for policy in (GridPlanner(), Ranking()):
        ship(monkeypatch, demo.TASKS[1].shipped[0], policy=policy)
        (result,) = demo.run_demo(tmp_path, episodes=1, tasks=[demo.TASKS[1]])
        pictures.append(iio.imread(result.picture))
    assert (pictures[0] != pictures[1]).any()


def test_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "TASKS", ())
    monkeypatch.setattr(demo.run_demo, "__defaults__", (3, ()))
    main(["demo", "--out", str(tmp_path), "--json", str(tmp_path / "figures.json")])
    assert json.loads((tmp_path / "figures.json").read_text()) == []
    (tmp_path / "file").touch()
    for words in (["--episodes", "0"], ["--out", str(tmp_path / "file" / "below")]):
        with pytest.raises(SystemExit) as stop:
            main(["demo", *words])
        assert stop.value.code == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_grid_planner_reaches_the_goal_without_collision():
    env, policy = gym.make("PathPlanning-v0"), GridPlanner()
    for seed in range(50_000, 50_010):
        observation, info = env.reset(seed=seed)
        policy.reset(seed)
        truncated = False
        while not truncated:
            observation, _, _, truncated, info = env.step(policy.act(observation))
        assert not info["collided"]
        assert info["goal_distance"] < 1e-9
        assert info["cost"] < 1.0


def test_grid_path_is_free_and_pulled_tight():
    obstacles, start, goal = scene_for_seed(3)
    corners = shortest_path(start, goal, obstacles, 61)
    tight = pulled_tight(corners, obstacles)
    for path in (corners, tight):
        np.testing.assert_array_equal(path[[0, -1]], [start, goal])
        assert not collided(path, obstacles)
    assert len(tight) <= len(corners)
    steps = np.linalg.norm(np.diff(equal_steps(np.array([[0.0, 0], [1, 0]]), 49), axis=0), axis=-1)
    np.testing.assert_allclose(steps, 1 / 49)


def test_walled_off_goal_gives_the_straight_line():
    ring = np.array([[0.3 * np.cos(a), 0.3 * np.sin(a), 0.15] for a in np.linspace(0, 2 * np.pi, 10, endpoint=False)])
    path = shortest_path(np.array([-0.9, 0.0]), np.zeros(2), ring, 31)
    np.testing.assert_array_equal(path, [[-0.9, 0.0], [0.0, 0.0]])


def test_pusher_is_deterministic_and_improves_the_pose():
    env, policy = gym.make("PushT-v0"), ShootingPusher(tries=16)
    runs = []
    for _ in range(2):
        observation, info = env.reset(seed=50_000)
        before = info["pose_error"][0]
        policy.reset(seed=1)
        for _ in range(60):
            observation, _, terminated, _, info = env.step(policy.act(observation))
            if terminated:
                break
        runs.append(observation)
        assert abs(info["pose_error"][0]) < abs(before)
    np.testing.assert_array_equal(*runs)


def test_bench_reports_both_forms():
    figures = measure(num_envs=4, episodes=1, repeats=1)
    assert figures["native"] > 0
    assert figures["ratio"] == pytest.approx(figures["native"] / figures["sync"])
