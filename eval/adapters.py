"""Any policy as a batch of rows: the package's own, another batched one, or a plain function of one observation.

What `rnce eval module:factory` expects of the factory's result:

- a function `observation → action`, or an object with `act(observation)` and perhaps `reset(seed=None)`: the factory is
  called once per row, so that each row has its own state;
- an attribute `batched = True` says that `act` takes all rows at once (leading axis) and that `reset(seed, mask)` gets
  one seed per row and resets the rows where `mask` is true;
- optional attributes: `name`, `env_id`, `n_params`, and `chunk`, the number of actions between two plans.
"""

import functools
import importlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from rnce.eval.environments import Observation, read_row
from rnce.eval.ranked import RankedBy


class RowPolicy(Protocol):
    """What the rollout loop drives."""

    chunk: int
    params: int | None
    rows_per_plan: int
    plan_seconds: list[float]

    def reset(self, seeds: Sequence[int], mask: np.ndarray) -> None:
        """New episodes in the rows where `mask` is true."""

    def act(self, observation: Observation, rows: Sequence[int]) -> tuple[np.ndarray, dict[int, str]]:
        """Actions for every row (only `rows` count) and, for the rows that failed, why."""
        ...


class BatchedPolicy:
    """A policy that takes all rows in one call."""

    def __init__(self, policy: Any, slots: int, action_dim: int) -> None:
        self.chunk, self.params = int(getattr(policy, "chunk", 1)), _n_params(policy)
        self.plan_seconds: list[float] = []
        self.rows_per_plan = slots
        self._policy, self._shape = policy, (slots, action_dim)
        self._lead, self._since_plan = int(getattr(policy, "lead", 0)), 0

    def reset(self, seeds: Sequence[int], mask: np.ndarray) -> None:
        """Pass on; rows are reset only where a plan is due anyway, so the next call plans."""
        self._policy.reset(seed=np.asarray(seeds), mask=mask)
        self._since_plan = 0

    def act(self, observation: Observation, rows: Sequence[int]) -> tuple[np.ndarray, dict[int, str]]:
        """One call for all rows; a row with a NaN fails alone."""
        begin = time.perf_counter()
        actions = np.asarray(_act(self._policy)(observation))
        if self._since_plan == 0 or (self._since_plan + self._lead) % self.chunk == 0:
            self.plan_seconds.append(time.perf_counter() - begin)
        self._since_plan += 1
        if actions.shape != self._shape:
            raise ValueError(f"the policy returned actions of shape {actions.shape}, expected {self._shape}")
        return actions, _not_finite(actions, rows)


class SingleRowPolicies:
    """One policy per row, each called with its own observation."""

    def __init__(self, policies: Sequence[Any], action_dim: int) -> None:
        self.chunk, self.params = int(getattr(policies[0], "chunk", 1)), _n_params(policies[0])
        self.plan_seconds: list[float] = []
        self.rows_per_plan = 1
        self._policies, self._shape = policies, (action_dim,)

    def reset(self, seeds: Sequence[int], mask: np.ndarray) -> None:
        """Reset the policies of these rows, where they have a `reset`."""
        for row in np.flatnonzero(mask).tolist():
            reset = getattr(self._policies[row], "reset", None)
            if reset is not None:
                reset(seed=int(seeds[row]))

    def act(self, observation: Observation, rows: Sequence[int]) -> tuple[np.ndarray, dict[int, str]]:
        """A row that raises fails alone."""
        actions, failed = np.zeros((len(self._policies), *self._shape)), {}
        for row in rows:
            begin = time.perf_counter()
            try:
                action = np.asarray(_act(self._policies[row])(read_row(observation, row)), dtype=np.float64)
                if action.shape != self._shape:
                    raise ValueError(f"the policy returned an action of shape {action.shape}, expected {self._shape}")
                actions[row] = action
            except Exception as error:  # a stranger's policy may raise anything; the other episodes go on
                failed[row] = describe(error)
            self.plan_seconds.append(time.perf_counter() - begin)
        return actions, {**_not_finite(actions, rows), **failed}


def describe(error: BaseException) -> str:
    """One line that names the kind of error."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def adapt(factory: Callable[[], Any], slots: int, action_dim: int) -> RowPolicy:
    """Rows from what the factory makes."""
    first = factory()
    if getattr(first, "batched", False) or is_own(first):
        return BatchedPolicy(first, slots, action_dim)
    return SingleRowPolicies([first, *(factory() for _ in range(slots - 1))], action_dim)


def is_own(policy: Any) -> bool:
    """Whether this is one of the package's policies, which all take batches and can plan."""
    return all(hasattr(policy, name) for name in ("plan", "with_options", "env_id"))


def policy_factory(name: str, **options: Any) -> Callable[[], Any]:
    """`module:factory`, a shipped policy's name or a checkpoint folder, as a function that makes the policy.

    `options` that are not None (`samples`, `sampler`, `lead`) reach the package's own policies through `with_options`;
    a policy without refuses them. `ranker` names the policy whose score picks among the candidates.
    """
    options = {key: value for key, value in options.items() if value is not None}
    if "sampler" in options:
        options["sampler"] = parse_sampler(options["sampler"])
    module_name, colon, attribute = name.partition(":")
    make = functools.partial(_load_own, name) if not colon else _imported(name, module_name, attribute)
    return functools.partial(_make, name, make, options)


def parse_sampler(text: str) -> str | dict[str, int | float | str]:
    """A sampler may be named, or changed in parts: `mcmc_steps=50,step_size=3e-4`."""
    if "=" not in text:
        return text
    parts = (part.partition("=") for part in text.split(","))
    return {name.strip(): _number(text.strip()) for name, _, text in parts}


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _make(name: str, make: Callable[[], Any], options: dict[str, Any]) -> Any:
    policy, ranker = make(), options.get("ranker")
    options = {key: value for key, value in options.items() if key != "ranker"}
    if not callable(_act(policy)):
        raise ValueError(f"{name} made {policy!r}, which is neither a function nor has an act method")
    if options and not hasattr(policy, "with_options"):
        raise ValueError(f"{name} has no with_options, so {', '.join(options)} cannot be set; leave out the option")
    policy = policy.with_options(**options) if options else policy
    if ranker is None:
        return policy
    if getattr(policy, "lead", 0):
        raise ValueError("a plan made ahead cannot be ranked by another policy; leave out lead or ranker")
    judge = policy_factory(ranker)()
    for who, what in ((name, policy), (ranker, judge)):
        if not is_own(what):
            raise ValueError(f"{who} has no samples to rank or no score; ranking by another policy needs two of rnce's")
    return RankedBy(policy, judge)


def _load_own(name: str) -> Any:
    import rnce

    return rnce.load_policy(name)


def _imported(name: str, module_name: str, attribute: str) -> Callable[[], Any]:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # a module in the current folder, as `python -m` finds it
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot load policy {name!r}: {error}") from error


def _act(policy: Any) -> Any:
    return getattr(policy, "act", policy)


def _n_params(policy: Any) -> int | None:
    n_params = getattr(policy, "n_params", None)
    return None if n_params is None else int(n_params)


def _not_finite(actions: np.ndarray, rows: Sequence[int]) -> dict[int, str]:
    if np.isfinite(actions).all():
        return {}
    return {row: f"the policy returned {actions[row].tolist()}" for row in rows if not np.isfinite(actions[row]).all()}
