# SPDX-License-Identifier: MIT OR Apache-2.0
"""The calls that fiberrt.monkey puts into the modules os and fcntl: they wait as fibers for child processes, pipes,
sockets, terminals and file locks. Those on paths and files are in _paths."""

from __future__ import annotations

import errno
import fcntl
import os
import posix
import select
import signal
import stat
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
    """Wait until waitid(kind, number, options) would return a child or raise, but do not reap the child."""
    if not options & (os.WSTOPPED | os.WCONTINUED):
        if kind == os.P_PIDFD:
            _fiberrt.wait_fd(number, select.POLLIN)
            return
        if kind == os.P_PID:
            descriptor = -1
            with suppress(OSError):  # the child has been reaped elsewhere, or no descriptor is left
                descriptor = os.pidfd_open(number)
            if descriptor != -1:
                try:
                    _fiberrt.wait_fd(descriptor, select.POLLIN)  # may raise an OSError of a signal's handler
                finally:
                    os.close(descriptor)
                return
    # A cancel ends the wait at once. The thread's wait ends with the next child, and does not reap it (WNOWAIT).
    _fiberrt.offload_detached(_waitid, kind, number, options & ~os.WNOHANG | os.WNOWAIT)


def _which(pid: int) -> tuple[int, int]:
    """Convert the children that waitpid() names by pid into the arguments of waitid()."""
    if pid > 0:
        return os.P_PID, pid
    return (os.P_ALL, 0) if pid == -1 else (os.P_PGID, -pid)


def _wait_for(function: Any, arguments: tuple[Any, ...], pid: int, options: int) -> Any:
    """Call a function like waitpid(), whose last argument are the options, when a child has changed; return its
    result."""
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


def _system(command: Any, mask: set[Any]) -> int:
    before = signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        return posix.system(command)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def system(command: Any) -> int:
    """os.system() that lets other fibers run until the command has ended. A cancel ends the wait, not the command."""
    if not _fiberrt.may_wait():
        return posix.system(command)
    # The command has the signal mask of the thread that begins it, and the threads of offload_detached() block signals.
    return _fiberrt.offload_detached(_system, command, signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    """os.open() that lets other fibers run until the other end of a FIFO is opened, or a slow file system answers."""
    if not isinstance(flags, int) or not isinstance(mode, int) or not _fiberrt.open_waits(path, dir_fd):
        return posix.open(path, flags, mode, dir_fd=dir_fd)
    if flags & os.O_NONBLOCK:  # a ring would ask the file system at once, on this thread
        return _fiberrt.offload(posix.open, path, flags, mode, dir_fd=dir_fd)
    path = os.fspath(path)
    sys.audit("open", path, None, flags | os.O_CLOEXEC)
    try:
        return _fiberrt.open(path, flags, mode, dir_fd)
    except OSError as error:
        if error.errno is not None:
            error.filename = path
        raise


os.supports_dir_fd.add(open)  # shutil.rmtree() asks


_SMALL_COPY = 65536  # bytes; a copy of so few takes less time than a switch to a thread


def sendfile(out_fd: Any, in_fd: Any, offset: int | None, count: int) -> int:
    """os.sendfile() that lets other fibers run while out_fd is full, or while a thread copies to a file. If an error
    comes after some bytes, it returns the number of bytes sent."""
    if not _fiberrt.would_wait(out_fd) or not isinstance(count, int) or count <= 0:
        if isinstance(count, int) and count > _SMALL_COPY and _fiberrt.may_wait():
            return _fiberrt.offload(posix.sendfile, out_fd, in_fd, offset, count)
        return posix.sendfile(out_fd, in_fd, offset, count)
    if not stat.S_ISREG(os.fstat(in_fd).st_mode):  # EAGAIN may be that of a socket as in_fd, too
        return _fiberrt.offload(posix.sendfile, out_fd, in_fd, offset, count)
    sent = 0
    while sent < count:
        at = None if offset is None else index(offset) + sent
        try:
            os.set_blocking(out_fd, False)
            try:
                some = posix.sendfile(out_fd, in_fd, at, count - sent)
            finally:
                os.set_blocking(out_fd, True)
        except BlockingIOError:
            _fiberrt.wait_fd(out_fd, select.POLLOUT)
            continue
        except OSError as error:
            if not sent or error.errno is None:  # a signal's handler may have raised TimeoutError()
                raise
            break
        if not some:
            break
        sent += some
    return sent


def splice(
    src: int, dst: int, count: int, offset_src: int | None = None, offset_dst: int | None = None, flags: int = 0
) -> int:
    """os.splice() that lets other fibers run while it waits."""
    blocks = isinstance(flags, int) and not flags & os.SPLICE_F_NONBLOCK and isinstance(count, int) and count > 0
    arguments = src, dst, count, offset_src, offset_dst, flags
    if not blocks or not (_fiberrt.would_wait(src) or _fiberrt.would_wait(dst)):
        return posix.splice(*arguments)
    if os.get_blocking(src) and os.get_blocking(dst):
        return _fiberrt.splice(*arguments)
    return _fiberrt.offload(posix.splice, *arguments)  # one has O_NONBLOCK: it may raise BlockingIOError


_flock = fcntl.flock
_lockf = fcntl.lockf


def _lock(function: Any, fd: Any, operation: Any, *rest: Any) -> None:
    """Take or release a file's lock, by repeated attempts: an offloaded call would take the lock even for a fiber that
    was cancelled."""
    pause, longest_pause = 0.0005, 0.01
    waits = isinstance(operation, int) and not operation & (fcntl.LOCK_NB | fcntl.LOCK_UN) and _fiberrt.may_wait()
    while True:
        try:
            function(fd, operation | fcntl.LOCK_NB if waits else operation, *rest)
            return
        except (BlockingIOError, PermissionError) as error:
            if not waits or error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        _fiberrt.sleep(pause)
        pause = min(2 * pause, longest_pause)


def flock(fd: Any, operation: int, /) -> None:
    """fcntl.flock() that lets other fibers run while it waits."""
    _lock(_flock, fd, operation)


def lockf(fd: Any, cmd: int, len: int = 0, start: int = 0, whence: int = 0, /) -> None:
    """fcntl.lockf() that lets other fibers run while it waits. It does not detect deadlocks between processes
    (EDEADLK)."""
    _lock(_lockf, fd, cmd, len, start, whence)


def sched_yield() -> None:
    """os.sched_yield() that lets other fibers run."""
    _fiberrt.sleep(0)
