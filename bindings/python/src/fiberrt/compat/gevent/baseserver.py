# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.baseserver: what StreamServer and DatagramServer have in common."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from ... import _fiberrt, socket
from ._loop import watch
from .event import Event
from .greenlet import Greenlet
from .hub import get_hub, spawn_raw
from .pool import Pool

__all__ = ["BaseServer"]


class BaseServer:
    """Reads from a listener in a fiber, and calls handle() in a greenlet for each connection or message.

    listener: a socket, which the server takes over, or an address: (host, port), "host:port", ":port" or a port. spawn:
    how handle() is called. "default": in a Greenlet; "raw": in one of spawn_raw(); a number, or a Pool: in a greenlet
    of a pool, and the server waits while it is full; None: by the fiber that reads; or a function like gevent.spawn().
    """

    min_delay = 0.01  # seconds between attempts after an error
    max_delay = 1.0
    max_accept = 100  # no effect: a server lets other fibers run as often as any other fiber
    stop_timeout: float | None = 1.0
    fatal_errors = (errno.EBADF, errno.EINVAL, errno.ENOTSOCK)
    address: Any

    def __init__(self, listener: Any, handle: Callable[..., object] | None = None, spawn: Any = "default") -> None:
        self.delay = self.min_delay
        self.pool: Any = None
        self._spawn: Any = None
        self._reading: Any = None
        self._stopped = Event()
        self._stopped.set()
        self.set_listener(listener)
        self.set_spawn(spawn)
        if handle is not None:
            self.set_handle(handle)

    def set_listener(self, listener: Any) -> None:
        """Set the socket or the address."""
        if hasattr(listener, "getsockname"):
            if hasattr(listener, "do_handshake"):
                raise TypeError(f"Expected a regular socket, not SSLSocket: {listener!r}")
            self.family = listener.family
            self.address = listener.getsockname()
            if not isinstance(listener, socket.socket):
                listener = socket.socket(listener.family, listener.type, fileno=listener.detach())
            self.socket: Any = listener
            self.socket.settimeout(None)
        else:
            self.family, self.address = parse_address(listener)

    def set_spawn(self, spawn: Any) -> None:
        """Set how handle() is called."""
        if spawn == "default":
            self._spawn = Greenlet.spawn
        elif spawn == "raw":
            self._spawn = spawn_raw
        elif hasattr(spawn, "spawn"):
            self.pool, self._spawn = spawn, spawn.spawn
        elif isinstance(spawn, int):
            self.pool = Pool(spawn)
            self._spawn = self.pool.spawn
        else:
            self._spawn = spawn

    def set_handle(self, handle: Callable[..., object]) -> None:
        """Set the function that handles a connection or message."""
        if not callable(handle):
            raise TypeError("'handle' must be provided")
        self.handle: Callable[..., object] = handle

    def full(self) -> bool:
        """Whether the pool has no place."""
        return self.pool is not None and bool(self.pool.full())

    # --- Reading

    def start_accepting(self) -> None:
        """Begin to read."""
        if self._reading is None:
            self._reading = watch(self._read_all)

    def stop_accepting(self) -> None:
        """Read no more, until start_accepting() is called again."""
        reading, self._reading = self._reading, None
        if reading is not None and reading is not _fiberrt.current():  # handle() may stop its own server
            reading.cancel()

    def _read_all(self) -> None:
        me = _fiberrt.current()
        while self._reading is me:
            if self.pool is not None:
                self.pool.wait_available()
            try:
                arguments = self.do_read()
                if arguments is not None:
                    self.do_handle(*arguments)
                self.delay = self.min_delay
            except _fiberrt.CancelledError:
                return
            except BaseException as error:
                if self._reading is not me:
                    return
                if self.is_fatal_error(error):
                    self.close()
                    return
                if not (isinstance(error, OSError) and error.errno == errno.ECONNABORTED):
                    get_hub().handle_error(self, type(error), error, error.__traceback__)
                    _fiberrt.sleep(self.delay)
                    self.delay = min(self.delay * 2, self.max_delay)

    def is_fatal_error(self, error: BaseException) -> bool:
        """Whether an error of do_read() ends the server."""
        return isinstance(error, OSError) and error.errno in self.fatal_errors

    def do_read(self) -> Any:
        """Wait for a connection or message. Return the arguments of handle(), or None."""
        raise NotImplementedError

    def do_handle(self, *args: Any) -> None:
        """Let a greenlet call handle()."""
        try:
            if self._spawn is None:
                self._handle_and_close(*args)
            else:
                self._spawn(self._handle_and_close, *args)
        except _fiberrt.CancelledError:
            self.do_close(*args)
            raise
        except BaseException as error:  # report it first, because close() may let other fibers run
            get_hub().handle_error(self, type(error), error, error.__traceback__)
            self.do_close(*args)
            _fiberrt.sleep(self.min_delay)

    def _handle_and_close(self, *args: Any) -> Any:
        try:
            return self.handle(*args)
        finally:
            self.do_close(*args)

    def do_close(self, *args: Any) -> None:
        """Called after handle() with its arguments."""

    # --- Its life

    def init_socket(self) -> None:
        """Called by start(): makes the socket, if the server has an address."""

    @property
    def started(self) -> bool:
        """Whether start() has been called, and neither stop() nor close()."""
        return not self._stopped.is_set()

    @property
    def closed(self) -> bool:
        """Whether the server has no socket."""
        return not hasattr(self, "socket")

    @property
    def server_host(self) -> Any:
        """The address' host, or None."""
        return self.address[0] if isinstance(self.address, tuple) else None

    @property
    def server_port(self) -> Any:
        """The address' port, or None."""
        return self.address[1] if isinstance(self.address, tuple) else None

    def start(self) -> None:
        """Begin to serve, in fibers of the calling thread. AssertionError: it has begun."""
        self.init_socket()
        self._stopped.clear()
        try:
            self.start_accepting()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the socket. Connections go on."""
        self._stopped.set()
        self.stop_accepting()
        sock = self.__dict__.pop("socket", None)
        if sock is not None:
            sock.close()

    def stop(self, timeout: float | None = None) -> None:
        """Close the socket. If the server has a pool, wait until it is empty and, after the timeout in seconds, kill
        its greenlets."""
        self.close()
        if self.pool is not None:
            self.pool.join(timeout=self.stop_timeout if timeout is None else timeout)
            self.pool.kill(block=True, timeout=1)

    def serve_forever(self, stop_timeout: float | None = None) -> None:
        """start(), and wait until stop() or close() is called."""
        if not self.started:
            self.start()
        try:
            self._stopped.wait()
        finally:
            Greenlet.spawn(self.stop, timeout=stop_timeout).join()

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        handle = getattr(self, "handle", None)
        own = getattr(handle, "__self__", None) is self
        text = f"<bound method {type(self).__name__}.handle>" if own else repr(handle)
        return f"<{type(self).__name__} at {id(self):#x} {self.address!r} handle={text}>"

    __str__ = __repr__


def parse_address(address: Any) -> tuple[int, Any]:
    """Return the family and the address. ValueError: it cannot be read."""
    if isinstance(address, tuple):
        if not address[0] or ":" in address[0]:
            return (socket.AF_INET6, address) if address[0] else (socket.AF_INET, ("", address[1]))
        return socket.AF_INET, address
    if isinstance(address, int):
        return socket.AF_INET, ("", address)
    if isinstance(address, str):
        host, colon, port = address.rpartition(":")
        if not colon:
            host, port = "", address
        try:
            return parse_address((host.strip("[]"), int(port)))
        except ValueError:
            pass
    raise ValueError(f"Failed to parse address {address!r}")
