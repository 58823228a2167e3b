"""What a policy's Markov chains are worth: the metric against gradient evaluations, for each kind of sampler."""

from collections.abc import Sequence
from pathlib import Path

from rnce.eval.adapters import is_own, policy_factory
from rnce.eval.evaluate import evaluate
from rnce.eval.files import check_writable, write_json
from rnce.eval.metrics import main_metric
from rnce.eval.plots import curves, save
from rnce.eval.settings import Settings
from rnce.eval.tables import figure as mean_text
from rnce.eval.tables import table

START_TIME = 0.9  # where the three-stage sampler leaves the flow for the energy


def sampler_text(kind: str, budget: int) -> str:
    """What a budget of gradient evaluations changes in a policy's sampler, as `rnce eval --sampler` takes it.

    Split between the stages as in the paper; the step sizes stay the policy's own.
    """
    start_time = 1.0 if kind == "two-stage" else START_TIME
    chain = int(start_time * budget)
    settings = {"start_time": start_time, "sde_steps": budget - chain, "mcmc_steps": chain}
    return ",".join(f"{name}={value}" for name, value in settings.items())


def bench_samplers(
    policy: str,
    seeds: tuple[int, int],
    rollouts: int,
    samples: int | None,
    budgets: Sequence[int],
    out: Path,
    workers: int = 1,
    progress: bool = True,
) -> str:
    """Evaluate, write samplers.json and the curve; returns the table."""
    made = policy_factory(policy)()
    if not is_own(made) or not hasattr(made.checkpoint.method, "energy"):
        raise ValueError(f"{policy} has no energy to sample from; name an ibc, r-nce or i-r-nce policy.")
    check_writable(out / "samplers.json")
    kinds = ["two-stage", "three-stage"] if made.checkpoint.method_name == "i-r-nce" else ["two-stage"]
    plans = [("proposal", 0, "proposal")]
    plans += [(kind, budget, sampler_text(kind, budget)) for kind in kinds for budget in budgets]
    documents = []
    for kind, budget, text in plans:
        settings = Settings(policy, made.task.env_id, seeds, rollouts, samples=samples, sampler=text)
        result = evaluate(settings, workers, progress=progress).to_json()
        documents.append({"kind": kind, "gradient_evaluations": budget, **result})
    write_json(out / "samplers.json", {"policy": policy, "results": documents})
    metric = main_metric(made.task.env_id)
    series = {kind: [(0.0, documents[0])] for kind in kinds}
    for document in documents[1:]:
        series[document["kind"]].append((float(document["gradient_evaluations"]), document))
    save(
        curves(series, "gradient evaluations per sample", metric, logx=False),
        out / "score-against-gradient-evaluations",
    )
    rows = [
        [
            document["kind"],
            str(document["gradient_evaluations"]),
            mean_text(document["metrics"][metric], "ci95_environments"),
            f"{document['plan_ms']['p50']:.1f}",
        ]
        for document in documents
    ]
    return table(["sampler", "gradient evaluations", metric, "plan p50 ms"], rows)
