# SPDX-License-Identifier: MIT OR Apache-2.0
"""A small Redis server within a test's process, so that the simulation chooses the order of commands.

    with fake_redis() as server:
        client = server.client()  # of redis-py, without a port

    with fake_redis("localhost") as server:
        client = redis.Redis()  # sockets of this process reach localhost:6379
        host, port = server.listen()  # for other clients

It has strings, lists, hashes, sets, expiry (in the simulated time), transactions, publishing, and the scripts of
redis-py's Lock. It has no Lua: register() gives a script a function instead. Unlike Redis, SPOP removes the least member,
so that runs repeat, and SCAN returns all keys at once.
"""

from __future__ import annotations

from ._redis_server import RedisService

__all__ = ["RedisService", "fake_redis"]


def fake_redis(*names: str) -> RedisService:
    """Return a context manager: a new, empty Redis server. If there are names, HOST or HOST:PORT, it listens, and
    sockets of this process that connect to them reach it. Port 6379 is the default. ValueError: another service has the
    name."""
    service = RedisService()
    if names:
        service.listen(*names)
    return service
