"""Minari datasets to and from ours, without loss.

Minari keeps one observation more than actions: what was seen after the last one. Ours has as many rows of each, so that
extra row goes to the episode array `final/<key>` on reading and comes back from there on writing (a dataset that
never had it repeats its last observation). Entries of nested spaces are named with slashes. Arrays that
are neither observation, action, reward nor end of episode are Minari's infos.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from tqdm import tqdm

from rnce.datasets.dataset import Dataset, Episode, StepArray, is_lazy
from rnce.datasets.errors import DamagedDatasetError, DatasetError
from rnce.datasets.piecewise import PiecewiseArray
from rnce.datasets.replay import replaced_folder
from rnce.datasets.sidecar import restore, write_sidecar

__all__ = ["read", "write"]

# Our names of what Minari keeps per step beside observations, actions and infos.
FLAGS = {"reward": "rewards", "terminated": "terminations", "truncated": "truncations"}
FINAL = "final/"


def read(folder: Path) -> Dataset:
    """Open a Minari dataset by its folder. Images are read an episode at a time, when they are sliced."""
    folder = Path(folder).absolute()  # Minari loses its way with relative paths
    storage = _open(folder)
    parts: dict[str, list[np.ndarray]] = {}
    finals: dict[str, list[np.ndarray]] = {}
    lazy: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
    roles: dict[str, set[str]] = {"observation": set(), "action": set(), "info": set()}
    lengths: list[int] = []
    for number in range(storage.total_episodes):
        episode = _flatten(_episode(storage, number), roles)
        steps = len(episode["reward"])
        lengths.append(steps)
        for key, values in episode.items():
            if len(values) not in (steps, steps + 1):
                raise DamagedDatasetError(
                    f"{folder}: array {key!r} of episode {number} has {len(values)} rows for {steps} steps"
                )
            if len(values) == steps + 1:
                finals.setdefault(key, []).append(values[-1].copy())  # a view would keep the episode
            if is_lazy(values.shape, values.dtype):
                lazy[key] = (values.shape[1:], values.dtype)
                values = values[:0].copy()
            parts.setdefault(key, []).append(values[:steps])
    ends = np.cumsum(lengths, dtype=np.int64)
    # Infos may be left out in some episodes; then there is nothing to put in their rows.
    whole = {key: rows for key, rows in parts.items() if len(rows) == len(lengths)}
    arrays: dict[str, StepArray] = {
        key: PiecewiseArray(ends, *lazy[key], _reader(storage, key)) if key in lazy else np.concatenate(rows)
        for key, rows in whole.items()
    }
    dataset = Dataset(
        arrays,
        ends,
        {f"{FINAL}{key}": np.stack(rows) for key, rows in finals.items() if len(rows) == len(lengths)},
        observation_keys=tuple(key for key in arrays if key in roles["observation"]),
        action_keys=tuple(key for key in arrays if key in roles["action"]),
        attributes={"minari": _raw_metadata(folder)},
        name=folder.name,
    )
    return restore(dataset, folder)


def write(dataset: Dataset, folder: Path, *, overwrite: bool = False, progress: bool = False) -> None:
    """Write a Minari dataset whose id is the folder's name, for `minari.load_dataset` below MINARI_DATASETS_PATH."""
    import minari
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.dataset.minari_storage import MinariStorage

    folder = Path(folder).absolute()  # Minari loses its way with relative paths
    parse_dataset_id(folder.name)  # refuses names that Minari could not find again
    known = dataset.attributes.get("minari", {})
    extra = [
        key
        for key in dataset.arrays
        if key not in (*dataset.observation_keys, *dataset.action_keys) and key not in FLAGS
    ]
    # Minari has no place for what is stored once per episode but its infos, step by step.
    once = [key for key in dataset.episode_arrays if not key.startswith(FINAL)]
    observed = [key for key in dataset.observation_keys if key in dataset.arrays]

    def buffers() -> Iterator[Any]:
        for number, episode in enumerate(tqdm(dataset, desc=folder.name, unit="episode", disable=not progress)):
            flags: dict[str, Any] = {name: _flag(episode, key) for key, name in FLAGS.items()}
            infos = {key: _with_final(episode, key) for key in extra}
            infos |= {key: np.repeat(episode[key][None], episode.length + 1, axis=0) for key in once}
            yield EpisodeBuffer(
                id=number,
                observations=_nest({key: _with_final(episode, key) for key in observed}, "observation"),
                actions=_nest({key: episode[key] for key in dataset.action_keys}, "action"),
                infos=_nest(infos, "") if infos else None,
                **flags,
            )

    with replaced_folder(folder, overwrite) as temporary:
        storage = MinariStorage.new(
            temporary / "data",
            observation_space=_space(dataset, observed, "observation", known),
            action_space=_space(dataset, dataset.action_keys, "action", known),
            jpeg_encoding=False,  # JPEG would change the images
        )
        storage.update_episodes(buffers())
        # The rest of what a dataset that came from Minari said of itself: author, code, algorithm, ...
        kept = {key: value for key, value in known.items() if key not in _raw_metadata(temporary)}
        kept |= {key: set(kept[key]) for key in ("author", "author_email") if key in kept}
        storage.update_metadata({**kept, "dataset_id": folder.name, "minari_version": minari.__version__})
        write_sidecar(dataset, temporary)


