"""`rnce eval`, `compare` and `report` as they are typed."""

import json
import os

import pytest

from rnce.cli import main
from rnce.eval.run import parse_samples, parse_seeds

RANDOM = "rnce.eval.scripted:random_targets"


def run(capsys, *words):
    """Exit code, what was printed, what was complained of."""
    try:
        main(words)
        code = 0
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_eval_compare_report(capsys, tmp_path):
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    for policy, file in zip(("peer_policies:Wanderer", "rnce.eval.scripted:straight_line"), files):
        code, out, _ = run(capsys, "eval", policy, "--seeds", "50000:50004", "--rollouts", "2", "--json", file)
        assert code == 0
        assert "collision" in out
        assert "winding classes" in out or "straight" in policy
    assert json.loads((tmp_path / "a.json").read_text())["seeds"] == [50_000, 50_004]
    assert sorted(os.listdir(tmp_path)) == ["a.json", "b.json"]  # the journals are gone
    code, out, _ = run(capsys, "compare", *files, "--picture", str(tmp_path / "p.png"), "--json", str(tmp_path / "c"))
    assert code == 0
    assert "A − B" in out
    assert (tmp_path / "p.pdf").exists()
    assert "cost" in json.loads((tmp_path / "c").read_text())["differences"]
    code, out, _ = run(capsys, "report", *files, "--out", str(tmp_path / "page.html"))
    assert code == 0
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_pusht_metrics(capsys, tmp_path):
    file = tmp_path / "r.json"
    code, _, _ = run(capsys, "eval", RANDOM, "--seeds", "50000:50003", "--max-steps", "20", "--json", str(file))
    assert code == 0
    document = json.loads(file.read_text())
    assert {"score", "final_coverage", "success"} <= set(document["metrics"])
    assert document["max_steps"] == 20


def test_failed_episodes_set_the_exit_code(capsys):
    code, out, _ = run(capsys, "eval", "peer_policies:RaisesSometimes", "--seeds", "50000:50006")
    assert code == 1
    assert "failed: seed 5000" in out
    assert "is unlucky" in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["peer_policies:Wanderer", "--seeds", "7"], "--seeds must be A:B"),
        (["peer_policies:Wanderer", "--samples", "1,x"], "--samples must be whole numbers"),
        (["peer_policies:make_function"], "say --env ID"),
        (["no_such_module:f", "--env", "PushT-v0"], "no_such_module"),
        (["peer_policies:Wanderer", "--resume"], "--resume needs --json"),
        (["peer_policies:Wanderer", "--json", "/proc/nothing/x.json"], "cannot write /proc/nothing/x.json"),
        (["peer_policies:Wanderer", "--video", "/dev/null/x"], "cannot write"),
        (["peer_policies:Wanderer", "--workers", "0"], "workers must be at least 1"),
    ],
)
def test_bad_input_is_one_line_and_code_2(capsys, words, complaint):
    code, out, err = run(capsys, "eval", *words)
    assert code == 2
    assert complaint in err
    assert err.strip().count("\n") == 0
    assert out == ""


def test_a_full_disk_is_said_before_the_work(capsys):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    code, _, err = run(capsys, "report", "/dev/full/x.json", "--out", "/dev/full/page.html")
    assert code == 2
    assert "cannot write" in err


def test_ctrl_c_says_what_is_there(capsys, tmp_path):
    import peer_policies

    peer_policies.Interrupts.calls = 0
    words = ("eval", "peer_policies:Interrupts", "--seeds", "50000:50064", "--rollouts", "2")
    file = str(tmp_path / "r.json")
    code, out, _ = run(capsys, *words, "--json", file)
    assert code == 130
    assert "interrupted" in out
    code, out, _ = run(capsys, *words, "--json", file, "--resume")
    assert code == 0
    assert "128 episodes" in out


def test_words_become_numbers():
    assert parse_seeds("100000:100256") == (100_000, 100_256)
    assert parse_samples("1,8,48") == [1, 8, 48]
    assert parse_samples(None) == [None]
