"""Push-T against gym-pusht: CPU time of a step, with the same starts and the same actions, in one run."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

OBS_TYPES = ("state", "pixels_agent_pos")
_WORKER = Path(__file__).with_name("bench_env_worker.py")


@dataclass(frozen=True)
class Job:
    """What a worker process does: one episode for each seed, with given actions (episode, step, 2)."""

    module: str
    env_id: str
    obs_type: str
    seeds: list[int]
    actions: list[list[list[float]]]


@dataclass(frozen=True)
class Timing:
    """What a worker process found."""

    microseconds: float
    contact_share: float
    last_states: list[list[float]]
    versions: dict[str, str]


@dataclass(frozen=True)
class Comparison:
    """Medians over rounds, in microseconds of CPU time a step; the ratio is the median of the rounds' ratios."""

    obs_type: str
    ours: float
    peer: float
    ratio: float
    lowest_ratio: float
    contact_share: float
    difference: float  # largest, between the final states of both, in pixels or radians
    versions: dict[str, dict[str, str]]


def compare(peer_python: Path, episodes: int, steps: int, rounds: int) -> Iterator[Comparison]:
    """Time both environments for each observation type; rounds alternate, so a busy machine slows both alike.

    What is wrong with the arguments is said before the first comparison.
    """
    if min(episodes, steps, rounds) < 1:
        raise ValueError(f"episodes, steps and rounds are {episodes}, {steps} and {rounds}; each must be at least 1")
    if not os.access(peer_python, os.X_OK):
        raise ValueError(f"peer_python is {str(peer_python)!r}; it must be a Python interpreter that has gym-pusht")
    return _comparisons(peer_python, episodes, steps, rounds)


def _comparisons(peer_python: Path, episodes: int, steps: int, rounds: int) -> Iterator[Comparison]:
    actions = smooth_targets(episodes, steps).tolist()
    seeds = list(range(episodes))
    for obs_type in OBS_TYPES:
        ours, peer = [], []
        for _ in range(rounds):
            ours.append(_run(Path(sys.executable), Job("rnce", "PushT-v0", obs_type, seeds, actions)))
            peer.append(_run(peer_python, Job("gym_pusht", "gym_pusht/PushT-v0", obs_type, seeds, actions)))
        ratios = [theirs.microseconds / own.microseconds for own, theirs in zip(ours, peer)]
        yield Comparison(
            obs_type=obs_type,
            ours=statistics.median(timing.microseconds for timing in ours),
            peer=statistics.median(timing.microseconds for timing in peer),
            ratio=statistics.median(ratios),
            lowest_ratio=min(ratios),
            contact_share=ours[0].contact_share,
            difference=float(np.abs(np.subtract(ours[0].last_states, peer[0].last_states)).max()),
            versions={"ours": ours[0].versions, "peer": peer[0].versions},
        )


def smooth_targets(episodes: int, steps: int) -> np.ndarray:
    """Actions (episode, step, 2) that wander through the middle of the canvas at a demonstrator's pace."""
    rng = np.random.default_rng(0)
    pace = 10  # steps from one way point to the next
    points = rng.uniform(100.0, 412.0, size=(episodes, steps // pace + 2, 2))
    times = np.arange(steps) / pace
    before = times.astype(int)
    share = (times - before)[:, None]
    return (1 - share) * points[:, before] + share * points[:, before + 1]


def as_table(comparisons: list[Comparison]) -> str:
    """The figures for people."""
    lines = [f"{'obs_type':<18}{'rnce':>10}{'gym-pusht':>12}{'ratio':>8}{'lowest':>8}   (µs CPU a step)"]
    for row in comparisons:
        numbers = f"{row.ours:>10.1f}{row.peer:>12.1f}{row.ratio:>8.1f}{row.lowest_ratio:>8.1f}"
        lines.append(f"{row.obs_type:<18}{numbers}")
    first = comparisons[0]
    lines.append(
        f"block in contact in {first.contact_share:.0%} of steps; final states differ by {first.difference:.1e}"
    )
    return "\n".join(lines)


def as_json(comparisons: list[Comparison]) -> dict[str, Any]:
    """The figures for programs."""
    return {"unit": "µs CPU a step", "rows": [asdict(row) for row in comparisons]}


def _run(python: Path, job: Job) -> Timing:
    # -I keeps the script's folder off the import path: its neighbours have the names of other people's packages.
    done = subprocess.run(
        [str(python), "-I", "-W", "ignore", str(_WORKER)],
        input=json.dumps(asdict(job)),
        capture_output=True,
        text=True,
        env=os.environ | {"SDL_VIDEODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"},
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ValueError(f"{python} could not run {job.env_id}: {reason}")
    return Timing(**json.loads(done.stdout.splitlines()[-1]))