def _open(folder: Path) -> Any:
    from minari.dataset.minari_storage import MinariStorage

    try:
        return MinariStorage.read(folder / "data")
    except Exception as error:
        raise DamagedDatasetError(f"{folder}: this Minari dataset cannot be opened ({error})") from error


def _episode(storage: Any, number: int) -> dict[str, Any]:
    try:
        return next(iter(storage.get_episodes([number])))
    except Exception as error:
        raise DamagedDatasetError(f"{storage.data_path}: episode {number} cannot be read ({error})") from error


def _reader(storage: Any, key: str) -> Callable[[int, np.ndarray], np.ndarray]:
    return lambda number, rows: _flatten(_episode(storage, number))[key][rows]


def _raw_metadata(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "data" / "metadata.json").read_text())


def _flatten(episode: Mapping[str, Any], roles: dict[str, set[str]] | None = None) -> dict[str, np.ndarray]:
    """One episode's arrays under our names."""
    flat = {key: np.asarray(episode[name]) for key, name in FLAGS.items()}
    for role, prefix in (("observation", ""), ("action", "action/"), ("info", "")):
        for path, values in _leaves(episode.get(f"{role}s") if role != "info" else episode.get("infos") or {}):
            key = f"{prefix}{path}" if path else role
            if role == "info":
                if np.asarray(values).dtype.kind not in "biuf":
                    continue  # text has no place in an array of numbers
                key = f"info/{key}" if key in flat else key
            flat[key] = np.asarray(values)
            if roles is not None:
                roles[role].add(key)
    return flat


def _leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        for key, child in node.items():
            yield from _leaves(child, f"{path}/{key}" if path else str(key))
    elif isinstance(node, tuple):
        for index, child in enumerate(node):
            yield from _leaves(child, f"{path}/{index}" if path else str(index))
    else:
        yield path, node


def _with_final(episode: Episode, key: str) -> np.ndarray:
    values = episode[key]
    last = episode[f"{FINAL}{key}"] if f"{FINAL}{key}" in episode.dataset.episode_arrays else values[-1]
    return np.concatenate([values, np.asarray(last)[None]])


def _flag(episode: Episode, key: str) -> np.ndarray:
    if key in episode.dataset.arrays:
        return episode[key]
    if key == "reward":
        return np.zeros(episode.length, np.float32)
    # Nobody said why the recording stopped: that is a truncation.
    ends = np.zeros(episode.length, bool)
    ends[-1] = key == "truncated"
    return ends


def _nest(arrays: Mapping[str, np.ndarray], whole: str) -> Any:
    """The inverse of `_leaves`: the array itself if it is the only one and called `whole`, else nested dictionaries."""
    if list(arrays) == [whole]:
        return arrays[whole]
    tree: dict[str, Any] = {}
    for key, values in arrays.items():
        *folders, leaf = (key.removeprefix(f"{whole}/") if whole else key).split("/")
        node = tree
        for name in folders:
            node = node.setdefault(name, {})
        node[leaf] = values
    return tree


def _space(dataset: Dataset, keys: Any, whole: str, known: Mapping[str, Any]) -> gym.Space:
    from minari.serialization import deserialize_space

    if f"{whole}_space" in known:
        return deserialize_space(known[f"{whole}_space"])
    if not keys:
        raise DatasetError(f"{dataset.name}: a Minari dataset needs at least one {whole}; none is among its arrays")
    boxes = {}
    for key in keys:
        array = dataset.arrays[key]
        dtype = np.dtype(array.dtype)
        boxes[key] = gym.spaces.Box(*_limits(dtype), shape=array.shape[1:], dtype=dtype.type)
    tree = _nest(boxes, whole)
    return tree if isinstance(tree, gym.Space) else _dict_space(tree)


def _limits(dtype: np.dtype) -> tuple[float, float]:
    if dtype.kind in "fb":
        return (-np.inf, np.inf) if dtype.kind == "f" else (0, 1)
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _dict_space(tree: Mapping[str, Any]) -> gym.spaces.Dict:
    return gym.spaces.Dict({key: _dict_space(node) if isinstance(node, dict) else node for key, node in tree.items()})
