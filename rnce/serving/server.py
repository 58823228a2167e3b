"""`Server`: a policy on a websocket, in the openpi protocol, with limits on what strangers can ask of it."""

import asyncio
import hmac
import http
import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from rnce.policies import Policy
from rnce.policies.policy import check_lead
from rnce.policies.realtime import Timing, deadline
from rnce.serving.batcher import Batcher
from rnce.serving.session import Session, metadata
from rnce.serving.wire import pack

LOG = logging.getLogger("rnce")
_QUIET = logging.getLogger("rnce.websockets")  # strangers' broken handshakes are not worth a traceback each
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


@dataclass(frozen=True)
class Limits:
    """What one server gives.

    Attributes:
        frame: bytes of a message; None allows a window of observations in float64, and some room.
        connections: at the same time.
        idle: seconds without a message after which a connection is closed.
        request: seconds that one request may take, and the sending of its answer.
        handshake: seconds that opening a connection may take.
    """

    frame: int | None = None
    connections: int = 128
    idle: float = 600.0
    request: float = 30.0
    handshake: float = 10.0

    def __post_init__(self) -> None:
        for name in ("connections", "idle", "request", "handshake"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}={getattr(self, name)}: use more than 0.")


class Server:
    """A policy that answers on a websocket.

    `run()` serves until interrupted; as a context manager it serves in a thread, for tests and programs that do more.
    The port is bound at once, so that a taken one is noticed; connections wait until all batch sizes are compiled.

    Args:
        policy: what plans.
        host: address to listen on; only this machine by default.
        port: 0 takes a free one.
        token: what clients must send as `Authorization: Api-Key TOKEN` (or Bearer); None asks for none.
        max_batch: most robots planned for in one call.
        lead: steps before a chunk's end at which its connection plans the next one, for clients that ask by step.
        hz: the robots' control rate; late plans are then noticed.
        limits: on frames, connections and time.
    """

    def __init__(
        self,
        policy: Policy,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        token: str | None = None,
        max_batch: int = 16,
        lead: int = 0,
        hz: float | None = None,
        limits: Limits | None = None,
    ) -> None:
        limits = limits or Limits()
        if hz is not None and hz <= 0:
            raise ValueError(f"hz={hz}: use the control rate, such as 10.")
        if token is not None and not token.isascii():
            raise ValueError("the token has letters that a header cannot carry; use ASCII.")
        self._policy, self._token, self._limits = policy, token, limits
        self._max_batch, self._lead = max_batch, check_lead(policy.task, lead)
        self.timing = Timing(None if hz is None else deadline(policy.task, 1 / hz, lead))
        self._metadata = pack(metadata(policy))
        self._frame_limit = limits.frame or 2**16 + 10 * policy.task.n_ctx * sum(
            int(np.prod(shape)) for shape in policy.task.observation.values()
        )
        self._open = 0
        self._socket = _bound(host, port)
        self.host, self.port = self._socket.getsockname()[:2]
        self._thread: threading.Thread | None = None
        self._end: Callable[[], object] = lambda: None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"ws://[{self.host}]:{self.port}" if ":" in self.host else f"ws://{self.host}:{self.port}"

    # Running

    def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Serve until the process is interrupted or terminated."""

        async def main() -> None:
            stop = asyncio.Event()

            def ready() -> None:  # until then, a signal ends the process as usual
                for number in (signal.SIGINT, signal.SIGTERM):
                    asyncio.get_running_loop().add_signal_handler(number, stop.set)
                on_ready()

            await self._serve(stop, ready)

        asyncio.run(main())

    def __enter__(self) -> "Server":
        ready, failed = threading.Event(), []

        def work() -> None:
            async def main() -> None:
                stop, loop = asyncio.Event(), asyncio.get_running_loop()
                self._end = lambda: loop.call_soon_threadsafe(stop.set)
                await self._serve(stop, ready.set)

            try:
                asyncio.run(main())
            except BaseException as error:
                failed.append(error)
            finally:
                ready.set()

        self._thread = threading.Thread(target=work, name="rnce-serve", daemon=True)
        self._thread.start()
        ready.wait()
        if failed:
            raise failed[0]
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._thread is not None:
            self._end()
            self._thread.join()

    async def _serve(self, stop: asyncio.Event, on_ready: Callable[[], None]) -> None:
        self._batcher = Batcher(self._policy, self._max_batch)
        try:
            await asyncio.to_thread(self._batcher.warm)
            planning = asyncio.create_task(self._batcher.run())
            async with serve(
                self._connection,
                sock=self._socket,
                process_request=self._admit,
                compression=None,  # a small frame cannot unfold to a large one
                max_size=self._frame_limit,
                max_queue=4,
                open_timeout=self._limits.handshake,
                ping_interval=20,
                ping_timeout=20,
                close_timeout=2,
                server_header=None,
                logger=_QUIET,
            ):
                on_ready()
                await stop.wait()
            planning.cancel()
        finally:
            self.close()

    def close(self) -> None:
        """Give up the port, if it never served; otherwise that is done."""
        self._socket.close()

    # Connections

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer /healthz, and refuse who has no token or comes when all places are taken."""
        if request.path == "/healthz":
            return connection.respond(http.HTTPStatus.OK, "OK\n")
        if self._token is not None and not _authorized(request, self._token):
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "send Authorization: Api-Key TOKEN\n")
        if self._open >= self._limits.connections:
            return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, f"all {self._open} connections are taken\n")
        return None

    async def _connection(self, socket: ServerConnection) -> None:
        if self._open >= self._limits.connections:  # others were quicker since it was admitted
            await socket.close(CloseCode.TRY_AGAIN_LATER)
            return
        session = Session(self._policy, self._batcher.plan, self._lead, self.timing)
        self._open += 1
        try:
            await socket.send(self._metadata)
            while True:
                async with asyncio.timeout(self._limits.idle):
                    frame = await socket.recv()
                answer = await self._answer(session, frame)
                async with asyncio.timeout(self._limits.request):
                    await socket.send(answer)
        except (ConnectionClosed, TimeoutError):
            return
        finally:
            self._open -= 1
            session.close()

    async def _answer(self, session: Session, frame: bytes | str) -> bytes | str:
        """The reply, or a line of text where something is wrong."""
        try:
            async with asyncio.timeout(self._limits.request):
                return await session.answer(frame)
        except TimeoutError:
            return f"the request took longer than {self._limits.request:g} s"
        except ValueError as error:
            return " ".join(str(error).split())
        except Exception as error:
            LOG.exception("a request failed")
            return f"internal error: {type(error).__name__}; the server's log says more"


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _authorized(request: Request, token: str) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() in ("api-key", "bearer") and hmac.compare_digest(given.encode(), token.encode())


def _bound(host: str, port: int) -> socket.socket:
    """A socket that has the port and does not listen yet: until the server is warm, connections are refused."""
    if not 0 <= port < 2**16:  # (taken modulo 65536 otherwise)
        raise ValueError(f"port={port}: use 0 to 65535.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OSError(f"cannot listen on {host}:{port}: {error}") from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as error:
        made.close()
        raise OSError(f"cannot listen on {host}:{port}: {error}") from error
    return made
