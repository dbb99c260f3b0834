# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.queue: queues that can also be peeked into, copied and iterated over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from queue import Empty, Full
from types import GenericAlias
from typing import Any

from ... import _fiberrt
from ..._condition import Condition
from ..._queue import ShutDown
from .timeout import within

__all__ = [
    "Channel",
    "Empty",
    "Full",
    "JoinableQueue",
    "LifoQueue",
    "PriorityQueue",
    "Queue",
    "ShutDown",
    "SimpleQueue",
]


class _End:
    """Iteration ends where StopIteration has been put in."""

    __class_getitem__: Any = classmethod(GenericAlias)

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        item = self.get()  # type: ignore[attr-defined]
        if item is StopIteration:
            raise item
        return item

    next = __next__

    def __bool__(self) -> bool:
        return True


class SimpleQueue(_End):
    """A queue in which put() waits while there are maxsize items. maxsize: None, 0 or less for any number."""

    def __init__(self, maxsize: int | None = None, items: Iterable[Any] = ()) -> None:
        self._maxsize = None if maxsize is None or maxsize <= 0 else maxsize
        self.is_shutdown = False
        lock = _fiberrt.Lock()
        self._lock = lock
        self._not_empty, self._not_full = Condition(lock), Condition(lock)
        self.queue: Any
        self._init(maxsize)
        for item in items:
            self._put(item)

    # --- The container, which a subclass may replace

    def _init(self, maxsize: int | None) -> None:
        self.queue = deque()

    def _get(self) -> Any:
        return self.queue.popleft()

    def _peek(self) -> Any:
        return self.queue[0]

    def _put(self, item: Any) -> None:
        self.queue.append(item)

    def _count(self) -> None:
        """Called when put() has put an item in."""

    # --- The number of items

    @property
    def maxsize(self) -> int | None:
        """The number of items that put() does not exceed, or None."""
        return self._maxsize

    @maxsize.setter
    def maxsize(self, maxsize: int | None) -> None:
        with self._lock:
            self._maxsize = None if maxsize is None or maxsize <= 0 else maxsize
            self._not_full.notify_all()

    def qsize(self) -> int:
        """The number of items."""
        return len(self.queue)

    __len__ = qsize

    def empty(self) -> bool:
        """Whether there is no item."""
        return not self.queue

    def full(self) -> bool:
        """Whether put() would wait."""
        return self._maxsize is not None and len(self.queue) >= self._maxsize

    def copy(self) -> Any:
        """Return a new queue with the same items."""
        return type(self)(self._maxsize, self.queue)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}{self._format()}>"

    def __str__(self) -> str:
        return f"<{type(self).__name__}{self._format()}>"

    def _format(self) -> str:
        text = "" if self._maxsize is None else f" maxsize={self._maxsize!r}"
        return text + (f" queue={self.queue!r}" if self.queue else "")

    # --- Waiting

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Put an item in. Full: there is no room, or none within the timeout in seconds. ShutDown: it is shut down."""
        with self._lock:
            self._refuse_if_shut_down()
            if not self._wait(self._not_full, lambda: self.is_shutdown or not self.full(), block, timeout):
                raise Full
            self._refuse_if_shut_down()
            self._put(item)
            self._count()
            self._not_empty.notify()

    def put_nowait(self, item: Any) -> None:
        """put() without waiting."""
        self.put(item, False)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take an item out. Empty: there is none, or none within the timeout in seconds. ShutDown: the queue is empty
        and shut down."""
        with self._lock:
            self._wait_for_item(block, timeout)
            item = self._get()
            self._not_full.notify()
            return item

    def get_nowait(self) -> Any:
        """get() without waiting."""
        return self.get(False)

    def peek(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the next item without taking it out."""
        with self._lock:
            self._wait_for_item(block, timeout)
            self._not_empty.notify()  # the item remains for another waiter
            return self._peek()

    def peek_nowait(self) -> Any:
        """peek() without waiting."""
        return self.peek(False)

    def _refuse_if_shut_down(self) -> None:
        if self.is_shutdown:
            raise ShutDown

    def _wait_for_item(self, block: bool, timeout: float | None) -> None:
        if not self._wait(self._not_empty, lambda: self.is_shutdown or bool(self.queue), block, timeout):
            raise Empty
        if not self.queue:
            raise ShutDown

    def _wait(self, condition: Condition, ready: Callable[[], bool], block: bool, timeout: float | None) -> bool:
        if not block or ready():
            return ready()
        return bool(within(timeout, lambda seconds: condition.wait_for(ready, seconds)))


class Queue(SimpleQueue):
    """A SimpleQueue with task_done() and join(), which waits until all items have been worked on, and shutdown()."""

    def __init__(
        self, maxsize: int | None = None, items: Iterable[Any] = (), unfinished_tasks: int | None = None
    ) -> None:
        super().__init__(maxsize, items)
        self._done = Condition(self._lock)
        self.unfinished_tasks = len(self.queue) if unfinished_tasks is None else unfinished_tasks

    def copy(self) -> Any:
        """Return a new queue with the same items."""
        return type(self)(self._maxsize, self.queue, self.unfinished_tasks)

    def _count(self) -> None:
        self.unfinished_tasks += 1

    def task_done(self) -> None:
        """Say that an item from get() has been worked on. ValueError: there were not so many."""
        with self._lock:
            if self.unfinished_tasks <= 0:
                raise ValueError("task_done() called too many times")
            self.unfinished_tasks -= 1
            if self.unfinished_tasks == 0:
                self._done.notify_all()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until task_done() has been called for each item. Return False if the timeout in seconds passes first."""
        with self._lock:
            return self._wait(self._done, lambda: self.unfinished_tasks == 0, True, timeout)

    def shutdown(self, immediate: bool = False) -> None:
        """Let put() raise ShutDown, and get() when the queue is empty. immediate: drop the items."""
        with self._lock:
            self.is_shutdown = True
            while immediate and self.queue:
                self._get()
                self.unfinished_tasks = max(self.unfinished_tasks - 1, 0)
            for condition in self._not_empty, self._not_full, self._done:
                condition.notify_all()

    def _format(self) -> str:
        text = super()._format()
        return text + (f" tasks={self.unfinished_tasks}" if self.unfinished_tasks else "")


JoinableQueue = UnboundQueue = Queue


class PriorityQueue(Queue):
    """A Queue whose get() returns the smallest item."""

    def _init(self, maxsize: int | None) -> None:
        self.queue = []

    def _put(self, item: Any) -> None:
        heappush(self.queue, item)

    def _get(self) -> Any:
        return heappop(self.queue)


class LifoQueue(Queue):
    """A Queue whose get() returns the item that was put in last."""

    def _init(self, maxsize: int | None) -> None:
        self.queue = []

    def _get(self) -> Any:
        return self.queue.pop()

    def _peek(self) -> Any:
        return self.queue[-1]


class Channel(_End):
    """put() waits until get() takes the item."""

    maxsize = 0

    def __init__(self, maxsize: int = 1) -> None:
        if maxsize != 1:
            raise ValueError("a Channel has no buffer")
        self._channel: Any = _fiberrt.Channel(0)

    def qsize(self) -> int:
        """Return 0."""
        return 0

    def empty(self) -> bool:
        """Return True."""
        return True

    def full(self) -> bool:
        """Return True."""
        return True

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Wait until get() takes the item. Full: it does not, or not within the timeout in seconds."""
        try:
            within(timeout if block else 0, lambda seconds: self._channel.send(item, seconds))
        except TimeoutError:
            raise Full from None

    def put_nowait(self, item: Any) -> None:
        """put() without waiting."""
        self.put(item, False)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Wait until put() brings an item. Empty: it does not, or not within the timeout in seconds."""
        try:
            return within(timeout if block else 0, self._channel.receive)
        except TimeoutError:
            raise Empty from None

    def get_nowait(self) -> Any:
        """get() without waiting."""
        return self.get(False)
