# SPDX-License-Identifier: MIT OR Apache-2.0
"""A web server for WSGI applications. Each connection has a fiber. The package h11 parses HTTP/1.1.

    python -m fiberrt.wsgi module:app --bind 127.0.0.1:8000

This calls fiberrt.monkey.patch() before it imports the module. SIGHUP reloads the application, SIGTERM ends the server;
requests that have begun end. In a program:

    WSGIServer(("127.0.0.1", 8000), app).serve_forever()
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from socket import AF_INET, AF_INET6, AF_UNIX, IPPROTO_TCP, TCP_NODELAY, create_server, socket
from typing import TYPE_CHECKING, Any

from . import _fiberrt, monkey, signal
from ._supervisor import supervise
from ._wsgi_connection import Connection, error_log
from .server import StreamServer

if TYPE_CHECKING:
    from ssl import SSLContext

    from ._scopes import CancelScope

__all__ = ["WSGIServer", "main"]


class WSGIServer(StreamServer):
    """Serves a WSGI application.

    listener, limit, ssl: as for StreamServer. timeout: seconds for a request's head, and for each later
    receive or send. keep_alive: seconds that a connection may wait for a request. An exception of the application is logged,
    and the client gets the status 500 if the response has not begun; otherwise the connection is closed.
    """

    def __init__(
        self, listener: Any, application: Callable[..., Iterable[bytes]], *, limit: int | None = None,
        ssl: SSLContext | None = None, timeout: float | None = 30.0, keep_alive: float | None = 5.0,
    ) -> None:  # fmt: skip
        if not callable(application):
            raise TypeError(f"a WSGI application is a function, not {type(application).__name__}")
        super().__init__(listener, self._serve_client, limit=limit, ssl=ssl)
        self.application = application
        self.timeout = timeout
        self.keep_alive = keep_alive
        self.secure = ssl is not None
        self.stopping = False
        self.idle: set[CancelScope] = set()  # those of the connections that wait for a further request
        address = self.address
        self.name, self.port = (address[0], str(address[1])) if isinstance(address, tuple) else (address or "", "")

    def _serve_client(self, sock: Any, address: Any) -> None:
        if sock.family in (AF_INET, AF_INET6):
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        Connection(self, sock, address).serve()

    def close(self) -> None:
        """Accept no more connections, and close those that wait for a further request. Requests go on, and their
        connections are closed after them."""
        self.stopping = True
        super().close()
        for scope in list(self.idle):
            scope.cancel()


def _load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    found = import_module(module)
    for part in (attribute or "application").split("."):
        found = getattr(found, part)
    return found


def _listen(place: str) -> socket:
    host, colon, port = place.rpartition(":")
    if not colon or "/" in place:
        listener = socket(AF_UNIX)
        try:
            listener.bind(place)
            listener.listen(1024)
        except BaseException:
            listener.close()
            raise
        return listener
    host = host.strip("[]")
    return create_server((host, int(port)), family=AF_INET6 if ":" in host else AF_INET, backlog=1024)


def _serve(listener: socket, options: argparse.Namespace, ready: Callable[[], None], alive: int) -> None:
    """Serve in a process that has a supervisor."""
    monkey.patch()
    logging.basicConfig(level=logging.INFO if options.access_log else logging.WARNING, format="%(asctime)s %(message)s")
    sys.path.insert(0, os.getcwd())
    told = _fiberrt.Event()
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, lambda *_: told.set())
    signal.signal(signal.SIGHUP, lambda *_: None)  # a terminal sends it to all processes; it is the supervisor's
    application = _load(options.application)
    server = WSGIServer(
        listener, application, limit=options.limit, timeout=options.timeout, keep_alive=options.keep_alive
    )
    server.start()
    print(f"serving {options.application} at {server.address}", file=sys.stderr, flush=True)
    ready()

    def await_end() -> None:
        os.read(alive, 1)  # ends when the supervisor has died
        told.set()

    waiting = _fiberrt.spawn(await_end)
    told.wait()
    left = server.stop(options.graceful)
    if left:
        error_log.warning("%d requests did not end in time", left)
    waiting.cancel()


def main(arguments: list[str] | None = None) -> None:
    """The command line: python -m fiberrt.wsgi."""
    parser = argparse.ArgumentParser(
        prog="python -m fiberrt.wsgi",
        description="Serve a WSGI application with fibers. SIGHUP reloads the application: a new process takes the place of the old "
        "one, whose requests end. SIGTERM lets the requests end, and ends the server.",
    )
    parser.add_argument("application", help="MODULE:NAME")
    parser.add_argument("--bind", default="127.0.0.1:8000", help="HOST:PORT, or the path of a Unix socket")
    parser.add_argument("--limit", type=int, default=1000, help="the maximal number of connections")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds for the head of a request, and for each receive or send after it")
    parser.add_argument("--keep-alive", type=float, default=5.0, help="seconds a connection may wait for a request")
    parser.add_argument("--graceful", type=float, default=30.0, help="seconds that requests have to end at a stop or a reload")
    parser.add_argument("--access-log", action="store_true", help="log each request to standard error")
    options = parser.parse_args(arguments)
    listener = _listen(options.bind)
    family, process = listener.family, os.getpid()
    try:
        status = supervise(partial(_serve, listener, options), listener)
    finally:
        if family == AF_UNIX and os.getpid() == process:  # not in a child
            with suppress(OSError):
                os.unlink(options.bind)
    sys.exit(status)


if __name__ == "__main__":
    main()
