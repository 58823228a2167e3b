"""The example in eval/README.md runs as it is written there."""

import json
import re
from pathlib import Path

from rnce.cli import main

PAGE = Path(__file__).resolve().parents[2] / "eval" / "README.md"


def test_the_example_policy_is_measured(tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    Path("my_policy.py").write_text(code)
    main(["eval", "my_policy:make_policy", "--seeds", "50000:50003", "--rollouts", "2", "--json", "r.json"])
    document = json.loads(Path("r.json").read_text())
    assert document["episodes"] == 6
    assert document["metrics"]["goal_distance"]["mean"] < 0.1


def test_commands_on_the_page_exist():
    from rnce.cli import COMMANDS

    for command in re.findall(r"^rnce ((?:bench )?[\w-]+)", PAGE.read_text(), re.M):
        assert command in COMMANDS
