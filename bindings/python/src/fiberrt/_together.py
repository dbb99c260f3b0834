# SPDX-License-Identifier: MIT OR Apache-2.0
"""map, wait and as_completed for many fibers, like those of concurrent.futures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from . import _fiberrt
from ._fiberrt import Fiber, Queue, Semaphore, spawn

T = TypeVar("T")

FIRST_COMPLETED = "FIRST_COMPLETED"
FIRST_EXCEPTION = "FIRST_EXCEPTION"
ALL_COMPLETED = "ALL_COMPLETED"


class DoneAndNotDone(NamedTuple):
    """The result of wait()."""

    done: set[Any]
    not_done: set[Any]


class _Told:
    """Puts a concurrent.futures.Future into a queue when it is done, until the registration is withdrawn."""

    __slots__ = ("queue",)

    def __init__(self, queue: Queue[Any]) -> None:
        self.queue: Queue[Any] | None = queue

    def __call__(self, future: Any) -> None:
        queue = self.queue
        if queue is not None:
            queue.put(future)


class _Watch:
    """A queue that receives Fibers, and Futures of concurrent.futures, as they are done."""

    def __init__(self, things: Iterable[Any]) -> None:
        self.queue: Queue[Any] = Queue()
        self._told = _Told(self.queue)
        self.left: set[Any] = set()
        try:
            for thing in things:
                if thing in self.left:
                    continue
                if isinstance(thing, Fiber):
                    _fiberrt.watch(thing, self.queue)
                elif hasattr(thing, "add_done_callback"):
                    thing.add_done_callback(self._told)
                else:
                    raise TypeError(f"not a Fiber or a Future: {type(thing).__name__}")
                self.left.add(thing)
        except BaseException:
            self.end()
            raise

    def next(self, until: float | None) -> Any:
        """Return the next one that is done. queue.Empty: none was done in time."""
        left = None if until is None else max(until - time.monotonic(), 0)
        thing = self.queue.get(timeout=left)
        self.left.discard(thing)
        return thing

    def end(self) -> None:
        self._told.queue = None
        for thing in self.left:
            if isinstance(thing, Fiber):
                _fiberrt.unwatch(thing, self.queue)


def _failed(thing: Any) -> bool:
    if isinstance(thing, Fiber):
        return not thing.cancelled and thing.exception is not None
    return not thing.cancelled() and thing.exception() is not None


def _until(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def wait(things: Iterable[Any], timeout: float | None = None, return_when: str = ALL_COMPLETED) -> DoneAndNotDone:
    """Wait for Fibers, and for Futures of concurrent.futures: until all are done or, with return_when, the first
    (FIRST_COMPLETED) or the first that fails (FIRST_EXCEPTION), or until the timeout in seconds has passed.

    Returns two sets, done and not_done. Does not raise their exceptions.
    """
    if return_when not in (FIRST_COMPLETED, FIRST_EXCEPTION, ALL_COMPLETED):
        raise ValueError(f"return_when is {return_when!r}")
    until = _until(timeout)
    done: set[Any] = set()
    watch = _Watch(things)
    try:
        enough = False
        while watch.left and not (enough and watch.queue.empty()):
            try:
                thing = watch.next(until)
            except _empty():
                break
            done.add(thing)
            if return_when == FIRST_COMPLETED or (return_when == FIRST_EXCEPTION and _failed(thing)):
                enough = True
        return DoneAndNotDone(done, set(watch.left))
    finally:
        watch.end()


def as_completed(things: Iterable[Any], timeout: float | None = None) -> Iterator[Any]:
    """Iterate over Fibers, and Futures of concurrent.futures, in the order in which they end.

    TimeoutError: some have not ended within the timeout, in seconds from the call.
    """
    return _as_completed(_Watch(things), _until(timeout))


def _as_completed(watch: _Watch, until: float | None) -> Iterator[Any]:
    try:
        total = len(watch.left)
        while watch.left:
            try:
                thing = watch.next(until)
            except _empty():
                raise TimeoutError(f"{len(watch.left)} (of {total}) have not ended") from None
            yield thing
    finally:
        watch.end()


def _empty() -> type[Exception]:
    from queue import Empty  # imported here, as the import of fiberrt does not need it

    return Empty


def map(function: Callable[..., T], /, *iterables: Iterable[Any], limit: int | None = None) -> Iterator[T]:
    """Call ``function`` for each item in a new fiber, with at most ``limit`` at a time. Return an iterator of the
    results, in the order of the items.

    The calls begin at once, and continue even if no results are taken. If a call fails, the iterator raises its
    exception when it reaches that item, and cancels all calls that have not ended. To get the other results, catch
    exceptions inside ``function``. Closing the iterator cancels the calls, too.
    """
    if not callable(function):
        raise TypeError(f"map() takes a function, not {type(function).__name__}")
    if not iterables:
        raise TypeError("map() takes a function and at least one iterable")
    if limit is not None and limit < 1:
        raise ValueError("limit must be one or more")
    items = zip(*iterables)  # TypeError: one is not iterable
    begun: Queue[Fiber[T] | None] = Queue()
    free = None if limit is None else Semaphore(limit)
    return _Results(spawn(_begin_all, function, items, begun, free), begun)


def _begin_all(
    function: Callable[..., T], items: Iterable[Any], begun: Queue[Fiber[T] | None], free: Semaphore | None
) -> None:
    try:
        for args in items:
            if free is None:
                begun.put(spawn(function, *args))
            else:
                free.acquire()
                begun.put(spawn(_free_after, free, function, args))
    finally:
        begun.put(None)


def _free_after(free: Semaphore, function: Callable[..., T], args: tuple[Any, ...]) -> T:
    try:
        return function(*args)
    finally:
        free.release()


_fiberrt.calls_argument(_free_after, 1)


class _Results(Iterator[T]):
    """The results of map()."""

    def __init__(self, feeder: Fiber[None], begun: Queue[Fiber[T] | None]) -> None:
        self._feeder = feeder
        self._begun = begun
        self._ended = False

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        fiber = None
        try:
            fiber = self._begun.get()
            if fiber is not None:
                return fiber.result()
            self._ended = True
            self._feeder.result()  # raises the iterable's exception
        except BaseException:
            if fiber is not None:
                fiber.cancel()
            self.close()
            raise
        raise StopIteration

    def close(self) -> None:
        """Cancel the remaining fibers."""
        self._ended = True
        self._feeder.cancel()
        while self._begun._count:
            fiber = self._begun.get()
            if fiber is not None:
                fiber.cancel()

    def __del__(self) -> None:
        if not self._ended:
            self.close()
