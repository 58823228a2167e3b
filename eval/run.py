"""What `rnce eval` does: settings from words, the evaluation, its files and its text."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnce.eval.adapters import policy_factory
from rnce.eval.compare import compare
from rnce.eval.evaluate import Result, evaluate
from rnce.eval.files import check_writable, write_json
from rnce.eval.metrics import main_metric
from rnce.eval.settings import Settings
from rnce.eval.tables import figure, summary_text, table

VIDEOS = 4  # seeds that are filmed


@dataclass(frozen=True)
class Outcome:
    """Results in the order of the sample counts, and the text to print."""

    results: list[Result]
    text: str

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return any(result.interrupted for result in self.results)

    @property
    def failed(self) -> bool:
        """Whether some episode failed."""
        return any(result.failed for result in self.results)


def parse_seeds(text: str) -> tuple[int, int]:
    """`A:B` as (A, B)."""
    low, colon, high = text.partition(":")
    if not (colon and low.strip().isdecimal() and high.strip().isdecimal()):
        raise ValueError(f"--seeds must be A:B with whole numbers, such as 100000:100025, got {text!r}")
    return int(low), int(high)


def parse_samples(text: str | None) -> list[int | None]:
    """`1,8,48` as a list; nothing leaves the policy's own number."""
    if text is None:
        return [None]
    words = text.split(",")
    if not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        raise ValueError(f"--samples must be whole numbers from 1, such as 8 or 1,8,48, got {text!r}")
    return [int(word) for word in words]


def environment_of(policy: str) -> str:
    """The environment that a policy names as its own."""
    env_id = getattr(policy_factory(policy)(), "env_id", None)
    if env_id is None:
        raise ValueError(f"{policy} does not name its environment (env_id); say --env ID")
    return env_id


def evaluate_and_write(
    policy: str,
    seeds: tuple[int, int],
    samples: list[int | None],
    env: str | None = None,
    json: Path | None = None,
    video: Path | None = None,
    workers: int = 1,
    ray: str | None = None,
    resume: bool = False,
    progress: bool = True,
    **settings: Any,
) -> Outcome:
    """Evaluate for each number of samples; write JSON and videos; say it in words.

    Outputs are tried before the work begins. The JSON is the result, or a list of them for several sample counts.
    """
    if resume and json is None:
        raise ValueError("--resume needs --json FILE: the journal lies beside it")
    for output in filter(None, (json, video and video / "video.mp4")):
        check_writable(output)
    env = env or environment_of(policy)
    results: list[Result] = []
    for count in samples:
        results.append(
            evaluate(
                Settings(policy, env, seeds, samples=count, keep_actions=VIDEOS if video else 0, **settings),
                workers=workers,
                ray=ray,
                journal=_journal(json, count, len(samples)),
                resume=resume,
                progress=progress,
            )
        )
        if results[-1].interrupted:
            break
    documents = [result.to_json() for result in results]
    lines = [summary_text(document) for document in documents]
    if len(documents) > 1:
        lines.append(ranking_text(documents))
    if json:
        write_json(json, documents[0] if len(samples) == 1 else documents)
        lines.append(f"written: {json}")
    if video:
        from rnce.eval.video import write_videos

        lines += [f"written: {path}" for result in results for path in write_videos(result, video)]
    return Outcome(results, "\n\n".join(lines))


def ranking_text(documents: list[dict]) -> str:
    """What ranking brings: the main figure by number of candidates, and the paired difference to the fewest."""
    metric = main_metric(documents[0]["env"])
    shown = [document for document in documents if metric in document["metrics"]]
    if not shown:
        return "no episode was finished"
    fewest = min(shown, key=lambda document: document["samples"])
    rows = []
    for document in shown:
        row = [str(document["samples"]), figure(document["metrics"][metric], "ci95_environments")]
        if document is fewest:
            rows.append([*row, "", ""])
            continue
        difference = compare(document, fewest)[metric]
        low, high = difference.interval
        rows.append([*row, f"{difference.mean:+.4f} [{low:+.4f}, {high:+.4f}]", f"{difference.p_value:.4f}"])
    return table(["ℓ", metric, f"against ℓ = {fewest['samples']}, paired", "p"], rows)


def _journal(json: Path | None, count: int | None, several: int) -> Path | None:
    """One journal per evaluation, beside the result."""
    if json is None:
        return None
    return json.with_name(json.name + (f".{count}" if several > 1 else "") + ".journal")
