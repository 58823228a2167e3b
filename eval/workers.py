"""Shards spread over worker processes. A worker that dies is replaced and its shard run again."""

import itertools
import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from rnce.eval.rollout import Runner, ShardResult
from rnce.eval.settings import Episode, Job, Settings
from rnce.policies.devices import own_cores

MAX_DEATHS = 3  # of workers with the same shard, before its episodes are given up


class _Worker(NamedTuple):
    process: BaseProcess
    connection: Connection
    shard: int


def run_in_processes(
    settings: Settings, shards: dict[int, list[Job]], workers: int, on_episode: Callable[[Episode], None]
) -> Iterator[tuple[int, ShardResult]]:
    """Yield (index, result) of each shard as it ends. Closing the generator ends the workers."""
    context = multiprocessing.get_context("spawn")  # a fork would copy XLA's threads without their state
    waiting, deaths = deque(shards), Counter[int]()
    alive: dict[Connection, _Worker] = {}
    cores, started = _cores_for(workers), itertools.count()

    def start() -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, settings, cores[next(started) % len(cores)]), daemon=True)
        process.start()
        theirs.close()
        give(process, ours)

    def give(process: BaseProcess, connection: Connection) -> None:
        shard = waiting.popleft()
        alive[connection] = _Worker(process, connection, shard)
        connection.send((shard, shards[shard]))

    try:
        for _ in range(min(workers, len(shards))):
            start()
        while alive:
            for ready in wait(list(alive)):
                assert isinstance(ready, Connection)
                worker = alive[ready]
                try:
                    message = ready.recv()
                except (EOFError, ConnectionResetError):
                    del alive[ready]
                    worker.process.join()
                    deaths[worker.shard] += 1
                    if deaths[worker.shard] < MAX_DEATHS:
                        waiting.appendleft(worker.shard)
                    else:
                        reason = f"the worker died {MAX_DEATHS} times, last with exit code {worker.process.exitcode}"
                        yield worker.shard, _given_up(shards[worker.shard], reason)
                    if waiting:
                        start()
                    continue
                if isinstance(message, Episode):
                    on_episode(message)
                elif isinstance(message, ShardResult):
                    del alive[ready]
                    if waiting:
                        give(worker.process, ready)
                    else:
                        ready.close()
                    yield worker.shard, message
                else:
                    raise ValueError(message)
    finally:
        for worker in alive.values():
            worker.process.terminate()


def _cores_for(workers: int) -> list[set[int] | None]:
    """A core for each worker, where workers are at least as many: otherwise their threads wait for one another."""
    cores = own_cores() if hasattr(os, "sched_setaffinity") else []
    return [{core} for core in cores] if 0 < len(cores) <= workers else [None]


def _work(connection: Connection, settings: Settings, cores: set[int] | None) -> None:
    if cores is not None:
        os.sched_setaffinity(0, cores)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its workers
    try:
        runner = Runner(settings)
        while True:
            _, jobs = connection.recv()
            connection.send(runner.run(jobs, on_episode=connection.send))
    except EOFError:
        pass  # the parent is done with this worker
    except (ValueError, OSError, ImportError) as error:
        connection.send(str(error))  # bad input, which would end every other worker too


def _given_up(jobs: list[Job], reason: str) -> ShardResult:
    return ShardResult([Episode(job.seed, job.rollout, 0, {}, error=reason) for job in jobs], [])
