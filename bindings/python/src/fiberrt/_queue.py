# SPDX-License-Identifier: MIT OR Apache-2.0
"""The other names of the module queue: ShutDown, also before Python 3.13, PriorityQueue and SimpleQueue."""

from __future__ import annotations

import queue
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from . import _fiberrt
from ._condition import Condition
from ._fiberrt import Lock, Queue

T = TypeVar("T")

if hasattr(queue, "ShutDown"):
    ShutDown: type[Exception] = queue.ShutDown
else:

    class _ShutDown(Exception):
        """Raised by a Queue that has been shut down."""

    ShutDown = _ShutDown
    ShutDown.__name__ = ShutDown.__qualname__ = "ShutDown"


class PriorityQueue(queue.PriorityQueue[T]):  # type: ignore[type-var]
    """queue.PriorityQueue, for fibers of any thread: get() returns the smallest item."""

    def __init__(self, maxsize: int = 0) -> None:
        super().__init__(maxsize)
        self.mutex = Lock()  # type: ignore[assignment]
        self.not_empty = Condition(self.mutex)  # type: ignore[assignment]
        self.not_full = Condition(self.mutex)  # type: ignore[assignment]
        self.all_tasks_done = Condition(self.mutex)  # type: ignore[assignment]


class SimpleQueue(Queue[T]):
    """queue.SimpleQueue, for fibers of any thread: put() never waits."""

    def __init__(self) -> None:
        super().__init__()

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Put an item in. block and timeout have no effect: there is always room."""
        self.put_nowait(item)


def let_polls_give_turns(kind: Any) -> None:
    """Make calls of queue.Queue that do not wait count as polls, for fiberrt.monkey."""
    get, put, names = kind.get, kind.put, ("empty", "full", "qsize")

    def polling_get(self: Any, block: bool = True, timeout: float | None = None) -> Any:
        if not block or timeout is not None:
            _fiberrt.poll_turn()
        return get(self, block, timeout)

    def polling_put(self: Any, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if not block or timeout is not None:
            _fiberrt.poll_turn()
        put(self, item, block, timeout)

    def polling(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def look(self: Any) -> Any:
            _fiberrt.poll_turn()
            return method(self)

        return wraps(method)(look)

    kind.get = wraps(get)(polling_get)
    kind.put = wraps(put)(polling_put)
    for name in names:
        setattr(kind, name, polling(getattr(kind, name)))
