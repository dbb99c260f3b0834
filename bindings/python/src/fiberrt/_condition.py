# SPDX-License-Identifier: MIT OR Apache-2.0
"""Condition: waits until a state guarded by a lock has changed."""

from __future__ import annotations

import time
from collections import OrderedDict

from . import _fiberrt
from ._fiberrt import Event, RLock
from ._scopes import shield

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, TypeVar

    T = TypeVar("T")


class Condition:
    """threading.Condition, for fibers of any thread: ``with condition: condition.wait_for(ready)``.

    The lock may be any object with acquire() and release(), but a lock of threading blocks the whole thread; the
    default is a new RLock. A fiber whose wait ends by a cancel holds the lock again when the cancel is raised. If it
    had been notified, the notification goes to the next waiter.
    """

    def __init__(self, lock: Any = None) -> None:
        self._lock = RLock() if lock is None else lock
        self.acquire: Callable[..., bool] = self._lock.acquire
        self.release: Callable[[], None] = self._lock.release
        for name in ("_is_owned", "_release_save", "_acquire_restore"):
            if hasattr(self._lock, name):
                setattr(self, name, getattr(self._lock, name))
        self._waiters: OrderedDict[Event, None] = OrderedDict()

    def __enter__(self) -> bool:
        entered: bool = self._lock.__enter__()
        return entered

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.__exit__(kind, exception, traceback)

    def __repr__(self) -> str:
        return f"<fiberrt.Condition({self._lock!r}, {len(self._waiters)} waiting)>"

    def _is_owned(self) -> bool:
        if self._lock.acquire(False):
            self._lock.release()
            return False
        return True

    def _release_save(self) -> Any:
        self._lock.release()

    def _acquire_restore(self, state: Any) -> None:
        with shield():
            self._lock.acquire()

    def _at_fork_reinit(self) -> None:
        self._lock._at_fork_reinit()
        self._waiters.clear()

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait for a notify(), and take the lock again. Return False if the timeout passed first.

        RuntimeError: the lock is not held.
        """
        if not self._is_owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        waiter = Event()
        self._waiters[waiter] = None
        notified = False
        try:
            state = self._release_save()
            try:
                notified = waiter.wait(timeout)
            finally:
                self._acquire_restore(state)
        except BaseException:
            if waiter._flag:
                self._notify(1)
            raise
        finally:
            self._waiters.pop(waiter, None)
        return notified or waiter._flag

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        """Wait until predicate() is true or the timeout has passed; return the last result of predicate()."""
        until = None if timeout is None else time.monotonic() + timeout
        _fiberrt.poll_turn()  # the loop may not have to wait
        result = predicate()
        while not result:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
            result = predicate()
        return result

    def _notify(self, n: int) -> None:
        while n > 0 and self._waiters:
            self._waiters.popitem(last=False)[0].set()
            n -= 1

    def notify(self, n: int = 1) -> None:
        """Wake the first n waiters. RuntimeError: the lock is not held."""
        if not self._is_owned():
            raise RuntimeError("cannot notify on un-acquired lock")
        self._notify(n)

    def notify_all(self) -> None:
        """Wake all waiters. RuntimeError: the lock is not held."""
        self.notify(len(self._waiters))

    def notifyAll(self) -> None:
        """The old name of notify_all() in threading."""
        import warnings

        warnings.warn("notifyAll() is an old name: use notify_all()", DeprecationWarning, stacklevel=2)
        self.notify_all()
