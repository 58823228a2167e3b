"""Every command in the table explains itself, and bad input is one line and exit code 2."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from rnce.cli import COMMANDS, main


def run(capsys, *words):
    """Exit code, stdout, stderr of `rnce WORDS`."""
    try:
        main(words)
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(command, capsys):
    code, out, err = run(capsys, *command.split(), "--help")
    assert (code, err) == (0, "")
    assert f"Example: rnce {command}" in " ".join(out.replace("│", " ").split())


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_is_one_line_and_code_2(command, capsys):
    code, out, err = run(capsys, *command.split(), "--no-such-option")
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert err.startswith(f"rnce {command}: ")


def test_the_overview_lists_every_command(capsys):
    for words in ((), ("--help",), ("-h",)):
        code, out, _ = run(capsys, *words)
        assert code == 0
        assert all(f"  {name} " in out for name in COMMANDS)


def test_an_unknown_command_suggests_the_nearest(capsys):
    code, out, err = run(capsys, "lst")
    assert (code, out) == (2, "")
    assert err == "rnce: there is no command 'lst'; did you mean 'rnce list'?\n"


def test_ctrl_c_is_one_line_and_code_130(capsys, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("rnce.cli.list_command.list_everything", interrupted)
    assert run(capsys, "list") == (130, "", "rnce list: stopped\n")


def test_list_shows_environments(capsys):
    code, out, _ = run(capsys, "list")
    assert code == 0
    assert "PathPlanning-v0" in out
    assert "PushT-v0" in out


def test_list_finds_shipped_policies_by_their_files(tmp_path, monkeypatch):
    from rnce.cli import list_command

    monkeypatch.setattr(list_command, "find_spec", lambda name: SimpleNamespace(submodule_search_locations=[tmp_path]))
    assert list_command.shipped_policies() == []
    for name in ("pusht/r-nce", "pusht/nf", "pinwheel/ibc"):
        folder = tmp_path / "pretrained" / name
        folder.mkdir(parents=True)
        (folder / "config.json").touch()
    (tmp_path / "pretrained" / "pusht" / "unfinished").mkdir()
    (tmp_path / "pretrained" / "README.md").touch()
    assert list_command.shipped_policies() == ["pinwheel/ibc", "pusht/nf", "pusht/r-nce"]


def test_list_needs_no_jax():
    code = "import sys; from rnce.cli import main; main(['list']); assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_python_dash_m():
    result = subprocess.run([sys.executable, "-m", "rnce", "nonsense"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
