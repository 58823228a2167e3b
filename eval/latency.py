"""How long one plan takes for one environment: what matters on a robot, and not what a batch of 64 tells."""

import time
from typing import NamedTuple

from rnce.eval.adapters import is_own, policy_factory
from rnce.eval.environments import make_env
from rnce.eval.settings import Settings

PLANS, MOST_SECONDS = 50, 10.0


class Latency(NamedTuple):
    """Seconds of repeated plans, and how many seconds of actions one of them brings: the time there is for the next."""

    seconds: list[float]
    deadline: float | None


def plan_latency(settings: Settings) -> Latency:
    """Plans in one environment, after a first one that compiles. Nothing for a stranger's policy."""
    policy = policy_factory(settings.policy, samples=settings.samples, sampler=settings.sampler, lead=settings.lead)()
    if not is_own(policy):
        return Latency([], None)
    env = make_env(settings.env, settings.max_steps, **dict(settings.env_options))
    rate = env.metadata.get("render_fps")
    deadline = (getattr(policy, "lead", 0) or policy.chunk) / rate if rate else None
    observation, _ = env.reset(seed=settings.seeds[0])
    env.close()
    policy.reset(seed=0)
    policy.plan(observation)
    seconds: list[float] = []
    while len(seconds) < PLANS and sum(seconds) < MOST_SECONDS:
        begin = time.perf_counter()
        policy.plan(observation)
        seconds.append(time.perf_counter() - begin)
    return Latency(seconds, deadline)
