# SPDX-License-Identifier: MIT OR Apache-2.0
"""A connection of fiberrt.wsgi's server: its requests, parsed by h11, and the calls of the application."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

import h11

from ._scopes import CancelScope, move_on_after
from .server import linger

if TYPE_CHECKING:
    from .wsgi import WSGIServer

__all__ = ["Connection", "access_log", "error_log"]

_ROOM = 64 * 1024  # for a receive, in bytes
_MOST_UNREAD = 1 << 20  # bytes of an unread body that the server discards to keep the connection usable
_PIECE = 256 * 1024  # of a send, in bytes
_STATUS = re.compile(r"[2-9][0-9][0-9]( [\t\x20-\x7e\x80-\xff]*)?")

access_log = logging.getLogger("fiberrt.wsgi.access")
error_log = logging.getLogger("fiberrt.wsgi")


class _ClientLeft(Exception):
    """The client has closed the connection, or has sent nothing for too long."""


class _BadRequest(Exception):
    """The client has sent something else than a request."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


class _Input:
    """wsgi.input: the body of a request."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._buffer = b""
        self._ended = False

    def _more(self) -> bool:
        """Receive more of the body. Return False at its end."""
        if self._ended:
            return False
        data = self._connection.more_of_body()
        self._ended = data is None
        self._buffer += data or b""
        return not self._ended

    def read(self, size: int | None = -1, /) -> bytes:
        whole = size is None or size < 0
        parts = []
        left = 0 if whole else size or 0
        while whole or left:
            if not self._buffer and not self._more():
                break
            part = self._buffer if whole else self._buffer[:left]
            self._buffer = self._buffer[len(part) :]
            left -= 0 if whole else len(part)
            parts.append(part)
        return b"".join(parts)

    def readline(self, size: int | None = -1, /) -> bytes:
        at_most = sys.maxsize if size is None or size < 0 else size
        seen = 0
        while (end := self._buffer.find(b"\n", seen)) < 0 and len(self._buffer) < at_most:
            seen = len(self._buffer)
            if not self._more():
                break
        end = min(len(self._buffer) if end < 0 else end + 1, at_most)
        line, self._buffer = self._buffer[:end], self._buffer[end:]
        return line

    def readlines(self, hint: int | None = -1, /) -> list[bytes]:
        lines: list[bytes] = []
        size = 0
        while (not hint or hint < 0 or size < hint) and (line := self.readline()):
            lines.append(line)
            size += len(line)
        return lines

    def __iter__(self) -> Iterable[bytes]:
        return iter(self.readline, b"")


class Connection:
    """A client's connection: its requests, one after the other."""

    def __init__(self, server: WSGIServer, sock: Any, address: Any) -> None:
        self._server, self._sock = server, sock
        self._address = address if isinstance(address, tuple) else ("", 0)
        self._http = h11.Connection(h11.SERVER)
        self._response: h11.Response | None = None
        self._head = False  # the request's method is HEAD
        self._waits = False  # the client waits for a "100 Continue" before it sends the body
        self._used = False  # there has been a request
        self._sent = 0  # bytes of the response's body

    def serve(self) -> None:
        try:
            while (request := self._next_request()) is not None:
                self._check(request)
                self._serve_request(request)
                if self._http.our_state is h11.MUST_CLOSE or not self._read_the_rest():
                    break
                if self._http.states != {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
                    break
                self._http.start_next_cycle()
                self._used = True
        except _ClientLeft:
            return
        except _BadRequest as error:
            if not self._refuse(error):
                return
        if self._http.their_state not in (h11.IDLE, h11.DONE, h11.MUST_CLOSE, h11.CLOSED):
            linger(self._sock, _MOST_UNREAD)

    def _receive(self) -> None:
        try:
            data = self._sock.recv(_ROOM)
        except OSError:
            raise _ClientLeft from None
        self._http.receive_data(data)

    def _event(self) -> Any:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise _BadRequest(str(error), error.error_status_hint) from None

    def _next_event(self) -> Any:
        """Return the next event. The client must send something within each timeout."""
        while (event := self._event()) is h11.NEED_DATA:
            with move_on_after(self._server.timeout) as limit:
                self._receive()
            if limit.expired:
                raise _ClientLeft
        return event

    def _next_request(self) -> h11.Request | None:
        event = self._event()
        if event is h11.NEED_DATA and not self._http.trailing_data[0] and not self._begins():
            return None
        with move_on_after(self._server.timeout) as limit:  # for the whole head
            while event is h11.NEED_DATA:
                event = self._event()
                if event is h11.NEED_DATA:
                    self._receive()
        if limit.expired:
            raise _ClientLeft
        return event if isinstance(event, h11.Request) else None

    def _begins(self) -> bool:
        """Wait for the first byte of a request. Return False if none comes in time. A server that stops ends this wait,
        unless it is for the connection's first request."""
        with CancelScope(self._server.keep_alive) as idle:
            if self._used:
                self._server.idle.add(idle)
                if self._server.stopping:
                    idle.cancel()
            try:
                self._receive()
            finally:
                self._server.idle.discard(idle)
        if not idle.cancelled_caught:
            return True
        # A request may have come in the meantime.
        self._sock.settimeout(0)
        try:
            self._http.receive_data(self._sock.recv(_ROOM))
        except OSError:
            return False
        finally:
            self._sock.settimeout(None)
        return True

    @staticmethod
    def _check(request: h11.Request) -> None:
        """Refuse what servers and proxies may understand differently."""
        names = {name for name, _ in request.headers}
        if b"transfer-encoding" in names and (b"content-length" in names or request.http_version < b"1.1"):
            raise _BadRequest("a request has either Content-Length or Transfer-Encoding, the latter since HTTP/1.1")
        target = request.target
        absolute = re.match(rb"https?://", target, re.I)
        if not target.startswith(b"/") and not absolute and (request.method, target) != (b"OPTIONS", b"*"):
            raise _BadRequest("the target of a request is a path or a URL")

    def more_of_body(self) -> bytes | None:
        """Return more of the request's body, or None at its end."""
        if self._waits:
            self._waits = False
            if self._http.our_state is h11.SEND_RESPONSE:
                self._send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
        event = self._next_event()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if isinstance(event, h11.ConnectionClosed):
            raise _ClientLeft
        return None

    def _read_the_rest(self) -> bool:
        """Read what the application has left of the body. Return whether the connection can be used again."""
        size = 0
        while self._http.their_state is h11.SEND_BODY:
            if size > _MOST_UNREAD or self._waits:
                return False
            size += len(self.more_of_body() or b"")
        return True

    def _send(self, *events: Any) -> None:
        parts = []
        try:
            for event in events:
                parts.append(self._http.send(event) or b"")
        except h11.LocalProtocolError:  # such as a body longer than its Content-Length: the head is sent all the same
            self._send_parts(parts)
            raise
        self._send_parts(parts)

    def _send_parts(self, parts: list[bytes]) -> None:
        if sum(map(len, parts)) <= _PIECE:
            parts = [b"".join(parts)]  # one call of the kernel
        for part in parts:
            left = memoryview(part)
            while left:
                with move_on_after(self._server.timeout) as limit:
                    try:
                        left = left[self._sock.send(left[:_PIECE]) :]
                    except OSError:
                        raise _ClientLeft from None
                if limit.expired:
                    raise _ClientLeft

    def _refuse(self, error: _BadRequest) -> bool:
        """Answer a bad request, if its response has not begun. Return whether there is an answer."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return False
        text = str(error).encode()
        headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(text))), ("Connection", "close")]
        try:
            self._send(h11.Response(status_code=error.status, headers=headers, reason=b"Bad Request"))
            self._send(h11.Data(data=text))
            self._send(h11.EndOfMessage())
        except (_ClientLeft, h11.LocalProtocolError):
            return False
        return True

    # --- The application's side

    def _serve_request(self, request: h11.Request) -> None:
        self._response, self._sent = None, 0
        self._waits = self._http.they_are_waiting_for_100_continue
        begin = monotonic()
        chunks: Any = None
        self._head = request.method == b"HEAD"
        try:
            chunks = self._server.application(self._environ(request), self._start_response)
            for chunk in chunks:
                # Without a Content-Length, a body in one piece gets one.
                self._write(chunk, len(chunks) == 1 if isinstance(chunks, (list, tuple)) else False)
            if self._response is None:
                raise RuntimeError("the application has not called start_response()")
            if self._http.our_state is h11.SEND_RESPONSE:
                self._send(self._first(0))
            self._end()
        except (_ClientLeft, _BadRequest):
            raise
        except (Exception, SystemExit):
            error_log.exception("error in the application: %s %s", request.method.decode(), request.target.decode())
            self._fail()
        finally:
            if hasattr(chunks, "close"):
                chunks.close()
            if access_log.isEnabledFor(logging.INFO):
                status = self._response.status_code if self._response is not None else 0
                access_log.info(
                    '%s "%s %s HTTP/%s" %d %d %.6f', self._address[0] or "-", request.method.decode(),
                    request.target.decode(), request.http_version.decode(), status, self._sent, monotonic() - begin,
                )  # fmt: skip

    def _environ(self, request: h11.Request) -> dict[str, Any]:
        path, _, query = request.target.partition(b"?")
        if not path.startswith(b"/") and b"://" in path:  # of a client that takes us for a proxy
            path = b"/" + path.split(b"://", 1)[1].partition(b"/")[2]
        secure = self._server.secure
        environ: dict[str, Any] = {
            "REQUEST_METHOD": request.method.decode("ascii"),
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "RAW_URI": request.target.decode("ascii"),
            "QUERY_STRING": query.decode("ascii"),
            "SERVER_NAME": self._server.name,
            "SERVER_PORT": self._server.port,
            "SERVER_PROTOCOL": f"HTTP/{request.http_version.decode('ascii')}",
            "SERVER_SOFTWARE": "fiberrt",
            "REMOTE_ADDR": self._address[0],
            "REMOTE_PORT": str(self._address[1]),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "https" if secure else "http",
            "wsgi.input": _Input(self),
            "wsgi.input_terminated": True,
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        for name, value in request.headers:
            text = value.decode("latin-1")
            if name == b"content-type":
                environ["CONTENT_TYPE"] = text
            elif name == b"content-length":
                environ["CONTENT_LENGTH"] = text
            elif b"_" not in name:  # such a name could pass for another one with hyphens
                key = "HTTP_" + name.decode("ascii").upper().replace("-", "_")
                between = "; " if name == b"cookie" else ","
                environ[key] = f"{environ[key]}{between}{text}" if key in environ else text
        return environ

    def _start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]:
        if exc_info is not None:
            try:
                if self._http.our_state is not h11.SEND_RESPONSE:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self._response is not None:
            raise RuntimeError("start_response() has been called before")
        if not _STATUS.fullmatch(status):
            raise ValueError(f"a status is a number and a text, not {status!r}")
        code, _, reason = status.partition(" ")
        out = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        self._response = h11.Response(status_code=int(code), headers=out, reason=reason.encode("latin-1"))
        return self._write

    def _first(self, size: int | None) -> h11.Response:
        """Return the head of the response. size: of the whole body, if it is known."""
        response = self._response
        assert response is not None
        bare = response.status_code in (204, 304) or self._head
        more = []
        if size is not None and not bare and not any(name == b"content-length" for name, _ in response.headers):
            more.append((b"Content-Length", b"%d" % size))
        if self._waits or self._server.stopping:  # after an answer without "100 Continue", a body may come or not
            more.append((b"Connection", b"close"))
        if more:
            headers = [*response.headers.raw_items(), *more]
            response = h11.Response(status_code=response.status_code, headers=headers, reason=response.reason)
        return response

    def _write(self, data: bytes, whole: bool = False) -> None:
        if self._response is None:
            raise RuntimeError("the application has not called start_response()")
        if not data:
            return
        begins = self._http.our_state is h11.SEND_RESPONSE
        events: list[Any] = [self._first(len(data) if whole else None)] if begins else []
        self._sent += len(data)
        if not self._head:
            events.append(h11.Data(data=data))
        self._send(*events)

    def _end(self) -> None:
        self._send(h11.EndOfMessage())

    def _fail(self) -> None:
        """Answer with an error, or break a response off."""
        if self._http.our_state is not h11.SEND_RESPONSE:
            self._http.send_failed()
            raise _ClientLeft
        text = b"Internal Server Error"
        headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(text))), ("Connection", "close")]
        self._response = h11.Response(status_code=500, headers=headers, reason=text)
        self._send(self._response)
        self._write(text)
        self._end()
