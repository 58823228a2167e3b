"""`rnce serve`."""

import logging
import os
import sys
from typing import Annotated

import tyro


def serve(
    policy: Annotated[str, tyro.conf.Positional],
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    samples: int | None = None,
    sampler: str | None = None,
    max_batch: int = 16,
    lead: int = 0,
    hz: float | None = None,
    max_connections: int = 128,
    max_frame: int | None = None,
    idle_timeout: float = 600.0,
    request_timeout: float = 30.0,
) -> None:
    """Serve a policy over websockets (openpi protocol), to rnce.client or openpi-client.

    Example: rnce serve pusht/i-r-nce --port 8000

    Concurrent requests are planned in one compiled call. Connections are accepted, and GET /healthz answers, when all
    batch sizes are compiled. Ctrl-C ends it.

    Args:
        policy: A shipped policy's name, or a checkpoint folder.
        host: Address to listen on; only this machine by default.
        port: Port; 0 takes a free one.
        token: What clients must send as "Authorization: Api-Key TOKEN"; RNCE_TOKEN in the environment sets it too,
            and does not show in the list of processes.
        samples: Candidates ranked per plan.
        sampler: The policy's sampler, by name.
        max_batch: Most robots planned for in one call.
        lead: Steps before a chunk's end at which the next one is planned, while the robot moves on.
        hz: The robots' control rate; plans that come too late for it are reported.
        max_connections: Connections at the same time.
        max_frame: Bytes of a message; by default what a window of observations needs.
        idle_timeout: Seconds without a message after which a connection is closed.
        request_timeout: Seconds that one request may take.
    """
    from rnce.serving.heap import limit_heaps

    limit_heaps()  # before threads are made

    from rnce.eval.adapters import policy_factory
    from rnce.serving.server import Limits, Server, is_loopback

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    token = token or os.environ.get("RNCE_TOKEN") or None
    if not is_loopback(host):
        open_to = "any machine that reaches it" if token is None else "any machine that has the token"
        print(f"warning: {host} is not only this machine; {open_to} can ask for plans", file=sys.stderr)
    made = policy_factory(policy, samples=samples, sampler=sampler)()
    if not hasattr(made, "plan_windows"):
        raise ValueError(f"{policy} cannot be served; use a shipped policy's name or a checkpoint folder")
    limits = Limits(max_frame, max_connections, idle_timeout, request_timeout)
    server = Server(made, host, port, token=token, max_batch=max_batch, lead=lead, hz=hz, limits=limits)
    print(f"compiling {made.name} for up to {max_batch} robots at once …", flush=True)
    server.run(lambda: print(f"serving {made.name} on {server.url} (Ctrl-C ends it)", flush=True))
    timing = server.timing
    print(f"{timing.plans} plans, {timing.late} of them late" if timing.deadline else f"{timing.plans} plans")
