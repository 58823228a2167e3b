"""A policy on another machine, with the `act(obs)` of a local one. Needs numpy, websockets and msgpack, and no JAX.

from rnce.client import RemotePolicy

with RemotePolicy("127.0.0.1", 8000) as policy:
    policy.reset(seed=0)
    action = policy.act(observation)
"""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.sync.client import ClientConnection, connect

from rnce.serving.wire import pack, unpack


class RemoteError(ValueError):
    """What the server says is wrong with a request; the episode goes on with the next one."""


class RemotePolicy:
    """One robot's connection to `rnce serve`. The server keeps its history and chunk.

    Args:
        host: a host name, or a whole address such as "wss://robots.example/pusht".
        port: the port; None where `host` is a whole address.
        token: the server's token, if it asks for one.
        timeout: seconds that connecting and one request may take.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int | None = 8000, token: str | None = None, timeout: float = 30.0
    ) -> None:
        address = host if "://" in host else f"ws://[{host}]" if ":" in host else f"ws://{host}"
        self._address = address if port is None or "://" in host else f"{address}:{port}"
        self._token, self._timeout = token, timeout
        self._beginning: dict[str, Any] = {"reset": True}
        self._socket: ClientConnection | None = None
        self._open = ExitStack()
        self._connect()

    @property
    def env_id(self) -> str | None:
        """The Gymnasium environment that the policy acts in."""
        return self.metadata["env_id"]

    def reset(self, seed: int | None = None) -> None:
        """Begin a new episode with the next observation; on a new connection, if the old one was lost."""
        if self._socket is None:
            self._connect()
        self._beginning = {"reset": True} if seed is None else {"reset": True, "seed": int(seed) % 2**32}

    def act(self, obs: Any) -> np.ndarray:
        """The next action; the server plans when the chunk of this connection has been played."""
        return self._ask({**self._named(obs), "step": True})["action"]

    def infer(self, obs: Any) -> dict[str, Any]:
        """A new plan from this observation and those before, as openpi's clients ask for it: `actions` and `scores`."""
        return self._ask(self._named(obs))

    def close(self) -> None:
        """End the connection."""
        self._socket = None
        self._open.close()

    def __enter__(self) -> "RemotePolicy":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def _named(self, obs: Any) -> dict[str, Any]:
        if isinstance(obs, Mapping):
            return {key: np.asarray(obs[key]) for key in self.metadata["observation"] if key in obs}
        key = self.metadata["bare_key"]
        if key is None:
            raise ValueError(
                f"obs is a {type(obs).__name__}; use a dict with {', '.join(self.metadata['observation'])}."
            )
        return {key: np.asarray(obs)}

    def _connect(self) -> None:
        headers = None if self._token is None else {"Authorization": f"Api-Key {self._token}"}
        try:
            self._socket = self._open.enter_context(
                connect(
                    self._address,
                    compression=None,
                    max_size=None,
                    additional_headers=headers,
                    open_timeout=self._timeout,
                )
            )
            self.metadata: dict[str, Any] = unpack(self._receive(self._socket))
        except (OSError, InvalidHandshake, WebSocketException) as error:
            self.close()
            raise ConnectionError(f"cannot connect to {self._address}: {error}") from error

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        if self._socket is None:
            raise ConnectionError(f"there is no connection to {self._address}; reset() begins an episode on a new one")
        try:
            self._socket.send(pack({**message, **self._beginning}))
            answer = self._receive(self._socket)
        except (OSError, WebSocketException) as error:  # an answer that comes too late would be taken for the next
            self.close()
            raise ConnectionError(f"the connection to {self._address} is lost: {error or 'no answer'}") from error
        if isinstance(answer, str):
            raise RemoteError(answer)
        self._beginning = {}
        return unpack(answer)

    def _receive(self, socket: ClientConnection) -> Any:
        return socket.recv(timeout=self._timeout)
