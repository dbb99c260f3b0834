# SPDX-License-Identifier: MIT OR Apache-2.0
"""The greenlet object of each fiber."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import _fiberrt
from .exceptions import GreenletExit

if TYPE_CHECKING:
    from types import FrameType

_running: dict[Any, Any] = {}  # the fibers of Greenlets that have begun, and the Greenlets
_KEY = "fiberrt.compat.gevent"  # key of the RawGreenlet in fiber._locals


class RawGreenlet:
    """A fiber that is not a Greenlet: the main flow, one of spawn_raw(), a Thread, or a connection's."""

    def __init__(self, fiber: Any = None) -> None:
        self._fiber = fiber

    @property
    def dead(self) -> bool:
        """Whether the fiber has ended."""
        return self._fiber is not None and bool(self._fiber.done)

    @property
    def gr_frame(self) -> FrameType | None:
        """The innermost frame, or None if the fiber has ended or not begun."""
        if self._fiber is None or self._fiber.done:
            return None
        return sys._getframe(1) if self._fiber is _fiberrt.current() else _fiberrt.frame(self._fiber)

    @property
    def parent(self) -> Any:
        """The hub."""
        from .hub import get_hub

        return None if self._fiber is not None and self._fiber.name == "main" else get_hub()

    @property
    def name(self) -> str:
        """The fiber's name."""
        return str(self._fiber.name) if self._fiber is not None else type(self).__name__

    def __bool__(self) -> bool:
        return self._fiber is not None and not self._fiber.done

    def ready(self) -> bool:
        """Whether the fiber has ended."""
        return self.dead

    def rawlink(self, callback: Callable[[Any], object], /) -> None:
        """Call callback(self) when the fiber has ended."""
        if self._fiber.done:
            _fiberrt.spawn(callback, self)
        else:
            self._fiber.add_done_callback(_Link(self, callback))

    def unlink(self, callback: Callable[[Any], object], /) -> None:
        """Undo rawlink()."""
        if not self._fiber.done:
            self._fiber.remove_done_callback(_Link(self, callback))

    def throw(self, exception: Any = GreenletExit, value: Any = None, traceback: Any = None) -> None:
        """Raise an exception in the fiber, at its present wait or the next."""
        self._throw(made(exception, value, traceback))

    def _throw(self, exception: BaseException) -> None:
        throw(self._fiber, exception)

    def kill(self, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None) -> None:
        """Raise an exception in the fiber, and wait for its end."""
        if self._fiber.done:
            return
        self._throw(killing(exception))
        if block:
            self._fiber.join(timeout)

    def switch(self, *args: Any, **kwargs: Any) -> None:
        """Fibers choose no successor: RuntimeError. Use events and queues, or a hub.Waiter."""
        raise RuntimeError("fibers cannot be switched to: wait for an event, a queue or a hub.Waiter instead")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}: {self._fiber!r}>"


class _Link:
    """A callback of a fiber's end that is called with the greenlet."""

    def __init__(self, greenlet: RawGreenlet, callback: Callable[[Any], object]) -> None:
        self._greenlet, self._callback = greenlet, callback

    def __call__(self, fiber: Any) -> None:
        self._callback(self._greenlet)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Link) and self._callback == other._callback

    __hash__ = None  # type: ignore[assignment]


def made(exception: Any, value: Any = None, traceback: Any = None) -> BaseException:
    """Return the instance that an exception of throw() or kill() stands for."""
    if isinstance(exception, type) and issubclass(exception, BaseException):
        if isinstance(value, BaseException):
            exception = value
        else:
            exception = exception() if value is None else exception(value)
    if not isinstance(exception, BaseException):
        raise TypeError(f"exceptions must be classes, or instances, not {type(exception).__name__}")
    return exception if traceback is None else exception.with_traceback(traceback)


def killing(exception: Any) -> BaseException:
    """Return the instance that an exception of kill() stands for; a TypeError if it is none."""
    try:
        return made(exception)
    except TypeError as error:
        return error


def throw(fiber: Any, exception: BaseException) -> None:
    """Raise an exception in a fiber, unless it has ended."""
    if not fiber.done:
        fiber.throw(exception)


def getcurrent() -> Any:
    """Return the calling fiber's Greenlet, or another object that stands for the fiber."""
    fiber = _fiberrt.current()
    greenlet = _running.get(fiber)
    if greenlet is None:
        kept = fiber._locals
        greenlet = kept.get(_KEY)
        if greenlet is None:
            greenlet = kept[_KEY] = RawGreenlet(fiber)
    return greenlet
