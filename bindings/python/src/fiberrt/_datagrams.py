# SPDX-License-Identifier: MIT OR Apache-2.0
"""The transport of fiberrt.aio for datagrams. The base class in _fiberrt receives and sends; this file has the rest."""

from __future__ import annotations

import asyncio
import socket
import warnings
from asyncio import constants, transports, trsock
from asyncio.log import logger
from typing import TYPE_CHECKING, Any

from . import _fiberrt
from ._transports import Common, addresses

if TYPE_CHECKING:
    from .aio import EventLoop

_Datagram: Any = _fiberrt.transport_type("fiberrt._fiberrt.Datagram", transports._FlowControlMixin, "d")  # type: ignore[attr-defined]
_MOST_BYTES = 256 * 1024  # of a datagram, as in asyncio


class DatagramTransport(Common, _Datagram, asyncio.DatagramTransport):  # type: ignore[misc]
    """asyncio.DatagramTransport over a socket."""

    _sock: socket.socket | None = None

    def __init__(
        self, loop: EventLoop, sock: socket.socket, protocol: asyncio.BaseProtocol, address: Any = None,
        waiter: asyncio.Future[None] | None = None, extra: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        _Datagram.__init__(self, loop, sock.fileno(), True, False)
        self._sock = sock
        self._extra = {} if extra is None else extra
        self._extra["socket"] = trsock.TransportSocket(sock)
        addresses(sock, self._extra)
        self._address = address
        self._connected = bool(self._extra["peername"])
        self._family = sock.family
        self.set_protocol(protocol)
        loop._transports[self._sock_fd] = self
        self._begin(waiter, self._start_reading)

    def __repr__(self) -> str:
        state = "closed" if self._sock is None else "closing" if self._closing else "open"
        return f"<{type(self).__name__} {state} fd={self._sock_fd} write=<bufsize={self.get_write_buffer_size()}>>"

    def __del__(self) -> None:
        if self._sock is not None:
            warnings.warn(f"unclosed transport {self!r}", ResourceWarning, source=self, stacklevel=2)
            self._sock.close()

    def _call_connection_lost(self, error: BaseException | None) -> None:
        protocol = self._protocol
        try:
            if protocol is not None:
                protocol.connection_lost(error)
        finally:
            self._end()
            if self._sock is not None:
                self._sock.close()
                self._sock = None

    def _all_written(self) -> None:
        if self._closing:
            self._call_connection_lost(None)

    def _written_when_lost(self) -> None:
        if self._address and self._conn_lost >= constants.LOG_THRESHOLD_FOR_CONNLOST_WRITES:
            logger.warning("socket.send() raised exception.")
        self._conn_lost += 1

    # Addresses that only the socket object knows: names, and those of rare families.

    def _send_slowly(self, data: Any, address: Any) -> bool:
        """Send a datagram. Return True if there is no room for it now."""
        assert self._sock is not None
        try:
            if address is None and self._extra["peername"] is not None:  # one of a pair of unix sockets: it has no name
                self._sock.send(data)
            else:
                self._sock.sendto(data, address)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError as error:
            self._protocol.error_received(error)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._fatal_error(error, "Fatal write error on datagram transport")
        return False

    def _receive_slowly(self) -> None:
        assert self._sock is not None
        try:
            data, address = self._sock.recvfrom(_MOST_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._protocol.error_received(error)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._fatal_error(error, "Fatal read error on datagram transport")
        else:
            self._protocol.datagram_received(data, address)
