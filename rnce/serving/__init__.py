"""A policy as a service: robots that know nothing of JAX get actions over a websocket.

`wire` is the format, which the client shares; `server` answers, `batcher` plans for all connections in one call.
"""
