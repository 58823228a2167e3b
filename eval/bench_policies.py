"""All shipped policies of a task by its protocol: table, figures, page; every finished part survives a stop."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rnce.envs.path_planning import scene_for_seed
from rnce.eval.adapters import is_own, policy_factory
from rnce.eval.compare import compare
from rnce.eval.demonstrator import against_demonstrator, demonstrator
from rnce.eval.evaluate import evaluate
from rnce.eval.files import check_writable, read_json, write_json
from rnce.eval.metrics import LOWER_IS_BETTER
from rnce.eval.panels import landscape, path_panels, pusht_panels, worst_panels
from rnce.eval.plots import per_scene_bars, ranking_curves, save
from rnce.eval.protocols import Protocol, paper_numbers
from rnce.eval.replay import Recording
from rnce.eval.report import html_report, write_report
from rnce.eval.settings import Episode, Settings
from rnce.eval.tables import difference_text, markdown, table
from rnce.eval.tables import figure as mean_text
from rnce.eval.video import write_videos


def bench_policies(
    protocol: Protocol,
    policies: Sequence[str],
    out: Path,
    workers: int = 1,
    ray: str | None = None,
    resume: bool = False,
    max_steps: int | None = None,
    videos: int = 1,
    progress: bool = True,
) -> str:
    """Evaluate, write `out`/TASK.json, figures, videos and report.html; returns the table.

    Each evaluation has a file of its own under `out`/parts; with `resume` those that are there are not run again.
    """
    if not policies:
        raise ValueError(f"no policy for {protocol.task} ships with this version; name some with --policies")
    check_writable(out / "report.html")
    documents: list[dict] = []
    recordings: list[Recording] = []
    for policy in policies:
        for samples in protocol.samples:
            settings = Settings(
                policy,
                protocol.env,
                protocol.seeds,
                protocol.rollouts,
                samples=samples,
                max_steps=max_steps,
                keep_actions=(protocol.kept or protocol.pictured) if samples == protocol.samples[0] else 0,
            )
            document, kept = _part(settings, out / "parts", workers, ray, resume, progress)
            documents.append(document)
            if kept:
                recordings.append(Recording(settings, kept))
            if document["interrupted"]:
                return "interrupted; --resume goes on\n\n" + _text(protocol, documents)
    summary: dict[str, Any] = {"task": protocol.task, "results": documents}
    if protocol.task == "path-planning":
        summary["demonstrator"] = demonstrator(range(*protocol.seeds), progress)
        for document in documents:
            document["against_demonstrator"] = against_demonstrator(document, summary["demonstrator"])
    write_json(out / f"{protocol.task}.json", summary)
    figures, films = _pictures(protocol, recordings, documents, out, videos, progress)
    page = html_report(documents, protocol.task, films, figures, paper_numbers(protocol.task))
    write_report(out / "report.html", page)
    text = _text(protocol, documents)
    return f"{text}\n\nwritten: {out / (protocol.task + '.json')}, figures, {out / 'report.html'}"


def _part(
    settings: Settings, folder: Path, workers: int, ray: str | None, resume: bool, progress: bool
) -> tuple[dict, list[Episode]]:
    """One evaluation and the episodes to draw, from its file if that is there."""
    name = settings.policy.replace("/", "_").replace(":", "_")
    path = folder / f"{name}-{settings.samples}.json"
    if resume and path.exists():
        part = read_json(path)
        if part["settings"] != json.loads(json.dumps(settings.to_json())):
            raise ValueError(f"{path} was made with other settings; leave out --resume or choose another --out")
        return part["result"], [Episode(**episode) for episode in part["kept"]]
    journal = path.with_suffix(".journal")
    result = evaluate(settings, workers, ray, journal, resume and journal.exists(), progress)
    kept = [episode for episode in result.episodes if episode.actions is not None]
    document = result.to_json()
    if not result.interrupted:
        episodes = [episode.to_json() for episode in kept]
        write_json(path, {"settings": settings.to_json(), "result": document, "kept": episodes})
    return document, kept


def _pictures(
    protocol: Protocol,
    recordings: Sequence[Recording],
    documents: Sequence[dict],
    out: Path,
    videos: int,
    progress: bool,
) -> tuple[dict[str, Figure], list[Path]]:
    policies = [recording.settings.policy for recording in recordings]
    seeds = range(protocol.seeds[0], protocol.seeds[0] + min(protocol.pictured, protocol.n_seeds))
    metric = protocol.metrics[0]
    panels = path_panels if protocol.task == "path-planning" else pusht_panels
    figures = {f"{protocol.task}: what the policies did": panels(recordings, _short(policies), seeds)}
    if protocol.task == "pusht":
        for recording, name in zip(recordings, _short(policies)):
            figures[f"the ten starts that {name} does worst"] = worst_panels(recording)
    samples, *fewer = protocol.samples
    best = [document for document in documents if document["samples"] == samples]
    if fewer:
        figures["what ranking brings"] = ranking_curves(documents, metric)
    if protocol.task == "path-planning":
        figures["collisions per scene"] = per_scene_bars(best, metric)
        for policy in policies:
            drawn = _landscape(policy, seeds[0], samples)
            if drawn is not None:
                figures[f"score of {policy} over scene {seeds[0]}"] = drawn
    for caption, drawn in figures.items():
        save(drawn, out / "figures" / _file_name(caption))
    films = [
        path
        for recording, name in zip(recordings, _short(policies))
        for path in write_videos(_only(recording, videos), out / "videos" / name, progress=progress)
    ]
    return figures, films


def _landscape(policy: str, seed: int, samples: int) -> Figure | None:
    made = policy_factory(policy)()
    if not is_own(made):
        return None
    scene = scene_for_seed(seed)
    observation = {"obstacles": scene.obstacles, "goal": scene.goal, "position": scene.start}
    score: Callable[[Any, np.ndarray], np.ndarray] = made.score
    return landscape(score, scene, made.task.n_pred, made.sample(observation, samples, seed=0))


def _only(recording: Recording, n_seeds: int) -> Recording:
    last = recording.settings.seeds[0] + n_seeds
    return Recording(recording.settings, [episode for episode in recording.episodes if episode.seed < last])


def _short(policies: Sequence[str]) -> list[str]:
    return [policy.rpartition("/")[2].rpartition(":")[2] for policy in policies]


def _file_name(caption: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in caption)


def results_rows(protocol: Protocol, documents: Sequence[dict]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table: ours with both intervals, the paper's beside, marked as the paper's."""
    # Episodes of another length are not the paper's.
    longer = any(document.get("max_steps") for document in documents)
    paper = {} if longer else paper_numbers(protocol.task)["methods"]
    header = ["policy", "ℓ", "parameters", "plan p50 ms"]
    for name in protocol.metrics:
        header += [name, f"{name} (the paper's)"] if _in_paper(paper, name) else [name]
    best = _best(protocol, documents)
    if best is not None:
        header.append(f"{protocol.metrics[0]} − the best's, paired")
    if any("against_demonstrator" in document for document in documents):
        header += ["cost / demonstrator", "winding classes"]
    rows = []
    for document in documents:
        (method,) = _short([document["policy"]])
        row = [document["policy"], str(document["samples"]), f"{document['params'] or 0:,}", _ms(document)]
        for name in protocol.metrics:
            summary = document["metrics"].get(name)
            row.append("—" if summary is None else mean_text(summary, "ci95_environments"))
            if _in_paper(paper, name):
                mean, half = paper.get(method, {}).get(name, {}).get(str(document["samples"]), (None, None))
                row.append("—" if mean is None else f"{mean:.3f} ± {half:.3f}")
        if best is not None:
            metric = protocol.metrics[0]
            row.append("" if document is best else difference_text(compare(document, best).get(metric)))
        against = document.get("against_demonstrator")
        if against:
            row += ["—" if against[key] is None else f"{against[key]:.2f}" for key in ("cost_ratio", "classes")]
        rows.append(row)
    return header, rows


