# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.hub: functions that wait, and the Hub, which stands for the thread's scheduler. There is no hub greenlet: a
fiber that waits switches to the next fiber itself."""

from __future__ import annotations

import _thread
import signal as _signals
import sys
import time
import traceback as _traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ... import _fiberrt
from ._current import RawGreenlet, _running, getcurrent, made, throw
from ._loop import Loop, watching
from ._timers import wait_for_timers
from ._waits import iwait, wait
from .exceptions import BlockingSwitchOutError, GreenletExit, InvalidSwitchError, LoopExit

__all__ = [
    "BlockingSwitchOutError", "GreenletExit", "Hub", "InvalidSwitchError", "LoopExit", "Waiter", "get_hub",
    "getcurrent", "idle", "iwait", "kill", "reinit", "signal", "sleep", "spawn_raw", "wait",
]  # fmt: skip

_own = _thread._local()  # of the thread


class Hub(RawGreenlet):
    """The parts of gevent's Hub that programs use: loop, threadpool, handle_error(), join(), wait()."""

    SYSTEM_ERROR: Any = (KeyboardInterrupt, SystemExit, SystemError)  # they also go to the main flow
    NOT_ERROR: Any = (GreenletExit, SystemExit)  # they are not printed
    exception_stream: Any = None  # None: sys.stderr
    threadpool_size = 10
    name = ""  # a string, for programs that set it
    resolver: Any = None  # names are looked up on other threads
    periodic_monitoring_thread: Any = None  # fiberrt.report_blocking() does this

    def __init__(self) -> None:
        super().__init__()
        here = self.thread_ident = _thread.get_ident()
        _fiberrt.current()  # after this, the thread has a main flow
        self._main = next(fiber for fiber in _fiberrt.fibers() if _fiberrt.thread_of(fiber) == here)
        self.loop = Loop()
        self.main_hub = here == _threading_main()
        self._threadpool: Any = None

    minimal_ident = 0
    parent = None
    dead = False

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<Hub {self.name!r} at {id(self):#x} thread_ident={self.thread_ident:#x}>"

    @property
    def backend(self) -> str:
        """The name of libfiberrt's backend."""
        return str(_fiberrt.backend())

    @property
    def threadpool(self) -> Any:
        """The thread's ThreadPool."""
        if self._threadpool is None:
            from .threadpool import ThreadPool

            self._threadpool = ThreadPool(self.threadpool_size)
        return self._threadpool

    @threadpool.setter
    def threadpool(self, pool: Any) -> None:
        self._threadpool = pool

    def handle_error(self, context: Any, type: Any, value: Any, tb: Any) -> None:
        """Called for each exception that ends a greenlet or a callback."""
        type, value, tb = self._normalize_exception(type, value, tb)
        if not issubclass(type, self.NOT_ERROR):
            self.print_exception(context, type, value, tb)
        if context is None or issubclass(type, self.SYSTEM_ERROR):
            self.handle_system_error(type, value, tb)

    def _normalize_exception(self, type: Any, value: Any, tb: Any) -> tuple[Any, Any, Any]:
        if not isinstance(value, BaseException):
            value = made(type, value)
        return type, value, tb

    def handle_system_error(self, type: Any, value: Any, tb: Any = None) -> None:
        """Raise an exception in the thread's main flow, at its present wait or the next."""
        error = made(type, value)
        if _fiberrt.current() is self._main:
            raise error
        throw(self._main, error)

    def print_exception(self, context: Any, t: Any, v: Any, tb: Any) -> None:
        """Print an exception to exception_stream, or standard error."""
        stream = self.exception_stream or sys.stderr
        if stream is None:
            return
        with suppress(Exception):  # of the stream, or of repr()
            _traceback.print_exception(t, v, tb, file=stream)
            if context is not None:
                text = context if isinstance(context, str) else repr(context)
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                print(f"{now} {text} failed with {t.__name__}\n", file=stream)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until no other greenlet, timer, watcher or server of the thread lives. Return False if the timeout in
        seconds passes first."""
        until = None if timeout is None else time.monotonic() + timeout
        me = _fiberrt.current()
        while True:
            others = [
                fiber for fiber in [*_running, *watching]
                if fiber is not me and _fiberrt.thread_of(fiber) == self.thread_ident
            ]  # fmt: skip
            for fiber in others:
                if not fiber.join(None if until is None else max(until - time.monotonic(), 0)):
                    return False
            if not wait_for_timers(None if until is None else max(until - time.monotonic(), 0)):
                return False
            if not others:
                return True

    def wait(self, watcher: Any) -> None:
        """Wait until a watcher of the loop reports."""
        waiter = Waiter(self)
        watcher.start(waiter.switch, waiter)
        try:
            if waiter.get() is not waiter:
                raise InvalidSwitchError
        finally:
            watcher.stop()

    def cancel_wait(self, watcher: Any, error: BaseException, close_watcher: bool = False) -> None:
        """End the wait for a watcher by an exception."""
        watcher.fail(error)

    def switch(self) -> None:
        """Let other fibers run, until one throws into this one."""
        _fiberrt.park()

    def destroy(self, destroy_loop: bool | None = None) -> None:
        """Forget the hub. The next get_hub() makes another one."""
        if getattr(_own, "hub", None) is self:
            del _own.hub


def forget_hub() -> None:
    """Forget the thread's Hub. In the child of a fork, the main flow is the fiber that called fork()."""
    _own.__dict__.pop("hub", None)


def _threading_main() -> Any:
    import threading

    return threading.main_thread().ident


def get_hub(*args: Any, **kwargs: Any) -> Any:
    """Return the thread's Hub."""
    hub = getattr(_own, "hub", None)
    if hub is None:
        hub = _own.hub = _hub_class()
    return hub


def _get_hub() -> Any:
    return getattr(_own, "hub", None)


_hub_class: Any = Hub


def set_default_hub_class(hub_class: Any) -> None:
    """Let get_hub() make its Hubs of this class."""
    global _hub_class
    _hub_class = hub_class


def get_hub_class() -> Any:
    """Return the class of the Hubs."""
    return _hub_class


get_hub_noargs = get_hub_if_exists = get_hub


def set_hub(hub: Any) -> None:
    """Replace the thread's Hub."""
    _own.hub = hub


def reinit(hub: Any = None) -> None:
    """Called after a fork by programs. libfiberrt does what is needed itself."""


def sleep(seconds: float = 0, ref: bool = True) -> None:
    """Wait so many seconds. 0 or less: let the other fibers that can run do so, once."""
    if seconds <= 0:
        _fiberrt.reschedule()
    else:
        _fiberrt.sleep(seconds)


def idle(priority: int = 0) -> None:
    """Let the other fibers that can run do so, once."""
    _fiberrt.reschedule()


class _Raw(RawGreenlet):
    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        super().__init__(_fiberrt.spawn(self._main, function, args, kwargs))
        _running[self._fiber] = self

    def _main(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except (_fiberrt.CancelledError, GreenletExit):
            pass
        except BaseException as error:
            get_hub().handle_error(self, type(error), error, error.__traceback__)
        finally:
            del _running[_fiberrt.current()]

    _fiberrt.calls_argument(_main, 0)

    def _throw(self, exception: BaseException) -> None:
        if self._fiber.state == "new":  # it never runs
            _running.pop(self._fiber, None)
            self._fiber.cancel()
        else:
            super()._throw(exception)


def spawn_raw(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a function in a new fiber, without a Greenlet's links and result."""
    if not callable(function):
        raise TypeError("function must be callable")
    return _Raw(function, args, kwargs)


def kill(greenlet: Any, exception: Any = GreenletExit) -> None:
    """Raise an exception in a greenlet, without waiting for its end. It is raised when the caller waits."""
    if greenlet is getcurrent():
        raise made(exception)
    if not greenlet.dead:
        greenlet.throw(exception)


class signal:
    """Call handler(*args, **kwargs) in a new greenlet for each signal of that number. cancel() restores the earlier
    handler. Call it in the main thread."""

    ref = False

    def __init__(self, signalnum: int, handler: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        from ... import signal as own

        if not callable(handler):
            raise TypeError("signal handler must be callable.")
        self.args, self.kwargs, self.handler = args, kwargs, handler
        self._number = signalnum
        self._before = own.signal(signalnum, self._came)

    def _came(self, number: int, frame: Any) -> None:
        if self.handler is not None:
            spawn_raw(self.handle)

    def handle(self) -> None:
        """Called in a greenlet for each signal. An exception of the handler is raised in the main flow."""
        try:
            self.handler(*self.args, **self.kwargs)
        except GreenletExit:
            pass
        except Exception as error:
            get_hub().handle_error(None, type(error), error, error.__traceback__)

    def cancel(self) -> None:
        """Restore the earlier handler."""
        from ... import signal as own

        if _signals.getsignal(self._number) == self._came:
            own.signal(self._number, self._before if self._before is not None else _signals.SIG_DFL)


class Waiter:
    """One greenlet calls get() and waits until another one calls switch(value) or throw(exception), once, before or
    after."""

    def __init__(self, hub: Any = None) -> None:
        self.hub = hub or get_hub()
        self.clear()

    def clear(self) -> None:
        """Make the Waiter new."""
        self._event = _fiberrt.Event()
        self.value: Any = None
        self._error: BaseException | None = None
        self.greenlet: Any = None

    def ready(self) -> bool:
        """Whether switch() or throw() has been called."""
        return bool(self._event.is_set())

    def successful(self) -> bool:
        """Whether switch() has been called."""
        return self.ready() and self._error is None

    @property
    def exc_info(self) -> Any:
        """The arguments of throw(), or None."""
        return None if self._error is None else (type(self._error), self._error, self._error.__traceback__)

    def switch(self, value: Any = None) -> None:
        """Let get() return the value."""
        self.value = value
        self._event.set()

    def switch_args(self, *args: Any) -> None:
        """Let get() return the arguments."""
        self.switch(args)

    __call__ = switch

    def throw(self, *args: Any) -> None:
        """Let get() raise the exception."""
        self._error = made(*args)
        self._event.set()

    def get(self) -> Any:
        """Wait for switch() or throw()."""
        if self.greenlet is not None:
            raise AssertionError(f"This Waiter is already used by {self.greenlet!r}")
        self.greenlet = getcurrent()
        try:
            self._event.wait()
        finally:
            self.greenlet = None
        if self._error is not None:
            raise self._error
        return self.value
