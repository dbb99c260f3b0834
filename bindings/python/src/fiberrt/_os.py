# SPDX-License-Identifier: MIT OR Apache-2.0
"""What fiberrt.monkey puts into the module os: calls that wait for children, and for pipes, sockets and terminals."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from operator import index
from typing import Any

from . import _fiberrt

read = _fiberrt.os_read
write = _fiberrt.os_write
readv = _fiberrt.os_readv
writev = _fiberrt.os_writev

_eventfd_read = getattr(os, "eventfd_read", None)
_eventfd_write = getattr(os, "eventfd_write", None)
_waitid = os.waitid
_waitpid = os.waitpid
_wait3 = os.wait3
_wait4 = os.wait4


def _until_child_changes(kind: int, number: int, options: int) -> None:
    """Wait until waitid(kind, number, options) would return something or raise. The child stays to be waited for."""
    if not options & (os.WSTOPPED | os.WCONTINUED):
        if kind == os.P_PIDFD:
            _fiberrt.wait_fd(number, select.POLLIN)
            return
        if kind == os.P_PID:
            with suppress(OSError):  # it has been waited for by others, or no descriptor is left
                descriptor = os.pidfd_open(number)
                try:
                    _fiberrt.wait_fd(descriptor, select.POLLIN)
                finally:
                    os.close(descriptor)
                return
    # A cancel ends the wait at once, and the thread's with the next child: it takes nothing.
    _fiberrt.offload_detached(_waitid, kind, number, options & ~os.WNOHANG | os.WNOWAIT)


def _which(pid: int) -> tuple[int, int]:
    """waitpid()'s children, as waitid() has them."""
    if pid > 0:
        return os.P_PID, pid
    return (os.P_ALL, 0) if pid == -1 else (os.P_PGID, -pid)


def _wait_for(function: Any, arguments: tuple[Any, ...], pid: int, options: int) -> Any:
    """What a function like waitpid() returns of a child, whose last argument are the options."""
    options = index(options)
    _fiberrt.poll_turn()
    while True:
        found = function(*arguments, options | os.WNOHANG)
        if found[0] or options & os.WNOHANG:
            return found
        _until_child_changes(*_which(pid), options | os.WEXITED)


def waitpid(pid: int, options: int, /) -> tuple[int, int]:
    """os.waitpid() that lets other fibers run while it waits."""
    pid = index(pid)
    return _wait_for(_waitpid, (pid,), pid, options)  # type: ignore[no-any-return]


def wait() -> tuple[int, int]:
    """os.wait() that lets other fibers run while it waits."""
    return waitpid(-1, 0)


def wait3(options: int) -> tuple[int, int, Any]:
    """os.wait3() that lets other fibers run while it waits."""
    return _wait_for(_wait3, (), -1, options)  # type: ignore[no-any-return]


def wait4(pid: int, options: int) -> tuple[int, int, Any]:
    """os.wait4() that lets other fibers run while it waits."""
    pid = index(pid)
    return _wait_for(_wait4, (pid,), pid, options)  # type: ignore[no-any-return]


def waitid(idtype: int, ident: int, options: int, /) -> os.waitid_result | None:
    """os.waitid() that lets other fibers run while it waits."""
    idtype, ident, options = index(idtype), index(ident), index(options)
    _fiberrt.poll_turn()
    while True:
        found = _waitid(idtype, ident, options | os.WNOHANG)
        if found is not None or options & os.WNOHANG:
            return found
        _until_child_changes(idtype, ident, options)


def eventfd_read(fd: int) -> int:
    """os.eventfd_read() that lets other fibers run while it waits."""
    if not _fiberrt.would_wait(fd):
        return _eventfd_read(fd)  # type: ignore[no-any-return, misc]
    return int.from_bytes(_fiberrt.read(fd, 8), sys.byteorder)


def eventfd_write(fd: int, value: int) -> None:
    """os.eventfd_write() that lets other fibers run while it waits."""
    if not _fiberrt.would_wait(fd) or not 0 <= index(value) < 1 << 64:
        _eventfd_write(fd, value)  # type: ignore[misc]
        return
    _fiberrt.write(fd, index(value).to_bytes(8, sys.byteorder))


def sched_yield() -> None:
    """os.sched_yield() that lets other fibers run."""
    _fiberrt.sleep(0)
