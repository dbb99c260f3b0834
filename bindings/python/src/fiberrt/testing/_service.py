# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the fakes share: a server of connections within the process, each with a thread, and the names that lead to it."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

from .. import _fiberrt
from . import _run

_Address = tuple[str, int]

_names: dict[_Address, _Address] = {}  # of services; the values are addresses of their listeners
_first_getaddrinfo: Any = None  # socket.getaddrinfo, while there are names

_DELAYED_ONE_IN = (4, 12, 40)  # requests; the run chooses
_DELAYS_S = (0.0, 0.001, 0.02)
_delayed_one_in = 0  # in this run


def maybe_delay() -> None:
    """In a simulated run, let a request take its time, if the simulation chooses so: all that other threads can do
    without waiting for a time happens before it. Called before a request is handled. May switch."""
    global _delayed_one_in
    if not _run.inside:
        return
    if not _delayed_one_in:
        _delayed_one_in = _DELAYED_ONE_IN[_fiberrt.sim_pick(len(_DELAYED_ONE_IN))]
    delay_s = _DELAYS_S[_fiberrt.sim_pick(len(_DELAYS_S), _delayed_one_in)]
    if delay_s:
        time.sleep(delay_s)


def _getaddrinfo(host: Any, port: Any, *args: Any, **names: Any) -> list[Any]:
    """socket.getaddrinfo(), while services have names."""
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    number = int(port) if str(port).isdigit() else port
    place = _names.get((text.lower(), number)) if isinstance(text, str) else None
    if place is None:
        return _first_getaddrinfo(host, port, *args, **names)  # type: ignore[no-any-return]
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place)]


def _split(name: str, port: int) -> _Address:
    host, colon, number = name.rpartition(":")
    if not colon:
        return name.lower(), port
    if not host or not number.isdigit():
        raise ValueError(f"a name is HOST or HOST:PORT, not {name!r}")
    return host.lower(), int(number)


class Service:
    """A server within the process. Each connection has a thread. In a simulated run that is a simulated thread; else it
    is one of the system. A context manager: at its end the connections are closed, and their threads are joined unless
    an exception has ended the block."""

    port_of_names = 0  # of names without one
    kind = "a service"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[Any] = set()
        self._threads: list[threading.Thread] = []
        self._count = 0
        self._listener: Any = None
        self._listening_in = 0  # the process in which the listener's thread runs
        self._own_names: list[_Address] = []
        self.closed = False

    # --- For clients

    def connect(self) -> socket.socket:
        """Return the client's end of a new connection: a socket of a pair, which has no address."""
        client, ours = socket.socketpair()
        try:
            self._start(ours)
        except BaseException:
            client.close()
            ours.close()
            raise
        return client

    def listen(self, *names: str) -> tuple[str, int]:
        """Listen at a free port of the loopback address, and return (host, port). While the service is open, sockets of
        this process that connect to one of the names, HOST or HOST:PORT, reach it. Listening again adds names.

        ValueError: a name is malformed, or another service has it. RuntimeError: the service listens in another
        process, so it was started outside the simulated run.
        """
        global _first_getaddrinfo
        self._check_open()
        added = [_split(name, self.port_of_names) for name in names]
        with self._lock:
            for name in added:
                if name in _names:
                    raise ValueError(f"another service has the name {name[0]}:{name[1]}")
            if self._listener is None:
                self._listener = socket.create_server(("127.0.0.1", 0))
                self._listening_in = os.getpid()
                thread = threading.Thread(target=self._accept, name=f"{self.kind} listener", daemon=True)
                self._threads.append(thread)
                thread.start()
            elif self._listening_in != os.getpid():
                raise RuntimeError(f"{self.kind} was started outside this run: start it in the test or in a fixture")
            place: _Address = self._listener.getsockname()[:2]
            if added and not _names:
                _first_getaddrinfo, socket.getaddrinfo = socket.getaddrinfo, _getaddrinfo
            _names.update((name, place) for name in added)
            self._own_names += added
        return place

    def close(self) -> None:
        """Close the listener and all connections. Does not wait for their threads."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
        for name in self._own_names:
            _names.pop(name, None)
        if self._own_names and not _names:
            socket.getaddrinfo = _first_getaddrinfo
        if self._listener is not None:
            _shut(self._listener)
            self._listener.close()
        for connection in list(self._open):
            _shut(connection)

    def join(self) -> None:
        """Wait for the threads of the connections. May switch."""
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        self.close()
        if kind is None:
            self.join()

    # --- For subclasses

    def serve(self, connection: socket.socket, number: int) -> None:
        """Serve a connection, the number-th. Called in its thread. An OSError ends it quietly."""
        raise NotImplementedError

    def name_of(self, number: int) -> str:
        """Return the name of a connection's thread."""
        return f"{self.kind} {number}"

    # --- Threads

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError(f"{self.kind} is closed")

    def _start(self, connection: socket.socket) -> None:
        with self._lock:
            self._check_open()
            self._count += 1
            number = self._count
            self._open.add(connection)
            thread = threading.Thread(target=self._run, args=(connection, number), name=self.name_of(number), daemon=True)
            self._threads = [*(one for one in self._threads if one.is_alive()), thread]
            thread.start()

    def _run(self, connection: socket.socket, number: int) -> None:
        try:
            self.serve(connection, number)
        except OSError:
            pass
        finally:
            self._open.discard(connection)
            connection.close()

    def _accept(self) -> None:
        while not self.closed:
            try:
                connection, _ = self._listener.accept()
            except InterruptedError:
                continue
            except OSError:  # closed
                return
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._start(connection)
            except (OSError, RuntimeError):
                connection.close()


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class Receiver:
    """Receives from a socket. EOFError: the peer has closed the connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.buffer = bytearray()

    def more(self) -> None:
        """Receive some bytes into the buffer. May switch."""
        data = self._socket.recv(64 * 1024)
        if not data:
            raise EOFError
        self.buffer += data

    def exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            self.more()
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    def line(self) -> bytes:
        """Return a line, without its end CRLF."""
        while (end := self.buffer.find(b"\r\n")) < 0:
            self.more()
        data = bytes(self.buffer[:end])
        del self.buffer[: end + 2]
        return data

