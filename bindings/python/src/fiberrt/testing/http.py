# SPDX-License-Identifier: MIT OR Apache-2.0
"""WSGI applications as servers within a test's process, so that the simulation chooses the order of requests.

    with fiberrt.testing.http.serve(app, "api.test"):
        requests.get("http://api.test/")  # or urllib3, urllib.request, http.client

    session.mount("http://api.test", requests_adapter(app))  # without a port

Each request has a thread that serves it. The thread has the request's name, such as "GET / (1)". Outside the simulation
these are threads of the system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._wsgi import Application, WSGIService

try:  # now, because a simulated run would import them again each time
    from . import _urllib3
except ImportError:
    _urllib3 = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from requests.adapters import HTTPAdapter
    from urllib3 import PoolManager

__all__ = ["WSGIService", "requests_adapter", "serve", "urllib3_pool_manager"]


def serve(application: Application, *names: str) -> WSGIService:
    """Return a context manager: a server of a WSGI application. Its url is http://127.0.0.1 with a free port; each of
    the names, HOST or HOST:PORT, leads to it, too, for sockets of this process. Port 80 is the default.

    TypeError: the application is not callable. ValueError: another service has the name.
    """
    service = WSGIService(application)
    service.listen(*names)
    return service


def _installed() -> Any:
    if _urllib3 is None:
        raise ImportError("urllib3 is not installed", name="urllib3")
    return _urllib3


def requests_adapter(application: Application) -> HTTPAdapter:
    """Return an adapter for requests.Session.mount(), whose requests a WSGI application serves, without a port. For
    https, too, without TLS. ImportError: requests is not installed."""
    return _installed().adapter_of(application)


def urllib3_pool_manager(application: Application, **options: Any) -> PoolManager:
    """Return a urllib3.PoolManager whose requests a WSGI application serves, without a port, whatever the host is. For
    https, too, without TLS. options: those of PoolManager. ImportError: urllib3 is not installed."""
    return _installed().pool_manager_of(application, **options)
