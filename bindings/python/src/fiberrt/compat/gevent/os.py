# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.os: calls of os that wait as fibers do."""

from __future__ import annotations

import os as _stdlib
import select as _select
from typing import Any

from ... import _fiberrt
from ... import _os as _own
from ._names import take

__all__ = [
    "fork", "fork_and_watch", "fork_gevent", "forkpty", "forkpty_and_watch", "forkpty_gevent", "make_nonblocking",
    "nb_read", "nb_write", "tp_read", "tp_write", "waitpid",
]  # fmt: skip

waitpid = _own.waitpid
fork = fork_gevent = _stdlib.fork
forkpty = forkpty_gevent = _stdlib.forkpty


def nb_read(fd: int, n: int) -> bytes:
    """Read from a descriptor. Other fibers run while there is nothing to read."""
    while True:
        try:
            return _fiberrt.os_read(fd, n)
        except BlockingIOError:  # the descriptor is nonblocking
            _fiberrt.wait_fd(fd, _select.POLLIN)


def nb_write(fd: int, buf: Any) -> int:
    """Write to a descriptor. Other fibers run while there is no room."""
    while True:
        try:
            return _fiberrt.os_write(fd, buf)
        except BlockingIOError:
            _fiberrt.wait_fd(fd, _select.POLLOUT)


def tp_read(fd: int, n: int) -> bytes:
    """Read from a descriptor, also of a regular file, on another thread. Other fibers run meanwhile. If an exception ends
    the wait, the thread still reads, and its bytes are lost."""
    return bytes(_fiberrt.offload_detached(nb_read, fd, n))


def tp_write(fd: int, buf: Any) -> int:
    """Write to a descriptor, also of a regular file, on another thread. Other fibers run meanwhile. If an exception ends
    the wait, the thread still writes."""
    return int(_fiberrt.offload_detached(nb_write, fd, buf))


def make_nonblocking(fd: int) -> bool | None:
    """Make a descriptor nonblocking. Return True if it was not."""
    if _stdlib.get_blocking(fd):
        _stdlib.set_blocking(fd, False)
        return True
    return None


def fork_and_watch(callback: Any = None, loop: Any = None, ref: bool = False, fork: Any = None) -> int:
    """Fork. In the parent, call callback(watcher) when the child has ended; the watcher has its pid and rstatus."""
    pid: int = (fork or _stdlib.fork)()
    if pid and callback is not None:
        _fiberrt.spawn(_watch, pid, callback)
    return pid


def forkpty_and_watch(
    callback: Any = None, loop: Any = None, ref: bool = False, forkpty: Any = None
) -> tuple[int, int]:
    """fork_and_watch() with a terminal."""
    pid, fd = (forkpty or _stdlib.forkpty)()
    if pid and callback is not None:
        _fiberrt.spawn(_watch, pid, callback)
    return pid, fd


class _Child:
    def __init__(self, pid: int, status: int) -> None:
        self.pid = self.rpid = pid
        self.rstatus = status


def _watch(pid: int, callback: Any) -> None:
    callback(_Child(*waitpid(pid, 0)))


take(globals(), _stdlib)
