# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.lock: semaphores and a reentrant lock."""

from __future__ import annotations

from typing import Any

from ... import _fiberrt
from ._links import Linkable

__all__ = ["BoundedSemaphore", "DummySemaphore", "RLock", "Semaphore"]


class Semaphore(Linkable, _fiberrt.Semaphore):
    """fiberrt.Semaphore with a counter, wait() and rawlink()."""

    _only_while_ready = True
    _debt = 0  # releases that count for nothing, because the counter was set below 0

    def __init__(self, value: int = 1, hub: Any = None) -> None:
        self._initial_value = value
        super().__init__(value)

    @property
    def counter(self) -> int:
        """The number of acquire() calls that would not wait."""
        return self._value - self._debt

    @counter.setter
    def counter(self, value: int) -> None:
        while self.counter > value and super().acquire(False):
            pass
        if self.counter > value:
            self._debt += self.counter - value
        while self.counter < value:
            self._release()

    def ready(self) -> bool:
        """Whether acquire() would not wait."""
        return self.counter > 0

    def locked(self) -> bool:
        """Whether acquire() would wait."""
        return self.counter <= 0

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Wait until the counter is above 0, and decrement it. Return False if the timeout in seconds passes first."""
        if not blocking:
            return bool(super().acquire(False))
        return bool(super().acquire(True, None if timeout is None else max(timeout, 0)))

    def _release(self) -> None:
        if self._debt:
            self._debt -= 1
        else:
            super().release()

    def release(self) -> int:  # type: ignore[override]
        """Increment the counter, and return it."""
        self._release()
        self._tell_links()
        return self.counter

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the counter is above 0, without decrementing it, or the timeout in seconds has passed. Return the
        counter."""
        if self.counter <= 0 and self.acquire(True, timeout):
            self.release()
        return self.counter

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} counter={self.counter} _links[{self.linkcount()}]>"

    __str__ = __repr__


class BoundedSemaphore(Semaphore):
    """A Semaphore whose counter does not rise above its first value."""

    def release(self) -> int:  # type: ignore[override]
        """Increment the counter. ValueError: it has its first value."""
        if self.counter >= self._initial_value:
            raise ValueError("Semaphore released too many times")
        return super().release()


class DummySemaphore:
    """A Semaphore that is always free."""

    def __init__(self, value: int | None = None) -> None:
        self.counter = 1

    def locked(self) -> bool:
        """Return False."""
        return False

    def ready(self) -> bool:
        """Return True."""
        return True

    def release(self) -> None:
        """It does nothing."""

    def rawlink(self, callback: Any) -> None:
        """It does nothing."""

    def unlink(self, callback: Any) -> None:
        """It does nothing."""

    def wait(self, timeout: float | None = None) -> int:
        """Return 1."""
        return 1

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Return True."""
        return True

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


class RLock(_fiberrt.RLock):
    """fiberrt.RLock."""

    def __init__(self, hub: Any = None) -> None:
        super().__init__()

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Wait for the lock. Return False if the timeout in seconds passes first."""
        return super().acquire(bool(blocking), -1 if timeout is None or not blocking else max(timeout, 0))
