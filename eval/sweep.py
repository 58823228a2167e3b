"""Train and measure every point of a grid, over processes or Ray, resumable; the best is chosen on selection seeds.

Points that differ in the sampler only share one training. Each trial has a folder: the training run (which resumes
itself) and one result per sampler; what is there is not done again.
"""

import hashlib
import json
import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rnce.datasets import SyntheticName
from rnce.eval.bhattacharyya import SAMPLES, minimum_bhattacharyya
from rnce.eval.files import check_writable, read_json, write_json
from rnce.eval.grids import BUDGET_SLACK, BUDGETS, Grid, Point, apply, chosen_points, names, split
from rnce.eval.metrics import LOWER_IS_BETTER
from rnce.eval.tables import table

CONTEXTS: dict[SyntheticName, tuple[int, ...]] = {"pinwheel": (4, 5, 6, 7), "spiral": (400, 500, 600, 700, 800)}
ENVIRONMENTS = {"path-planning": ("PathPlanning-v0", "collision"), "pusht": ("PushT-v0", "score")}


@dataclass(frozen=True)
class Trial:
    """One training and the samplers to measure it with."""

    name: str
    """task and method"""
    training: tuple[tuple[str, Any], ...]
    samplers: tuple[tuple[tuple[str, Any], ...], ...]
    preset: str
    data: str | None
    steps: int | None
    seeds: tuple[int, int]
    rollouts: int
    samples: int | None
    folder: str


def trials(name: str, grid: Grid, out: Path, limit: int | None = None, **options: Any) -> list[Trial]:
    """The grid's points, grouped by what has to be trained."""
    groups: dict[tuple[tuple[str, Any], ...], list[tuple[tuple[str, Any], ...]]] = {}
    for point in chosen_points(grid, limit):
        training, sampler = split(point)
        groups.setdefault(tuple(training.items()), []).append(tuple(sampler.items()))
    return [
        Trial(name, training, tuple(samplers), folder=str(out / _identity(training)), **options)
        for training, samplers in groups.items()
    ]


def _identity(items: Iterable[tuple[str, Any]]) -> str:
    text = json.dumps(list(items))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def run_trial(trial: Trial) -> list[dict]:
    """Train unless that is done, then measure with each sampler unless that is done."""
    folder = Path(trial.folder)
    results: list[dict] = []
    files = {sampler: folder / f"result-{_identity(sampler)}.json" for sampler in trial.samplers}
    if not all(file.exists() for file in files.values()):
        policy_folder = _trained(trial, folder)
        for sampler, file in files.items():
            if not file.exists():
                point: Point = {**dict(trial.training), **{f"sampler.{key}": value for key, value in sampler}}
                figures = {"skipped": "over the parameter budget"}
                if policy_folder is not None:
                    figures = _measured(trial, policy_folder, dict(sampler))
                write_json(file, {"name": trial.name, "point": point, **figures})
    results += [read_json(file) for file in files.values()]
    return results


def _trained(trial: Trial, folder: Path) -> Path | None:
    """The policy's folder, or None where the point is over the paper's parameter budget."""
    from rnce import training
    from rnce.policies.presets import recipe_for
    from rnce.policies.recipe import scaled
    from rnce.policies.train import make_run, train

    if (folder / "policy" / "config.json").exists():
        return folder / "policy"
    task_name, _, method = trial.name.partition("/")
    recipe = apply(recipe_for(task_name, method, trial.preset), dict(trial.training))
    if trial.steps is not None:
        recipe = scaled(recipe, trial.steps)
    task, data = training.load_training(task_name, trial.data)
    if _n_params(make_run(task, recipe, data)) > BUDGETS.get(task_name, float("inf")) * BUDGET_SLACK:
        return None
    train(task, recipe, data, folder, resume=folder.exists(), progress=False)
    return folder / "policy"


