"""A picture of a scene and its paths."""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from rnce.datasets.path_filter import acceptable
from rnce.datasets.winding import class_labels, winding_numbers
from rnce.envs.path_planning.scenes import WORKSPACE, Scene


def draw_scene(file: Path, scene: Scene, paths: Float[np.ndarray, "n m 2"], title: str = "") -> None:
    """Draw paths, one colour per winding class; those that the filter refuses are dotted and grey."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

    good = acceptable(paths, scene.obstacles)
    figure = Figure(figsize=(6, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(aspect="equal", xlim=(-WORKSPACE, WORKSPACE), ylim=(-WORKSPACE, WORKSPACE))
    for x, y, radius in scene.obstacles.tolist():
        axes.add_patch(Circle((x, y), radius, color="0.8", zorder=0))
    for refused in paths[~good]:
        axes.plot(*refused.T, ":", color="0.5", linewidth=1)
    labels = class_labels(winding_numbers(paths[good], scene.obstacles))
    colours = matplotlib.colormaps["tab10"]
    for label in range(labels.max(initial=-1) + 1):
        members = paths[good][labels == label]
        colour = colours(label % 10)
        for path in members:
            axes.plot(*path.T, ".-", color=colour, linewidth=1, markersize=2.5)
        axes.plot([], [], color=colour, label=f"class {label + 1}: {len(members)} paths")
    axes.plot(*scene.start, "ks", label="start")
    axes.plot(*scene.goal, "k*", markersize=12, label="goal")
    axes.legend(loc="upper left", fontsize="small")
    axes.set_title(title)
    temporary = file.with_name(f".{file.name}.tmp")
    figure.savefig(temporary, dpi=120, format="png")
    temporary.replace(file)
