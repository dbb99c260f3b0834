# SPDX-License-Identifier: MIT OR Apache-2.0
"""A worker for gunicorn that gives each connection a fiber:

    gunicorn -k fiberrt.gunicorn.Worker --worker-connections 1000 module:app

The worker calls fiberrt.monkey.patch(): the application's waits - databases, sockets, locks, time.sleep() - suspend only
the fiber of their connection. worker_connections limits the connections of a worker. At a reload or stop, the worker
closes its listeners, and requests have graceful_timeout seconds to end.
"""

from __future__ import annotations

import os
import signal
from functools import partial
from time import time
from typing import Any

import gunicorn
from gunicorn import util
from gunicorn.http import wsgi
from gunicorn.sock import ssl_context
from gunicorn.workers.base_async import AsyncWorker

from . import _fiberrt, monkey, socket
from ._scopes import move_on_after
from .server import StreamServer, linger

__all__ = ["Worker"]

_MOST_UNREAD = 1 << 20  # bytes that are read, in vain, before a connection is closed


class Worker(AsyncWorker):  # type: ignore[misc]
    """gunicorn's worker class: -k fiberrt.gunicorn.Worker."""

    def init_process(self) -> None:
        """Patch the standard library in the worker's process, and run the worker."""
        self._ending = _fiberrt.Event()
        signal.signal(signal.SIGTERM, self.handle_exit)  # until here, the master's handler is installed, and it would drop a SIGTERM
        monkey.patch()
        # This process has no other worker.
        wsgi.Response = _Response
        util.http_date = _http_date
        self.sockets = [
            socket.socket(each.FAMILY, socket.SOCK_STREAM, fileno=each.sock.detach()) for each in self.sockets
        ]
        super().init_process()

    def run(self) -> None:
        """Serve until the worker is told to end."""
        context = ssl_context(self.cfg) if self.cfg.is_ssl else None
        servers = []
        places = _fiberrt.Semaphore(self.worker_connections)  # for all listeners together
        for listener in self.sockets:
            named = _Named(listener.getsockname())
            server = StreamServer(listener, partial(self.handle, named), limit=places, ssl=context)
            server.start()
            servers.append(server)
        while self.alive:
            self.notify()
            if self.ppid != os.getppid():
                self.log.info("Parent changed, shutting down: %s", self)
                break
            self._ending.wait(1.0)
        for server in servers:
            server.close()
        for _ in range(max(1, int(self.cfg.graceful_timeout))):
            self.notify()
            if all([server.join(1.0 / len(servers)) for server in servers]):
                return
        self.log.warning("Worker graceful timeout (pid:%s)", self.pid)
        for server in servers:
            server.stop(0)

    def timeout_ctx(self) -> Any:
        """The time that an idle connection may wait for its next request."""
        return move_on_after(self.cfg.keepalive)

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> Any:
        """Call the application, and send its response. StopIteration: the connection ends."""
        try:
            return super().handle_request(listener_name, req, sock, addr)
        except StopIteration:
            if not {"CONTENT-LENGTH", "TRANSFER-ENCODING"}.isdisjoint(name for name, _ in req.headers):
                linger(sock, _MOST_UNREAD)  # the application may have left some of the body
            raise

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Log an error, and tell the client."""
        super().handle_error(req, client, addr, exc)
        linger(client, _MOST_UNREAD)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """SIGTERM: end gracefully."""
        super().handle_exit(sig, frame)
        self._ending.set()

    def handle_quit(self, sig: int, frame: Any) -> None:
        """SIGQUIT, SIGINT: end at once. In a fiber, because it waits."""
        _fiberrt.spawn(super().handle_quit, sig, frame)

    def handle_usr1(self, sig: int, frame: Any) -> None:
        """SIGUSR1: reopen the log files. In a fiber, because it waits for locks."""
        _fiberrt.spawn(super().handle_usr1, sig, frame)


class _Named:
    """Stands for the listener that accepted a connection. The StreamServer owns the real listener."""

    def __init__(self, name: Any) -> None:
        self._name = name

    def getsockname(self) -> Any:
        return self._name


_make_date = util.http_date
_second, _date = -1, ""


def _http_date(timestamp: float | None = None) -> str:
    """gunicorn.util.http_date(), which makes the text of the present time once a second, not for each response."""
    global _second, _date
    if timestamp is not None:
        return _make_date(timestamp)  # type: ignore[no-any-return]
    now = int(time())
    if now != _second:
        _second, _date = now, _make_date(now)
    return _date


class _Response(wsgi.Response):  # type: ignore[misc]
    """gunicorn's response, but on TCP the head leaves together with the first part of the body, in one packet."""

    _alone = False  # nothing follows the head at once

    def send_headers(self) -> None:
        """Give the head to the kernel, which keeps it until there is more to send."""
        if self.headers_sent:
            return
        lines = self.default_headers()
        lines.extend([f"{name}: {value}\r\n" for name, value in self.headers])
        lines.append("\r\n")
        flags = () if self.cfg.is_ssl or self._alone else (socket.MSG_MORE,)
        self.sock.sendall("".join(lines).encode("latin-1"), *flags)
        self.headers_sent = True

    def write(self, arg: bytes) -> None:
        """Send a part of the body; before the first, the head. b"" sends the head at once."""
        self._alone = not arg
        super().write(arg)

    def close(self) -> None:
        """End the response. If no body followed the head, the kernel sends the head now."""
        super().close()
        if not self.sent and self.sock.family != socket.AF_UNIX:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
