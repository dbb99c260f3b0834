# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.threadpool: functions that other threads call, by fiberrt.offload()."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

from ... import _fiberrt
from .event import AsyncResult
from .greenlet import Greenlet
from .lock import Semaphore
from .pool import Group, Mapping

__all__ = ["ThreadPool", "ThreadPoolExecutor", "ThreadResult"]

ThreadResult = AsyncResult


class ThreadPool(Mapping):
    """At most maxsize functions run at a time, on threads that all of the process' ThreadPools share."""

    def __init__(self, maxsize: int, hub: Any = None, idle_task_timeout: float = -1) -> None:
        if not isinstance(maxsize, int):
            raise TypeError(f"maxsize must be integer: {maxsize!r}")
        if maxsize < 0:
            raise ValueError(f"maxsize must not be negative: {maxsize!r}")
        self._maxsize = maxsize
        self._places = Semaphore(maxsize)
        self._calls = Group()

    @property
    def maxsize(self) -> int:
        """The limit."""
        return self._maxsize

    @maxsize.setter
    def maxsize(self, maxsize: int) -> None:
        if maxsize < 0:
            raise ValueError(f"maxsize must not be negative: {maxsize!r}")
        self._places.counter += maxsize - self._maxsize
        self._maxsize = maxsize

    @property
    def size(self) -> int:
        """The number of functions that run."""
        return len(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> AsyncResult:
        """Wait for a place, and let a thread call func(*args, **kwargs). Return an AsyncResult."""
        self._places.acquire()
        result = AsyncResult()
        try:
            call = self._calls.spawn(self._call, result, func, args, kwargs)
        except BaseException:
            self._places.release()
            raise
        call.rawlink(partial(self._ended, result))
        return result

    def apply_async(self, func: Callable[..., Any], args: Any = None, kwds: Any = None, callback: Any = None) -> Any:
        """Return a greenlet that lets a thread call func(*args, **kwds), and then calls callback(result)."""
        return Greenlet.spawn(self.apply_cb, func, args, kwds, callback)

    def _ended(self, result: AsyncResult, call: Greenlet) -> None:
        """A call has ended, or has been killed before it began."""
        if not result.ready():
            self._places.release()
            result.set_exception(call.value)

    def _call(self, result: AsyncResult, func: Callable[..., Any], args: Any, kwargs: Any) -> None:
        try:
            value = _fiberrt.offload(copy_context().run, func, *args, **kwargs)
        except BaseException as error:
            self._places.release()
            result.set_exception(error)
        else:
            self._places.release()
            result.set(value)

    def join(self) -> None:
        """Wait until no function runs."""
        self._calls.join()

    def kill(self) -> None:
        """join(): functions on threads cannot be killed."""
        self._calls.join()

    def adjust(self) -> None:
        """It does nothing."""

    def _is_full(self) -> bool:
        return self._places.locked()


def __getattr__(name: str) -> Any:
    if name == "ThreadPoolExecutor":
        from ._executor import ThreadPoolExecutor

        return ThreadPoolExecutor
    raise AttributeError(name)
