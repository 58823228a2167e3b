"""Training data on the device: step arrays, and the indices that cut windows from them."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, Shaped

from rnce.policies.task import Normalizer, Task, fit_normalizer, normalize, to_event

Host = Array | np.ndarray  # on the host until training places it


class TrainingSet(NamedTuple):
    """Windows over recorded steps.

    Attributes:
        observations: by key, one row for each recorded step.
        scenes: observation keys that stay the same during an episode, one row for each scene.
        actions: one row for each step.
        context_index: rows of the observations in each window, oldest first.
        event_index: rows of the actions in each window.
        scene_index: row of the scenes of each window.
    """

    observations: Mapping[str, Shaped[Host, "steps ..."]]
    scenes: Mapping[str, Float[Host, "scenes ..."]]
    actions: Float[Host, "steps action_dim"]
    context_index: Int[Host, "n n_ctx"]
    event_index: Int[Host, "n n_pred"]
    scene_index: Int[Host, " n"]

    @property
    def size(self) -> int:
        """Number of windows."""
        return len(self.context_index)


class Noise(NamedTuple):
    """Perturbation of one batch: its standard deviation, and whether examples are mirrored."""

    std: Float[Array, ""]
    reflect: bool


def example(
    data: TrainingSet, task: Task, index: Int[Array, ""], key: PRNGKeyArray, noise: Noise
) -> tuple[dict[str, Array], Float[Array, "n_pred action_dim"]]:
    """One window of observations and its chunk of actions, perturbed."""
    n_ctx = task.n_ctx
    rows = data.context_index[index]
    window = {name: values[rows] for name, values in data.observations.items()}
    for name, values in data.scenes.items():
        row = values[data.scene_index[index]]
        window[name] = jnp.broadcast_to(row, (n_ctx, *row.shape))
    window = {name: window[name] for name in task.observation}  # in the task's order
    actions = data.actions[data.event_index[index]]
    past_key, future_key, side_key = jax.random.split(key, 3)
    actions = actions + noise.std * jax.random.normal(future_key, actions.shape)
    if task.relative_to is not None:
        name, start = task.relative_to
        flat = window[name].reshape(n_ctx, -1)
        shake = noise.std * jax.random.normal(past_key, (n_ctx, task.action_dim))
        window[name] = flat.at[:, start : start + task.action_dim].add(shake).reshape(window[name].shape)
    if noise.reflect:
        side = jnp.where(jax.random.bernoulli(side_key), 1.0, -1.0)
        window, actions = _mirrored(window, actions, side)
    return window, actions


def _mirrored(window: dict[str, Array], actions: Array, side: Array) -> tuple[dict[str, Array], Array]:
    """Path planning, reflected about the x axis: the second coordinate of everything that has a place."""
    flip = {
        "position": jnp.stack([1.0, side]),
        "goal": jnp.stack([1.0, side]),
        "obstacles": jnp.stack([1.0, side, 1.0]),
    }
    return {name: values * flip[name] for name, values in window.items()}, actions * flip["position"]


class Draw(NamedTuple):
    """Which windows a batch has, and the key of what perturbs each."""

    indices: Int[Array, " batch"]
    keys: Key[Array, " batch"]


def draw(data: TrainingSet, key: PRNGKeyArray, size: int) -> Draw:
    """Windows at random."""
    index_key, noise_key = jax.random.split(key)
    return Draw(jax.random.randint(index_key, (size,), 0, data.size), jax.random.split(noise_key, size))


def batch(
    data: TrainingSet, task: Task, normalizer: Normalizer, drawn: Draw, noise: Noise
) -> tuple[dict[str, Array], Float[Array, "batch dim"]]:
    """Contexts and events, as the networks see them."""

    def one(index: Array, key: Array) -> tuple[dict[str, Array], Array]:
        window, actions = example(data, task, index, key, noise)
        view = task.view(window)
        return normalize(normalizer, view), to_event(normalizer, view.frame, actions)

    return jax.vmap(one)(drawn.indices, drawn.keys)


def fit(data: TrainingSet, task: Task, floor: float, whiten: bool, seed: int = 0, limit: int = 50_000) -> Normalizer:
    """The normaliser of a training set, from at most `limit` windows."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(data.size)[:limit]
    quiet = Noise(jnp.zeros(()), reflect=False)

    def one(index: Array) -> tuple[Array, Array]:
        window, actions = example(data, task, index, jax.random.key(0), quiet)
        context, frame = task.view(window)
        features = context.get("features", jnp.zeros(1))
        return features, ((actions - frame.origin) @ frame.axes).reshape(-1)

    features, events = jax.jit(lambda indices: jax.lax.map(one, indices, batch_size=1024))(chosen)
    return fit_normalizer(np.asarray(features), np.asarray(events), floor, whiten)
