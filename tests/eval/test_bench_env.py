"""The benchmark against gym-pusht, with this package in the place of the peer: no test measures time."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from rnce.cli import main
from rnce.eval import bench_env

OURS = bench_env.Job("rnce", "PushT-v0", "state", [3], bench_env.smooth_targets(1, 12).tolist())


def test_a_worker_steps_and_reports():
    timing = bench_env._run(Path(sys.executable), OURS)
    assert timing.microseconds > 0.0
    assert np.shape(timing.last_states) == (1, 5)
    assert timing.versions["python"].startswith("3.")


def test_both_get_the_same_work(monkeypatch, capsys, tmp_path):
    run, jobs = bench_env._run, []

    def ours_for_both(python, job):
        jobs.append(job)
        return run(Path(sys.executable), bench_env.Job("rnce", "PushT-v0", job.obs_type, job.seeds, job.actions))

    monkeypatch.setattr(bench_env, "_run", ours_for_both)
    file = tmp_path / "bench.json"
    words = ["--peer-python", sys.executable, "--episodes", "2", "--steps", "15", "--rounds", "1", "--json", str(file)]
    main(["bench", "env", *words])
    assert {job.env_id for job in jobs} == {"PushT-v0", "gym_pusht/PushT-v0"}
    assert all(job.actions == jobs[0].actions and job.seeds == jobs[0].seeds for job in jobs)
    rows = json.loads(file.read_text())["rows"]
    assert [row["obs_type"] for row in rows] == ["state", "pixels_agent_pos"]
    assert all(row["difference"] == 0.0 for row in rows)
    assert "pixels_agent_pos" in capsys.readouterr().out


def test_targets_wander_on_the_canvas():
    targets = bench_env.smooth_targets(3, 45)
    assert targets.shape == (3, 45, 2)
    assert (targets >= 100.0).all()
    assert (targets <= 412.0).all()
    assert np.abs(np.diff(targets, axis=1)).max() < 32.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--peer-python", "/no/such/python"], "peer_python"),
        (["--peer-python", sys.executable, "--rounds", "0"], "at least 1"),
    ],
)
def test_bad_input_is_named(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["bench", "env", *words])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_a_peer_without_gym_pusht_is_named():
    job = bench_env.Job("no_such_module", "no/Such-v0", "state", [0], OURS.actions)
    with pytest.raises(ValueError, match="No module named 'no_such_module'"):
        bench_env._run(Path(sys.executable), job)
