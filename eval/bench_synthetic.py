"""The synthetic benchmark: all methods on pinwheel and spiral, measured by the paper's Bhattacharyya coefficient.

Training is left to `rnce train` in processes of their own, one to a core: networks this small gain nothing from
sharing one. Sampling and scoring happen here.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from rnce import datasets
from rnce.datasets import SyntheticName
from rnce.eval.bhattacharyya import SAMPLES, bhattacharyya_of_densities, density_on_grid
from rnce.policies.devices import own_cores

PROBLEMS: tuple[SyntheticName, ...] = ("pinwheel", "spiral")
MODEL_SEED, TRUTH_SEED, SECOND_TRUTH_SEED = 100_000, 100_001, 100_002


def train_all(methods: Sequence[str], runs: Path, workers: int, steps: int | None) -> None:
    """Train every method on every problem, `workers` at a time, each with one thread; runs that exist are continued."""
    jobs = [f"{problem}/{method}" for method in methods for problem in PROBLEMS]
    cores = own_cores()

    def one(job: tuple[int, str]) -> None:
        number, name = job
        out = runs / name
        if (out / "policy" / "config.json").exists():
            return
        command = [sys.executable, "-m", "rnce", "train", name, "--out", str(out)]
        command += ["--steps", str(steps)] if steps else []
        command += ["--resume"] if (out / "run.json").exists() else []
        if shutil.which("taskset"):
            command = ["taskset", "-c", str(cores[number % workers % len(cores)]), *command]
        environment = os.environ | {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(f"{name}: training failed: {done.stderr.strip().splitlines()[-1]}")

    with ThreadPoolExecutor(workers) as pool, tqdm(total=len(jobs), unit="policy", desc="training") as bar:
        for _ in pool.map(one, enumerate(jobs)):
            bar.update()


def measure(problem: SyntheticName, folder: Path) -> dict[str, Any]:
    """Coefficients of a policy on every context of its problem, with its samples' densities for the pictures."""
    from rnce.policies import load_policy

    truth, policy = datasets.load(problem), load_policy(folder)
    coefficients, samples = {}, {}
    began = time.monotonic()
    for context in truth.contexts:
        samples[context] = policy.sample(context, SAMPLES, seed=MODEL_SEED)[:, 0]
    seconds = time.monotonic() - began
    for context, drawn in samples.items():
        inside = drawn[np.all(np.isfinite(drawn), axis=1)]
        real = density_on_grid(truth.sample(context, SAMPLES, seed=TRUTH_SEED))
        coefficients[str(context)] = bhattacharyya_of_densities(real, density_on_grid(inside))
    return {
        "bc": coefficients,
        "min_bc": min(coefficients.values()),
        "params": policy.n_params,
        "train_minutes": policy.checkpoint.recipe.get("minutes"),
        "sample_seconds": round(seconds / len(samples), 2),
        "samples": samples,
    }


def ceiling(problem: SyntheticName) -> dict[str, float]:
    """What two independent sets of true samples reach: no model can do better."""
    truth = datasets.load(problem)
    pairs = {
        context: [density_on_grid(truth.sample(context, SAMPLES, seed)) for seed in (TRUTH_SEED, SECOND_TRUTH_SEED)]
        for context in truth.contexts
    }
    return {str(context): bhattacharyya_of_densities(*pair) for context, pair in pairs.items()}


def bench(methods: Sequence[str], runs: Path, results: Path, *, workers: int, steps: int | None, train: bool) -> dict:
    """Train, measure, draw; returns what it wrote to `results/synthetic.json`."""
    from rnce.policies.policy import PRETRAINED

    began = time.monotonic()
    if train:
        train_all(methods, runs, workers, steps)
    table: dict[str, Any] = {}
    panels: dict[tuple[SyntheticName, str], Any] = {}
    for problem in PROBLEMS:
        limits = ceiling(problem)
        table[problem] = {"ceiling": {"bc": limits, "min_bc": min(limits.values())}}
        for method in tqdm(methods, desc=f"sampling {problem}", unit="policy"):
            folder = runs / problem / method / "policy" if train else PRETRAINED / problem / method
            row = measure(problem, folder)
            panels[problem, method] = row.pop("samples")
            table[problem][method] = row
    outcome = {
        "problems": table,
        "samples": SAMPLES,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "trained": train,
    }
    results.mkdir(parents=True, exist_ok=True)
    _write(results / "synthetic.json", json.dumps(outcome, indent=1) + "\n")
    for problem in PROBLEMS:
        draw(problem, {method: panels[problem, method] for method in methods}, table[problem], results)
    return outcome


def draw(
    problem: SyntheticName, samples: dict[str, dict[float, np.ndarray]], rows: dict[str, Any], results: Path
) -> None:
    """Histograms of samples and kernel densities, a row for each method, a column for each of three contexts."""
    import matplotlib.pyplot as plt

    from rnce.eval.plots import save

    truth = datasets.load(problem)
    contexts = truth.contexts[:3]
    shown = {"actual": {context: truth.sample(context, SAMPLES, TRUTH_SEED) for context in truth.contexts}} | samples
    for kind in ("samples", "density"):
        figure, axes = plt.subplots(len(shown), len(contexts), figsize=(5.4, 1.5 * len(shown)), squeeze=False)
        for row, (name, drawn) in zip(axes, shown.items()):
            for axis, context in zip(row, contexts):
                points = drawn[context]
                if kind == "samples":
                    axis.hist2d(*points.T, bins=64, range=[[-4, 4], [-4, 4]], cmap="magma")
                else:
                    axis.imshow(density_on_grid(points).T, origin="lower", extent=(-4, 4, -4, 4), cmap="magma")
                axis.set(xticks=[], yticks=[], aspect="equal")
            label = name if name == "actual" else f"{name}\nBC {rows[name]['min_bc']:.3f}"
            row[0].set_ylabel(label, rotation=0, ha="right", va="center")
        for axis, context in zip(axes[0], contexts):
            axis.set_title(f"x = {context:g}", fontsize=9)
        figure.tight_layout()
        save(figure, results / f"synthetic_{problem}_{kind}")
        plt.close(figure)


def markdown(outcome: dict[str, Any]) -> str:
    """The table of the README."""
    problems = outcome["problems"]
    methods = [name for name in problems[PROBLEMS[0]] if name != "ceiling"]
    lines = ["| | parameters | pinwheel | spiral |", "|---|---|---|---|"]
    for name in methods:
        size = max(problems[problem][name]["params"] for problem in PROBLEMS)
        figures = " | ".join(f"{problems[problem][name]['min_bc']:.3f}" for problem in PROBLEMS)
        lines.append(f"| {name} | {size:,} | {figures} |")
    ceilings = " | ".join(f"{problems[problem]['ceiling']['min_bc']:.3f}" for problem in PROBLEMS)
    return "\n".join([*lines, f"| two sets of true samples | | {ceilings} |"])


def ship(methods: Sequence[str], runs: Path) -> None:
    """Copy trained policies into the package, with their curves."""
    from rnce.policies.shipping import ship as ship_one

    for problem in PROBLEMS:
        for method in methods:
            ship_one(runs / problem / method, f"{problem}/{method}")


def _write(file: Path, text: str) -> None:
    temporary = file.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.rename(file)
