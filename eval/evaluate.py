"""`evaluate`: settings in, result out; in this process, over worker processes or over Ray, with the same bits."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tqdm import tqdm

from rnce.eval.adapters import policy_factory
from rnce.eval.journal import Journal
from rnce.eval.latency import Latency, plan_latency
from rnce.eval.metrics import main_metric, modes_per_seed, per_seed, summarize
from rnce.eval.ray_workers import run_on_ray
from rnce.eval.rollout import Runner, ShardResult
from rnce.eval.settings import Episode, Job, Settings
from rnce.eval.workers import run_in_processes


@dataclass(frozen=True)
class Result:
    """Everything an evaluation found."""

    settings: Settings
    episodes: list[Episode]
    params: int | None
    plan_seconds: list[float] = field(repr=False)
    """of plans for `rows_per_plan` environments at once"""
    rows_per_plan: int
    latency: Latency = field(repr=False)
    """of plans for one environment; without any where it was not measured apart"""
    seconds: float
    interrupted: bool = False

    @property
    def failed(self) -> list[Episode]:
        """Episodes that ended with an error instead of figures."""
        return [episode for episode in self.episodes if episode.error is not None]

    def plan_ms(self) -> dict:
        """Median and 95th percentile of the planning time in milliseconds, for one environment where that is known.

        There also the `deadline`, which is how long the actions of a chunk last, and the share of plans `late` for it.
        """
        batch = {**_percentiles(self.plan_seconds), "environments": self.rows_per_plan}
        seconds, deadline = self.latency
        if not seconds:
            return batch
        timing = {**_percentiles(seconds), "environments": 1, "batch": batch}
        if deadline is None:
            return timing
        return {**timing, "deadline": round(1000 * deadline, 3), "late": float(np.mean(np.array(seconds) > deadline))}

    def to_json(self) -> dict:
        """The result's JSON form; the keys are part of the interface."""
        settings = self.settings
        modes = modes_per_seed(self.episodes)
        result = {
            "policy": settings.policy,
            "env": settings.env,
            "params": self.params,
            "seeds": list(settings.seeds),
            "rollouts": settings.rollouts,
            "samples": settings.samples,
            "sampler": settings.sampler,
            "ranker": settings.ranker,
            "lead": settings.lead,
            "max_steps": settings.max_steps,
            "episodes": len(self.episodes) - len(self.failed),
            "metrics": summarize(self.episodes),
            "plan_ms": self.plan_ms(),
            "failed": [{"seed": e.seed, "rollout": e.rollout, "error": e.error} for e in self.failed],
            "per_seed": per_seed(self.episodes),
            "seconds": round(self.seconds, 3),
            "interrupted": self.interrupted,
        }
        if modes:
            result["modes_per_seed"] = {str(seed): dict(counts.most_common()) for seed, counts in modes.items()}
        return result


def _percentiles(seconds: list[float]) -> dict[str, float | None]:
    if not seconds:
        return {"p50": None, "p95": None}
    p50, p95 = 1000 * np.quantile(seconds, [0.5, 0.95])
    return {"p50": round(float(p50), 3), "p95": round(float(p95), 3)}


def evaluate(
    settings: Settings,
    workers: int = 1,
    ray: str | None = None,
    journal: Path | None = None,
    resume: bool = False,
    progress: bool = True,
    latency: bool = True,
) -> Result:
    """Run every episode of the settings.

    Ctrl-C returns what is there so far, marked `interrupted`; a `journal` keeps finished shards on disk, and `resume`
    goes on from it. Neither `workers` nor `ray` (a cluster's address, or "local") changes a bit of the episodes.
    `latency` measures the package's policies in one environment too, which needs another compilation.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if resume and journal is None:
        raise ValueError("resume needs a journal; name the output file of the evaluation to go on with")
    begin = time.perf_counter()
    policy_factory(settings.policy)  # a policy that does not exist is said here, not by each worker
    runner = Runner(settings) if workers == 1 and ray is None else None
    book = Journal(journal, settings, resume) if journal else None
    finished = dict(book.finished) if book else {}
    shards = {index: jobs for index, jobs in enumerate(settings.shards) if index not in finished}
    interrupted = False
    with _Progress(settings, progress) as bar:
        for result in finished.values():
            bar.add_all(result.episodes)
        try:
            for index, result in _run(settings, shards, runner, workers, ray, bar.add):
                finished[index] = result
                bar.add_all(result.episodes)
                if book:
                    book.add(index, result)
        except KeyboardInterrupt:
            interrupted = True
        episodes = bar.episodes
    if book:
        book.close(remove=not interrupted)
    known = [result for _, result in sorted(finished.items()) if result.plan_seconds]
    return Result(
        settings=settings,
        episodes=[episodes[job] for job in settings.jobs if job in episodes],
        params=next((result.params for result in finished.values() if result.params is not None), None),
        plan_seconds=[seconds for result in known for seconds in result.plan_seconds],
        rows_per_plan=known[0].rows_per_plan if known else 1,
        latency=plan_latency(settings) if latency and not interrupted else Latency([], None),
        seconds=time.perf_counter() - begin,
        interrupted=interrupted,
    )


def _run(
    settings: Settings,
    shards: dict[int, list[Job]],
    runner: Runner | None,
    workers: int,
    ray: str | None,
    on_episode: Callable[[Episode], None],
) -> Iterable[tuple[int, ShardResult]]:
    if not shards:
        return
    if runner is not None:
        for index, jobs in shards.items():
            yield index, runner.run(jobs, on_episode)
        runner.close()
    elif ray is not None:
        yield from run_on_ray(settings, shards, ray, workers if workers > 1 else None, on_episode)
    else:
        yield from run_in_processes(settings, shards, workers, on_episode)


class _Progress:
    """A progress bar with the running mean of the task's main figure; keeps the episodes heard of so far."""

    def __init__(self, settings: Settings, show: bool) -> None:
        self.episodes: dict[Job, Episode] = {}
        self._metric, self._total = main_metric(settings.env), 0.0
        self._measured = self._failed = 0
        self._bar = tqdm(total=len(settings.jobs), desc=settings.policy, unit="ep", disable=not show, smoothing=0.05)

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    def add_all(self, episodes: Iterable[Episode]) -> None:
        for episode in episodes:
            self.add(episode)

    def add(self, episode: Episode) -> None:
        """Count an episode once, though a restarted worker may tell of it again."""
        job = Job(episode.seed, episode.rollout)
        if job in self.episodes:
            return
        self.episodes[job] = episode
        self._failed += episode.error is not None
        if self._metric in episode.metrics:
            self._total += episode.metrics[self._metric]
            self._measured += 1
        shown = {self._metric: f"{self._total / self._measured:.3f}"} if self._measured else {}
        self._bar.set_postfix(shown | ({"failed": self._failed} if self._failed else {}), refresh=False)
        self._bar.update()
