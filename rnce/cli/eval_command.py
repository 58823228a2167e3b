"""`rnce eval`."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

FAILED_EPISODES = 1  # exit codes; bad input is 2
INTERRUPTED = 130


def evaluate(
    policy: Annotated[str, tyro.conf.Positional],
    seeds: str = "50000:50025",
    rollouts: int = 1,
    samples: str | None = None,
    sampler: str | None = None,
    ranker: str | None = None,
    lead: int | None = None,
    env: str | None = None,
    max_steps: int | None = None,
    video: Path | None = None,
    json: Path | None = None,
    workers: int = 1,
    ray: str | None = None,
    resume: bool = False,
) -> None:
    """Measure a policy: rollouts, means with 95 % intervals, planning time.

    Example: rnce eval pusht/i-r-nce --seeds 100000:100256 --rollouts 4 --samples 8 --json out/pusht.json

    A policy of your own: rnce eval my_module:make_policy --env PushT-v0, where make_policy() returns an object with
    act(obs) and reset(seed), or a function obs → action. The result depends on neither --workers nor --ray.
    Exit code 1: some episodes failed; 130: stopped by Ctrl-C (--resume goes on).

    Args:
        policy: A shipped policy's name, a checkpoint folder, or module:factory.
        seeds: A:B for environments A … B − 1; below 100000 is for choosing, from 100000 on for reporting.
        rollouts: Episodes per environment, which differ in the policy's random stream.
        samples: Candidates ranked per plan; several numbers such as 1,8,48 show what ranking brings.
        sampler: The policy's sampler, by name.
        ranker: Another policy, by whose score the candidates are ranked.
        lead: Plan each next chunk this many steps before it is needed, as a robot does that moves on while it plans.
        env: Environment id, where the policy does not name its own.
        max_steps: Length of an episode, where it is not the environment's own.
        video: Folder for videos of the first four seeds.
        json: File for the result; FILE.journal beside it keeps finished parts for --resume.
        workers: Worker processes.
        ray: Address of a Ray cluster, or "local".
        resume: Go on from the journal of an evaluation that was stopped.
    """
    from rnce.eval import run

    outcome = run.evaluate_and_write(
        policy,
        seeds=run.parse_seeds(seeds),
        samples=run.parse_samples(samples),
        rollouts=rollouts,
        sampler=sampler,
        ranker=ranker,
        lead=lead,
        env=env,
        max_steps=max_steps,
        video=video,
        json=json,
        workers=workers,
        ray=ray,
        resume=resume,
    )
    print(outcome.text)
    if outcome.interrupted:
        sys.exit(INTERRUPTED)
    if outcome.failed:
        sys.exit(FAILED_EPISODES)
