# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server that gives each connection a fiber.

    from fiberrt.server import StreamServer

    def echo(connection, address):
        while data := connection.recv(4096):
            connection.sendall(data)

    StreamServer(("127.0.0.1", 7000), echo).serve_forever()
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import _fiberrt, socket
from ._scopes import move_on_after, shield

if TYPE_CHECKING:
    from ssl import SSLContext
    from types import TracebackType

__all__ = ["StreamServer"]

# After these errors of accept(), there will be no connection. After others, such as that there are too many descriptors,
# the server tries again later.
_LISTENER_GONE = (errno.EBADF, errno.EINVAL, errno.ENOTSOCK)
_PAUSE_S = 0.1
HANDSHAKE_S = 60.0
_LINGER_S = 1.0


def linger(connection: Any, most: int) -> None:
    """Read what the client still sends, for a second and up to so many bytes. The kernel would reset a connection that is
    closed with unread data, and the client might not get the answer."""
    with move_on_after(_LINGER_S), suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        while most > 0 and (data := connection.recv(64 * 1024)):
            most -= len(data)


class StreamServer:
    """Accepts connections, and calls handle(connection, address) in a new fiber for each. The connection is a
    fiberrt.socket.socket, or an SSLSocket, and is closed when handle() returns. An exception of handle() goes to
    sys.unraisablehook, and the server continues.

    listener: a listening socket, which the server takes over; the address of a new one, as for
    socket.create_server(); or the path of a new Unix socket, which close() removes. limit: the maximal number of
    connections at a time, or a fiberrt.Semaphore that several servers share; further clients wait in the listener's
    backlog. ssl: a context of fiberrt.ssl, or of ssl after monkey.patch(); the handshake
    is done in the connection's fiber, and a client has HANDSHAKE_S seconds for it.
    """

    def __init__(
        self,
        listener: Any,
        handle: Callable[[Any, Any], object],
        *,
        limit: int | _fiberrt.Semaphore | None = None,
        ssl: SSLContext | None = None,
        backlog: int = 1024,
    ) -> None:
        if not callable(handle):
            raise TypeError(f"handle is a function, not {type(handle).__name__}")
        if isinstance(limit, int) and limit < 1:
            raise ValueError(f"a limit is at least 1, not {limit}")
        if ssl is not None:
            from .ssl import SSLSocket

            if not issubclass(ssl.sslsocket_class, SSLSocket):
                raise TypeError("the context is one of fiberrt.ssl, or of ssl after monkey.patch()")
        self._path = listener if isinstance(listener, (str, bytes)) else None
        if isinstance(listener, (str, bytes)):
            self._listener = socket.socket(socket.AF_UNIX)
            try:
                self._listener.bind(listener)
                self._listener.listen(backlog)
            except BaseException:
                self._listener.close()
                raise
        elif isinstance(listener, tuple):
            family = socket.AF_INET6 if ":" in listener[0] else socket.AF_INET
            self._listener = socket.create_server(listener, family=family, backlog=backlog)
        else:
            family, kind = listener.family, listener.type
            self._listener = socket.socket(family, kind, fileno=listener.detach())
        self._listener.settimeout(None)
        os.set_blocking(self._listener.fileno(), False)  # another process may take a connection at the last moment
        self._handle = handle
        self._ssl = ssl
        self._places = _fiberrt.Semaphore(limit) if isinstance(limit, int) else limit
        self._connections: dict[Any, None] = {}  # the fibers
        self._idle = _fiberrt.Event()
        self._idle.set()
        self._accepting: Any = None

    @property
    def address(self) -> Any:
        """The address of the listener, with the port that the system has chosen for port 0."""
        return self._listener.getsockname()

    @property
    def connections(self) -> int:
        """The number of connections whose handle() has not returned."""
        return len(self._connections)

    def start(self) -> None:
        """Accept connections in a fiber of the calling thread. RuntimeError: the server has been started before."""
        if self._accepting is not None:
            raise RuntimeError("the server has been started before")
        self._accepting = _fiberrt.spawn(self._accept)

    def close(self) -> None:
        """Accept no more connections, and close the listener. Connections go on."""
        path, self._path = self._path, None
        if path is not None:
            with suppress(OSError):
                os.unlink(path)
        self._listener.close()  # ends the wait of accept() with EBADF
        if self._accepting is not None:
            self._accepting.cancel()  # it may wait for a place instead

    def join(self, timeout: float | None = None) -> bool:
        """Wait until there is no connection. Return False if the timeout, in seconds, passes first."""
        return self._idle.wait(timeout)

    def stop(self, timeout: float | None = None) -> int:
        """Close the listener, and wait until there is no connection. After the timeout, in seconds, cancel the fibers of
        the others and wait for their ends. Return how many were cancelled."""
        self.close()
        if self.join(timeout):
            return 0
        left = list(self._connections)
        for fiber in left:
            fiber.cancel()
        self.join()
        return len(left)

    def serve_forever(self) -> None:
        """Accept connections until another fiber calls close() or stop(), or this one is cancelled, which closes the
        listener."""
        self.start()
        try:
            self._accepting.join()
        finally:
            self.close()

    def __enter__(self) -> StreamServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if exception is None:
                self.stop()
                return
        except BaseException:
            self._stop_now()
            raise
        self._stop_now()

    def _stop_now(self) -> None:
        with shield():
            self.stop(0)

    def _accept(self) -> None:
        while True:
            if self._places is not None:
                self._places.acquire()
            begun = False
            try:
                begun = self._accept_one()
            except (OSError, MemoryError) as error:
                if self._listener.fileno() < 0 or getattr(error, "errno", None) in _LISTENER_GONE:
                    return
                if getattr(error, "errno", None) != errno.ECONNABORTED:
                    _fiberrt.sleep(_PAUSE_S)
            finally:
                if not begun and self._places is not None:
                    self._places.release()

    def _accept_one(self) -> bool:
        connection, address = self._listener.accept()
        try:
            fiber = _fiberrt.spawn(self._serve, self._handle, connection, address)
        except BaseException:
            connection.close()
            raise
        self._connections[fiber] = None
        self._idle.clear()
        fiber.add_done_callback(self._ended)
        return True

    def _ended(self, fiber: Any) -> None:
        self._connections.pop(fiber, None)
        if not self._connections:
            self._idle.set()
        if self._places is not None:
            self._places.release()

    def _serve(self, handle: Callable[[Any, Any], object], connection: Any, address: Any) -> None:
        with connection:
            if self._ssl is None:
                handle(connection, address)
                return
            secure = None
            with move_on_after(HANDSHAKE_S), suppress(OSError):  # the client does not speak TLS, or has left
                secure = self._ssl.wrap_socket(connection, server_side=True)
            if secure is not None:
                with secure:
                    handle(secure, address)

    _fiberrt.calls_argument(_serve, 0)
