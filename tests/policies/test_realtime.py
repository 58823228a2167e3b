"""Plans that are made while the chunk plays, and plans that come late."""

import logging
import threading
from functools import cache

import numpy as np
import pytest
import tiny

from rnce.policies import Policy, RealTimePolicy, Task
from rnce.policies.realtime import Timing
from rnce.policies.rows import Rows, row_seeds

TASK = Task("arm", None, {"arm": (2,)}, "arm", action_dim=1, n_ctx=2, n_pred=6, execute=3)


@cache
def policy() -> Policy:
    return tiny.untrained("nf", TASK, samples=2)


def episode(steps: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(steps, 2))


def leading(lead: int) -> Policy:
    made = policy().with_options(lead=lead)
    made._plan_batch = policy()._plan_batch  # the same program; compiled once
    return made


def test_a_plan_that_leads_skips_the_actions_that_have_passed():
    acting, watching = leading(2), leading(0)
    acting.reset(seed=0)
    actions = np.stack([acting.act(obs) for obs in episode(9)])
    watching.reset(seed=0)
    chunks = [watching.replan(episode(1)[0]).actions]  # plan 0 is made at step 0, plan 1 at step 1, plan 2 at step 4
    history = episode(9)
    for number, step in ((1, 1), (2, 4)):
        window = {"arm": history[None, step - 1 : step + 1].astype(np.float32)}
        plan = policy().plan_windows(window, row_seeds(0, 1), np.array([number], np.uint32))
        chunks.append(plan.actions[0])
    np.testing.assert_array_equal(actions, np.concatenate([chunks[0][:3], chunks[1][2:5], chunks[2][2:5]]))


def test_without_a_lead_nothing_changes():
    rows = Rows.create(TASK, row_seeds(0, 2))
    for step in range(7):
        due = rows.due(0)
        assert due.all() == (step % 3 == 0)
        rows.begin(due)
        rows.arrive(due, np.full((2, 6, 1), step) + np.arange(6)[:, None])
        np.testing.assert_array_equal(rows.next_actions()[:, 0], [step, step])
    assert rows.plans.tolist() == [3, 3]


@pytest.mark.parametrize(("lead", "message"), [(4, "lead=4: use 0 to 3; of 6 planned"), (-1, "lead=-1")])
def test_a_lead_beyond_the_plan_is_named(lead, message):
    with pytest.raises(ValueError, match=message):
        policy().with_options(lead=lead)


@pytest.mark.parametrize("lead", [0, 1, 3])
def test_in_time_it_acts_like_the_policy_that_leads(lead):
    expected, history = leading(lead), episode(10)
    expected.reset(seed=5)
    with RealTimePolicy(policy(), period=10.0, lead=lead) as acting:
        acting.reset(seed=5)
        for obs in history:
            np.testing.assert_array_equal(acting.act(obs), expected.act(obs))
            if acting._line.pending is not None:
                acting._line.pending.result()  # as if a period had passed
        assert acting.timing.late == 0
        assert acting.timing.plans >= 3


def test_a_late_plan_is_reported_and_the_chunk_plays_on(caplog):
    allowed, plan = threading.Event(), policy().plan_windows
    allowed.set()

    def slow(*request):
        assert allowed.wait(10)
        return plan(*request)

    history, caught = episode(9), []
    with RealTimePolicy(policy(), period=1e-9, lead=1, compute=slow) as acting:
        acting.reset(seed=0)
        first = plan({"arm": np.repeat(history[None, :1], 2, 1).astype(np.float32)}, *2 * [np.zeros(1, np.uint32)])
        caught = [acting.act(history[0]), acting.act(history[1])]
        allowed.clear()
        caught += [acting.act(obs) for obs in history[2:5]]  # steps 3 and 4 have no new plan: the old one goes on
        np.testing.assert_array_equal(np.stack(caught), first.actions[0, :5])
        allowed.set()
        acting._line.pending.result()  # pyright: ignore[reportOptionalMemberAccess]
        window = {"arm": history[None, 1:3].astype(np.float32)}
        second = plan(window, np.zeros(1, np.uint32), np.ones(1, np.uint32))
        np.testing.assert_array_equal(acting.act(history[5]), second.actions[0, 3])  # three steps after it began
    assert acting.timing.late == acting.timing.plans == 2
    assert "was due after" in caplog.text


def test_with_nothing_left_to_play_it_waits():
    plan, begun = policy().plan_windows, []

    def slow(*request):
        begun.append(threading.current_thread().name)
        return plan(*request)

    with RealTimePolicy(policy().with_options(execute=6), period=1.0, compute=slow) as acting:
        assert acting.lead == 0  # plans of six actions, all played, leave no room
        for obs in episode(7):
            assert np.isfinite(acting.act(obs)).all()
    assert len(begun) == 2


def test_a_plan_that_fails_raises_and_the_next_step_plans_again():
    plan, failures = policy().plan_windows, [RuntimeError("no memory")]

    def failing(*request):
        if failures:
            raise failures.pop()
        return plan(*request)

    with RealTimePolicy(policy(), period=1.0, compute=failing) as acting:
        with pytest.raises(RuntimeError, match="no memory"):
            acting.act(np.zeros(2))
        assert np.isfinite(acting.act(np.zeros(2))).all()


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="period=0"):
        RealTimePolicy(policy(), period=0)
    with RealTimePolicy(policy(), period=1) as acting, pytest.raises(ValueError, match="this is one robot"):
        acting.act(np.zeros((3, 2)))


def test_nobody_is_late_where_nobody_said_how_fast(caplog):
    with caplog.at_level(logging.WARNING):
        assert not Timing(None).add(100.0)
    assert not caplog.records
