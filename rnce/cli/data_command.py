"""`rnce data …`: look at demonstrations, convert and fetch them."""

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro


def data_info(
    path: Annotated[str, tyro.conf.Positional],
    verify: bool = False,
    plot: Path | None = None,
    json: Path | None = None,
) -> None:
    """Show what is in a dataset: episodes, lengths, ranges, a plot.

    Example: rnce data info my_demos.zarr --plot my_demos.png

    Args:
        path: A folder in any format that is read (zarr, Minari, LeRobot), or a name such as pusht.
        verify: Read every value, images too, to find all damage.
        plot: PNG file to draw lengths, actions and ranges to.
        json: File to write the figures to.
    """
    from rnce import datasets
    from rnce.datasets import summary
    from rnce.eval.files import check_writable, write_json

    if json is not None:
        check_writable(json)
    dataset = datasets.load(path)
    if not isinstance(dataset, datasets.Dataset):
        raise ValueError(f"{path} is a distribution to sample from; contexts {dataset.contexts}")
    if verify:
        summary.verify_all(dataset, progress=True)
    figures = summary.summary(dataset)
    print(_table(figures))
    if verify:
        print("every value was read and is fine")
    if plot is not None:
        summary.plot(dataset, plot)
        print(f"drawn to {plot}")
    if json is not None:
        write_json(json, figures)


def data_convert(
    source: Annotated[str, tyro.conf.Positional],
    target: Annotated[Path, tyro.conf.Positional],
    format: Literal["zarr", "minari", "lerobot"] = "zarr",
    overwrite: bool = False,
) -> None:
    """Convert a dataset between zarr, Minari and LeRobot.

    Example: rnce data convert ~/.minari/datasets/door/human-v0 door.zarr

    Args:
        source: A folder in any of the formats, or a name such as pusht.
        target: The folder to make. A Minari dataset is called by its last part, such as my-task-v0.
        format: What to make.
        overwrite: Replace the folder if it exists.
    """
    from rnce import datasets
    from rnce.datasets import formats

    dataset = datasets.load(source)
    if not isinstance(dataset, datasets.Dataset):
        raise ValueError(f"{source} is a distribution to sample from; there is nothing to convert")
    formats.write(dataset, target, format, overwrite=overwrite, progress=True)
    print(f"{len(dataset)} episodes, {dataset.steps} steps written to {target}")


def data_pusht(
    download: bool = False,
    path: Path | None = None,
    url: str | None = None,
    json: Path | None = None,
) -> None:
    """Find, fetch and verify the human Push-T demonstrations.

    Example: rnce data pusht --download

    Args:
        download: Fetch the official archive if they are not there yet.
        path: Folder to look at or to download to, instead of RNCE_DATA and the cache folder.
        url: Another address of the archive.
        json: File to write the figures to.
    """
    from rnce.datasets import DatasetNotFoundError, pusht, summary
    from rnce.datasets.download import PUSHT_URL, download_pusht
    from rnce.eval.files import check_writable, write_json

    if json is not None:
        check_writable(json)
    try:
        dataset = pusht.load_pusht(path)
    except DatasetNotFoundError:
        if not download:
            raise
        print(f"unpacked to {download_pusht(path, url=url or PUSHT_URL)}")
        dataset = pusht.load_pusht(path)
    pusht.verify(dataset)
    figures = summary.summary(dataset)
    print(_table(figures))
    print("sha256 of state, action and episode_ends: as published")
    if json is not None:
        write_json(json, figures)


def _table(figures: dict[str, Any]) -> str:
    lines = [f"{figures['name']}: {figures['episodes']} episodes, {figures['steps']} steps"]
    if length := figures["length"]:
        numbers = f"{length['min']} / {length['mean']:.1f} / {length['median']:g} / {length['max']}"
        lines.append(f"  length min / mean / median / max  {numbers}")
    for role in ("observations", "actions", "others"):
        for key, array in figures[role].items():
            shape = " × ".join(map(str, array["shape"])) or "scalar"
            what = f"{role[:-1]:<12} {key:<16} {shape:<12} {array['dtype']:<8} per {array['per']:<8}"
            lines.append(f"  {what}{_range(array)}".rstrip())
    return "\n".join(lines)


def _range(array: dict[str, Any]) -> str:
    import numpy as np

    if array["low"] is None:
        return ""
    low, high = np.ravel(array["low"]), np.ravel(array["high"])
    if len(low) > 6:
        return f"{low.min():.4g} to {high.max():.4g} over all"
    return ", ".join(f"{a:.4g} to {b:.4g}" for a, b in zip(low, high))
