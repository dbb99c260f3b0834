# SPDX-License-Identifier: MIT OR Apache-2.0
"""The loop of the hub. A watcher is a fiber or a timer that calls a function when something happens."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Any

from ... import _fiberrt
from ._timers import Timer

READ, WRITE = 1, 2
watching: set[Any] = set()  # the fibers of watchers and servers


def watch(function: Callable[[], object], ref: bool = True) -> Any:
    """Spawn the fiber of a watcher or server. ref: whether gevent.wait() waits for it."""
    fiber = _fiberrt.spawn(function)
    if ref:
        watching.add(fiber)
        fiber.add_done_callback(watching.discard)
    return fiber


class _Watcher:
    """start(callback, *args) begins to watch, stop() and close() end it."""

    _callback: Any = None
    args: tuple[Any, ...] = ()
    ref = True
    priority = 0

    @property
    def active(self) -> bool:
        """Whether it watches."""
        return self._callback is not None

    pending = False

    @property
    def callback(self) -> Any:
        """The function that is called."""
        return self._callback

    def start(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        """Call callback(*args) when it happens, in a fiber."""
        if not callable(callback):
            raise TypeError(f"Expected callable, not {callback!r}")
        if self._callback is not None:
            raise ValueError("the watcher has been started")
        self._callback, self.args = callback, args
        self._begin()

    def stop(self) -> None:
        """Call it no more."""
        if self._callback is not None:
            self._callback, self.args = None, ()
            self._stop()

    def close(self) -> None:
        """stop()"""
        self.stop()

    def fail(self, error: BaseException) -> None:
        """Raise an exception in the greenlet that waits for the watcher by hub.wait()."""
        waiter = getattr(self._callback, "__self__", None)
        if waiter is not None and hasattr(waiter, "throw"):
            waiter.throw(error)

    def __enter__(self) -> _Watcher:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _begin(self) -> None:
        raise NotImplementedError

    def _stop(self) -> None:
        raise NotImplementedError

    def _call(self) -> None:
        if self._callback is not None:
            _call(self._callback, self.args)


def _call(callback: Callable[..., object], args: tuple[Any, ...]) -> None:
    try:
        callback(*args)
    except _fiberrt.CancelledError:
        raise
    except BaseException as error:
        from .hub import get_hub

        get_hub().handle_error(callback, type(error), error, error.__traceback__)


class _Watching(_Watcher):
    """A watcher with a fiber."""

    _fiber: Any = None

    def _begin(self) -> None:
        self._fiber = watch(self._run, self.ref)

    def _stop(self) -> None:
        if self._fiber is not _fiberrt.current():
            self._fiber.cancel()

    def _run(self) -> None:
        me = _fiberrt.current()
        try:
            while self._callback is not None and self._fiber is me and self._wait():
                if self._callback is not None and self._fiber is me:
                    self._call()
        except _fiberrt.CancelledError:
            pass

    def _wait(self) -> bool:
        raise NotImplementedError


class _IO(_Watching):
    def __init__(self, fd: int, events: int, ref: bool) -> None:
        self.fd, self.events, self.ref = fd, events, ref

    def _wait(self) -> bool:
        events = (select.POLLIN if self.events & READ else 0) | (select.POLLOUT if self.events & WRITE else 0)
        try:
            _fiberrt.wait_fd(self.fd, events)
        except OSError as error:
            self.fail(error)
            return False
        return True

    def _call(self) -> None:
        super()._call()
        _fiberrt.reschedule()  # the descriptor may stay ready: others must run


class _Async(_Watching):
    def __init__(self, ref: bool) -> None:
        self._event, self.ref = _fiberrt.Event(), ref

    def send(self) -> None:
        """Let the watcher's thread call the callback. Any thread may call this."""
        self._event.set()

    send_ignoring_arg = send

    def _wait(self) -> bool:
        self._event.wait()
        self._event.clear()
        return True


class _Signal(_Watcher):
    def __init__(self, number: int) -> None:
        self._number = number
        self._handler: Any = None

    def _begin(self) -> None:
        from .hub import signal

        self._handler = signal(self._number, self._call)

    def _stop(self) -> None:
        self._handler.cancel()


class _Timer(_Watcher):
    def __init__(self, after: float, repeat: float, ref: bool) -> None:
        if repeat < 0:
            raise ValueError(f"repeat must be positive or zero: {repeat!r}")
        self._after, self._repeat, self.ref = after, repeat, ref
        self._timer: Any = None
        self._start: object = None  # identifies the present start()

    def _begin(self) -> None:
        self._start = object()
        self._timer = Timer(max(self._after, 0), self._expire, self.ref)

    def again(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        """stop(), and start() with the time of the repetitions."""
        self.stop()
        self._after = self._repeat
        self.start(callback, *args)

    def _stop(self) -> None:
        self._timer.cancel()

    def _expire(self) -> None:
        timer = self._timer
        if self._repeat:
            self._timer = Timer(self._repeat, self._expire, self.ref)
        _fiberrt.spawn(self._call_unless_stopped, timer, self._start)

    def _call_unless_stopped(self, timer: Timer, start: object) -> None:
        if self._start is not start or self._callback is None:
            return
        callback, args = self._callback, self.args
        if self._timer is timer:  # it does not repeat
            self._callback = None
        _call(callback, args)


class _Callback:
    """A call that run_callback() has arranged."""

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Any = callback
        self.args: Any = args
        _fiberrt.spawn(self._run)

    @property
    def pending(self) -> bool:
        """Whether it has not been made."""
        return self.callback is not None

    def __bool__(self) -> bool:
        return self.pending

    def stop(self) -> None:
        """Do not make it."""
        self.callback = self.args = None

    close = stop

    def _run(self) -> None:
        callback, args = self.callback, self.args
        if callback is not None:
            self.stop()
            _call(callback, args)


class Loop:
    """Makes watchers, and calls functions soon, in fibers of the calling thread."""

    MAXPRI = MINPRI = 0
    default = True

    def io(self, fd: int, events: int, ref: bool = True, priority: int | None = None) -> _IO:
        """Watch a descriptor: 1 that it can be read, 2 written, 3 either."""
        return _IO(fd, events, ref)

    def timer(self, after: float, repeat: float = 0.0, ref: bool = True, priority: int | None = None) -> _Timer:
        """Watch the time, in seconds."""
        return _Timer(after, repeat, ref)

    def async_(self, ref: bool = True, priority: int | None = None) -> _Async:
        """A watcher whose send() other threads may call."""
        return _Async(ref)

    def signal(self, signum: int, ref: bool = True, priority: int | None = None) -> _Signal:
        """Watch for a signal."""
        return _Signal(signum)

    def run_callback(self, callback: Callable[..., object], *args: Any) -> _Callback:
        """Call callback(*args) in a new fiber, soon."""
        return _Callback(callback, args)

    def now(self) -> float:
        """The time in seconds."""
        return time.time()

    update_now = update = now

    def destroy(self) -> None:
        """It does nothing."""
