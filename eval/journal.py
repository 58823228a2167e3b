"""Finished shards on disk, one JSON line each, so that a long evaluation survives being stopped at any moment."""

import json
import os
from pathlib import Path
from typing import IO

from rnce.eval.rollout import ShardResult
from rnce.eval.settings import Episode, Settings


class Journal:
    """An append-only file: the settings, then a line per finished shard.

    A shard that was under way is run again as a whole: which slot an episode meets depends on its shard, and the result
    must not depend on whether there was an interruption.
    """

    def __init__(self, path: Path, settings: Settings, resume: bool) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        head = json.dumps({"settings": settings.to_json()})
        self.finished: dict[int, ShardResult] = {}
        lines = _whole_lines(path) if resume else []
        if lines:
            self._check(json.loads(lines[0])["settings"], json.loads(head)["settings"])
            for line in lines[1:]:
                index, result = _parse(line)
                self.finished[index] = result
        kept = lines or [head]
        path.write_text("".join(line + "\n" for line in kept))  # drops a line that was cut short
        self._file: IO[str] = path.open("a")

    def _check(self, found: dict, expected: dict) -> None:
        for name, value in expected.items():
            if found.get(name) != value:
                raise ValueError(
                    f"{self._path} belongs to another evaluation: {name} was {found.get(name)!r} and is now {value!r};"
                    " evaluate as before, or leave out --resume to start afresh"
                )

    def add(self, index: int, result: ShardResult) -> None:
        """Record a finished shard; it is on the disk when this returns."""
        line = {
            "shard": index,
            "episodes": [e.to_json() for e in result.episodes],
            "plan_seconds": result.plan_seconds,
            "rows_per_plan": result.rows_per_plan,
            "params": result.params,
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self, remove: bool) -> None:
        """Close the file, and remove it when its work is done."""
        self._file.close()
        if remove:
            self._path.unlink()


def _whole_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    *lines, _cut_short = path.read_text().split("\n")
    return lines


def _parse(line: str) -> tuple[int, ShardResult]:
    entry = json.loads(line)
    episodes = [Episode(**episode) for episode in entry["episodes"]]
    return entry["shard"], ShardResult(episodes, entry["plan_seconds"], entry["rows_per_plan"], entry["params"])
