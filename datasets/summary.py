"""What is in a dataset: figures and a picture."""

from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from rnce.datasets.dataset import Dataset, StepArray, is_lazy

__all__ = ["plot", "summary", "verify_all"]

BLOCK_BYTES = 64 * 2**20


def summary(dataset: Dataset) -> dict[str, Any]:
    """Episodes, lengths, and shape, type and range of every array, as plain JSON values."""
    lengths = dataset.lengths
    return {
        "name": dataset.name,
        "episodes": len(dataset),
        "steps": dataset.steps,
        "length": {
            "min": int(lengths.min()),
            "mean": float(lengths.mean()),
            "median": float(np.median(lengths)),
            "max": int(lengths.max()),
        }
        if len(dataset)
        else None,
        "observations": {key: _describe(dataset, key) for key in dataset.observation_keys},
        "actions": {key: _describe(dataset, key) for key in dataset.action_keys},
        "others": {
            key: _describe(dataset, key)
            for key in (*dataset.arrays, *dataset.episode_arrays)
            if key not in (*dataset.observation_keys, *dataset.action_keys)
        },
        "attributes": dict(dataset.attributes),
    }


def verify_all(dataset: Dataset, progress: bool = False) -> None:
    """Read every value once, images too, so that all damage is found; memory stays bounded."""
    for key, array in dataset.arrays.items():
        for rows in tqdm(list(_blocks(array)), desc=key, unit="block", disable=not progress):
            array[rows]


def plot(dataset: Dataset, path: Path) -> None:
    """Draw the lengths, the first action key in the plane or over time, and every array's range to a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    figure.suptitle(f"{dataset.name}: {len(dataset)} episodes, {dataset.steps} steps")
    left.hist(dataset.lengths, bins=min(30, max(1, len(dataset))), color="tab:blue")
    left.set(xlabel="steps", ylabel="episodes", title="length")
    _draw_actions(middle, dataset)
    _draw_ranges(right, dataset)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.partial")
    figure.savefig(temporary, format="png", dpi=110)
    temporary.replace(path)


def _draw_actions(axes: Any, dataset: Dataset, episodes: int = 50) -> None:
    if not dataset.action_keys:
        axes.set_axis_off()
        return
    key = dataset.action_keys[0]
    shown = np.unique(np.linspace(0, len(dataset) - 1, episodes).astype(int)) if len(dataset) else []
    for number in shown:
        actions = dataset[int(number)][key]
        actions = actions.reshape(len(actions), -1)
        if actions.shape[1] == 2:
            axes.plot(*actions.T, linewidth=0.7, alpha=0.6)
        else:
            axes.plot(actions[:, :1], linewidth=0.7, alpha=0.6)
    planar = int(np.prod(dataset.arrays[key].shape[1:], dtype=np.int64)) == 2
    axes.set_title(f"{key} of {len(shown)} episodes")
    axes.set(xlabel=f"{key}[0]" if planar else "step", ylabel=f"{key}[{int(planar)}]")
    if planar:
        axes.set_aspect("equal", adjustable="datalim")


def _draw_ranges(axes: Any, dataset: Dataset, most: int = 24) -> None:
    bars = []
    for key in (*dataset.action_keys, *dataset.observation_keys):
        spec = dataset.array_spec(key)
        if spec.low is None or spec.high is None or is_lazy((0, *spec.shape), spec.dtype):
            continue
        low, high = np.atleast_1d(spec.low).ravel(), np.atleast_1d(spec.high).ravel()
        bars += [(f"{key}[{i}]", float(a), float(b)) for i, (a, b) in enumerate(zip(low, high))]
    for row, (_, low, high) in enumerate(bars[:most]):
        axes.plot([low, high], [row, row], marker="|", color="tab:green")
    axes.set_yticks(range(len(bars[:most])), [name for name, *_ in bars[:most]], fontsize=7)
    axes.invert_yaxis()
    axes.set_title("range" if len(bars) <= most else f"range (first {most} of {len(bars)})")


def _describe(dataset: Dataset, key: str) -> dict[str, Any]:
    spec = dataset.array_spec(key)
    image = is_lazy((0, *spec.shape), spec.dtype)
    return {
        "shape": list(spec.shape),
        "dtype": spec.dtype.name,
        "per": "episode" if key in dataset.episode_arrays else "step",
        "low": None if spec.low is None else float(np.min(spec.low)) if image else spec.low.tolist(),
        "high": None if spec.high is None else float(np.max(spec.high)) if image else spec.high.tolist(),
    }


def _blocks(array: StepArray) -> list[slice]:
    row_bytes = max(1, int(np.prod(array.shape[1:], dtype=np.int64)) * np.dtype(array.dtype).itemsize)
    size = max(1, BLOCK_BYTES // row_bytes)
    return [slice(start, start + size) for start in range(0, array.shape[0], size)]
