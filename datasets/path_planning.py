"""Path-planning demonstrations on disk, in two forms that share one zarr store.

    data/position  (steps, 2)        whole demonstrations, 49 moves each: where the robot is,
    data/action    (steps, 2)        and its next waypoint
    meta/episode_ends, meta/obstacles (E, 10, 3), meta/goal (E, 2)

    snippets/position  (M, 13, 2)    3 waypoints of history and the 10 that follow, refined, and recoveries
    snippets/scene     (M,)          row of
    scenes/obstacles   (S, 10, 3)    the scene, kept once however many snippets it has
    scenes/goal        (S, 2)
    scenes/seed        (S,)

The first is the replay buffer that `rnce.datasets.load` opens like any other; the second is what the policies are
trained on. This file needs no JAX; `rnce.datasets.path_planning_generation` makes the data.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from jaxtyping import Float32, Int32

from rnce.datasets.dataset import Dataset
from rnce.datasets.errors import DamagedDatasetError, DatasetError
from rnce.datasets.places import locate
from rnce.datasets.replay import read_replay, replaced_folder, write_replay

FOLDER = "path_planning.zarr"
N_CTX, N_PRED = 3, 10
SNIPPET = N_CTX + N_PRED

# The name in what `load_snippets` returns -> where it is in the store, dtype, and the shape after the first axis.
_ARRAYS: dict[str, tuple[str, type, tuple[int | None, ...]]] = {
    "scene_obstacles": ("scenes/obstacles", np.float32, (None, 3)),
    "scene_goal": ("scenes/goal", np.float32, (2,)),
    "scene_seed": ("scenes/seed", np.int32, ()),
    "scene_index": ("snippets/scene", np.int32, ()),
    "positions": ("snippets/position", np.float32, (SNIPPET, 2)),
}


def load_path_planning(*, path: str | Path | None = None) -> Dataset:
    """The whole demonstrations, as episodes."""
    return read_replay(_locate(path), name="path-planning")


def load_snippets(path: str | Path | None = None) -> dict[str, np.ndarray]:
    """The training set: `scene_obstacles` (S, 10, 3), `scene_goal` (S, 2), `scene_index` (M,), `positions` (M, 13, 2).

    The first 3 positions of a snippet are the history, the newest last, and the other 10 the plan, in the scene
    `scene_index`. `scene_seed` (S,) names the scenes.
    """
    store = _locate(path)
    root = zarr.open_group(store, mode="r")
    arrays = {name: _read(root, store, *where) for name, where in _ARRAYS.items()}
    scenes, index = len(arrays["scene_goal"]), arrays["scene_index"]
    lengths_agree = len(arrays["scene_obstacles"]) == len(arrays["scene_seed"]) == scenes and len(index) == len(
        arrays["positions"]
    )
    if not lengths_agree or (len(index) and not 0 <= index.min() <= index.max() < scenes):
        raise DamagedDatasetError(f"{store}: 'snippets/scene' does not fit the {scenes} rows of 'scenes/*'")
    return arrays


def write_path_planning(
    path: str | Path,
    *,
    paths: Float32[np.ndarray, "E n 2"],
    path_scene: Int32[np.ndarray, " E"],
    snippets: Mapping[str, np.ndarray],
    attributes: Mapping[str, Any],
) -> None:
    """Write whole demonstrations and snippets (named as `load_snippets` returns them) as one store, or nothing."""
    n_moves = paths.shape[1] - 1
    episodes = Dataset(
        arrays={"position": paths[:, :-1].reshape(-1, 2), "action": paths[:, 1:].reshape(-1, 2)},
        episode_ends=n_moves * np.arange(1, len(paths) + 1),
        episode_arrays={
            "obstacles": snippets["scene_obstacles"][path_scene],
            "goal": snippets["scene_goal"][path_scene],
        },
        observation_keys=("position", "obstacles", "goal"),
        action_keys=("action",),
        attributes=attributes,
        name="path-planning",
    )
    with replaced_folder(Path(path), overwrite=False) as folder:
        write_replay(episodes, folder, overwrite=True)
        root = zarr.open_group(folder, mode="r+")
        for name, (key, dtype, _) in _ARRAYS.items():
            values = np.ascontiguousarray(snippets[name], dtype)
            # Read as a whole, so few large chunks.
            root.create_array(key, data=values, chunks=(max(1, min(len(values), 2**16)), *values.shape[1:]))


def _locate(path: str | Path | None) -> Path:
    return locate("path-planning", FOLDER, path, "rnce data path-planning")


def _read(root: zarr.Group, store: Path, key: str, dtype: type, shape: tuple[int | None, ...]) -> np.ndarray:
    if key not in root:
        raise DatasetError(f"{store}: array {key!r} is missing; was it made by `rnce data path-planning`?")
    try:
        values = np.asarray(root[key][:], dtype)  # type: ignore[index]
    except Exception as error:  # zarr and its codecs raise many types
        raise DamagedDatasetError(f"{store}: array {key!r} cannot be read ({error})") from error
    fits = values.ndim == 1 + len(shape) and all(want in (None, n) for want, n in zip(shape, values.shape[1:]))
    if not fits or not np.isfinite(values).all():
        raise DamagedDatasetError(f"{store}: array {key!r} has shape {values.shape} or is not finite")
    return values