def _best(protocol: Protocol, documents: Sequence[dict]) -> dict | None:
    """The best result with the protocol's number of samples, where there are several to compare it with."""
    metric = protocol.metrics[0]
    able = [d for d in documents if d["samples"] == protocol.samples[0] and metric in d["metrics"]]
    sign = 1 if metric in LOWER_IS_BETTER else -1
    return min(able, key=lambda d: sign * d["metrics"][metric]["mean"]) if len(able) > 1 else None


def results_markdown(protocol: Protocol, documents: Sequence[dict]) -> str:
    """The table for a README."""
    return markdown(*results_rows(protocol, documents))


def _text(protocol: Protocol, documents: Sequence[dict]) -> str:
    low, high = protocol.seeds
    lines = [
        f"{protocol.env}, seeds {low}–{high - 1} × {protocol.rollouts}; mean ± half the 95 % interval (environments)",
        table(*results_rows(protocol, documents)),
        f"the paper's: {paper_numbers(protocol.task)['protocol']}",
    ]
    failed = sum(len(document["failed"]) for document in documents)
    return "\n".join(lines + ([f"{failed} episodes failed; see the files under parts"] if failed else []))


def _ms(document: dict) -> str:
    p50 = document["plan_ms"]["p50"]
    return "—" if p50 is None else f"{p50:.1f}"


def _in_paper(paper: dict, metric: str) -> bool:
    return any(metric in figures for figures in paper.values())
