# SPDX-License-Identifier: MIT OR Apache-2.0
"""Connections of redis-py to the Redis fake, over pairs of sockets."""

from __future__ import annotations

from typing import Any

import redis
from redis.connection import Connection

from ._service import Service


class _Connection(Connection):
    def __init__(self, *, service: Service, **options: Any) -> None:
        super().__init__(**options)
        self._service = service

    def _connect(self) -> Any:
        connection = self._service.connect()
        connection.settimeout(self.socket_timeout)
        return connection

    def activate_maint_notifications_handling_if_enabled(self, *_: Any, **__: Any) -> None:
        """The fake is never under maintenance."""


def pool_of(service: Service, **options: Any) -> Any:
    return redis.ConnectionPool(connection_class=_Connection, service=service, **options)


def client_of(pool: Any) -> Any:
    return redis.Redis(connection_pool=pool)
