"""`rnce bench serve` and `rnce bench soak`."""

from pathlib import Path
from typing import Annotated

import tyro

ENOUGH = 4.0  # times the throughput of one robot
MEMORY_MB = 16.0  # growth that is still the allocator's


def bench_serve(
    policy: Annotated[str, tyro.conf.Positional] = "pusht/i-r-nce",
    clients: int = 16,
    seconds: float = 5.0,
    rounds: int = 3,
    sampler: str | None = None,
    json: Path | None = None,
) -> None:
    """Throughput of `rnce serve`: many robots that ask for plans at once, against one.

    Example: rnce bench serve pusht/i-r-nce --clients 16

    Args:
        policy: A shipped policy's name, or a checkpoint folder.
        clients: Robots at once.
        seconds: Length of each measurement.
        rounds: Measurements of both, in turns.
        sampler: The sampler that the server uses, such as refined=2, where it is not the policy's own.
        json: Where the figures go.
    """
    from rnce.eval.bench_serve import compare
    from rnce.eval.files import write_json
    from rnce.eval.server_process import ServerProcess

    options = ["--sampler", sampler] if sampler else []
    with ServerProcess(policy, "--max-batch", str(clients), *options) as server:
        figures = {"policy": policy, "sampler": sampler, **compare(server.url, clients, seconds, rounds)}
    print(f"{'robots':>8} {'plans/s':>9} {'p50 ms':>8} {'p95 ms':>8} {'per call':>9}")
    for count, row in ((1, figures["one"]), (clients, figures["many"])):
        speed, batch = row["plans_per_second"], row["batch"]
        print(f"{count:8} {speed:9.1f} {row['p50_ms']:8.1f} {row['p95_ms']:8.1f} {batch:9.1f}")
    print(
        f"{figures['ratio']:.1f} times the throughput of one robot (lowest of {rounds}: {figures['lowest_ratio']:.1f})"
    )
    if json:
        write_json(json, figures)


def bench_soak(
    policy: Annotated[str, tyro.conf.Positional] = "pusht/i-r-nce",
    minutes: float = 10.0,
    robots: int = 8,
    rogues: int = 4,
    json: Path | None = None,
) -> None:
    """Good robots and bad clients at once: the server stays up, keeps its memory, and the good ones notice nothing.

    Example: rnce bench soak pusht/i-r-nce --minutes 10

    Exit code 1 if anything of this does not hold.

    Args:
        policy: A shipped policy's name, or a checkpoint folder.
        minutes: How long.
        robots: Robots that ask for an action ten times a second.
        rogues: Clients that misbehave all the time, in all the ways there are.
        json: Where the figures go.
    """
    from rnce.eval.files import write_json
    from rnce.eval.server_process import ServerProcess
    from rnce.eval.soak import soak
    from rnce.policies import load_policy

    with ServerProcess(policy) as server:
        figures = {"policy": policy, **soak(server, load_policy(policy), 60 * minutes, robots, rogues)}
    print(
        f"{figures['answers']} actions for {robots} robots in {minutes:g} minutes: p50 {figures['p50_ms']} ms, "
        f"p99 {figures['p99_ms']} ms, worst {figures['worst_ms']} ms"
    )
    print(
        f"{sum(figures['misdeeds'].values())} misdeeds: {', '.join(f'{v} {k}' for k, v in figures['misdeeds'].items())}"
    )
    print(f"memory {figures['memory_mb']} MB, growth {figures['memory_growth_mb']:+} MB")
    for complaint in figures["complaints"]:
        print(f"complaint: {complaint}")
    if json:
        write_json(json, figures)
    if figures["complaints"] or not figures["alive"] or figures["memory_growth_mb"] > MEMORY_MB:
        raise SystemExit(1)
