# SPDX-License-Identifier: MIT OR Apache-2.0
"""The transports of fiberrt.aio for pipes, and for sockets and character devices used as pipes. The base classes in
_fiberrt read and write; this file has the rest."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import warnings
from asyncio import constants, transports
from asyncio.log import logger
from typing import TYPE_CHECKING, Any

from . import _fiberrt
from ._transports import Common

if TYPE_CHECKING:
    from .aio import EventLoop

_Reader: Any = _fiberrt.transport_type("fiberrt._fiberrt.ReadPipe", transports.ReadTransport, "r")
_Writer: Any = _fiberrt.transport_type("fiberrt._fiberrt.WritePipe", transports._FlowControlMixin, "w")  # type: ignore[attr-defined]


class _Pipe(Common):
    """The common part of both ends."""

    __slots__ = ()
    _pipe: Any
    _eof: bool
    _sock_fd: int

    def __init__(
        self, loop: EventLoop, pipe: Any, protocol: asyncio.BaseProtocol, waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._pipe = None
        descriptor = pipe.fileno()
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise ValueError("Pipe transport is only for pipes, sockets and character devices")
        super(Common, self).__init__(loop, descriptor, stat.S_ISSOCK(mode), True)  # type: ignore[call-arg]
        self._pipe = pipe
        self._extra = {} if extra is None else extra
        self._extra["pipe"] = pipe
        self.set_protocol(protocol)
        os.set_blocking(descriptor, False)
        self._begin(waiter, self._starter(mode))

    def _starter(self, mode: int) -> Any:
        return self._start_reading

    @property
    def _fileno(self) -> int | None:
        return None if self._pipe is None else self._sock_fd

    def __repr__(self) -> str:
        state = "closed" if self._pipe is None else "closing" if self._closing else "open"
        return f"<{type(self).__name__} {state} fd={self._fileno}{self._details()}>"

    def _details(self) -> str:
        return ""

    def __del__(self) -> None:
        if self._pipe is not None:
            warnings.warn(f"unclosed transport {self!r}", ResourceWarning, source=self, stacklevel=2)
            self._pipe.close()

    def _closed_by_peer(self) -> None:
        if self._loop.get_debug():
            logger.info("%r was closed by peer", self)

    def _call_connection_lost(self, error: BaseException | None) -> None:
        protocol = self._protocol
        try:
            if protocol is not None:
                protocol.connection_lost(error)
        finally:
            self._end()  # type: ignore[attr-defined]
            if self._pipe is not None:
                self._pipe.close()
                self._pipe = None


class ReadPipeTransport(_Pipe, _Reader):  # type: ignore[misc]
    """asyncio.ReadTransport over the end of a pipe."""

    def _details(self) -> str:
        return f" {'polling' if self._loop is not None and self.is_reading() else 'idle'}"

    def close(self) -> None:
        """Close the pipe."""
        self._force_close(None)

    def _fatal_error(self, error: BaseException, message: str = "Fatal error on pipe transport") -> None:
        if self._loop is None:
            return
        if isinstance(error, OSError) and error.errno == errno.EIO:
            if self._loop.get_debug():
                logger.debug("%r: %s", self, message, exc_info=error)
        else:
            self._report(error, message)
        self._force_close(error)

    def _on_eof(self) -> None:
        self._closed_by_peer()
        self._closing = True
        self._stop_reading()
        self._loop.call_soon(self._protocol.eof_received)
        self._lose(None)


class WritePipeTransport(_Pipe, _Writer):  # type: ignore[misc]
    """asyncio.WriteTransport over the end of a pipe."""

    def _starter(self, mode: int) -> Any:
        return None if stat.S_ISCHR(mode) else self._watch_reader

    def _details(self) -> str:
        size = self.get_write_buffer_size()
        return f" {'polling' if size else 'idle'} bufsize={size}"

    def can_write_eof(self) -> bool:
        """Return True: write_eof() closes the pipe."""
        return True

    def write_eof(self) -> None:
        """Close the pipe when all has been written."""
        if self._closing:
            return
        self._closing = True
        if not self.get_write_buffer_size():
            self._stop_reading()
            self._lose(None)

    def close(self) -> None:
        """Close the pipe when all has been written."""
        self.write_eof()

    def _reader_has_closed(self) -> None:
        self._closed_by_peer()
        self._force_close(BrokenPipeError() if self.get_write_buffer_size() else None)

    def _all_written(self) -> None:
        if self._closing:
            self._call_connection_lost(None)

    def _written_when_lost(self) -> None:
        if self._conn_lost >= constants.LOG_THRESHOLD_FOR_CONNLOST_WRITES:
            logger.warning("pipe closed by peer or os.write(pipe, data) raised exception.")
        if self._conn_lost or self._loop is None:  # otherwise close() has left data, which is still to be written
            self._conn_lost += 1
