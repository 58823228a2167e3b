"""`rnce bench planner`."""

from pathlib import Path


def bench_planner(
    scenes: int = 256,
    margin: float = 0.05,
    peer: bool = True,
    plot: Path | None = None,
    plot_seed: int = 60_013,
    json: Path | None = None,
) -> None:
    """Measure the planner of the demonstrations against OMPL's RRT-Connect with path simplification.

    Example: rnce bench planner --scenes 256 --plot scene.png

    Args:
        scenes: Number of scenes, which no policy is trained or judged on.
        margin: Clearance that both planners aim at.
        peer: Also run OMPL (pip install 'rnce[planner]').
        plot: PNG file to draw a scene to, its paths coloured by winding class.
        plot_seed: Which scene to draw.
        json: File for the figures.
    """
    if scenes < 1:
        raise ValueError(f"--scenes must be at least 1, got {scenes}")
    from rnce.eval import bench_planner as bench
    from rnce.eval.files import check_writable, write_json

    if peer:
        try:
            import ompl  # noqa: F401
        except ImportError:
            raise ImportError("OMPL is not installed: pip install 'rnce[planner]', or pass --no-peer") from None
    for file in (json, plot):
        if file is not None:
            check_writable(file)
    figures = bench.measure(scenes, margin, peer)
    print(bench.as_table(figures))
    if plot is not None:
        bench.draw(plot, plot_seed, margin)
        print(f"drawn to {plot}")
    if json is not None:
        write_json(json, {"scenes": scenes, "margin": margin, "planners": figures})
