"""An rnce policy where code expects a LeRobot policy: `select_action`, `predict_action_chunk`, `reset`.

Batches hold torch tensors or NumPy arrays; what comes back is of the same kind, on the same device. Torch is imported
only by who passes tensors.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np


class Planner(Protocol):
    """What is needed of a policy."""

    task: Any

    def reset(self, seed: Any = None) -> None:
        """Begin new episodes."""

    def act(self, obs: Any) -> np.ndarray:
        """The next actions."""
        ...

    def replan(self, obs: Any) -> Any:
        """New chunks."""
        ...


class LeRobotPolicy:
    """Acts on LeRobot's batches: dicts with keys such as `observation.state`, and a leading batch axis.

    Args:
        policy: the policy, as `rnce.load_policy` gives it.
        keys: for each of the policy's observation keys the key in the batch. By default `observation.KEY`, then
            `observation.images.KEY`, then `KEY`.
        seed: of the random stream after `reset()`; None draws one for each episode.
    """

    name = "rnce"

    def __init__(self, policy: Planner, keys: Mapping[str, str] | None = None, seed: int | None = None) -> None:
        self.policy, self._keys, self._seed = policy, dict(keys or {}), seed
        unknown = set(self._keys) - set(policy.task.observation)
        if unknown:
            raise ValueError(f"keys has {min(unknown)!r}; the policy observes {', '.join(policy.task.observation)}.")
        self.reset()

    def reset(self) -> None:
        """Begin new episodes in all rows."""
        self.policy.reset(seed=self._seed)

    def select_action(self, batch: Mapping[str, Any]) -> Any:
        """The next action of every row, (batch, action_dim); plans when the chunks have been played."""
        return self._like(batch, self.policy.act(self._observation(batch)))

    def predict_action_chunk(self, batch: Mapping[str, Any]) -> Any:
        """New chunks, (batch, n_pred, action_dim), for a caller that plays them itself."""
        return self._like(batch, self.policy.replan(self._observation(batch)).actions)

    def eval(self) -> "LeRobotPolicy":
        """Nothing to switch: it never trains."""
        return self

    def to(self, *args: Any, **kwargs: Any) -> "LeRobotPolicy":
        """Nothing to move: JAX plans where it runs, and results go to the device of the batch."""
        return self

    def _observation(self, batch: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {
            key: _as_observed(_numpy(batch[self._found(batch, key)]), tuple(shape))
            for key, shape in self.policy.task.observation.items()
        }

    def _found(self, batch: Mapping[str, Any], key: str) -> str:
        wanted = [self._keys[key]] if key in self._keys else [f"observation.{key}", f"observation.images.{key}", key]
        for name in wanted:
            if name in batch:
                return name
        raise ValueError(
            f"the batch lacks {' and '.join(map(repr, wanted))}; it has {', '.join(map(str, batch)) or 'none'}. "
            f"LeRobotPolicy(policy, keys={{{key!r}: ...}}) names another."
        )

    def _like(self, batch: Mapping[str, Any], result: np.ndarray) -> Any:
        """The same numbers as the kind of array that the batch holds."""
        example = batch[self._found(batch, next(iter(self.policy.task.observation)))]
        if not hasattr(example, "detach"):
            return result
        import torch

        return torch.from_numpy(np.array(result)).to(example.device)


def _numpy(value: Any) -> np.ndarray:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def _as_observed(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """LeRobot's images have the channels first and, as floats, values in [0, 1]; ours have them last and go to 255."""
    if len(shape) != 3 or value.shape[-3:] == shape or value.shape[-3:] != (shape[2], *shape[:2]):
        return value
    last = np.moveaxis(value, -3, -1)
    return 255.0 * last if np.issubdtype(value.dtype, np.floating) else last
