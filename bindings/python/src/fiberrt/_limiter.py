# SPDX-License-Identifier: MIT OR Apache-2.0
"""CapacityLimiter."""

from __future__ import annotations

from . import _fiberrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any


class CapacityLimiter:
    """Limits the number of fibers that are in its ``with`` block at a time. Unlike a Semaphore it knows which fibers these
    are: it refuses a fiber that enters while it is inside, or leaves while it is not. Fibers of any thread may use it.
    """

    __slots__ = ("_holders", "_places", "_total")

    def __init__(self, total: int) -> None:
        if not isinstance(total, int) or total < 1:
            raise ValueError(f"a limit is a number from 1, not {total!r}")
        self._total = total
        self._places = _fiberrt.Semaphore(total)
        self._holders: set[_fiberrt.Fiber[Any]] = set()

    @property
    def total(self) -> int:
        """The limit."""
        return self._total

    @property
    def borrowed(self) -> int:
        """The number of fibers that hold a place."""
        return len(self._holders)

    @property
    def available(self) -> int:
        """The number of free places."""
        return self._total - len(self._holders)

    def acquire(self, timeout: float | None = None) -> bool:
        """Wait for a place. Return False if the timeout, in seconds, passes first. RuntimeError: the fiber has one."""
        fiber = _fiberrt.current()
        if fiber in self._holders:
            raise RuntimeError("this fiber holds a place of the limiter already")
        if not self._places.acquire(True, timeout):
            return False
        self._holders.add(fiber)
        return True

    def release(self) -> None:
        """Give the place back. RuntimeError: the fiber has none."""
        try:
            self._holders.remove(_fiberrt.current())
        except KeyError:
            raise RuntimeError("this fiber holds no place of the limiter") from None
        self._places.release()

    def __enter__(self) -> CapacityLimiter:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<fiberrt.CapacityLimiter {self.borrowed} of {self._total}>"
