"""All claims, computed side by side: numbers to one file, a picture of each beside it."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from rnce.eval.files import check_writable, read_json, write_json
from rnce.eval.theory import figures
from rnce.eval.theory.adversarial import adversarial
from rnce.eval.theory.any_proposal import any_proposal
from rnce.eval.theory.density_ratio import density_ratio
from rnce.eval.theory.fisher import relative_fisher
from rnce.eval.theory.ibc_bias import bias
from rnce.eval.theory.likelihood import likelihood
from rnce.eval.theory.normality import normality
from rnce.eval.theory.profiles import path_planning, pinwheel
from rnce.eval.theory.saddle import saddle
from rnce.policies.devices import own_cores

PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "ibc-bias": bias,
    "density-ratio": density_ratio,
    "any-proposal": any_proposal,
    "normality": normality,
    "fisher": relative_fisher,
    "saddle": saddle,
    "adversarial": adversarial,
    "profiles-pinwheel": pinwheel,
    "profiles-path-planning": path_planning,
    "likelihood": likelihood,
}
LONGEST_FIRST = (
    "profiles-path-planning",
    "profiles-pinwheel",
    "adversarial",
)  # no worker is left alone at last
DIGITS = 7  # that are kept of a number


def run_part(name: str, data: Path | None = None) -> dict[str, Any]:
    """One part, as JSON can hold it, with the seconds it took."""
    began, cpu = time.monotonic(), time.process_time()
    numbers = PARTS[name](data) if name == "profiles-path-planning" else PARTS[name]()
    spent = {"seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu}
    return plain(numbers | spent)


def bench(names: Sequence[str], out: Path, *, data: Path | None = None, workers: int = 2) -> dict[str, Any]:
    """Compute the named parts, keep the others as `out`/theory.json has them, write the file and the pictures."""
    file = out / "theory.json"
    check_writable(file)
    outcome: dict[str, Any] = read_json(file) if file.exists() else {"parts": {}}
    began = time.monotonic()
    with tqdm(total=len(names), unit="claim", dynamic_ncols=True) as bar:
        for name, part in _computed(names, data, workers):
            known = outcome["parts"] | {name: part}
            outcome["parts"] = {name: known[name] for name in PARTS if name in known}
            write_json(file, outcome)  # now: a run that is stopped keeps what it has
            figures.draw(name, part, out / "theory")
            bar.set_postfix_str(name)
            bar.update()
    outcome["cpu_minutes"] = plain(sum(part["cpu_seconds"] for part in outcome["parts"].values()) / 60)
    if len(names) == len(PARTS):
        outcome |= {"minutes": plain((time.monotonic() - began) / 60), "workers": workers}
    write_json(file, outcome)
    return outcome


def in_order(names: Sequence[str]) -> list[str]:
    """The longest first."""
    return sorted(names, key=(*LONGEST_FIRST, *PARTS).index)


def _computed(names: Sequence[str], data: Path | None, workers: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Parts as they are finished, each worker a process with a core of its own: what is small gains little from two."""
    if workers == 1 or len(names) == 1:
        yield from ((name, run_part(name, data)) for name in names)
        return
    context = multiprocessing.get_context("spawn")
    numbers = context.Queue()
    for number in range(workers):
        numbers.put(number)
    with ProcessPoolExecutor(workers, context, initializer=_take_core, initargs=(numbers,)) as pool:
        parts = {pool.submit(run_part, name, data): name for name in in_order(names)}
        for done in as_completed(parts):
            yield parts[done], done.result()


def _take_core(numbers: Any) -> None:
    """Bind this process to one core, before JAX counts them."""
    if hasattr(os, "sched_setaffinity"):
        cores = own_cores()
        os.sched_setaffinity(0, {cores[numbers.get() % len(cores)]})


def plain(value: Any) -> Any:
    """Arrays as lists, and numbers with as many digits as mean something."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
