"""Shards spread over a Ray cluster, with the results of one process."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from rnce.eval.rollout import Runner, ShardResult
from rnce.eval.settings import Episode, Job, Settings

RETRIES = 3


def run_on_ray(
    settings: Settings,
    shards: dict[int, list[Job]],
    address: str,
    workers: int | None,
    on_episode: Callable[[Episode], None],
) -> Iterator[tuple[int, ShardResult]]:
    """Yield (index, result) of each shard as it ends.

    `address` is the cluster's, or "local" for one of this machine's own; `workers` actors of one CPU each (None: as
    many as the cluster has CPUs) keep the compiled policy between shards. Ray restarts an actor that dies.
    """
    with ray_session(address, workers) as ray:
        n_actors = min(workers or int(ray.cluster_resources().get("CPU", 1)), len(shards))
        remote = ray.remote(max_restarts=-1, max_task_retries=RETRIES, num_cpus=1)(Runner)
        actors = [remote.remote(settings) for _ in range(n_actors)]
        waiting = list(shards)
        running = {}

        def give(actor) -> None:
            if waiting:
                shard = waiting.pop(0)
                running[actor.run.remote(shards[shard])] = (shard, actor)

        for actor in actors:
            give(actor)
        while running:
            (done,), _ = ray.wait(list(running), num_returns=1)
            shard, actor = running.pop(done)
            try:
                result = ray.get(done)
            except ray.exceptions.RayActorError as error:  # the policy or the environment could not be made
                raise ValueError(f"a Ray worker cannot start: {str(error).strip().splitlines()[-1]}") from error
            give(actor)
            for episode in result.episodes:
                on_episode(episode)
            yield shard, result


@contextlib.contextmanager
def ray_session(address: str, workers: int | None) -> Iterator[Any]:
    """The `ray` module, connected; a cluster that was started here is shut down at the end."""
    try:
        import ray
    except ImportError as error:
        raise ImportError("--ray needs the extra `ray`: pip install 'rnce[ray]'") from error

    started = not ray.is_initialized()
    if started:
        local = address == "local"
        ray.init(
            address=address,
            num_cpus=workers if local else None,
            include_dashboard=False,
            log_to_driver=False,
            # A local worker finds the modules that this process finds; on a cluster they have to be installed.
            runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}} if local else None,
        )
    try:
        yield ray
    finally:
        if started:
            ray.shutdown()
