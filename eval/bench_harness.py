"""What the harness itself costs: rollouts of a policy that costs nothing against the bare environments."""

import time
from collections.abc import Callable

from rnce.eval.environments import make_env
from rnce.eval.rollout import Runner
from rnce.eval.scripted import Hold
from rnce.eval.settings import Settings
from rnce.eval.tables import table

PUSHT_EPISODES, PUSHT_STEPS = 256, 200
PATH_EPISODES, PATH_STEPS = 1_000, 49


def measure() -> dict:
    """Seconds of both tasks, and of the bare Push-T environments with the same actions in the same run."""
    pusht = Settings("rnce.eval.scripted:hold", "PushT-v0", (50_000, 50_000 + PUSHT_EPISODES))
    path = Settings("rnce.eval.scripted:straight_line", "PathPlanning-v0", (50_000, 50_000 + PATH_EPISODES))
    bare = _seconds(lambda: _bare_pusht(pusht))
    pusht_seconds, path_seconds = _seconds(lambda: _harness(pusht)), _seconds(lambda: _harness(path))
    batched_steps = PUSHT_EPISODES // pusht.n_slots * PUSHT_STEPS
    return {
        "pusht": {
            "episodes": PUSHT_EPISODES,
            "seconds": pusht_seconds,
            "environments_seconds": bare,
            "ratio": pusht_seconds / bare,
            "overhead_us_per_batched_step": 1e6 * (pusht_seconds - bare) / batched_steps,
            "slots": pusht.n_slots,
        },
        "path_planning": {
            "episodes": PATH_EPISODES,
            "seconds": path_seconds,
            "us_per_batched_step": 1e6 * path_seconds / (-(-PATH_EPISODES // path.n_slots) * PATH_STEPS),
            "slots": path.n_slots,
        },
    }


def report(figures: dict) -> str:
    """The figures in words."""
    pusht, path = figures["pusht"], figures["path_planning"]
    header = ["task", "episodes", "harness s", "environments s", "ratio", "per batched step"]
    rows = [
        [
            "Push-T, 200 steps",
            str(pusht["episodes"]),
            f"{pusht['seconds']:.2f}",
            f"{pusht['environments_seconds']:.2f}",
            f"{pusht['ratio']:.2f}",
            f"{pusht['overhead_us_per_batched_step']:.0f} µs overhead for {pusht['slots']} rows",
        ],
        [
            "path planning, 49 steps",
            str(path["episodes"]),
            f"{path['seconds']:.2f}",
            "",
            "",
            f"{path['us_per_batched_step']:.0f} µs in all for {path['slots']} rows",
        ],
    ]
    return table(header, rows)


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _harness(settings: Settings) -> None:
    runner = Runner(settings)
    for jobs in settings.shards:
        runner.run(jobs)
    runner.close()


def _bare_pusht(settings: Settings) -> None:
    """The same episodes by hand. Holding still never succeeds, so every episode has all its steps."""
    hold, env = Hold(), make_env(settings.env)
    for job in settings.jobs:
        observation, _ = env.reset(seed=job.seed)
        for _ in range(PUSHT_STEPS):
            observation, *_ = env.step(hold.act(observation[None])[0])
    env.close()
