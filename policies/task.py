"""What a policy sees and does: a window of observations in, a chunk of actions out, for any dataset.

A `Task` is pure data and is saved with the weights. `view` turns a window into the network's context and a local frame;
actions are learned in that frame, so that what is the same everywhere is learned once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rnce.policies.features import FEATURES, Frame, View, Window


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: as in "pusht/i-r-nce".
        env_id: Gymnasium environment the observations come from; None where there is none.
        observation: shape of each observation key at one step.
        bare_key: the key under which an observation that is a plain array is filed; None for dict observations.
        action_dim: numbers in one action.
        n_ctx: observations in a window.
        n_pred: actions in a chunk.
        execute: actions of a chunk that are played before the next plan.
        features: name of the function that turns a window into a context and a frame.
        relative_to: observation key and first index that actions are relative to; None for absolute actions.
        action_low: lower bound of each action coordinate; None for none.
        action_high: upper bound.
    """

    name: str
    env_id: str | None
    observation: Mapping[str, tuple[int, ...]]
    bare_key: str | None
    action_dim: int
    n_ctx: int
    n_pred: int
    execute: int
    features: str = "flat"
    relative_to: tuple[str, int] | None = None
    action_low: tuple[float, ...] | None = None
    action_high: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Check what would otherwise fail in the middle of training."""
        if self.features not in FEATURES:
            raise ValueError(f"features={self.features!r}: use one of {', '.join(FEATURES)}.")
        if not 1 <= self.execute <= self.n_pred:
            raise ValueError(f"execute={self.execute}: use 1 to n_pred={self.n_pred}.")

    @property
    def event_shape(self) -> tuple[int, int]:
        """Shape of a chunk."""
        return self.n_pred, self.action_dim

    @property
    def dim(self) -> int:
        """Size of a flat event."""
        return self.n_pred * self.action_dim

    def view(self, window: Window) -> View:
        """Context and frame of one window."""
        return FEATURES[self.features](window, self.relative_to, self.action_dim)

    def clip(self, actions: Float[Array, "*batch action_dim"]) -> Float[Array, "*batch action_dim"]:
        """Actions inside the action space."""
        if self.action_low is None or self.action_high is None:
            return actions
        return jnp.clip(actions, jnp.asarray(self.action_low), jnp.asarray(self.action_high))


class Normalizer(NamedTuple):
    """Fitted statistics, saved with the weights.

    Contexts under the key "features" are standardised. Chunks are whitened: y = (local − mean) · whiten.
    """

    feature_mean: Float[Array | np.ndarray, " features"]
    feature_std: Float[Array | np.ndarray, " features"]
    event_mean: Float[Array | np.ndarray, " dim"]
    whiten: Float[Array | np.ndarray, "dim dim"]
    unwhiten: Float[Array | np.ndarray, "dim dim"]


def fit_normalizer(
    features: Float[np.ndarray, "n features"], events: Float[np.ndarray, "n dim"], floor: float, whiten: bool = True
) -> Normalizer:
    """Statistics of local chunks and flat features.

    `floor` is the standard deviation of the perturbation in training: directions in which the data hardly varies are
    divided by it instead of by almost nothing. Whitened, one step size fits all directions of an event.
    """
    events = np.asarray(events, np.float64)
    mean = events.mean(0)
    if whiten:
        variances, basis = np.linalg.eigh(np.cov(events.T).reshape(events.shape[1], -1))
        std = np.sqrt(np.maximum(variances, 0.0) + floor**2 + 1e-12)
    else:
        basis, std = np.eye(events.shape[1]), np.full(events.shape[1], events.std())
    feature_std = features.std(0)
    return Normalizer(
        np.asarray(features.mean(0), np.float32),
        np.asarray(np.where(feature_std > 1e-6, feature_std, 1.0), np.float32),
        np.asarray(mean, np.float32),
        np.asarray(basis / std, np.float32),
        np.asarray((basis * std).T, np.float32),
    )


def to_event(normalizer: Normalizer, frame: Frame, actions: Float[Array, "n_pred action_dim"]) -> Float[Array, " dim"]:
    """A chunk of actions as a whitened event."""
    local = (actions - frame.origin) @ frame.axes
    return (local.reshape(-1) - normalizer.event_mean) @ normalizer.whiten


def to_actions(normalizer: Normalizer, frame: Frame, y: Float[Array, " dim"]) -> Float[Array, "n_pred action_dim"]:
    """The inverse of `to_event`."""
    local = (y @ normalizer.unwhiten + normalizer.event_mean).reshape(-1, frame.origin.shape[0])
    return local @ frame.axes.T + frame.origin


def normalize(normalizer: Normalizer, view: View) -> dict[str, Array]:
    """The context with its flat features standardised; scenes also get the map from events to waypoints."""
    context = dict(view.context)
    if "obstacles" in context:
        context["to_waypoints"] = jnp.asarray(normalizer.unwhiten).T
        context["to_waypoints_offset"] = jnp.asarray(normalizer.event_mean)
    if "features" in context:
        mean, std = jnp.asarray(normalizer.feature_mean), jnp.asarray(normalizer.feature_std)
        context["features"] = (context["features"] - mean) / std
    return context


def infer_task(
    name: str,
    observations: Mapping[str, np.ndarray],
    actions: np.ndarray,
    *,
    n_ctx: int = 2,
    n_pred: int = 16,
    execute: int = 8,
    env_id: str | None = None,
    bare_key: str | None = None,
) -> Task:
    """The task of a stranger's dataset: shapes and bounds from the arrays, relative actions where they fit.

    Actions that stay close to some slice of the observation (the position of what they command) are learned relative
    to it.
    """
    if bare_key is None and len(observations) == 1:
        bare_key = next(iter(observations))
    low, high = actions.min(0), actions.max(0)
    margin = 0.05 * (high - low)
    return Task(
        name=name,
        env_id=env_id,
        observation={key: tuple(value.shape[1:]) for key, value in observations.items()},
        bare_key=bare_key,
        action_dim=actions.shape[1],
        n_ctx=n_ctx,
        n_pred=n_pred,
        execute=execute,
        relative_to=_closest_slice(observations, actions),
        action_low=tuple(float(v) for v in low - margin),
        action_high=tuple(float(v) for v in high + margin),
    )


def _closest_slice(observations: Mapping[str, np.ndarray], actions: np.ndarray) -> tuple[str, int] | None:
    spread = actions.var(0).sum()
    best, found = 0.25, None  # a position explains at least three quarters of the actions' variance
    for key, values in observations.items():
        if not np.issubdtype(values.dtype, np.floating):
            continue
        flat = values.reshape(len(values), -1)
        for start in range(flat.shape[1] - actions.shape[1] + 1):
            error = np.mean(np.sum((actions - flat[:, start : start + actions.shape[1]]) ** 2, axis=1))
            if error < best * spread:
                best, found = error / spread, (key, start)
    return found
