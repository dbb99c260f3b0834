# SPDX-License-Identifier: MIT OR Apache-2.0
"""Timers. One fiber of a thread, the timekeeper, calls the functions whose time has come. It lives while there is a
timer, so a wait that only a timer can end is no deadlock."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from time import monotonic
from typing import Any

from ... import _fiberrt

_own = _thread._local()  # of the thread
_number = count()
_MOST_WAIT_S = 86400.0


class Timer:
    """Calls a function once, `seconds` after its making, unless it is cancelled. The function must not wait. ref:
    whether gevent.wait() waits for it."""

    __slots__ = ("when", "number", "function", "keeper", "ref")

    def __init__(self, seconds: float, function: Callable[[], object], ref: bool = True) -> None:
        if seconds != seconds:
            raise ValueError("a time is not a number")
        self.when = monotonic() + seconds
        self.number = next(_number)
        self.function: Callable[[], object] | None = function
        self.ref = ref
        keeper = getattr(_own, "keeper", None)
        if keeper is None:
            keeper = _own.keeper = _Timekeeper()
        self.keeper: _Timekeeper = keeper
        keeper.add(self)

    def __lt__(self, other: Timer) -> bool:
        return (self.when, self.number) < (other.when, other.number)

    @property
    def pending(self) -> bool:
        return self.function is not None

    def cancel(self) -> None:
        if self.function is not None:
            self.function = None
            self.keeper.drop(self)


def wait_for_timers(timeout: float | None) -> bool:
    """Wait until the thread has no timer, except those without ref. Return False if the timeout in seconds passes
    first."""
    keeper = getattr(_own, "keeper", None)
    return keeper is None or keeper.idle.wait(timeout)


def after_fork() -> None:
    """Called in the child of a fork: a new fiber keeps the calling thread's timers."""
    keeper = getattr(_own, "keeper", None)
    if keeper is not None:
        keeper.after_fork()


class _Timekeeper:
    def __init__(self) -> None:
        self._timers: list[Timer] = []
        self._cancelled = 0  # the number of timers in the list that have been cancelled
        self._changed = _fiberrt.Event()
        self._fiber: Any = None
        self._refs = 0
        self.idle = _fiberrt.Event()
        self.idle.set()

    def _refer(self, timer: Timer, by: int) -> None:
        if timer.ref:
            self._refs += by
            if self._refs:
                self.idle.clear()
            else:
                self.idle.set()

    def add(self, timer: Timer) -> None:
        heappush(self._timers, timer)
        self._refer(timer, 1)
        if self._fiber is None or self._fiber.done:
            self._spawn()
        elif self._timers[0] is timer:
            self._changed.set()

    def after_fork(self) -> None:
        if self._fiber is not None and self._fiber.done and self._timers:
            self._spawn()

    def _spawn(self) -> None:
        self._fiber = _fiberrt.spawn(self._run)
        self._fiber.name = "timers"

    def drop(self, timer: Timer) -> None:
        """Called when a timer of the list has been cancelled."""
        self._refer(timer, -1)
        self._cancelled += 1
        if self._cancelled == len(self._timers):
            self._timers.clear()
            self._cancelled = 0
            self._changed.set()  # the fiber ends
        elif self._cancelled > 100 and self._cancelled > len(self._timers) // 2:
            self._timers = [timer for timer in self._timers if timer.function is not None]
            heapify(self._timers)
            self._cancelled = 0

    def _run(self) -> None:
        while self._timers:
            first = self._timers[0]
            left = first.when - monotonic()
            if first.function is not None and left > 0:
                self._changed.wait(min(left, _MOST_WAIT_S))
                self._changed.clear()
                continue
            heappop(self._timers)
            function, first.function = first.function, None
            if function is None:
                self._cancelled -= 1
                continue
            try:
                function()
            except _fiberrt.CancelledError:
                raise
            except BaseException as error:  # the other timers go on
                from .hub import get_hub

                get_hub().handle_error(function, type(error), error, error.__traceback__)
            finally:
                self._refer(first, -1)
