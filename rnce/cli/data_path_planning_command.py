"""`rnce data path-planning`."""

from pathlib import Path


def data_path_planning(
    out: Path,
    scenes: int = 10_000,
    seed: int = 0,
    paths: int = 12,
    margin: float = 0.05,
    recoveries: float = 0.4,
    recovery_size: float = 0.03,
    spare: int = 8,
) -> None:
    """Plan demonstrations for path planning: whole paths, snippets of them, and recoveries.

    Example: rnce data path-planning --scenes 10000 --seed 0 --out path_planning.zarr

    A run that was stopped goes on where it was when the same command is given again.

    Args:
        out: Folder to make, a zarr store.
        scenes: Number of scenes.
        seed: Seed of the first scene; the others follow. Training scenes are those below 50,000.
        paths: Demonstrations per scene, spread evenly over the ways round the obstacles.
        margin: Clearance that the planner aims at.
        recoveries: Share of snippets that begin off the demonstrated path.
        recovery_size: How far off, as a standard deviation.
        spare: Waypoints by which snippets hurry, to wait at the goal: a policy that loses some time still arrives.
    """
    from rnce.datasets.path_planning_generation import GenerationConfig, generate
    from rnce.datasets.snippets import SnippetConfig
    from rnce.datasets.stochgpmp import PlannerConfig

    planner = PlannerConfig(margin=margin)
    snippets = SnippetConfig(recoveries=recoveries, recovery_size=recovery_size, spare=spare)
    generate(out, GenerationConfig(scenes, seed, paths, planner, snippets))
    print(f"made {out}")
