"""`rnce bench train` and `rnce bench latency`."""

from pathlib import Path
from typing import Any

METHODS = ("nf", "ibc", "r-nce", "i-r-nce", "diffusion", "diffusion-phi")
SPEED_TASKS = ("pusht", "path-planning")
MANY = 128  # samples whose log-probability is timed, beside as many as a plan ranks
RANKED = 1024  # samples in all on which rankings are compared


def bench_train(
    tasks: tuple[str, ...] = SPEED_TASKS, methods: tuple[str, ...] = METHODS, json: Path | None = None
) -> None:
    """How fast the cpu presets train: evaluations a second, and the share of the machine's matmul speed.

    Example: rnce bench train --tasks pusht --methods nf i-r-nce

    Args:
        tasks: Tasks whose presets are timed.
        methods: Methods.
        json: Where the figures go.
    """
    from rnce.eval.bench_speed import train_speed
    from rnce.eval.files import check_writable, write_json
    from rnce.policies.devices import use_cores
    from rnce.policies.presets import recipe_for
    from rnce.training import example_training

    if json:
        check_writable(json)
    rows = []
    use_cores([recipe_for(task_name, method) for task_name in tasks for method in methods])
    examples = {task_name: example_training(task_name) for task_name in tasks}  # an unknown task fails before the table
    print(f"{'':28} {'phase':18} {'ms a step':>9} {'evaluations/s':>13} {'GFLOP/s':>8} {'of matmul':>9}")
    for task_name, (task, data) in examples.items():
        for method in methods:
            for row in train_speed(task, recipe_for(task_name, method), data):
                rows.append({"task": task_name, "method": method} | row)
                print(
                    f"{task_name + '/' + method:28} {row['trains'] + ' ' + row['loss']:18} {row['step_ms']:9.1f} "
                    f"{row['evaluations_per_second']:13,.0f} {row['gflops']:8.1f} {row['share']:9.0%}",
                    flush=True,
                )
    if json:
        write_json(json, rows)


def bench_latency(
    tasks: tuple[str, ...] = SPEED_TASKS,
    methods: tuple[str, ...] = METHODS,
    peers: bool = True,
    json: Path | None = None,
) -> None:
    """How long a plan of the cpu presets takes, for one and for 64 environments; and what two time scales save.

    Example: rnce bench latency --tasks pusht --no-peers

    Args:
        tasks: Tasks whose presets are timed.
        methods: Methods.
        peers: Time the two networks of Diffusion Policy for Push-T too, written in JAX, with their hundred steps.
        json: Where the figures go.
    """
    from rnce.eval.bench_speed import log_prob_comparison, peer_latency, plan_latency, start_windows, untrained
    from rnce.eval.files import check_writable, write_json
    from rnce.policies import load_policy
    from rnce.policies.presets import recipe_for
    from rnce.training import task_of

    if json:
        check_writable(json)
    rows = []

    def show(row: dict[str, Any]) -> None:
        rows.append(row)
        print(
            f"{row['task'] + '/' + row['method']:36} {row['params']:12,} {row['environments']:12} {row['samples']:8} "
            f"{row['p50_ms']:8.1f} {row['p95_ms']:8.1f}",
            flush=True,
        )

    named = {task_name: task_of(task_name) for task_name in tasks}  # an unknown task fails before the table
    print(f"{'':36} {'parameters':>12} {'environments':>12} {'samples':>8} {'p50 ms':>8} {'p95 ms':>8}")
    for task_name, task in named.items():
        for method in methods:
            for row in plan_latency(untrained(task, recipe_for(task_name, method))):
                show({"task": task_name, "method": method} | row)
        if not task.env_id:  # plans in the plane rank nothing
            continue
        flow = load_policy(f"{task_name}/nf")
        for samples in (flow.samples, MANY):
            windows = start_windows(flow, range(50_000, 50_000 + RANKED // samples))
            figures = log_prob_comparison(flow, windows, samples)
            rows.append({"task": task_name, "log_prob": figures})
            print(
                f"{task_name}: log-probability of {samples} samples on two time scales "
                f"{figures['two_time_scales_ms']:.1f} ms, augmented ODE {figures['augmented_ms']:.1f} ms: "
                f"{figures['ratio']:.1f} times faster; pairs ranked right {figures['two_time_scales_ranking']:.1%} "
                f"and {figures['augmented_ranking']:.1%}",
                flush=True,
            )
    if peers:
        for row in peer_latency():
            show({"task": "pusht"} | row)
    if json:
        write_json(json, rows)
