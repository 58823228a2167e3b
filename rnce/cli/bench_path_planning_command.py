"""`rnce bench path-planning-env`."""

from pathlib import Path


def bench_path_planning_env(num_envs: int = 4096, episodes: int = 10, json: Path | None = None) -> None:
    """Measure the steps per second of the natively batched PathPlanning-v0.

    Example: rnce bench path-planning-env --num-envs 4096

    Args:
        num_envs: Environments in the batch.
        episodes: Episodes of each, resets included.
        json: File for the figures.
    """
    if num_envs < 1 or episodes < 1:
        raise ValueError(f"--num-envs and --episodes must be 1 or more, got {num_envs} and {episodes}")
    from rnce.eval.bench_path_planning_env import measure
    from rnce.eval.files import write_json

    figures = measure(num_envs, episodes)
    print(f"batch of {num_envs}: {figures['native']:,.0f} environment steps/s")
    print(f"sync of 8:     {figures['sync']:,.0f} environment steps/s   ratio {figures['ratio']:.0f}")
    if json is not None:
        write_json(json, figures)
