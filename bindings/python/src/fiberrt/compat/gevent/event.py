# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.event: Event, and AsyncResult, which brings one value to any number of waiters."""

from __future__ import annotations

import sys
from typing import Any

from ... import _fiberrt
from ._current import made
from ._links import Linkable
from .timeout import Timeout, within

__all__ = ["AsyncResult", "Event"]


class Event(Linkable, _fiberrt.Event):
    """fiberrt.Event with rawlink(), for gevent.wait()."""

    def ready(self) -> bool:
        """Whether the event is set."""
        return bool(self._flag)

    def is_set(self) -> bool:
        """Whether the event is set."""
        return bool(self._flag)

    isSet = is_set

    def wait(self, timeout: Any = None) -> bool:
        """Wait until the event is set. Return False if the timeout in seconds passes first."""
        return bool(self._flag or within(timeout, super().wait))

    def set(self) -> None:
        """Wake all waiters; wait() returns at once until clear()."""
        super().set()
        self._tell_links()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} {'set' if self._flag else 'clear'} _links[{self.linkcount()}]>"

    def __str__(self) -> str:
        return f"<{type(self).__name__} {'set' if self._flag else 'clear'} _links[{self.linkcount()}]>"


class AsyncResult(Linkable):
    """A value or an exception that is set later. It also has the methods of a Future, and may be given to
    Greenlet.link()."""

    def __init__(self) -> None:
        self._event = _fiberrt.Event()
        self._value: Any = None
        self._exc_info: Any = ()

    @property
    def value(self) -> Any:
        """The value of set(), or None."""
        return self._value

    @property
    def exc_info(self) -> Any:
        """The exception's type, the exception and its traceback, or ()."""
        return self._exc_info

    @property
    def exception(self) -> Any:
        """The exception of set_exception(), or None."""
        return self._exc_info[1] if self._exc_info else None

    def ready(self) -> bool:
        """Whether there is a value or an exception."""
        return bool(self._event._flag)

    def successful(self) -> bool:
        """Whether there is a value."""
        return self.ready() and not self._exc_info

    def set(self, value: Any = None) -> None:
        """Set the value, and wake all waiters."""
        self._value, self._exc_info = value, ()
        self._event.set()
        self._tell_links()

    def set_exception(self, exception: Any, exc_info: Any = None) -> None:
        """Set an exception, which get() raises, and wake all waiters."""
        if exc_info is not None and exc_info[2] is not None and isinstance(exception, BaseException):
            exception = exception.with_traceback(exc_info[2])
        if exception is not None:
            self._exc_info = exc_info or (
                exception if isinstance(exception, type) else type(exception), exception,
                getattr(exception, "__traceback__", None),
            )  # fmt: skip
        self._event.set()
        self._tell_links()

    def _result(self) -> Any:
        if self._exc_info:
            raise made(*self._exc_info[:2]).with_traceback(self._exc_info[2])
        return self._value

    def get(self, block: bool = True, timeout: Any = None) -> Any:
        """Wait, and return the value or raise the exception. Timeout: there is none in time."""
        if not self._event._flag and not (block and within(timeout, self._event.wait)):
            raise Timeout(timeout if block else None)
        return self._result()

    def get_nowait(self) -> Any:
        """get() without waiting."""
        return self.get(False)

    def wait(self, timeout: Any = None) -> Any:
        """Wait until there is a value, an exception, or the timeout in seconds has passed. Return the value, or
        None."""
        try:
            within(timeout, self._event.wait)
        except Timeout as error:
            if error is not timeout:
                raise
        return self._value

    def __call__(self, source: Any) -> None:
        """Take over the result of a Greenlet."""
        if source.successful():
            self.set(source.value)
        else:
            self.set_exception(source.exception, getattr(source, "exc_info", None))

    # --- As a Future

    def result(self, timeout: float | None = None) -> Any:
        """get()"""
        return self.get(timeout=timeout)

    set_result = set

    def done(self) -> bool:
        """Whether there is a value or an exception."""
        return self.ready()

    def cancel(self) -> bool:
        """Return False: nothing is cancelled."""
        return False

    def cancelled(self) -> bool:
        """Whether the exception is the CancelledError of concurrent.futures."""
        futures = sys.modules.get("concurrent.futures")
        return futures is not None and isinstance(self.exception, futures.CancelledError)

    def __repr__(self) -> str:
        text = f"<{type(self).__name__} at {id(self):#x}"
        if self.ready():
            text += f" exception={self.exception!r}" if self._exc_info else f" value={self._value!r}"
        return f"{text} _links[{self.linkcount()}]>"
