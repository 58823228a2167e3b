"""`rnce bench harness`, `path-planning`, `pusht`, `samplers`, `ablations` and `composition`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import tyro


def harness(json: Path | None = None) -> None:
    """Time the evaluation harness with policies that cost nothing, against the bare environments.

    Example: rnce bench harness

    Args:
        json: File for the figures.
    """
    from rnce.eval import bench_harness
    from rnce.eval.files import check_writable, write_json

    if json:
        check_writable(json)
    figures = bench_harness.measure()
    print(bench_harness.report(figures))
    if json:
        write_json(json, figures)


def path_planning(
    policies: list[str] | None = None,
    seeds: str | None = None,
    rollouts: int | None = None,
    samples: str | None = None,
    out: Path = Path("out/bench/path-planning"),
    workers: int = 1,
    ray: str | None = None,
    resume: bool = False,
) -> None:
    """Measure all shipped path-planning policies by the paper's protocol, its table beside ours; figures and a page.

    Example: rnce bench path-planning --seeds 50000:50005 --rollouts 16 --out out/quick

    Args:
        policies: Which ones; all that ship if not given.
        seeds: A:B; the 25 reported scenes if not given.
        rollouts: Episodes per scene; 384 if not given.
        samples: Numbers of candidates ranked; 48,1 if not given.
        out: Folder for results, figures and report.html.
        workers: Worker processes.
        ray: Address of a Ray cluster, or "local".
        resume: Keep the parts that are done.
    """
    _bench("path-planning", policies, seeds, rollouts, samples, out, workers=workers, ray=ray, resume=resume)


def pusht(
    policies: list[str] | None = None,
    seeds: str | None = None,
    rollouts: int | None = None,
    samples: str | None = None,
    max_steps: int | None = None,
    out: Path = Path("out/bench/pusht"),
    workers: int = 1,
    ray: str | None = None,
    resume: bool = False,
) -> None:
    """Measure all shipped Push-T policies by the paper's protocol, its table beside ours; figures and a page.

    Example: rnce bench pusht --seeds 50000:50064 --rollouts 1 --out out/quick

    Args:
        policies: Which ones; all that ship if not given.
        seeds: A:B; the 256 reported starts if not given.
        rollouts: Episodes per start; 4 if not given.
        samples: Numbers of candidates ranked; 8,1 if not given.
        max_steps: Length of an episode; 200, as in the paper, if not given.
        out: Folder for results, figures and report.html.
        workers: Worker processes.
        ray: Address of a Ray cluster, or "local".
        resume: Keep the parts that are done.
    """
    _bench(
        "pusht", policies, seeds, rollouts, samples, out, workers=workers, ray=ray, resume=resume, max_steps=max_steps
    )


def samplers(
    policy: Annotated[str, tyro.conf.Positional] = "pusht/i-r-nce",
    seeds: str = "50000:50064",
    rollouts: int = 1,
    samples: int | None = None,
    budgets: str = "10,30,100",
    out: Path = Path("out/bench/samplers"),
    workers: int = 1,
) -> None:
    """Measure an energy policy with its proposal alone and with the two- and three-stage samplers, at several budgets.

    Example: rnce bench samplers pusht/i-r-nce --seeds 100000:100256

    Args:
        policy: An energy policy, by name or checkpoint folder.
        seeds: A:B.
        rollouts: Episodes per environment.
        samples: Candidates ranked per plan; the policy's own number if not given.
        budgets: Gradient evaluations for each sample, split between the stages as in the paper.
        out: Folder for samplers.json and the curve.
        workers: Worker processes.
    """
    from rnce.eval.bench_samplers import bench_samplers
    from rnce.eval.run import parse_samples, parse_seeds

    counts = [count for count in parse_samples(budgets) if count]
    print(bench_samplers(policy, parse_seeds(seeds), rollouts, samples, counts, out, workers))


def ablations(
    seeds: str = "50000:50128",
    rollouts: int = 1,
    pure_ranking: str | None = None,
    out: Path = Path("out/bench/ablations"),
    workers: int = 1,
) -> None:
    """Measure what the parts of the Push-T policy are worth: ranking, the stages of its sampler, how it was trained.

    Example: rnce bench ablations --seeds 100000:100256 --pure-ranking runs/pusht-pure/policy

    Args:
        seeds: A:B.
        rollouts: Episodes per start.
        pure_ranking: Folder of a policy from `rnce train pusht/i-r-nce --warm-start none`, to be compared too.
        out: Folder for ablations.json.
        workers: Worker processes.
    """
    from rnce.eval import bench_ablations as bench
    from rnce.eval.run import parse_seeds

    extra = bench.pure_ranking(pure_ranking) if pure_ranking else []
    print(bench.bench_ablations([*bench.VARIANTS, *extra], parse_seeds(seeds), rollouts, out, workers))


def composition(
    policy: Annotated[str, tyro.conf.Positional] = "path-planning/r-nce",
    seeds: str = "50000:50025",
    rollouts: int = 16,
    weight: float = 300.0,
    out: Path = Path("out/bench/composition"),
) -> None:
    """Put an eleventh obstacle in the way that a policy does not see, with and without terms composed to its energy.

    Example: rnce bench composition path-planning/r-nce --seeds 100000:100025

    Args:
        policy: An energy policy for path planning.
        seeds: A:B of the scenes.
        rollouts: Episodes per scene.
        weight: Of the term that keeps clear.
        out: Folder for composition.json and the picture.
    """
    from rnce.eval.bench_composition import bench_composition
    from rnce.eval.run import parse_seeds

    print(bench_composition(policy, range(*parse_seeds(seeds)), rollouts, out, weight))


def _bench(
    task: str,
    policies: list[str] | None,
    seeds: str | None,
    rollouts: int | None,
    samples: str | None,
    out: Path,
    **options: Any,
) -> None:
    import rnce.policies
    from rnce.eval.bench_policies import bench_policies
    from rnce.eval.protocols import PROTOCOLS
    from rnce.eval.run import parse_samples, parse_seeds

    protocol = PROTOCOLS[task]
    if seeds is not None:
        low, high = parse_seeds(seeds)
        protocol = replace(protocol, first_seed=low, n_seeds=high - low)
    if rollouts is not None:
        protocol = replace(protocol, rollouts=rollouts)
    if samples is not None:
        protocol = replace(protocol, samples=tuple(count for count in parse_samples(samples) if count))
    shipped = [name for name in rnce.policies.pretrained_policies() if name.startswith(task + "/")]
    print(bench_policies(protocol, policies or shipped, out, **options))
