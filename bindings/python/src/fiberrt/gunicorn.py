# SPDX-License-Identifier: MIT OR Apache-2.0
"""A worker for gunicorn that gives each connection a fiber:

    gunicorn -k fiberrt.gunicorn.Worker --worker-connections 1000 module:app

The worker calls fiberrt.monkey.patch(): the application's waits - databases, sockets, locks, time.sleep() - suspend only
the fiber of their connection. worker_connections limits the connections of a worker. At a reload or stop, the worker
closes its listeners, and requests have graceful_timeout seconds to end.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import gunicorn
from gunicorn.sock import ssl_context
from gunicorn.workers.base_async import AsyncWorker

from . import _fiberrt, monkey, socket
from ._scopes import move_on_after
from .server import StreamServer

__all__ = ["Worker"]


class Worker(AsyncWorker):  # type: ignore[misc]
    """gunicorn's worker class: -k fiberrt.gunicorn.Worker."""

    def init_process(self) -> None:
        """Patch the standard library in the worker's process, and run the worker."""
        monkey.patch()
        self._ending = _fiberrt.Event()
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
    """Stands for the listener that accepted a connection. The server has it."""

    def __init__(self, name: Any) -> None:
        self._name = name

    def getsockname(self) -> Any:
        return self._name
