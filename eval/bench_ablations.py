"""What the parts of the Push-T policy are worth: one variant at a time against what ships, on paired starts."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rnce.eval.compare import compare
from rnce.eval.evaluate import evaluate
from rnce.eval.files import check_writable, write_json
from rnce.eval.metrics import main_metric
from rnce.eval.settings import Settings
from rnce.eval.tables import difference_text, markdown, table
from rnce.eval.tables import figure as mean_text

SHIPPED = "pusht/i-r-nce"
ENV = "PushT-v0"
COLUMNS = ("score", "final_coverage", "success")


class Variant(NamedTuple):
    """One thing changed."""

    label: str
    policy: str = SHIPPED
    samples: int = 8
    sampler: str | None = None


VARIANTS = (
    Variant("as shipped: three stages, both velocities, ℓ = 8"),
    Variant("ℓ = 1", samples=1),
    Variant("ℓ = 32", samples=32),
    Variant("proposal alone, ranked", sampler="proposal"),
    Variant("two stages: flow, Langevin", sampler="two-stage"),
    Variant("three stages, the proposal's velocity (Algorithm 4)", sampler="start_time=0.5,sde_trust=0,sde_noise=0.05"),
    Variant("three stages, the energy's velocity", sampler="sde_trust=1"),
    Variant("`r-nce`", policy="pusht/r-nce"),
)


def pure_ranking(policy: str) -> list[Variant]:
    """The same method, trained with `--warm-start none`; by its two samplers that lean least and most on the energy."""
    return [
        Variant("pure ranking, no score warm start", policy),
        Variant("pure ranking, proposal alone, ranked", policy, sampler="proposal"),
    ]


def bench_ablations(
    variants: Sequence[Variant],
    seeds: tuple[int, int],
    rollouts: int,
    out: Path,
    workers: int = 1,
    progress: bool = True,
) -> str:
    """Evaluate every variant and write ablations.json; returns the table."""
    check_writable(out / "ablations.json")
    documents = []
    for label, policy, samples, sampler in variants:
        settings = Settings(policy, ENV, seeds, rollouts, samples=samples, sampler=sampler)
        documents.append({"label": label, **evaluate(settings, workers, progress=progress).to_json()})
        write_json(out / "ablations.json", {"results": documents})  # a stop loses one variant only
    return f"{table(*ablation_rows(documents))}\n\nwritten: {out / 'ablations.json'}"


def ablation_rows(documents: Sequence[dict]) -> tuple[list[str], list[list[str]]]:
    """Header and rows; differences are to the first."""
    first, metric = documents[0], main_metric(ENV)
    header = ["", *COLUMNS, f"{metric} − the first's, paired", "plan p50 ms"]
    rows = []
    for document in documents:
        means = [mean_text(document["metrics"][name], "ci95_environments") for name in COLUMNS]
        difference = "" if document is first else difference_text(compare(document, first).get(metric))
        rows.append([document["label"], *means, difference, f"{document['plan_ms']['p50']:.1f}"])
    return header, rows


def ablations_markdown(documents: Sequence[dict]) -> str:
    """The table for a README."""
    return markdown(*ablation_rows(documents))
