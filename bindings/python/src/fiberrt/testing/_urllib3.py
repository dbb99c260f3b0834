# SPDX-License-Identifier: MIT OR Apache-2.0
"""Connections of urllib3 and requests to a WSGI application within the process, over pairs of sockets."""

from __future__ import annotations

import netrc  # noqa: F401 - requests would import it in each run
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from ._wsgi import Application, WSGIService

try:
    from requests import adapters
except ImportError:
    adapters = None  # type: ignore[assignment]

# Options of pools that concern TLS.
_OF_TLS = ("key_file", "cert_file", "cert_reqs", "ca_certs", "ca_cert_dir", "ca_cert_data", "ssl_version", "ssl_minimum_version",
           "ssl_maximum_version", "ssl_context", "key_password", "assert_hostname", "assert_fingerprint", "server_hostname")  # fmt: skip


def _classes(application: Application) -> dict[str, type[HTTPConnectionPool]]:
    """Return the pool classes for each scheme."""

    def of(scheme_: str) -> type[HTTPConnectionPool]:
        service = WSGIService(application, scheme_)

        class Connection(HTTPConnection):
            is_verified = True

            def _new_conn(self) -> Any:
                connection = service.connect()
                connection.settimeout(self.timeout)  # type: ignore[arg-type]
                return connection

        class Pool(HTTPConnectionPool):
            scheme = scheme_
            ConnectionCls = Connection

            def __init__(self, host: str, port: int | None = None, **options: Any) -> None:
                super().__init__(host, port, **{name: options[name] for name in options if name not in _OF_TLS})

        return Pool

    return {scheme: of(scheme) for scheme in ("http", "https")}


def pool_manager_of(application: Application, **options: Any) -> urllib3.PoolManager:
    manager = urllib3.PoolManager(**options)
    manager.pool_classes_by_scheme = _classes(application)
    return manager


def adapter_of(application: Application) -> Any:
    if adapters is None:
        raise ImportError("requests is not installed", name="requests")

    class Adapter(adapters.HTTPAdapter):  # type: ignore[misc,name-defined]
        def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **options: Any) -> None:
            super().init_poolmanager(connections, maxsize, block, **options)
            self.poolmanager.pool_classes_by_scheme = _classes(application)

        def send(self, request: Any, *args: Any, **options: Any) -> Any:
            options["proxies"] = None  # the environment's are for real hosts
            return super().send(request, *args, **options)

        def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
            pass

    return Adapter()
