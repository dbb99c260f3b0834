# SPDX-License-Identifier: MIT OR Apache-2.0
"""A WSGI application as a server within the process."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterable
from socketserver import StreamRequestHandler
from types import SimpleNamespace
from typing import Any, BinaryIO, cast
from wsgiref.handlers import SimpleHandler
from wsgiref.simple_server import WSGIRequestHandler

from ._service import Service, maybe_delay

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_LONGEST_LINE = 65536
_numbers = itertools.count(1)  # of requests, so that their threads have different names


class _Handler(WSGIRequestHandler):
    """Serves the one request of a connection. `server` has the attributes application and base_environ."""

    server: Any
    wbufsize = -1

    def setup(self) -> None:
        StreamRequestHandler.setup(self)

    def handle(self) -> None:
        self.raw_requestline = self.rfile.readline(_LONGEST_LINE + 1)
        if len(self.raw_requestline) > _LONGEST_LINE:
            self.requestline = self.request_version = self.command = ""
            self.send_error(414)
            return
        if not self.raw_requestline or not self.parse_request():
            return
        if "Transfer-Encoding" in self.headers:
            self.send_error(411, explain="the server of fiberrt.testing reads only bodies with a Content-Length")
            return
        threading.current_thread().name = f"{self.command} {self.path} ({next(_numbers)})"
        handler = SimpleHandler(cast(BinaryIO, self.rfile), cast(BinaryIO, self.wfile), self.get_stderr(), self.get_environ(), multithread=True)
        handler.http_version, handler.origin_server = "1.0", True
        maybe_delay()
        handler.run(self.server.application)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class WSGIService(Service):
    """Serves a WSGI application, one request a connection. Bodies of requests need a Content-Length. An exception of the
    application becomes a response with status 500, and a traceback on standard error."""

    port_of_names = 80
    kind = "http"

    def __init__(self, application: Application, scheme: str = "http") -> None:
        if not callable(application):
            raise TypeError(f"a WSGI application is callable, not {type(application).__name__}")
        super().__init__()
        self._application = application
        self._scheme = scheme

    @property
    def url(self) -> str:
        """The URL of the listener, without a slash at its end."""
        host, port = self.listen()
        return f"http://{host}:{port}"

    def serve(self, connection: socket.socket, number: int) -> None:
        of_tcp = connection.family == socket.AF_INET
        host, port = connection.getsockname()[:2] if of_tcp else ("127.0.0.1", 443 if self._scheme == "https" else 80)
        environ = {
            "SERVER_NAME": host, "SERVER_PORT": str(port), "GATEWAY_INTERFACE": "CGI/1.1", "REMOTE_HOST": "",
            "CONTENT_LENGTH": "", "SCRIPT_NAME": "", "HTTPS": "on" if self._scheme == "https" else "",
        }  # fmt: skip
        server = SimpleNamespace(
            application=self._application, base_environ=environ, server_name=host
        )
        _Handler(connection, ("127.0.0.1", 0), server)  # type: ignore[arg-type]
