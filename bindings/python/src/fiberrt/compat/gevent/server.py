# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.server: a TCP server, also with TLS, and a UDP server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import socket
from ... import ssl as _ssl
from .baseserver import BaseServer

__all__ = ["DatagramServer", "StreamServer"]


class StreamServer(BaseServer):
    """Calls handle(socket, address) for each connection, and closes the socket after it.

    Arguments for TLS: ssl_context, or keyfile, certfile, ca_certs, cert_reqs, ciphers. The handshake is done in the
    connection's greenlet.
    """

    backlog = 256
    reuse_addr = True

    def __init__(
        self, listener: Any, handle: Callable[[Any, Any], object] | None = None, backlog: int | None = None,
        spawn: Any = "default", **ssl_args: Any,
    ) -> None:  # fmt: skip
        if backlog is not None:
            if hasattr(listener, "getsockname"):
                raise TypeError("backlog must be omitted when a socket instance is passed")
            self.backlog = backlog
        self._context = _context(**ssl_args) if ssl_args else None
        super().__init__(listener, handle, spawn)

    @property
    def ssl_enabled(self) -> bool:
        """Whether the connections use TLS."""
        return self._context is not None

    def init_socket(self) -> None:
        """Called by start(): makes the socket, if the server has an address."""
        if not hasattr(self, "socket"):
            self.socket = self.get_listener(self.address, self.backlog, self.family)
            self.address = self.socket.getsockname()

    @classmethod
    def get_listener(cls, address: Any, backlog: int | None = None, family: Any = None) -> Any:
        """Return a socket that listens at an address."""
        made = socket.socket(socket.AF_INET if family is None else family, socket.SOCK_STREAM)
        try:
            if cls.reuse_addr:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(cls.backlog if backlog is None else backlog)
        except OSError as error:
            made.close()
            error.strerror = f"{error.strerror}: {address!r}"
            raise
        except BaseException:
            made.close()
            raise
        return made

    def do_read(self) -> Any:
        """Wait for a connection."""
        return self.socket.accept()

    def do_close(self, sock: Any, *args: Any) -> None:
        """Close a connection."""
        sock.close()

    def _handle_and_close(self, *args: Any) -> Any:
        if self._context is None:
            return super()._handle_and_close(*args)
        return self.wrap_socket_and_handle(*args)

    def wrap_socket_and_handle(self, client_socket: Any, address: Any) -> Any:
        """Do the handshake, and handle the connection."""
        assert self._context is not None
        with client_socket, self._context.wrap_socket(client_socket, server_side=True) as secure:
            return self.handle(secure, address)


def _context(
    ssl_context: Any = None, keyfile: Any = None, certfile: Any = None, cert_reqs: Any = None, ca_certs: Any = None,
    ciphers: Any = None, server_side: bool = True, ssl_version: Any = None, suppress_ragged_eofs: bool = True,
    do_handshake_on_connect: bool = True,
) -> Any:  # fmt: skip
    if ssl_context is None:
        ssl_context = _ssl.SSLContext(_ssl.PROTOCOL_TLS_SERVER)
        if certfile is None:
            raise TypeError("certfile must be specified for server-side operations")
        ssl_context.load_cert_chain(certfile, keyfile)
        if ca_certs is not None:
            ssl_context.load_verify_locations(ca_certs)
        if cert_reqs is not None:
            ssl_context.verify_mode = cert_reqs
        if ciphers is not None:
            ssl_context.set_ciphers(ciphers)
    elif not issubclass(ssl_context.sslsocket_class, _ssl.SSLSocket):
        raise TypeError("the context is one of gevent.ssl, or of ssl after monkey.patch_all()")
    return ssl_context


class DatagramServer(BaseServer):
    """Calls handle(data, address) for each message."""

    reuse_addr = True
    max_size = 8192  # bytes of a message; the rest is lost

    def init_socket(self) -> None:
        """Called by start(): makes the socket, if the server has an address."""
        if not hasattr(self, "socket"):
            self.socket = self.get_listener(self.address, self.family)
            self.address = self.socket.getsockname()

    @classmethod
    def get_listener(cls, address: Any, family: Any = None) -> Any:
        """Return a socket that is bound to an address."""
        made = socket.socket(socket.AF_INET if family is None else family, socket.SOCK_DGRAM)
        try:
            if cls.reuse_addr:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
        except BaseException:
            made.close()
            raise
        return made

    def do_read(self) -> Any:
        """Wait for a message."""
        return self.socket.recvfrom(self.max_size)

    def sendto(self, *args: Any) -> int:
        """Send a message by the server's socket."""
        return self.socket.sendto(*args)  # type: ignore[no-any-return]
