# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.pywsgi: the server of fiberrt.wsgi with gevent's interface. It needs h11."""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from http.client import HTTPMessage
from typing import Any

import h11

from ... import _fiberrt
from ..._wsgi_connection import Connection, _BadRequest, _ClientLeft, _Input
from .exceptions import GreenletExit
from .hub import get_hub
from .server import StreamServer

__all__ = ["Environ", "LoggingLogAdapter", "SecureEnviron", "WSGIHandler", "WSGISecureEnviron", "WSGIServer"]


class Input(_Input):
    """wsgi.input. Packages for WebSocket take the socket from its rfile."""

    @property
    def rfile(self) -> Any:
        """The connection's file."""
        return self._connection.rfile  # type: ignore[attr-defined]


class WSGIHandler(Connection):
    """Serves a connection. A subclass may replace the methods, most of all run_application(), log_request() and
    get_environ()."""

    MessageClass = HTTPMessage
    protocol_version = "HTTP/1.1"
    ignored_socket_errors = (errno.EPIPE, errno.ECONNRESET)
    environ: Any = None
    status: Any = None
    code: int | None = None
    result: Any = None
    headers: Any = None
    requestline: Any = None
    command = path = ""
    request_version = ""
    headers_sent = False
    response_use_chunked = provided_content_length = provided_date = False  # for programs that set them
    response_headers: Any = ()
    close_connection = False
    connection_upgraded = False
    time_start = time_finish = 0.0
    _size: int | None = None  # bytes of the whole body, if they are known

    def __init__(self, sock: Any, address: Any, server: Any, rfile: Any = None) -> None:
        super().__init__(server, sock, address)
        self.socket, self.client_address, self.server = sock, address, server
        self.application: Any = None
        self.rfile = sock.makefile("rb", -1) if rfile is None else rfile
        self._tail = b""  # of the head that is being read

    def handle(self) -> None:
        """Serve the connection's requests."""
        try:
            self.serve()
        finally:
            with suppress(OSError):
                self.rfile.close()

    def _receive(self) -> None:
        # Reads exactly to the end of the head: a WebSocket continues with rfile or the socket.
        try:
            data = self.rfile.peek(1)
            if self._http.their_state is h11.IDLE:
                end = (self._tail + data).find(b"\r\n\r\n")
                if end >= 0:
                    data = data[: end + 4 - len(self._tail)]
                self._tail = (self._tail + data)[-3:]
            data = self.rfile.read(len(data)) if data else b""
        except (OSError, ValueError):
            raise _ClientLeft from None
        self._http.receive_data(data)

    @property
    def response_length(self) -> int:
        """The number of bytes of the response's body."""
        return self._sent

    # --- A request

    def _serve_request(self, request: h11.Request) -> None:
        self._tail = b""
        self._response, self._sent, self._switches, self._size = None, 0, False, None
        self._waits = self._http.they_are_waiting_for_100_continue
        self._head = request.method == b"HEAD"
        self._request = request
        self.command, self.path = request.method.decode("ascii"), request.target.decode("ascii")
        self.request_version = f"HTTP/{request.http_version.decode('ascii')}"
        self.requestline = f"{self.command} {self.path} {self.request_version}"
        self.headers = self.MessageClass()
        for name, value in request.headers.raw_items():
            self.headers.add_header(name.decode("latin-1"), value.decode("latin-1"))
        self._upgrade = self._http.their_state is h11.MIGHT_SWITCH_PROTOCOL or "upgrade" in self.headers
        self.application = self.server.application
        self.environ = self.get_environ()
        self.wsgi_input = self.environ["wsgi.input"]
        self.handle_one_response()
        if self.close_connection:
            raise _ClientLeft

    def get_environ(self) -> dict[str, Any]:
        """Return a new environ of the request, from that of the server."""
        environ = self.server.get_environ()
        for name, value in self._environ(self._request).items():
            environ.setdefault(name, value)
        environ["wsgi.input"] = Input(self)
        return environ  # type: ignore[no-any-return]

    def handle_one_response(self) -> None:
        """Call the application, and answer."""
        self.time_start, self.time_finish = time.time(), 0.0
        self.status, self.code, self.result = None, None, None
        self.headers_sent = self.connection_upgraded = False
        try:
            self.run_application()
            if self.connection_upgraded or (self._upgrade and self._response is None):
                self.close_connection = True  # the application has used the connection for itself
                return
            if self._response is None:
                raise RuntimeError("the application has not called start_response()")
            if self._http.our_state is h11.SEND_RESPONSE:
                self._size = 0
                self._send_headers()
            if self.connection_upgraded:
                self.close_connection = True
                return
            self._end()
        except (_ClientLeft, _BadRequest, _fiberrt.CancelledError, GreenletExit):
            raise
        except OSError as error:
            if error.errno in self.ignored_socket_errors:
                raise _ClientLeft from None
            self.handle_error(*sys.exc_info())
        except BaseException:
            self.handle_error(*sys.exc_info())
        finally:
            self.time_finish = time.time()
            self.log_request()

    def run_application(self) -> None:
        """Call the application, and send its result."""
        self.result = self.application(self.environ, self.start_response)
        try:
            self.process_result()
        finally:
            result, self.result = self.result, None
            if hasattr(result, "close"):
                result.close()

    def process_result(self) -> None:
        """Send the result of the application."""
        if isinstance(self.result, (list, tuple)) and not self.headers_sent and self._response is not None:
            self._size = sum(map(len, self.result))
        for data in self.result:
            if data:
                self.write(data)

    # --- The response

    def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Callable[[bytes], None]:
        """WSGI's start_response(). The status 101 hands the connection over to the application."""
        self.response_headers = list(headers)
        self._switches = str(status).startswith("101")
        self._start_response("200" if self._switches else status, headers, exc_info)
        self.status, self.code = status, int(status[:3])
        return self.write

    def _first(self, size: int | None) -> h11.Response:
        self.finalize_headers()
        assert self._response is not None
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.response_headers]
        self._response = h11.Response(
            status_code=self._response.status_code, headers=headers, reason=self._response.reason
        )
        self.headers_sent = True
        return super()._first(self._size if size is None else size)

    def _send_headers(self) -> None:
        """Send the headers alone, or those of a response with the status 101."""
        if not self._switches:
            self._send(self._first(None))
            return
        self.finalize_headers()
        lines = [f"HTTP/1.1 {self.status}", *(f"{name}: {value}" for name, value in self.response_headers), "", ""]
        self._sendall("\r\n".join(lines).encode("latin-1"))
        self.connection_upgraded = self.headers_sent = True

    def finalize_headers(self) -> None:
        """Called before the headers are sent. It may change response_headers, a list of pairs of a name and a value."""

    def write(self, data: Any) -> None:
        """Send a part of the body; before the first, the headers. b"" sends the headers alone."""
        if isinstance(data, str):
            data = data.encode("latin-1")
        if self._response is not None and not self.headers_sent and (self._switches or not data):
            self._send_headers()
        if self.connection_upgraded:
            self._sendall(data)
        else:
            self._write(data)

    def _sendall(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError:
            raise _ClientLeft from None

    def handle_error(self, t: Any, v: Any, tb: Any) -> None:
        """Called for an exception of the application."""
        if not issubclass(t, GreenletExit):
            context = self.server.secure_environ_class(self.environ)
            get_hub().handle_error(context, t, v, tb)
        try:
            self._fail()
        except _ClientLeft:
            self.close_connection = True
        self.status, self.code = "500 Internal Server Error", 500

    # --- The log

    def log_request(self) -> None:
        """Write a line about the request."""
        self.server.log.write(self.format_request() + "\n")

    def format_request(self) -> str:
        """Return the line about the request."""
        host = self.client_address[0] if isinstance(self.client_address, tuple) else self.client_address
        now = datetime.now().replace(microsecond=0)
        took = f"{self.time_finish - self.time_start:.6f}" if self.time_finish else "-"
        status = str(self.status or "000").split()[0]
        return f'{host or "-"} - - [{now}] "{self.requestline or ""}" {status} {self.response_length or "-"} {took}'

    def log_error(self, msg: str, *args: Any) -> None:
        """Write a line to the server's error log."""
        self.server.error_log.write((msg % args if args else msg) + "\n")


class Environ(dict[str, Any]):
    """A dict that programs may use for the environ."""

    def copy(self) -> Any:
        """Return a copy of the same class."""
        return type(self)(self)


class SecureEnviron(Environ):
    """An environ whose repr() does not show the values."""

    default_whitelist_keys: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = {name: self[name] for name in self.default_whitelist_keys if name in self}
        return f"{shown!r} and {len(self) - len(shown)} hidden keys"

    __str__ = __repr__


class WSGISecureEnviron(SecureEnviron):
    """An environ whose repr() shows only the client."""

    default_whitelist_keys = ("REMOTE_ADDR", "REMOTE_PORT", "HTTP_HOST")


class LoggingLogAdapter:
    """A file that writes to a logger."""

    def __init__(self, logger: Any, level: int = 20) -> None:
        self._logger, self._level = logger, level

    def write(self, msg: str) -> None:
        """Log a message."""
        self._logger.log(self._level, msg.rstrip("\n"))

    def flush(self) -> None:
        """It does nothing."""

    def writelines(self, lines: Any) -> None:
        """Log messages."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)


class _NoLog:
    def write(self, *args: Any) -> None:
        pass

    flush = writelines = write


def _log(log: Any, level: int) -> Any:
    if log == "default":
        return sys.stderr
    if log is None:
        return _NoLog()
    return LoggingLogAdapter(log, level) if not hasattr(log, "write") and hasattr(log, "log") else log


class WSGIServer(StreamServer):
    """Serves a WSGI application.

    log: a file or logger for a line about each request, "default" for standard error, or None. error_log: likewise for
    wsgi.errors and bad requests. handler_class: instead of WSGIHandler. environ: additions to each request's environ.
    Other arguments: as for StreamServer.
    """

    handler_class: Any = WSGIHandler
    environ_class: Any = dict
    secure_environ_class: Any = WSGISecureEnviron
    application: Any = None
    base_env: dict[str, Any] = {
        "GATEWAY_INTERFACE": "CGI/1.1",
        "SERVER_SOFTWARE": f"gevent/26.9 (fiberrt) Python/{sys.version_info[0]}.{sys.version_info[1]}",
        "SCRIPT_NAME": "",
        "wsgi.version": (1, 0),
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }

    # For fiberrt.wsgi's connections.
    timeout: float | None = None
    keep_alive: float | None = None
    name = port = ""

    def __init__(
        self, listener: Any, application: Any = None, backlog: int | None = None, spawn: Any = "default",
        log: Any = "default", error_log: Any = "default", handler_class: Any = None, environ: Any = None,
        **ssl_args: Any,
    ) -> None:  # fmt: skip
        super().__init__(listener, None, backlog, spawn, **ssl_args)
        if application is not None:
            self.application = application
        if handler_class is not None:
            self.handler_class = handler_class
        self.log, self.error_log = _log(log, 20), _log(error_log, 40)
        self.stopping = False
        self.idle: set[Any] = set()
        self.set_environ(environ)

    @property
    def secure(self) -> bool:
        """Whether the connections use TLS."""
        return self.ssl_enabled

    def set_environ(self, environ: Any = None) -> None:
        """Set additions to each request's environ."""
        self.environ = self.environ_class(self.base_env)
        self.environ["wsgi.url_scheme"] = "https" if self.ssl_enabled else "http"
        self.environ.update(environ or {})
        if self.environ.get("wsgi.errors") is None:
            self.environ["wsgi.errors"] = self.error_log

    def get_environ(self) -> Any:
        """Return a new environ for a request."""
        return self.environ_class(self.environ)

    def init_socket(self) -> None:
        """Called by start(): makes the socket, if the server has an address."""
        super().init_socket()
        self.stopping = False
        self.update_environ()

    def update_environ(self) -> None:
        """Called when the address is known."""
        if isinstance(self.address, tuple):
            self.name, self.port = str(self.address[0]), str(self.address[1])
        self.environ.setdefault("SERVER_NAME", self.name)
        self.environ.setdefault("SERVER_PORT", self.port)

    def close(self) -> None:
        """Close the socket, and the connections that wait for a further request. Requests go on."""
        self.stopping = True
        super().close()
        for scope in list(self.idle):
            scope.cancel()

    def handle(self, sock: Any, address: Any) -> None:
        """Serve a connection."""
        self.handler_class(sock, address, self).handle()
