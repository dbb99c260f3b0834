# SPDX-License-Identifier: MIT OR Apache-2.0
"""The transport of fiberrt.aio for stream sockets, and the common part of all its transports. The base classes in
_fiberrt receive and send. This file has the rest: the calls that a connection makes a few times in its life, and
errors."""

from __future__ import annotations

import asyncio
import socket
import warnings
from asyncio import constants, transports, trsock
from asyncio.log import logger
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _fiberrt

if TYPE_CHECKING:
    from .aio import EventLoop


def _set_result(waiter: asyncio.Future[None]) -> None:
    if not waiter.cancelled():
        waiter.set_result(None)


def addresses(sock: socket.socket, extra: dict[str, Any]) -> None:
    for name, ask in ("sockname", sock.getsockname), ("peername", sock.getpeername):
        if name not in extra:
            try:
                extra[name] = ask()
            except OSError:
                extra[name] = None


class Common:
    """The common part of the transports."""

    __slots__ = ()
    _loop: EventLoop
    _protocol: Any
    _closing: bool
    _paused: bool
    _conn_lost: int
    _protocol_paused: bool
    _stop_reading: Callable[[], None]
    _stop_writing: Callable[[], None]
    _set_protocol: Callable[[Any, bool], None]
    _set_limits: Callable[[int, int], None]
    _start_reading: Callable[[], None]
    _pause: Callable[[], None]
    _resume: Callable[[], None]
    is_reading: Callable[[], bool]
    get_write_buffer_size: Callable[[], int]

    def _begin(self, waiter: asyncio.Future[None] | None, start: Callable[[], object] | None) -> None:
        """Tell the protocol of the connection, then call start."""
        self._loop.call_soon(self._protocol.connection_made, self)
        if start is not None:
            self._loop.call_soon(start)
        if waiter is not None:
            self._loop.call_soon(_set_result, waiter)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Set the protocol that receives the data."""
        self._set_protocol(protocol, False)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that receives the data."""
        return self._protocol  # type: ignore[no-any-return]

    def pause_reading(self) -> None:
        """Receive no more data until resume_reading()."""
        if self.is_reading():
            self._pause()
            if self._loop.get_debug():
                logger.debug("%r pauses reading", self)

    def resume_reading(self) -> None:
        """Receive data again."""
        if not self._closing and self._paused:
            self._resume()
            if self._loop.get_debug():
                logger.debug("%r resumes reading", self)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the numbers of waiting bytes at which the protocol pauses and resumes writing."""
        if high is None:
            high = 64 * 1024 if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._set_limits(low, high)

    def close(self) -> None:
        """Close the transport when all bytes have been sent."""
        if self._closing:
            return
        self._closing = True
        self._stop_reading()
        if not self.get_write_buffer_size():
            self._lose(None)

    def abort(self) -> None:
        """Close the transport at once; bytes not yet sent are lost."""
        self._force_close(None)

    def _lose(self, error: BaseException | None) -> None:
        self._conn_lost += 1
        self._stop_writing()
        self._loop.call_soon(self._call_connection_lost, error)

    def _force_close(self, error: BaseException | None) -> None:
        if self._conn_lost or self._loop is None:
            return
        self._closing = True
        self._stop_reading()
        self._lose(error)

    def _report(self, error: BaseException, message: str) -> None:
        """Report an error that closes the transport."""
        self._loop.call_exception_handler(
            {"message": message, "exception": error, "transport": self, "protocol": self._protocol}
        )

    def _fatal_error(self, error: BaseException, message: str = "Fatal error on transport") -> None:
        if self._loop is None:
            return
        if isinstance(error, OSError):
            if self._loop.get_debug():
                logger.debug("%r: %s", self, message, exc_info=error)
        else:
            self._report(error, message)
        self._force_close(error)

    def _flow_control_failed(self, error: BaseException) -> None:
        self._report(error, f"protocol.{'pause' if self._protocol_paused else 'resume'}_writing() failed")

    def _call_connection_lost(self, error: BaseException | None) -> None:
        raise NotImplementedError


# The largest base class must be the first one for which a type is made.
_Stream: Any = _fiberrt.transport_type("fiberrt._fiberrt.Stream", transports._FlowControlMixin, "rw")  # type: ignore[attr-defined]


class StreamTransport(Common, _Stream):  # type: ignore[misc]
    """asyncio.Transport over a connected stream socket."""

    _start_tls_compatible = True
    _sendfile_compatible = constants._SendfileMode.TRY_NATIVE  # type: ignore[attr-defined]
    _sock: socket.socket | None = None

    def __init__(
        self, loop: EventLoop, sock: socket.socket, protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None, extra: dict[str, Any] | None = None, server: Any = None,
    ) -> None:  # fmt: skip
        _Stream.__init__(self, loop, sock.fileno(), True, False)
        self._sock = sock
        self._extra = {} if extra is None else extra
        self._extra["socket"] = trsock.TransportSocket(sock)
        addresses(sock, self._extra)
        self._server = server
        self.set_protocol(protocol)
        if server is not None:
            loop._attach(server, self)
        loop._transports[self._sock_fd] = self
        if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.proto in (0, socket.IPPROTO_TCP):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._begin(waiter, self._start_reading)

    def __repr__(self) -> str:
        state = "closed" if self._sock is None else "closing" if self._closing else "open"
        reads = "polling" if self._loop is not None and self.is_reading() else "idle"
        return (
            f"<{type(self).__name__} {state} fd={self._sock_fd} read={reads}"
            f" write=<bufsize={self.get_write_buffer_size()}>>"
        )

    def __del__(self) -> None:
        if self._sock is not None:
            warnings.warn(f"unclosed transport {self!r}", ResourceWarning, source=self, stacklevel=2)
            self._sock.close()
            if self._server is not None:
                self._detach_from_server()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Set the protocol that receives the data."""
        # asyncio asks for the class, uvloop for the methods.
        buffered = isinstance(protocol, asyncio.BufferedProtocol) or (
            hasattr(protocol, "get_buffer") and not hasattr(protocol, "data_received")
        )
        self._set_protocol(protocol, buffered)

    def can_write_eof(self) -> bool:
        """Return True: a stream socket can be closed for writing only."""
        return True

    def write_eof(self) -> None:
        """Close the sending direction when all has been sent."""
        if self._closing or self._eof:
            return
        self._eof = True
        if not self.get_write_buffer_size() and self._sock is not None:
            self._sock.shutdown(socket.SHUT_WR)

    def _fatal_error(self, error: BaseException, message: str = "Fatal error on transport") -> None:
        waiter = self._empty_waiter
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        super()._fatal_error(error, message)

    def _call_connection_lost(self, error: BaseException | None) -> None:
        protocol = self._protocol
        try:
            if protocol is not None:
                protocol.connection_lost(error)
        finally:
            waiter = self._empty_waiter
            if waiter is not None and not waiter.done():
                waiter.set_exception(ConnectionError("Connection is closed by peer"))
            self._end()
            if self._sock is not None:
                self._sock.close()
                self._sock = None
            if self._server is not None:
                self._detach_from_server()

    def _detach_from_server(self) -> None:
        server, self._server = self._server, None
        try:
            server._detach(self)
        except TypeError:  # before Python 3.13
            server._detach()

    def _on_eof(self) -> None:
        if self._loop.get_debug():
            logger.debug("%r received EOF", self)
        try:
            keep_open = self._protocol.eof_received()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._fatal_error(error, "Fatal error: protocol.eof_received() call failed.")
            return
        if keep_open:
            self._stop_reading()
        else:
            self.close()

    def _all_written(self) -> None:
        if self._empty_waiter is not None and not self._empty_waiter.done():
            self._empty_waiter.set_result(None)
        if self._closing:
            self._call_connection_lost(None)
        elif self._eof and self._sock is not None:
            self._sock.shutdown(socket.SHUT_WR)

    def _written_when_lost(self) -> None:
        if self._conn_lost >= constants.LOG_THRESHOLD_FOR_CONNLOST_WRITES:
            logger.warning("socket.send() raised exception.")
        self._conn_lost += 1

    # For loop.sendfile().

    def _make_empty_waiter(self) -> asyncio.Future[None]:
        if self._empty_waiter is not None:
            raise RuntimeError("Empty waiter is already set")
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._empty_waiter = waiter
        if not self.get_write_buffer_size():
            waiter.set_result(None)
        return waiter

    def _reset_empty_waiter(self) -> None:
        self._empty_waiter = None
