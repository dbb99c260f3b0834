# SPDX-License-Identifier: MIT OR Apache-2.0
"""The standard library's ``select``, whose ``select()`` and ``poll()`` let other fibers run while they wait.

Both ask the standard library first, without waiting; only if nothing is ready they make an epoll, which one fiber can
wait for. ``epoll`` itself is the standard library's, and blocks the thread; ``fiberrt.selectors`` does not.
"""

from __future__ import annotations

import select as _stdlib
from collections.abc import Callable, Iterable
from select import *
from time import monotonic
from typing import Any, TypeVar

from . import _fiberrt
from ._rebind import complete

T = TypeVar("T")

_poll = _stdlib.poll
_select = _stdlib.select


def _number(file: Any) -> int:
    return file if isinstance(file, int) else file.fileno()


def _until(look: Callable[[], T], found: Callable[[T], bool], masks: dict[int, int], timeout: float | None) -> T:
    """What look() returns as soon as that is something, or at the end of the time."""
    deadline = None if timeout is None else monotonic() + timeout
    with _stdlib.epoll() as together:
        for fd, mask in masks.items():
            together.register(fd, mask)
        while True:
            left = None if deadline is None else max(0.0, deadline - monotonic())
            ready = _fiberrt.wait_fd(together, _stdlib.POLLIN, left)
            result = look()
            if found(result) or not ready:
                return result
            _fiberrt.sleep(0.001)  # a hang-up of which nobody has asked


def select(  # type: ignore[no-redef]
    rlist: Iterable[Any], wlist: Iterable[Any], xlist: Iterable[Any], timeout: float | None = None, /
) -> tuple[list[Any], list[Any], list[Any]]:
    """Wait until some descriptors can be read, written, or have something exceptional, or so many seconds: which."""
    lists = list(rlist), list(wlist), list(xlist)
    if timeout is not None and timeout < 0:
        raise ValueError("timeout must be non-negative")
    result = _select(*lists, 0)
    if any(result) or timeout == 0:
        return result
    masks: dict[int, int] = {}
    for files, mask in zip(lists, (_stdlib.EPOLLIN, _stdlib.EPOLLOUT, _stdlib.EPOLLPRI)):
        for file in files:
            masks[_number(file)] = masks.get(_number(file), 0) | mask
    return _until(lambda: _select(*lists, 0), any, masks, timeout)


class poll:  # type: ignore[no-redef]
    """The standard library's poll object, which lets other fibers run while it waits."""

    __slots__ = ("_object", "_masks")

    def __init__(self) -> None:
        self._object = _poll()
        self._masks: dict[int, int] = {}

    def register(self, fd: Any, eventmask: int = _stdlib.POLLIN | _stdlib.POLLPRI | _stdlib.POLLOUT, /) -> None:
        """Add a descriptor, or change the events that it is asked for."""
        self._object.register(fd, eventmask)
        self._masks[_number(fd)] = eventmask

    def modify(self, fd: Any, eventmask: int, /) -> None:
        """Change the events of a descriptor. OSError (ENOENT): it was not added."""
        self._object.modify(fd, eventmask)
        self._masks[_number(fd)] = eventmask

    def unregister(self, fd: Any, /) -> None:
        """Remove a descriptor. KeyError: it was not added."""
        self._object.unregister(fd)
        self._masks.pop(_number(fd), None)

    def poll(self, timeout: float | None = None, /) -> list[tuple[int, int]]:
        """Wait until some descriptors are ready, or so many milliseconds (None, below 0: for ever); return those:
        [(descriptor, events), ...]."""
        result = self._object.poll(0)
        if result or timeout == 0:
            return result
        seconds = None if timeout is None or timeout < 0 else timeout / 1000
        return _until(lambda: self._object.poll(0), bool, self._masks, seconds)


complete(globals(), _stdlib)
