# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the module queue has for Queues: ShutDown, also before Python 3.13, a PriorityQueue and a SimpleQueue."""

from __future__ import annotations

import queue
from typing import TypeVar

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
    """queue.PriorityQueue, for fibers of any thread: the least item is got first."""

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
        """Put an item in. block and timeout mean nothing: there is room."""
        self.put_nowait(item)
