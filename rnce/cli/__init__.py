"""The `rnce` command: a table of subcommands, each a typed function that is imported only when it is called."""

import contextlib
import difflib
import importlib
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

# What is typed after `rnce` -> "module:function". The function's signature is the command's interface and the
# first line of its docstring the summary in `rnce --help`.
COMMANDS: dict[str, str] = {
    "list": "rnce.cli.list_command:list_everything",
    "demo": "rnce.cli.demo_command:demo",
    "play": "rnce.cli.play_command:play",
    "train": "rnce.cli.train_command:train",
    "serve": "rnce.cli.serve_command:serve",
    "export": "rnce.cli.export_command:export",
    "data info": "rnce.cli.data_command:data_info",
    "data convert": "rnce.cli.data_command:data_convert",
    "data pusht": "rnce.cli.data_command:data_pusht",
    "ship": "rnce.cli.ship_command:ship",
    "ship-scores": "rnce.cli.ship_command:ship_scores",
    "eval": "rnce.cli.eval_command:evaluate",
    "compare": "rnce.cli.eval_compare_command:compare",
    "report": "rnce.cli.eval_compare_command:report",
    "sweep": "rnce.cli.eval_sweep_command:sweep",
    "data path-planning": "rnce.cli.data_path_planning_command:data_path_planning",
    "bench planner": "rnce.cli.bench_planner_command:bench_planner",
    "bench synthetic": "rnce.cli.bench_synthetic_command:bench_synthetic",
    "bench theory": "rnce.cli.bench_theory_command:bench_theory",
    "bench train": "rnce.cli.bench_speed_command:bench_train",
    "bench latency": "rnce.cli.bench_speed_command:bench_latency",
    "bench serve": "rnce.cli.bench_serve_command:bench_serve",
    "bench soak": "rnce.cli.bench_serve_command:bench_soak",
    "bench composition": "rnce.cli.eval_bench_command:composition",
    "bench samplers": "rnce.cli.eval_bench_command:samplers",
    "bench ablations": "rnce.cli.eval_bench_command:ablations",
    "bench env": "rnce.cli.bench_env_command:bench_env",
    "bench harness": "rnce.cli.eval_bench_command:harness",
    "bench path-planning": "rnce.cli.eval_bench_command:path_planning",
    "bench pusht": "rnce.cli.eval_bench_command:pusht",
    "bench path-planning-env": "rnce.cli.bench_path_planning_command:bench_path_planning_env",
}

BAD_INPUT, INTERRUPTED = 2, 130  # exit codes


def main(argv: Sequence[str] | None = None) -> None:
    """Run `rnce ARGS`. Bad input ends with one line on stderr and exit code 2; `RNCE_DEBUG=1` shows the traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = _longest_command(words)
    if name is None:
        if not words or words[0] in ("-h", "--help") or words[-1] in ("-h", "--help"):
            print(_overview(words[0] if words and not words[0].startswith("-") else ""))
            return
        _fail(_unknown_command(words))
    try:
        _call(COMMANDS[name], f"rnce {name}", words[len(name.split()) :])
    except (ValueError, OSError, ImportError) as error:
        if os.environ.get("RNCE_DEBUG"):
            raise
        _fail(f"rnce {name}: {_one_line(str(error) or type(error).__name__)}")
    except KeyboardInterrupt:
        print(f"rnce {name}: stopped", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _longest_command(words: Sequence[str]) -> str | None:
    for length in (2, 1):
        candidate = " ".join(words[:length])
        if len(words) >= length and candidate in COMMANDS:
            return candidate
    return None


def _call(target: str, prog: str, args: Sequence[str]) -> None:
    import tyro

    function = _load(target)
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            call = tyro.cli(tyro.conf.configure(tyro.conf.OmitArgPrefixes)(_deferred(function)), prog=prog, args=args)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        _fail(f"{prog}: {_one_line(errors.getvalue())} (see {prog} --help)")
    call()


def _deferred(function: Callable[..., None]) -> Callable[..., Callable[[], None]]:
    """The same signature, but parsing only: what the command prints must not be taken for a parse error."""
    import functools

    @functools.wraps(function)
    def parse(*args: object, **kwargs: object) -> Callable[[], None]:
        return lambda: function(*args, **kwargs)

    return parse


def _load(target: str) -> Callable[..., None]:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _overview(group: str) -> str:
    names = [name for name in COMMANDS if name.startswith(group)]
    width = max(map(len, names), default=0)
    rows = [f"  {name:<{width}}  {(_load(COMMANDS[name]).__doc__ or '').strip().splitlines()[0]}" for name in names]
    return "\n".join(
        [
            "usage: rnce COMMAND [OPTIONS]      (rnce COMMAND --help shows options and an example)",
            "",
            *rows,
            "",
            "example: rnce play pusht",
        ]
    )


def _unknown_command(words: Sequence[str]) -> str:
    typed = " ".join(words[:2]) if any(name.startswith(words[0] + " ") for name in COMMANDS) else words[0]
    near = difflib.get_close_matches(typed, COMMANDS, n=1)
    hint = f"did you mean 'rnce {near[0]}'?" if near else f"one of: {', '.join(COMMANDS)}"
    return f"rnce: there is no command {typed!r}; {hint}"


def _one_line(text: str) -> str:
    """Tyro draws its errors in a box; scripts and people want one line."""
    unboxed = re.sub(r"\x1b\[[0-9;]*m|[─-╿]", " ", text)
    return " ".join(unboxed.split())


def _fail(line: str) -> NoReturn:
    print(line, file=sys.stderr)
    raise SystemExit(BAD_INPUT)
