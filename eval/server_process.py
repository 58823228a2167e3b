"""`rnce serve` in a process of its own, as robots meet it: for benches, soaks and tests."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any


class ServerProcess:
    """A running server; it is ready when this has been made, and ends with the `with` block.

    Args:
        policy: a shipped policy's name or a checkpoint folder.
        options: further words of the command.
    """

    def __init__(self, policy: str | Path, *options: str) -> None:
        command = [sys.executable, "-m", "rnce", "serve", str(policy), "--port", "0", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout is not None
        said = []
        for line in self._process.stdout:
            said.append(line)
            found = re.search(r" on (ws://\S+:(\d+))", line)
            if found:
                self.url, self.port = found[1], int(found[2])
                return
        self.close()
        raise ValueError(f"the server ended: {' '.join(''.join(said).split())}")

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def memory(self) -> float:
        """Resident megabytes."""
        return resident_megabytes(self._process.pid)

    def close(self) -> str:
        """End it as Ctrl-C does; what it said since it was ready."""
        if self.alive:
            self._process.terminate()
        try:
            said, _ = self._process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            said, _ = self._process.communicate()
        return said

    def __enter__(self) -> "ServerProcess":
        return self

    def __exit__(self, *exception: Any) -> None:
        if not self._process.stdout or not self._process.stdout.closed:
            self.close()


def resident_megabytes(pid: int) -> float:
    """Memory that a process holds now."""
    statistics = Path(f"/proc/{pid}/statm")
    if statistics.exists():
        return int(statistics.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(pid)], text=True)) / 2**10
