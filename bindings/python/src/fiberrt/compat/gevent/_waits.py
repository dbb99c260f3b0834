# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions for several greenlets, events, results and semaphores."""

from __future__ import annotations

import time
from collections.abc import Iterable
from queue import Empty
from typing import Any

from ... import _fiberrt
from ._current import getcurrent, killing
from .exceptions import GreenletExit
from .timeout import Timeout


class iwait:
    """Iterates over greenlets, events, AsyncResults and semaphores as they become ready, over at most `count`, and
    until the timeout in seconds has passed. A with block ends it, too."""

    def __init__(self, objects: Iterable[Any], timeout: float | None = None, count: int | None = None) -> None:
        self._objects = list(objects)
        self._left = len(self._objects) if count is None else min(count, len(self._objects))
        self._until = None if timeout is None else time.monotonic() + timeout
        self._ready: Any = _fiberrt.Queue()
        self._tell = self._ready.put_nowait
        self._linked = False
        self._no_time = timeout == 0

    def __iter__(self) -> iwait:
        return self

    def __next__(self) -> Any:
        if not self._linked:
            self._linked = True
            for each in self._objects:
                each.rawlink(self._tell)
            if self._no_time:
                _fiberrt.reschedule()  # links of ready objects are called
        if self._left <= 0:
            self._end()
            raise StopIteration
        try:
            left = None if self._until is None else max(self._until - time.monotonic(), 0)
            found = self._ready.get(True, left)
        except Empty:
            self._end()
            raise StopIteration from None
        except BaseException:
            self._end()
            raise
        self._left -= 1
        if self._left == 0:
            self._end()
        return found

    next = __next__

    def _end(self) -> None:
        self._left = 0
        objects, self._objects = self._objects, []
        for each in objects:
            each.unlink(self._tell)

    def __enter__(self) -> iwait:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def __del__(self) -> None:
        self._end()


def wait(objects: Iterable[Any] | None = None, timeout: float | None = None, count: int | None = None) -> Any:
    """Wait until the objects, or `count` of them, are ready, or the timeout in seconds has passed, and return those
    that are. Without objects: wait until no other greenlet, timer, watcher or server of the
    thread lives, and return whether that is so."""
    if objects is None:
        from .hub import get_hub

        return get_hub().join(timeout)
    return list(iwait(objects, timeout, count))


def joinall(
    greenlets: Iterable[Any], timeout: float | None = None, raise_error: bool = False, count: int | None = None
) -> list[Any]:
    """Wait until the greenlets, or `count` of them, have ended, or the timeout in seconds has passed. Returns the greenlets
    that have ended. raise_error: raise the exception of the first that fails."""
    if not raise_error:
        return list(iwait(greenlets, timeout, count))
    done = []
    for greenlet in iwait(greenlets, timeout, count):
        if getattr(greenlet, "exception", None) is not None:
            raise greenlet.exception
        done.append(greenlet)
    return done


def killall(
    greenlets: Iterable[Any], exception: Any = GreenletExit, block: bool = True, timeout: float | None = None
) -> None:
    """Raise an exception in the greenlets, and wait until all have ended. Timeout: they have not ended in time."""
    left = [each for each in greenlets if not each.dead]
    for each in left:
        if each is not getcurrent():
            each._throw(killing(exception))
    if block:
        timer = Timeout.start_new(timeout)
        try:
            wait([each for each in left if each is not getcurrent()])
        finally:
            timer.cancel()
    if getcurrent() in left:
        getcurrent().kill(exception, block)
