# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.pool: groups of greenlets, and groups of a limited size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ... import _fiberrt
from ._current import getcurrent
from .event import AsyncResult
from .exceptions import GreenletExit
from .greenlet import Greenlet, joinall
from .lock import DummySemaphore, Semaphore
from .timeout import Timeout

__all__ = ["Group", "Pool", "PoolFull"]


class Mapping:
    """The calls that run a function for one item or many. A subclass has spawn()."""

    def spawn(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _may_wait(self) -> bool:
        """Whether the calling greenlet may wait for a place."""
        return True

    def apply(self, func: Callable[..., Any], args: Any = None, kwds: Any = None) -> Any:
        """Call func(*args, **kwds) in a greenlet of the group, and return its result. A greenlet of the group calls it
        itself."""
        if not self._may_wait():
            return func(*(args or ()), **(kwds or {}))
        return self.spawn(func, *(args or ()), **(kwds or {})).get()

    def apply_cb(self, func: Callable[..., Any], args: Any = None, kwds: Any = None, callback: Any = None) -> Any:
        """apply(), and call callback(result) in a greenlet."""
        result = self.apply(func, args, kwds)
        if callback is not None:
            Greenlet.spawn(callback, result)
        return result

    def apply_async(self, func: Callable[..., Any], args: Any = None, kwds: Any = None, callback: Any = None) -> Any:
        """Return a greenlet that calls func(*args, **kwds), and then callback(result). If there is no place in the
        group, the greenlet waits for one."""
        args, kwds = args or (), kwds or {}
        if self._is_full():
            return Greenlet.spawn(self.apply_cb, func, args, kwds, callback)
        greenlet = self.spawn(func, *args, **kwds)
        if callback is not None:
            greenlet.link(_Passing(callback))
        return greenlet

    def _is_full(self) -> bool:
        return False

    def map(self, func: Callable[..., Any], iterable: Iterable[Any]) -> list[Any]:
        """Call func(item) for each item in greenlets, and return the list of the results."""
        return list(self.imap(func, iterable))

    def map_cb(self, func: Callable[..., Any], iterable: Iterable[Any], callback: Any = None) -> list[Any]:
        """map(), and call callback(results) after it."""
        result = self.map(func, iterable)
        if callback is not None:
            callback(result)
        return result

    def map_async(self, func: Callable[..., Any], iterable: Iterable[Any], callback: Any = None) -> Any:
        """Return a greenlet that does map_cb()."""
        return Greenlet.spawn(self.map_cb, func, iterable, callback)

    def imap(self, func: Callable[..., Any], *iterables: Iterable[Any], maxsize: int | None = None) -> Any:
        """Return an iterator of the results of func(*items), in the order of the items. maxsize: the most results that
        may wait for the iterator; None or 0: any number."""
        return _IMap(self, func, zip(*iterables), maxsize, True)

    def imap_unordered(self, func: Callable[..., Any], *iterables: Iterable[Any], maxsize: int | None = None) -> Any:
        """imap(), in the order in which the calls end."""
        return _IMap(self, func, zip(*iterables), maxsize, False)


class _Passing:
    """Calls callback(result) if a greenlet is successful."""

    def __init__(self, callback: Callable[[Any], object]) -> None:
        self._callback = callback

    def __call__(self, source: Any) -> None:
        if source.successful():
            self._callback(source.value)


class _IMap(Greenlet):
    """Starts the calls, and is the iterator of their results."""

    def __init__(
        self, group: Mapping, func: Callable[..., Any], items: Iterator[Any], most: int | None, order: bool
    ) -> None:
        super().__init__()
        self._group, self._func, self._items, self._order = group, func, items, order
        self._results: Any = _fiberrt.Queue()  # pairs of a number and a greenlet; at the end the total number and None
        self._kept: dict[int, Any] = {}
        self._next = 0
        self._count: int | None = None
        self._places: Any = Semaphore(most) if most else DummySemaphore()
        self.start()

    def _run(self) -> None:
        started = 0
        try:
            for item in self._items:
                self._places.acquire()
                greenlet = self._group.spawn(self._func, *item)
                greenlet.rawlink(_Numbered(self._results, started))
                started += 1
        except GreenletExit:
            raise
        except BaseException as error:
            failed = AsyncResult()
            failed.set_exception(error)
            self._results.put((started, failed))
            started += 1
        finally:
            self._results.put((started, None))

    def __iter__(self) -> _IMap:
        return self

    def __next__(self) -> Any:
        while True:
            if self._order and self._next in self._kept:
                found = self._kept.pop(self._next)
                break
            if self._next == self._count:
                raise StopIteration
            number, found = self._results.get()
            if found is None:
                self._count = number
            elif self._order:
                self._kept[number] = found
            else:
                break
        self._next += 1
        self._places.release()
        return found.get()

    next = __next__


class _Numbered:
    def __init__(self, results: Any, number: int) -> None:
        self._results, self._number = results, number

    def __call__(self, source: Any) -> None:
        self._results.put((self._number, source))


class Group(Mapping):
    """A set of greenlets. Each leaves it when it ends."""

    greenlet_class: Any = Greenlet

    def __init__(self, *args: Any) -> None:
        self.greenlets: set[Any] = set(*args)
        self.dying: set[Any] = set()
        self._empty = _fiberrt.Event()
        if not self.greenlets:
            self._empty.set()
        for greenlet in list(self.greenlets):
            greenlet.rawlink(self._discard)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} {self.greenlets!r}>"

    def __len__(self) -> int:
        return len(self.greenlets)

    def __contains__(self, greenlet: Any) -> bool:
        return greenlet in self.greenlets

    def __iter__(self) -> Iterator[Any]:
        return iter(self.greenlets)

    def add(self, greenlet: Any) -> None:
        """Add a greenlet, and wait for a place if the group is limited."""
        greenlet.rawlink(self._discard)
        self._add(greenlet)

    def _add(self, greenlet: Any) -> None:
        self.greenlets.add(greenlet)
        self._empty.clear()

    def discard(self, greenlet: Any) -> None:
        """Remove a greenlet."""
        self._discard(greenlet)
        greenlet.unlink(self._discard)

    def _discard(self, greenlet: Any) -> None:
        self.greenlets.discard(greenlet)
        self.dying.discard(greenlet)
        if not self.greenlets:
            self._empty.set()

    def start(self, greenlet: Any) -> None:
        """Add a greenlet, and start it."""
        self.add(greenlet)
        greenlet.start()

    def spawn(self, *args: Any, **kwargs: Any) -> Any:
        """Make a greenlet of the group from a function and its arguments, and start it."""
        greenlet = self.greenlet_class(*args, **kwargs)
        self.start(greenlet)
        return greenlet

    def join(self, timeout: float | None = None, raise_error: bool = False) -> bool:
        """Wait until the group is empty. Return False if the timeout in seconds passes first. raise_error: raise the
        exception of a greenlet that has failed."""
        greenlets = list(self.greenlets) if raise_error else ()
        result = self._empty.wait(timeout)
        for greenlet in greenlets:
            if greenlet.exception is not None:
                raise greenlet.exception
        return bool(result)

    def kill(self, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None) -> None:
        """Raise an exception in all greenlets, and wait until the group is empty or the timeout in seconds has
        passed."""
        timer = Timeout.start_new(timeout)
        try:
            while self.greenlets:
                for greenlet in list(self.greenlets):
                    if greenlet in self.dying:
                        continue
                    self.dying.add(greenlet)
                    if greenlet is getcurrent():
                        greenlet.kill(exception, False)
                    else:
                        greenlet.throw(exception)
                if not block:
                    return
                joinall(list(self.greenlets))
        except Timeout as error:
            if error is not timer:
                raise
        finally:
            timer.cancel()

    def killone(
        self, greenlet: Any, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None
    ) -> None:
        """Raise an exception in a greenlet of the group, and wait for its end. The second time it does nothing."""
        if greenlet not in self.dying and greenlet in self.greenlets:
            greenlet.kill(exception, False)
            self.dying.add(greenlet)
            if block:
                greenlet.join(timeout)

    def full(self) -> bool:
        """Return False."""
        return False

    def wait_available(self, timeout: float | None = None) -> Any:
        """Wait for a place. There is always one."""

    def _may_wait(self) -> bool:
        return getcurrent() not in self.greenlets

    def _is_full(self) -> bool:
        return self.full()


