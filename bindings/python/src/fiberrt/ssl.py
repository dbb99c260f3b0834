# SPDX-License-Identifier: MIT OR Apache-2.0
"""The standard library's ``ssl``, whose sockets let other fibers run while they wait.

    context = fiberrt.ssl.create_default_context()
    with fiberrt.socket.create_connection((host, 443)) as plain:
        with context.wrap_socket(plain, server_hostname=host) as secure: ...

Everything else is as in the standard library: contexts, certificates, sessions, server names, exceptions. The
descriptor of a TLS socket has O_NONBLOCK set until the TLS socket is closed or unwrapped.
"""

from __future__ import annotations

import os
import select
import ssl as _stdlib
import weakref
from collections.abc import Callable
from ssl import *
from time import monotonic
from typing import Any

import _socket
import _ssl

from . import _fiberrt
from ._rebind import complete, rebind
from .socket import create_connection as create_connection
from .socket import socket as socket


class _Shadow(_socket.socket):
    """The socket object that OpenSSL gets: it has the non-blocking descriptor and no timeout, so its calls never
    wait."""

    __slots__ = ("__weakref__",)

    def __del__(self) -> None:
        self.detach()  # the shadow must not close the descriptor


class _Waiting:
    """Wraps the standard library's object for the connection: its methods wait as the socket's timeout says."""

    __slots__ = ("_object", "_shadow", "_socket", "_turns", "_given_up")

    def __init__(self, of: Any, shadow: _Shadow, sock: SSLSocket) -> None:
        self._object = of
        self._shadow = shadow
        self._socket = weakref.ref(sock)
        self._turns = _fiberrt.Lock()
        self._given_up: bytes | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._object, name)

    @property
    def context(self) -> Any:
        return self._object.context

    @context.setter
    def context(self, value: Any) -> None:
        self._object.context = value

    @property
    def session(self) -> Any:
        return self._object.session

    @session.setter
    def session(self, value: Any) -> None:
        self._object.session = value

    def read(self, *args: Any) -> Any:
        return self._wait("read", self._object.read, *args)

    def write(self, data: Any) -> Any:
        with self._turns:
            # OpenSSL has made a record of data that it could not send, and expects the same data again.
            if self._given_up is not None:
                with memoryview(data) as view, view.cast("B") as flat:
                    if bytes(flat[: len(self._given_up)]) != self._given_up:
                        raise _stdlib.SSLError("an earlier write stopped halfway, and this is other data")
            sent = self._wait("write", self._object.write, data)
            self._given_up = None
            return sent

    def do_handshake(self) -> None:
        self._wait("handshake", self._object.do_handshake)

    def shutdown(self) -> Any:
        self._wait("shutdown", self._object.shutdown)
        return self._socket()

    def _wait(self, what: str, method: Callable[..., Any], *args: Any) -> Any:
        if _fiberrt.cancel_pending():
            _fiberrt.sleep(0)  # raises the pending exception
        _fiberrt.poll_turn()
        sock = self._socket()
        timeout = None if sock is None else sock.gettimeout()
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            try:
                return method(*args)
            except _stdlib.SSLWantReadError:
                events = select.POLLIN
                if timeout == 0:
                    raise
            except _stdlib.SSLWantWriteError:
                events = select.POLLOUT
                if timeout == 0:
                    raise
            left = None if deadline is None else max(0.0, deadline - monotonic())
            try:
                ready = _fiberrt.wait_fd(self._shadow, events, left)
            except BaseException:
                self._give_up(what, args)
                raise
            if not ready:
                self._give_up(what, args)
                if what == "shutdown":
                    what = "read" if events == select.POLLIN else "write"
                raise TimeoutError(f"The {what} operation timed out")

    def _give_up(self, what: str, args: tuple[Any, ...]) -> None:
        if what == "write":
            with memoryview(args[0]) as view, view.cast("B") as flat:
                self._given_up = bytes(flat[:16384])


class SSLSocket(_stdlib.SSLSocket, socket):  # type: ignore[no-redef]
    """A TLS connection whose calls let other fibers run while they wait; made by SSLContext.wrap_socket().

    One fiber may read while others write; concurrent writes take turns. After a write that ended early, by a cancel or
    a timeout, only the same data can be written: a part of it may have been sent.
    """

    def settimeout(self, value: float | None, /) -> None:
        """Set the timeout of each call in seconds; None means no timeout."""
        super().settimeout(value)
        self._never_block()

    def setblocking(self, flag: bool, /) -> None:
        """settimeout(None) or settimeout(0)."""
        super().setblocking(flag)
        self._never_block()

    def do_handshake(self, block: bool = False) -> None:
        """Perform the TLS handshake, and wait for its end."""
        try:
            super().do_handshake(block)
        except (OSError, ValueError):
            raise
        except BaseException:
            if self.do_handshake_on_connect:  # type: ignore[attr-defined]
                self.close()  # the caller never gets this socket
            raise

    def unwrap(self) -> socket:
        """End the TLS connection, wait until the peer has ended it, too, and return the plain socket."""
        under: socket = super().unwrap()
        self.settimeout(self.gettimeout())  # sets O_NONBLOCK of the descriptor as the timeout says
        return under

    def detach(self) -> int:
        """Release the descriptor and return it."""
        self._drop()
        return super().detach()

    def _real_close(self) -> None:
        self._drop()
        super()._real_close()  # type: ignore[misc]

    def _drop(self) -> None:
        waiting = self.__dict__.get("_sslobj")
        if waiting is not None:
            waiting._shadow.detach()

    def _never_block(self) -> None:
        if self.__dict__.get("_sslobj") is not None:
            os.set_blocking(self.fileno(), False)


def _wrap_socket(context: _stdlib.SSLContext, sock: SSLSocket, *args: Any, **kwargs: Any) -> _Waiting:
    shadow = _Shadow(sock.family, sock.type, sock.proto, fileno=sock.fileno())
    shadow.settimeout(0)
    made = _ssl._SSLContext._wrap_socket(context, shadow, *args, **kwargs)  # type: ignore[attr-defined]
    return _Waiting(made, shadow, sock)


class SSLContext(_stdlib.SSLContext):  # type: ignore[no-redef]
    """A context whose wrap_socket() makes an SSLSocket of this module."""

    sslsocket_class = SSLSocket

    def _wrap_socket(self, sock: SSLSocket, *args: Any, **kwargs: Any) -> _Waiting:
        return _wrap_socket(self, sock, *args, **kwargs)


complete(globals(), _stdlib)
create_default_context = rebind(_stdlib.create_default_context, globals())
get_server_certificate = rebind(_stdlib.get_server_certificate, globals())
_create_unverified_context = rebind(_stdlib._create_unverified_context, globals())
_create_stdlib_context = _create_unverified_context
_create_default_https_context = create_default_context
if hasattr(_stdlib, "wrap_socket"):  # before 3.12
    wrap_socket = rebind(_stdlib.wrap_socket, globals())
    wrap_socket.__doc__ = "Deprecated in favour of SSLContext.wrap_socket(), which checks names."
