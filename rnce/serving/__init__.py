"""A policy as a service: robots that know nothing of JAX get actions over a websocket.

`wire` is the format, which the client shares; `server` answers, `batcher` plans for all connections in one call.
"""

try:
    import msgpack  # noqa: F401
    import websockets  # noqa: F401
except ImportError as error:
    raise ImportError("serving and its client need websockets and msgpack: pip install 'rnce[serve]'") from error