class PoolFull(Exception):
    """Raised by Pool.add() if there is no place in time."""


class Pool(Group):
    """A Group of at most `size` greenlets. spawn() waits for a place. None: any number."""

    def __init__(self, size: int | None = None, greenlet_class: Any = None) -> None:
        if size is not None and size < 0:
            raise ValueError(f"size must not be negative: {size!r}")
        super().__init__()
        self.size = size
        if greenlet_class is not None:
            self.greenlet_class = greenlet_class
        self._semaphore: Any = DummySemaphore() if size is None else Semaphore(size)

    def wait_available(self, timeout: float | None = None) -> Any:
        """Wait for a place, or until the timeout in seconds has passed. Return the number of places."""
        return self._semaphore.wait(timeout)

    def full(self) -> bool:
        """Whether there is no place."""
        return self.free_count() <= 0

    def free_count(self) -> int:
        """The number of places; 1 if it is not limited."""
        return 1 if self.size is None else max(0, self.size - len(self))

    def start(self, greenlet: Any, *args: Any, **kwargs: Any) -> None:
        """Wait for a place, and start a greenlet."""
        self.add(greenlet, *args, **kwargs)
        greenlet.start()

    def add(self, greenlet: Any, blocking: bool = True, timeout: float | None = None) -> None:
        """Wait for a place, and add a greenlet. PoolFull: there is none, or none within the timeout in seconds."""
        if not self._semaphore.acquire(blocking, timeout):
            raise PoolFull
        try:
            super().add(greenlet)
        except BaseException:
            self._semaphore.release()
            raise

    def _discard(self, greenlet: Any) -> None:
        known = greenlet in self.greenlets
        super()._discard(greenlet)
        if known:
            self._semaphore.release()
