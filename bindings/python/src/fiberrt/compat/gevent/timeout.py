# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.timeout: exceptions that a timer raises in a fiber."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import _fiberrt
from ._current import killing
from ._timers import Timer

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Timeout", "with_timeout"]

_MISSING: Any = object()


class Timeout(BaseException):
    """``with Timeout(seconds):`` raises itself in the fiber that has started it, once, at the present wait or the next.

    seconds: None means never. exception: raised instead; with False the with block drops the Timeout. A Timeout does
    not interrupt a fiber that computes. close() also withdraws an exception that has been thrown but not yet
    raised.
    """

    def __init__(
        self, seconds: float | None = None, exception: Any = None, ref: bool = True, priority: int = -1
    ) -> None:
        super().__init__()
        self.seconds = seconds
        self.exception = exception
        self._ref = ref
        self._timer: Timer | None = None
        self._fiber: Any = None
        self._raised: Any = None

    @classmethod
    def start_new(cls, timeout: Timeout | float | None = None, exception: Any = None, ref: bool = True) -> Timeout:
        """Return a started Timeout: the given one, or a new one of so many seconds."""
        if not isinstance(timeout, Timeout):
            timeout = cls(timeout, exception, ref)
        if not timeout.pending:
            timeout.start()
        return timeout

    @property
    def pending(self) -> bool:
        """Whether the timer runs."""
        return self._timer is not None and self._timer.pending

    def start(self) -> None:
        """Start the timer for the calling fiber. AssertionError: it runs."""
        if self.pending:
            raise AssertionError(f"{self!r} is already started; to restart it, cancel it first")
        if self.seconds is None:
            return
        self._withdraw()
        self._fiber = _fiberrt.current()
        self._timer = Timer(max(self.seconds or 0, 0), self._expire, self._ref)

    def _expire(self) -> None:
        exception = self.exception
        exception = self if exception is None or isinstance(exception, (bool, str)) else killing(exception)
        self._raised = exception
        if not self._fiber.done:
            self._fiber.throw(exception)

    def _withdraw(self) -> None:
        if self._raised is not None:
            _fiberrt.withdraw(self._fiber, self._raised)
            self._raised = None

    def cancel(self) -> None:
        """Stop the timer. start() starts it again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._withdraw()
        self._fiber = None

    def close(self) -> None:
        """Stop the timer."""
        self.cancel()

    def __enter__(self) -> Timeout:
        if not self.pending:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self.cancel()
        return value is self and self.exception is False

    def __repr__(self) -> str:
        pending = " pending" if self.pending else ""
        exception = "" if self.exception is None else f" exception={self.exception!r}"
        return f"<{type(self).__name__} at {id(self):#x} seconds={self.seconds}{exception}{pending}>"

    def __str__(self) -> str:
        if self.seconds is None:
            return ""
        suffix = "" if self.seconds == 1 else "s"
        if self.exception is None or self.exception is True:
            return f"{self.seconds} second{suffix}"
        if self.exception is False:
            return f"{self.seconds} second{suffix} (silent)"
        return f"{self.seconds} second{suffix}: {self.exception}"


def with_timeout(
    seconds: Any, function: Callable[..., Any], *args: Any, timeout_value: Any = _MISSING, **kwargs: Any
) -> Any:
    """Call function(*args, **kwargs) with a Timeout. When it expires, return timeout_value or, without, raise it."""
    timeout = Timeout.start_new(seconds)
    try:
        return function(*args, **kwargs)
    except Timeout as error:
        if error is timeout and timeout_value is not _MISSING:
            return timeout_value
        raise
    finally:
        timeout.cancel()


def within(timeout: Any, wait: Callable[[float | None], Any]) -> Any:
    """Call wait(seconds). If the timeout is a Timeout, call wait(None), and start the Timeout for it."""
    if not isinstance(timeout, Timeout):
        return wait(timeout)
    mine = not timeout.pending
    if mine:
        timeout.start()
    try:
        return wait(None)
    finally:
        if mine:
            timeout.cancel()
