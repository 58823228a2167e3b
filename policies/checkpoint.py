"""Checkpoints: a folder with `config.json` and `model.safetensors`. Nothing in it is ever executed."""

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from rnce.policies.config import from_json, to_json
from rnce.policies.methods import METHODS, init
from rnce.policies.networks.functional import Params
from rnce.policies.task import Normalizer, Task, normalize

SCHEMA = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"


class CheckpointError(ValueError):
    """A checkpoint that cannot be loaded; the message names the file, the key, what was expected and what was found."""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Everything a policy is: the method's settings, the task, the weights, and where they come from."""

    task: Task
    method_name: str
    method: Any
    params: Params
    normalizer: Normalizer
    samples: int = 1
    recipe: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    revision: str = ""
    score: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def save_checkpoint(checkpoint: Checkpoint, folder: str | Path, half: bool = False) -> None:
    """Write to a temporary folder beside the target, then rename: a reader never sees half a checkpoint.

    `half` writes the weights, but not the normaliser, in half precision: half the size, and what is lost is far below
    what a policy could show.
    """
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    config = {
        "schema": SCHEMA,
        "method": checkpoint.method_name,
        "settings": to_json(checkpoint.method),
        "task": to_json(checkpoint.task),
        "samples": checkpoint.samples,
        "recipe": to_json(checkpoint.recipe),
        "revision": checkpoint.revision,
        "score": to_json(checkpoint.score),
    }
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        (temporary / CONFIG).write_text(json.dumps(config, indent=1) + "\n")
        params = jax.tree.map(np.float16, checkpoint.params) if half else checkpoint.params
        save_file(flatten({"params": params, "normalizer": checkpoint.normalizer._asdict()}), temporary / WEIGHTS)
        os.chmod(temporary, 0o755)  # a private folder and file by default, but others may load the policy
        os.chmod(temporary / WEIGHTS, 0o644)
        if folder.exists():  # moved away first, so that at no time half of a checkpoint stands in its place
            folder.rename(temporary.with_name(f"{temporary.name}-old"))
        temporary.rename(folder)
        shutil.rmtree(temporary.with_name(f"{temporary.name}-old"), ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load_checkpoint(folder: str | Path) -> Checkpoint:
    """Read a checkpoint, checking every key and shape against what its settings build."""
    folder = Path(folder)
    config = _read_config(folder / CONFIG)
    schema = config.get("schema")
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        advice = "upgrade rnce to load it" if newer else "it was not written by rnce"
        raise CheckpointError(f"{folder / CONFIG}: key 'schema': expected {SCHEMA}, found {schema!r}; {advice}.")
    try:
        name = config["method"]
        if name not in METHODS:
            raise CheckpointError(f"key 'method': expected one of {', '.join(METHODS)}, found {name!r}.")
        task = from_json(Task, config["task"], "task")
        settings = from_json(METHODS[name], config["settings"], "settings")
    except KeyError as error:
        raise CheckpointError(f"{folder / CONFIG}: key {error}: expected a value, found none.") from error
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from error
    arrays = _read_weights(folder / WEIGHTS)
    normalizer = _normalizer(arrays, folder / WEIGHTS)
    shapes = context_shapes(task)
    method = settings.create(shapes, task.event_shape)
    # A context without flat features leaves their statistics unused.
    features = shapes.get("features", normalizer.feature_mean.shape)
    square = (task.dim, task.dim)
    sizes = zip(Normalizer._fields, (features, features, (task.dim,), square, square))
    expected = {
        "params": jax.eval_shape(lambda: init(method, jax.random.key(0))),
        "normalizer": {key: jax.ShapeDtypeStruct(shape, np.float32) for key, shape in sizes},
    }
    tree = unflatten(arrays, expected, folder / WEIGHTS)
    return Checkpoint(
        task=task,
        method_name=name,
        method=settings,
        params=tree["params"],
        normalizer=Normalizer(**tree["normalizer"]),
        samples=config.get("samples", 1),
        recipe=config.get("recipe", {}),
        revision=config.get("revision", ""),
        score=config.get("score", {}),
    )


def context_shapes(task: Task) -> dict[str, tuple[int, ...]]:
    """Shapes of the context that a task makes of its observations."""
    window = {key: jax.ShapeDtypeStruct((task.n_ctx, *shape), np.float32) for key, shape in task.observation.items()}
    vector, matrix = np.zeros(task.dim, np.float32), np.zeros((task.dim, task.dim), np.float32)
    blank = Normalizer(np.zeros(()), np.ones(()), vector, matrix, matrix)
    return {key: value.shape for key, value in jax.eval_shape(lambda w: normalize(blank, task.view(w)), window).items()}


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """A nested dict as {"a/b/0": array}."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {_name(path): np.asarray(leaf, order="C") for path, leaf in leaves}  # (scalars stay scalars)


def unflatten(arrays: Mapping[str, np.ndarray], expected: Any, file: Path) -> Any:
    """The tree of the expected structure, or an error that names the first key that does not fit."""
    paths, structure = jax.tree_util.tree_flatten_with_path(expected)
    names = [_name(path) for path, _ in paths]
    for extra in sorted(set(arrays) - set(names)):
        raise CheckpointError(f"{file}: key {extra!r}: expected none, found an array of {arrays[extra].shape}.")
    leaves = []
    for name, (_, leaf) in zip(names, paths):
        if name not in arrays:
            raise CheckpointError(f"{file}: key {name!r}: expected an array of {leaf.shape}, found none.")
        if arrays[name].shape != leaf.shape:
            raise CheckpointError(f"{file}: key {name!r}: expected shape {leaf.shape}, found {arrays[name].shape}.")
        if arrays[name].dtype not in (leaf.dtype, np.float16):  # half precision is how policies may be stored
            raise CheckpointError(f"{file}: key {name!r}: expected {leaf.dtype}, found {arrays[name].dtype}.")
        leaves.append(arrays[name].astype(leaf.dtype))
    return jax.tree_util.tree_unflatten(structure, leaves)


def _name(path: tuple) -> str:
    return "/".join(str(getattr(entry, "key", getattr(entry, "idx", entry))) for entry in path)


def _read_config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise CheckpointError(f"{file}: expected a checkpoint's config, found no such file.") from error
    except (ValueError, OSError) as error:
        raise CheckpointError(f"{file}: expected JSON, found a file that cannot be read: {error}.") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{file}: expected a JSON object, found {type(config).__name__}.")
    return config


def _read_weights(file: Path) -> dict[str, np.ndarray]:
    try:
        return load_file(file)
    except FileNotFoundError as error:
        raise CheckpointError(f"{file}: expected the weights, found no such file.") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{file}: expected safetensors, found a damaged or truncated file: {error}.") from error


def _normalizer(arrays: Mapping[str, np.ndarray], file: Path) -> Normalizer:
    try:
        return Normalizer(**{field: arrays[f"normalizer/{field}"] for field in Normalizer._fields})
    except KeyError as error:
        raise CheckpointError(f"{file}: key {error}: expected the normaliser's array, found none.") from error
