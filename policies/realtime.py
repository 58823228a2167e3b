"""Acting on time: the next chunk is planned while the present one plays, and plans that come late are noticed."""

import dataclasses
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np

from rnce.policies.observations import Observation, is_window, single_step, window
from rnce.policies.policy import Plan, Policy, check_lead
from rnce.policies.rows import Rows, row_seeds
from rnce.policies.task import Task

LOG = logging.getLogger("rnce")


class PlanRequest(NamedTuple):
    """What a plan of one robot is made from; the arguments of `Policy.plan_windows`."""

    windows: dict[str, np.ndarray]
    seeds: np.ndarray
    plans: np.ndarray


class Planned(NamedTuple):
    """A plan and how long it took from its request on."""

    plan: Plan
    seconds: float


class Pending(Protocol):
    """A future: of a thread, or of an event loop."""

    def done(self) -> bool:
        """Whether there is a result."""
        ...

    def result(self) -> Planned:
        """The result."""
        ...


@dataclasses.dataclass
class Timing:
    """How plans kept their deadline.

    Attributes:
        deadline: seconds a plan may take; None where nobody said how fast the robot is.
        plans: plans made.
        late: plans that took longer.
        worst: seconds of the longest.
    """

    deadline: float | None
    plans: int = 0
    late: int = 0
    worst: float = 0.0

    def add(self, seconds: float) -> bool:
        """Count a plan; whether it was late, which is logged too."""
        self.plans += 1
        self.worst = max(self.worst, seconds)
        if self.deadline is None or seconds <= self.deadline:
            return False
        self.late += 1
        LOG.warning(
            "a plan took %.0f ms and was due after %.0f ms (%d of %d late)",
            1e3 * seconds, 1e3 * self.deadline, self.late, self.plans,
        )  # fmt: skip
        return True


def deadline(task: Task, period: float, lead: int) -> float:
    """How long a plan may take: until it takes over, or as long as the chunk it delays lasts."""
    return period * (lead or task.execute)


class Timeline:
    """One robot's history, chunk and plan in the making. Whoever drives it computes the plans, in whatever thread.

    At every step: `observe`, compute what it asks for, wait if it `waits`, `next_action`.
    """

    def __init__(self, task: Task, seed: int | None, lead: int, timing: Timing) -> None:
        self._task, self._lead, self._timing = task, check_lead(task, lead), timing
        self._rows = Rows.create(task, row_seeds(seed, 1))
        self.pending: Pending | None = None

    def observe(self, obs: Observation) -> PlanRequest | None:
        """Append to the history; what to plan from, if a plan is to begin now. A bad observation changes nothing."""
        steps = single_step(self._task, obs)
        rows, history = self._rows, self._rows.pushed(steps)
        rows.remember(history)
        due = rows.due(self._lead)
        if not due[0]:
            return None
        request = PlanRequest(history, rows.seeds.copy(), rows.plans.copy())
        rows.begin(due)
        return request

    def demand(self, obs: Observation) -> PlanRequest:
        """Plan now, for a caller that plays the chunk itself; `obs` is one step, or the whole window of n_ctx steps."""
        rows = self._rows
        if is_window(self._task, obs):
            history = {key: value[None] for key, value in window(self._task, obs).items()}
        else:
            history = rows.pushed(single_step(self._task, obs))
        request = PlanRequest(history, rows.seeds.copy(), rows.plans.copy())
        rows.remember(history)
        rows.begin(np.ones(1, bool))
        self._forget()
        return request

    @property
    def waits(self) -> bool:
        """Whether there is nothing to play before the pending plan is there."""
        self._collect()
        rows = self._rows
        return bool(rows.exhausted[0] or (self._lead == 0 and rows.late[0]))

    def next_action(self) -> np.ndarray:
        """The action of this step."""
        self._collect()
        return self._rows.next_actions()[0]

    def _collect(self) -> None:
        if self.pending is None or not self.pending.done():
            return
        try:
            plan, seconds = self.pending.result()
        except BaseException:
            self._forget()  # the next observation asks again
            raise
        self.pending = None
        self._timing.add(seconds)
        self._rows.arrive(np.ones(1, bool), plan.actions)

    def _forget(self) -> None:
        self.pending = None
        self._rows.drop(np.ones(1, bool))


class RealTimePolicy:
    """A policy for one robot that moves on while it plans.

    Call `act(obs)` every `period` seconds. It returns at once, except for the first plan of an episode and where `lead`
    is 0. A plan that is not there in time is logged and counted in `timing`; meanwhile the old chunk plays on.

    Args:
        policy: the policy that plans.
        period: seconds between two calls of `act`.
        lead: steps before a chunk's end at which the next one is planned; None takes as many as plans reach.
        compute: how a plan is made; the policy's own way by default.
    """

    def __init__(
        self,
        policy: Policy,
        period: float,
        lead: int | None = None,
        compute: Callable[..., Plan] | None = None,
    ) -> None:
        task = policy.task
        if period <= 0:
            raise ValueError(f"period={period}: use the seconds between two actions, such as 0.1.")
        self.lead = check_lead(task, min(task.execute, task.n_pred - task.execute) if lead is None else lead)
        self.timing = Timing(deadline(task, period, self.lead))
        self._policy, self._compute = policy, compute or policy.plan_windows
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="rnce-plan")
        self._line = Timeline(task, None, self.lead, self.timing)

    def reset(self, seed: int | None = None) -> None:
        """Begin a new episode."""
        self._line = Timeline(self._policy.task, seed, self.lead, self.timing)

    def act(self, obs: Observation) -> np.ndarray:
        """The action of this step."""
        line, request = self._line, self._line.observe(obs)
        if request is not None:
            line.pending = self._pool.submit(self._timed, request, time.perf_counter())
        if line.waits and isinstance(line.pending, Future):
            line.pending.exception()  # waits; what went wrong is raised by the line
        return line.next_action()

    def _timed(self, request: PlanRequest, began: float) -> Planned:
        return Planned(self._compute(*request), time.perf_counter() - began)

    def close(self) -> None:
        """End the planning thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> "RealTimePolicy":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