def _n_params(run: Any) -> int:
    import jax

    from rnce.policies.methods import init

    shapes = jax.eval_shape(lambda key: init(run.method, key), jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def _measured(trial: Trial, policy_folder: Path, sampler: dict[str, Any]) -> dict[str, Any]:
    """The figure trials are chosen by: the task's main one on selection seeds, or the minimum BC for 2-D problems."""
    task_name = trial.name.partition("/")[0]
    if task_name in CONTEXTS:
        return {"metric": "bhattacharyya", "mean": _synthetic(task_name, policy_folder, sampler), "ci95": None}
    from rnce.eval.evaluate import evaluate
    from rnce.eval.settings import Settings

    env, metric = ENVIRONMENTS[task_name]
    settings = Settings(
        str(policy_folder),
        env,
        trial.seeds,
        trial.rollouts,
        samples=trial.samples,
        sampler=",".join(f"{key}={value}" for key, value in sampler.items()) or None,
    )
    document = evaluate(settings, progress=False, latency=False).to_json()
    summary = document["metrics"].get(metric, {"mean": None, "ci95_environments": None})
    return {
        "metric": metric,
        "mean": summary["mean"],
        "ci95": summary["ci95_environments"],
        "params": document["params"],
    }


def _synthetic(task_name: SyntheticName, policy_folder: Path, sampler: dict[str, Any]) -> float:
    import rnce
    from rnce import datasets

    policy = rnce.load_policy(str(policy_folder)).with_options(sampler=sampler or None)
    truth = datasets.load(task_name)
    return minimum_bhattacharyya(
        (truth.sample(x, SAMPLES, seed=0), policy.sample(x, SAMPLES, seed=1).reshape(-1, 2))
        for x in CONTEXTS[task_name]
    )


def sweep(
    name: str,
    grid: Grid,
    out: Path,
    workers: int = 1,
    ray: str | None = None,
    limit: int | None = None,
    progress: bool = True,
    **options: Any,
) -> list[dict]:
    """Run the grid; results best first, also in `out`/sweep.json. Running it again goes on where it stopped."""
    check_writable(out / "sweep.json")
    todo = trials(name, grid, out, limit, **options)
    found: dict[int, list[dict]] = {}
    with tqdm(total=len(todo), desc=name, unit="trial", disable=not progress) as bar:
        for index, results in _spread(todo, workers, ray):
            found[index] = results
            bar.update()
            best = _ranked_trials(found)[0]
            if best.get("mean") is not None:
                bar.set_postfix({best["metric"]: f"{best['mean']:.4f}"})
    results = _ranked_trials(found)
    write_json(out / "sweep.json", results)
    return results


def _ranked_trials(found: dict[int, list[dict]]) -> list[dict]:
    """Best first, equals in the grid's order: which trial ended first does not matter."""
    return ranked([result for _, results in sorted(found.items()) for result in results])


def _spread(todo: list[Trial], workers: int, ray: str | None) -> Iterator[tuple[int, list[dict]]]:
    """Each trial's number and results, as it ends."""
    if ray is not None:
        yield from _on_ray(todo, ray, workers)
    elif workers == 1:
        yield from enumerate(map(run_trial, todo))
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            numbers = {pool.submit(run_trial, trial): number for number, trial in enumerate(todo)}
            for future in as_completed(numbers):
                yield numbers[future], future.result()


def _on_ray(todo: list[Trial], address: str, workers: int) -> Iterator[tuple[int, list[dict]]]:
    from rnce.eval.ray_workers import ray_session

    with ray_session(address, workers if workers > 1 else None) as ray:
        remote = ray.remote(num_cpus=1, max_retries=3)(run_trial)
        waiting = {remote.remote(trial): number for number, trial in enumerate(todo)}
        while waiting:
            (done,), _ = ray.wait(list(waiting), num_returns=1)
            yield waiting.pop(done), ray.get(done)


def ranked(results: list[dict]) -> list[dict]:
    """Best first; those without a figure last."""

    def key(result: dict) -> tuple[bool, float]:
        mean = result.get("mean")
        return mean is None, 0.0 if mean is None else (mean if result["metric"] in LOWER_IS_BETTER else -mean)

    return sorted(results, key=key)


def sweep_table(results: list[dict], most: int = 20) -> str:
    """The best points with their figures."""
    rows = []
    for result in results[:most]:
        low, high = result.get("ci95") or (None, None)
        rows.append(
            [
                " ".join(names(result["point"])) or "(the preset)",
                result.get("skipped", "") if result.get("mean") is None else f"{result['mean']:.4f}",
                "" if low is None else f"[{low:.3f}, {high:.3f}]",
            ]
        )
    metric = next((result["metric"] for result in results if "metric" in result), "figure")
    return table(["point", metric, "95 % (environments)"], rows)
