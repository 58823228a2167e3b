"""Every example runs, as it is."""

import re
import runpy
from pathlib import Path

import peers
import pytest

EXAMPLES = peers.ROOT / "examples"


def run(name: str, *words: str) -> None:
    runpy.run_path(str(EXAMPLES / name))["main"](list(words))


def test_control_loop(policy, tmp_path, capsys):
    policy.save(tmp_path / "policy")
    run("control_loop.py", "--policy", str(tmp_path / "policy"), "--steps", "12", "--hz", "100")
    assert re.search(r"\d plans, \d+ late; the longest took \d+ ms", capsys.readouterr().out)


def test_remote_policy(server, capsys):
    run("remote_policy.py", "--port", str(server.port), "--steps", "12")
    assert "pusht/nf: best reward" in capsys.readouterr().out


def test_custom_robot(tmp_path, capsys):
    run("custom_robot.py", "--out", str(tmp_path), "--rounds", "1", "--episodes", "4", "--samples", "1")
    assert "distance of hand and ball: " in capsys.readouterr().out
    assert (tmp_path / "run" / "policy" / "config.json").exists()


def test_peer_environment(server):
    printed = peers.run(str(EXAMPLES / "peer_environment.py"), "--port", str(server.port), "--steps", "12")
    assert "pusht/nf in gym_pusht/PushT-v0: best reward" in printed


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_is_run_above(example):
    assert f'"{example.name}"' in Path(__file__).read_text()
