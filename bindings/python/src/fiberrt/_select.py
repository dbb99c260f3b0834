# SPDX-License-Identifier: MIT OR Apache-2.0
"""The standard library's ``select``, whose ``select()``, ``poll()`` and ``epoll()`` let other fibers run while they wait.

select() and poll() first ask the standard library without waiting. If nothing is ready, they make an epoll descriptor,
which a fiber can wait for. ``epoll`` uses its own descriptor.
"""

from __future__ import annotations

import os
import select as _stdlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from operator import index
from select import *
from time import monotonic
from typing import Any, TypeVar

from . import _fiberrt
from ._rebind import complete

T = TypeVar("T")

_epoll = _stdlib.epoll
_poll = _stdlib.poll
_select = _stdlib.select
_FD_SETSIZE = 1024
_LONGEST_MS = ((1 << 63) - 1) // 1_000_000  # of 64 bits of nanoseconds


def _seconds(timeout: Any, per_second: int, most_ms: int, kind: str) -> float | None:
    """Return a timeout in seconds, checked as the standard library does; None means for ever."""
    if timeout is None:
        return None
    if not isinstance(timeout, float):
        try:
            timeout = index(timeout)
        except TypeError:
            raise TypeError(f"timeout must be {kind} or None") from None
    if timeout != timeout:
        raise ValueError("Invalid value NaN (not a number)")
    if not -most_ms - 1 <= timeout * (1000 // per_second) <= most_ms:
        raise OverflowError("timeout is too large")
    return float(timeout / per_second)


def _poll_seconds(timeout: Any, per_second: int) -> float | None:
    """Return the timeout of a poll or an epoll in seconds. For them any negative time means for ever."""
    seconds = _seconds(timeout, per_second, (1 << 31) - 1, "an integer")
    return None if seconds is None or seconds < 0 else seconds


def _until(look: Callable[[], T], found: Callable[[T], bool], masks: dict[int, int], timeout: float | None) -> T:
    """Call look() until it finds something or the time has passed; return its last result."""
    deadline = None if timeout is None else monotonic() + timeout
    with _epoll() as together:
        for fd, mask in masks.items():
            with suppress(PermissionError):  # a regular file, which look() has found ready
                together.register(fd, mask)
        while True:
            left = None if deadline is None else max(0.0, deadline - monotonic())
            ready = _fiberrt.wait_fd(together, _stdlib.POLLIN, left)
            result = look()
            if found(result) or not ready:
                return result
            _fiberrt.sleep(0.001)  # a hang-up, which the caller has not asked for


def _with_descriptors(files: Any) -> list[tuple[Any, int]]:
    """Return the files of one of select()'s lists with their descriptors. fileno() may change the list's length."""
    if not isinstance(files, (list, tuple)):
        try:
            files = list(files)
        except TypeError:
            raise TypeError("arguments 1-3 must be sequences") from None
    return [(file, _fiberrt.descriptor(file)) for file in islice(files, _FD_SETSIZE + 1)]


def select(  # type: ignore[no-redef]
    rlist: Iterable[Any], wlist: Iterable[Any], xlist: Iterable[Any], timeout: float | None = None, /
) -> tuple[list[Any], list[Any], list[Any]]:
    """Wait until some descriptors can be read or written, or have an exceptional condition, or the timeout has passed.
    Return three lists of the ready ones."""
    seconds = _seconds(timeout, 1, _LONGEST_MS, "a float")
    if seconds is not None and seconds < 0:
        raise ValueError("timeout must be non-negative")
    lists = [_with_descriptors(files) for files in (rlist, wlist, xlist)]
    numbers = [[fd for _, fd in files] for files in lists]
    _fiberrt.poll_turn()
    reads, writes, exceptions = numbers
    ready = _select(reads, writes, exceptions, 0)
    if not any(ready) and seconds != 0:
        masks: dict[int, int] = {}
        for fds, mask in zip(numbers, (_stdlib.EPOLLIN, _stdlib.EPOLLOUT, _stdlib.EPOLLPRI)):
            for fd in fds:
                masks[fd] = masks.get(fd, 0) | mask
        ready = _until(lambda: _select(reads, writes, exceptions, 0), any, masks, seconds)
    readable, writable, exceptional = ([f for f, fd in files if fd in fds] for files, fds in zip(lists, map(set, ready)))
    return readable, writable, exceptional


class _Poll:
    """A poll object like the standard library's, which lets other fibers run while it waits."""

    __slots__ = ("_masks", "_object", "_polls")
    _masks: dict[int, int]
    _object: Any
    _polls: bool

    def __new__(cls) -> _Poll:
        raise TypeError(f"cannot create '{cls.__module__}.{cls.__name__}' instances")  # as for the original

    def register(self, fd: Any, eventmask: int = _stdlib.POLLIN | _stdlib.POLLPRI | _stdlib.POLLOUT, /) -> None:
        """Add a descriptor, or change its events."""
        number = _fiberrt.descriptor(fd)
        self._object.register(number, eventmask)
        self._masks[number] = eventmask

    def modify(self, fd: Any, eventmask: int, /) -> None:
        """Change the events of a descriptor. OSError (ENOENT): it was not added."""
        number = _fiberrt.descriptor(fd)
        self._object.modify(number, eventmask)
        self._masks[number] = eventmask

    def unregister(self, fd: Any, /) -> None:
        """Remove a descriptor. KeyError: it was not added."""
        number = _fiberrt.descriptor(fd)
        self._object.unregister(number)
        self._masks.pop(number, None)

    def poll(self, timeout: float | None = None, /) -> list[tuple[int, int]]:
        """Wait until some descriptors are ready or the timeout in milliseconds has passed (None or negative: for ever).
        Return the ready ones: [(descriptor, events), ...]. RuntimeError: another fiber or thread waits in it."""
        seconds = _poll_seconds(timeout, 1000)
        if self._polls:
            raise RuntimeError("concurrent poll() invocation")
        self._polls = True
        try:
            _fiberrt.poll_turn()
            result = self._object.poll(0)
            if result or seconds == 0:
                return result  # type: ignore[no-any-return]
            return _until(lambda: self._object.poll(0), bool, self._masks.copy(), seconds)
        finally:
            self._polls = False


# staticmethod, because the standard library's poll is not a Python function: as a class attribute it makes no method.
@staticmethod  # type: ignore[no-redef, misc]
def poll() -> _Poll:
    """Return a poll object, which lets other fibers run while it waits."""
    made = object.__new__(_Poll)
    made._object = _poll()
    made._masks = {}
    made._polls = False
    return made


class epoll:  # type: ignore[no-redef]
    """epoll(sizehint=-1, flags=0): the standard library's epoll object, which lets other fibers run while it waits.

    Any fiber and thread may register descriptors during a wait. Closing the object ends its waits with OSError (EBADF).
    """

    __slots__ = ("__weakref__", "_object", "_watched")

    def __init__(self, sizehint: int = -1, flags: int = 0) -> None:
        self._object = _epoll(sizehint, flags)
        self._watched = -1  # a duplicate of the descriptor for waiting fibers, made at the first wait

    @classmethod
    def fromfd(cls, fd: int, /) -> epoll:
        """Make an object of a descriptor of epoll_create(2), which the object will close."""
        made = cls.__new__(cls)
        made._object = _epoll.fromfd(fd)
        made._watched = -1
        return made  # type: ignore[return-value]

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._object.closed

    def fileno(self) -> int:
        """Its descriptor. ValueError: it has been closed."""
        return self._object.fileno()

    def close(self) -> None:
        """Close it. Waits for it end with OSError (EBADF)."""
        watched, self._watched = self._watched, -1
        self._object.close()
        if watched != -1:
            _fiberrt.close(watched)

    def __getstate__(self) -> Any:  # for copy and pickle
        raise TypeError("cannot pickle 'select.epoll' object")

    def __del__(self) -> None:
        if getattr(self, "_watched", -1) != -1:
            os.close(self._watched)  # nothing waits any more

    def __enter__(self) -> epoll:
        self._object.__enter__()
        return self  # type: ignore[return-value]

    def __exit__(self, *error: object) -> None:
        self.close()

    def register(
        self, fd: Any, eventmask: int = _stdlib.EPOLLIN | _stdlib.EPOLLPRI | _stdlib.EPOLLOUT
    ) -> None:
        """Add a descriptor with its events. OSError (EEXIST): it was added before."""
        self._object.register(fd, eventmask)

    def modify(self, fd: Any, eventmask: int) -> None:
        """Change the events of a descriptor. OSError (ENOENT): it was not added."""
        self._object.modify(fd, eventmask)

    def unregister(self, fd: Any) -> None:
        """Remove a descriptor. OSError (ENOENT): it was not added."""
        self._object.unregister(fd)

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        """Wait until some descriptors are ready or the timeout in seconds has passed (None or negative: for ever).
        Return at most maxevents of the ready ones (-1: no such limit): [(descriptor, events), ...].

        ValueError: it has been closed, or maxevents is 0 or below -1; OSError (EBADF): it is closed during the wait.
        """
        seconds = _poll_seconds(timeout, 1)
        _fiberrt.poll_turn()
        ready = self._object.poll(0, maxevents)
        if ready or seconds == 0:
            return ready
        deadline = None if seconds is None else monotonic() + seconds
        while True:
            if self._watched == -1:
                self._watched = os.dup(self._object.fileno())
            left = None if deadline is None else max(0.0, deadline - monotonic())
            woken = _fiberrt.wait_fd(self._watched, _stdlib.POLLIN, left)
            ready = self._object.poll(0, maxevents)
            if ready or not woken:
                return ready


complete(globals(), _stdlib)
