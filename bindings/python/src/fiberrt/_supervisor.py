# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs a server in a child process, and replaces the child: for python -m fiberrt.wsgi.

SIGHUP starts a new child. When the new one serves, the old one gets SIGTERM, and lets its requests end. If the new one
ends before it serves, the old one goes on. A child that dies is replaced. SIGTERM and SIGINT end all children; if one of
these signals comes again, the children are killed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from socket import socket

__all__ = ["supervise"]

_READY = signal.SIGRTMIN  # from a child that serves; such signals queue up
_SIGNALS = {signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, _READY}
_PAUSE_S = 1.0  # wait this long after a child failed to start and no other child serves


def supervise(serve: Callable[[Callable[[], None], int], None], listener: socket) -> int:
    """Call serve(ready, alive) in child processes, which have the listener. Once this
    process has been told to end and has closed the listener, return its exit status. It must have one thread. In a child,
    raise SystemExit when serve() returns.

    serve() calls ready() when it serves. It ends on SIGTERM, and when the pipe `alive` is at its end: then the calling
    process has died.
    """
    return _Supervisor(serve, listener).run()


class _Supervisor:
    def __init__(self, serve: Callable[[Callable[[], None], int], None], listener: socket) -> None:
        self._serve = serve
        self._listener = listener
        self._starting = 0  # the pid of a child that does not serve yet
        self._serving = 0
        self._ending: set[int] = set()
        self._wanted = True  # start a child as soon as none is starting
        self._failed = False  # the last one has not served, and there is no other
        self._has_served = False
        self._stopping = False
        self._status = 0
        self._read_end, self._write_end = os.pipe()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, the kernel keeps no status of a child's end
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    def run(self) -> int:
        while not self._stopping or self._starting or self._serving or self._ending:
            if self._wanted and not self._starting and not self._failed and not self._stopping:
                self._start()
            told = signal.sigtimedwait(_SIGNALS, _PAUSE_S) if self._failed else signal.sigwaitinfo(_SIGNALS)
            if told is None:
                self._failed = False
            elif told.si_signo == _READY and told.si_pid == self._starting:
                self._replace()
            elif told.si_signo == signal.SIGHUP:
                self._wanted = True
            elif told.si_signo in (signal.SIGTERM, signal.SIGINT):
                for pid in (self._starting, self._serving, *self._ending):
                    self._end(pid, signal.SIGKILL if self._stopping else signal.SIGTERM)
                self._stopping = True
                self._listener.close()
            self._reap()
        os.close(self._read_end)
        os.close(self._write_end)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        return self._status

    def _start(self) -> None:
        self._wanted = False
        supervisor = os.getpid()
        sys.stderr.flush()
        self._starting = os.fork()
        if self._starting:
            return
        os.close(self._write_end)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        self._serve(lambda: os.kill(supervisor, _READY), self._read_end)
        sys.exit(0)

    def _replace(self) -> None:
        """The child that was starting serves now, and the one before it ends."""
        if self._serving:
            self._ending.add(self._serving)
            self._end(self._serving)
        self._starting, self._serving, self._has_served = 0, self._starting, True

    @staticmethod
    def _end(pid: int, number: int = signal.SIGTERM) -> None:
        if pid:
            os.kill(pid, number)  # it has not been waited for, so the pid is still its own

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self._ended(pid, os.waitstatus_to_exitcode(status))

    def _ended(self, pid: int, code: int) -> None:
        starting, serving = pid == self._starting, pid == self._serving
        self._ending.discard(pid)
        if starting:
            self._starting = 0
        elif serving:
            self._serving = 0
        if self._stopping or not (starting or serving):
            return
        what = f"ended by signal {-code}" if code < 0 else f"exit status {code}"
        if starting and self._serving:
            print(f"process {pid} has not started: {what}; {self._serving} goes on", file=sys.stderr, flush=True)
        elif starting and not self._has_served:
            self._stopping, self._status = True, code if code > 0 else 1
        else:
            self._wanted, self._failed = self._wanted or not self._starting, starting
            print(f"process {pid} is replaced: {what}", file=sys.stderr, flush=True)
