"""How long one plan takes for one environment: what matters on a robot, and not what a batch of 64 tells."""

import time

from rnce.eval.adapters import is_own, policy_factory
from rnce.eval.environments import make_env
from rnce.eval.settings import Settings

PLANS, MOST_SECONDS = 50, 10.0


def single_plan_seconds(settings: Settings) -> list[float]:
    """Seconds of repeated plans in one environment, after a first one that compiles. Empty for a stranger's policy."""
    policy = policy_factory(settings.policy, samples=settings.samples, sampler=settings.sampler)()
    if not is_own(policy):
        return []
    env = make_env(settings.env, settings.max_steps, **dict(settings.env_options))
    observation, _ = env.reset(seed=settings.seeds[0])
    env.close()
    policy.reset(seed=0)
    policy.plan(observation)
    seconds: list[float] = []
    while len(seconds) < PLANS and sum(seconds) < MOST_SECONDS:
        begin = time.perf_counter()
        policy.plan(observation)
        seconds.append(time.perf_counter() - begin)
    return seconds
