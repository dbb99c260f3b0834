# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.greenlet: a function that runs in a fiber, as an object."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from ... import _fiberrt
from ..._scopes import shield
from ._current import RawGreenlet, _running, getcurrent, made, throw
from ._timers import Timer
from .exceptions import GreenletExit
from .hub import get_hub, wait
from .timeout import Timeout

__all__ = ["Greenlet", "GreenletExit", "Timeout", "getcurrent", "joinall", "killall"]

_NO_ERROR: tuple[Any, ...] = (None, None, None)
_number = count()
_spawn_callbacks: list[Callable[[Any], object]] = []


class Greenlet(RawGreenlet):
    """Greenlet(function, *args, **kwargs), or a subclass with a method _run(*args, **kwargs), which start() runs in a
    fiber.

    An exception of the function is kept for get(), and printed by the hub's handle_error(). GreenletExit, which kill()
    raises, counts as the result instead. SystemExit and KeyboardInterrupt also go to the thread's main flow.
    """

    spawning_stack: Any = None  # not recorded
    spawn_tree_locals: Any = None  # not recorded
    spawning_stack_limit = 0
    _run: Any = None

    def __init__(self, run: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        if run is not None:
            self._run = run
        if not callable(self._run):
            raise TypeError("The run argument or self._run must be callable")
        self.args, self.kwargs = args, kwargs
        self.value: Any = None
        self._exc_info: tuple[Any, ...] = ()
        self._begun = self._ended = False
        self._timer: Timer | None = None  # of start_later()
        self._over: Any = None  # an Event, once there is a waiter
        self._links: list[Callable[[Any], object]] | None = None
        self._spawner = weakref.ref(getcurrent())
        self._number = next(_number)

    # --- What there is to know

    @property
    def spawning_greenlet(self) -> Any:
        """A function that returns the greenlet that made this one, or None if it is gone."""
        return self._spawner

    @property
    def minimal_ident(self) -> int:
        """A number that no other Greenlet has."""
        return self._number

    @property
    def name(self) -> str:
        """The fiber's name, once it is set."""
        return self.__dict__.get("_name") or f"{type(self).__name__}-{self._number}"

    @name.setter
    def name(self, name: str) -> None:
        self.__dict__["_name"] = name
        if self._fiber is not None and not self._ended:
            self._fiber.name = name

    @property
    def loop(self) -> Any:
        """The hub's loop."""
        return get_hub().loop

    @property
    def started(self) -> bool:
        """Whether start() or start_later() has been called, and the Greenlet has not ended."""
        return bool(self)

    def __bool__(self) -> bool:
        return not self._ended and (self._fiber is not None or self._timer is not None)

    @property
    def dead(self) -> bool:
        """Whether the Greenlet has ended."""
        return self._ended

    def ready(self) -> bool:
        """Whether the Greenlet has ended."""
        return self._ended

    def successful(self) -> bool:
        """Whether the Greenlet has returned, or ended by GreenletExit."""
        return self._ended and self._exc_info in ((), _NO_ERROR)

    @property
    def exception(self) -> BaseException | None:
        """The exception that has ended the Greenlet, or None."""
        return self._exc_info[1] if self._exc_info else None

    @property
    def exc_info(self) -> tuple[Any, ...]:
        """The exception's type, the exception and its traceback; or () or three None if there is none."""
        return self._exc_info

    def has_links(self) -> int:
        """The number of callbacks."""
        return len(self._links or ())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} at {id(self):#x}{self._described()}>"

    def _described(self) -> str:
        run = self.__dict__.get("_run")
        text = "_run" if run is None else getattr(run, "__name__", None) or repr(run)
        if self._ended and "_run" not in self.__dict__:
            return ""
        owner = getattr(run, "__self__", None)
        if owner is not None and not hasattr(owner, "__file__"):
            text = f"<bound method {text} of {type(owner).__name__}>"
        shown = [repr(each)[:50] for each in self.args] + [f"{k}={v!r}"[:50] for k, v in self.kwargs.items()]
        return f": {text}({', '.join(shown)})" if shown else f": {text}"

    # --- Its beginning

    @classmethod
    def spawn(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a Greenlet, and start it."""
        greenlet = cls(*args, **kwargs)
        greenlet.start()
        return greenlet

    @classmethod
    def spawn_later(cls, seconds: float, *args: Any, **kwargs: Any) -> Any:
        """Make a Greenlet that starts after so many seconds."""
        greenlet = cls(*args, **kwargs)
        greenlet.start_later(seconds)
        return greenlet

    def start(self) -> None:
        """Let the function run when the calling fiber waits. It does nothing if the Greenlet was started or killed."""
        if self._timer is None and self._fiber is None and not self._ended:
            self._start()

    def start_later(self, seconds: float) -> None:
        """Start after so many seconds."""
        if self._timer is None and self._fiber is None and not self._ended:
            self._timer = Timer(seconds, self._start)

    def _start(self) -> None:
        self._timer = None
        self._fiber = _fiberrt.spawn(self._main)
        self._fiber.name = self.name
        for callback in _spawn_callbacks:
            callback(self)

    @staticmethod
    def add_spawn_callback(callback: Callable[[Any], object]) -> None:
        """Call callback(greenlet) for each Greenlet that starts."""
        _spawn_callbacks.append(callback)

    @staticmethod
    def remove_spawn_callback(callback: Callable[[Any], object]) -> None:
        """Undo add_spawn_callback()."""
        if callback in _spawn_callbacks:
            _spawn_callbacks.remove(callback)

    # --- Its run and end

    def _main(self) -> None:
        if self._ended:
            return
        fiber = _fiberrt.current()
        _running[fiber] = self
        self._begun = True
        try:
            try:
                self.run()
            finally:
                del _running[fiber]
        except _fiberrt.CancelledError:  # the program or its thread ends
            self._end(GreenletExit())

    def run(self) -> None:
        """Call the function, and keep its result or exception. Called in the Greenlet's fiber."""
        try:
            result = self._run(*self.args, **self.kwargs)
        except _fiberrt.CancelledError:
            raise
        except GreenletExit as exit:
            self._end(exit)
        except BaseException as error:
            self._end(None, error)
        else:
            self._end(result)

    def _end(self, value: Any, error: BaseException | None = None) -> None:
        if self._ended:
            return
        self._ended = True
        self.value = value
        self._exc_info = _NO_ERROR if error is None else (type(error), error, error.__traceback__)
        self.__dict__.pop("_run", None)
        self.args, self.kwargs = (), {}
        with shield():
            if error is not None:
                get_hub().handle_error(self, *self._exc_info)
            self._call_links()
        if self._over is not None:
            self._over.set()

    def _call_links(self) -> None:
        """Call the callbacks, in the ending fiber, which then counts as the hub."""
        links, self._links = self._links, None
        if not links:
            return
        hub, fiber = get_hub(), _fiberrt.current()
        before = _running.get(fiber)
        _running[fiber] = hub
        for link in links:
            try:
                link(self)
            except BaseException as error:
                hub.handle_error((link, self), type(error), error, error.__traceback__)
        if before is not None:
            _running[fiber] = before
        else:
            del _running[fiber]

    # --- Waiting for its end

    def _wait(self, timeout: float | None) -> bool:
        if self._ended:
            return True
        if self is getcurrent():
            raise AssertionError("a Greenlet cannot wait for its own end")
        if self._over is None:
            self._over = _fiberrt.Event()
        return self._ended or self._over.wait(timeout)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the Greenlet has ended, or the timeout in seconds has passed."""
        self._wait(timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Wait for the end, and return the result or raise the exception. Timeout: it has not ended in time."""
        if not self._ended and not (block and self._wait(timeout)):
            raise Timeout(timeout)
        if self._exc_info and self._exc_info[1] is not None:
            raise self._exc_info[1]
        return self.value

    def throw(self, exception: Any = GreenletExit, value: Any = None, traceback: Any = None) -> None:
        """Raise an exception in the Greenlet, at its present wait or the next."""
        self._throw(made(exception, value, traceback))

    def _throw(self, exception: BaseException) -> None:
        if self._ended:
            return
        if self._begun:
            throw(self._fiber, exception)
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._fiber is None:
            self._fiber = _fiberrt.spawn(int)  # to be not None: start() has no effect
        self._fiber.cancel()
        if isinstance(exception, GreenletExit):
            self._end_in_fiber(exception, None)
        else:
            self._end_in_fiber(None, exception)

    def _end_in_fiber(self, value: Any, error: BaseException | None) -> None:
        """End a Greenlet that has not begun. Callbacks run in a fiber, not in that of kill()."""
        if self._links or error is not None:
            links, self._links = self._links, None

            def call() -> None:
                self._links = links
                self._call_links()

            _fiberrt.spawn(call)
        self._end(value, error)

    def kill(self, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None) -> None:
        """Raise an exception in the Greenlet, and wait until it has ended or the timeout in seconds has passed. A Greenlet
        that has not begun never runs. block=False: do not wait; the exception is raised when the caller waits."""
        if self._ended:
            return
        error = made(exception)
        if self is getcurrent():
            if block:
                raise error
            _fiberrt.spawn(self._throw, error)
            return
        self._throw(error)
        if block:
            self._wait(timeout)

    # --- Callbacks

    def rawlink(self, callback: Callable[[Any], object], /) -> None:
        """Call callback(self) when the Greenlet has ended. The callback should not wait."""
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        if self._links is None:
            self._links = []
        self._links.append(callback)
        if self._ended and len(self._links) == 1:
            _fiberrt.spawn(self._call_links)

    def link(self, callback: Callable[[Any], object], SpawnedLink: Any = None) -> None:
        """Call callback(self) in a new fiber when the Greenlet has ended."""
        self.rawlink((SpawnedLink or _Spawned)(callback))

    def link_value(self, callback: Callable[[Any], object], SpawnedLink: Any = None) -> None:
        """link(), if the Greenlet is successful."""
        self.link(callback, SpawnedLink or _IfSuccessful)

    def link_exception(self, callback: Callable[[Any], object], SpawnedLink: Any = None) -> None:
        """link(), if the Greenlet is not successful."""
        self.link(callback, SpawnedLink or _IfFailed)

    def unlink(self, callback: Callable[[Any], object], /) -> None:
        """Undo one rawlink() or link()."""
        if self._links and callback in self._links:
            self._links.remove(callback)

    def unlink_all(self) -> None:
        """Remove all callbacks."""
        self._links = None


class _Spawned:
    """Calls a callback in a new fiber."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[Any], object]) -> None:
        if not callable(callback):
            raise TypeError(f"Expected callable: {callback!r}")
        self.callback = callback

    def __call__(self, source: Any) -> None:
        from .hub import spawn_raw

        spawn_raw(self.callback, source)

    def __eq__(self, other: object) -> bool:
        return self.callback == getattr(other, "callback", other)

    def __hash__(self) -> int:
        return hash(self.callback)


class _IfSuccessful(_Spawned):
    __slots__ = ()

    def __call__(self, source: Any) -> None:
        if source.successful():
            super().__call__(source)


class _IfFailed(_Spawned):
    __slots__ = ()

    def __call__(self, source: Any) -> None:
        if not source.successful():
            super().__call__(source)


def joinall(
    greenlets: Iterable[Any], timeout: float | None = None, raise_error: bool = False, count: int | None = None
) -> list[Any]:
    """Wait until the greenlets, or `count` of them, have ended, or the timeout in seconds has passed. Return those that
    have. raise_error: raise the exception of the first that fails."""
    if not raise_error:
        return wait(greenlets, timeout, count)
    from .hub import iwait

    done = []
    for greenlet in iwait(greenlets, timeout, count):
        if getattr(greenlet, "exception", None) is not None:
            raise greenlet.exception
        done.append(greenlet)
    return done


def killall(
    greenlets: Iterable[Any], exception: Any = GreenletExit, block: bool = True, timeout: float | None = None
) -> None:
    """Raise an exception in the greenlets, and wait until all have ended. Timeout: they have not ended in time."""
    left = [each for each in greenlets if not each.dead]
    for each in left:
        if isinstance(each, Greenlet):
            if each is getcurrent():
                continue
            each._throw(made(exception))
        else:
            each.throw(exception)
    if block:
        timer = Timeout.start_new(timeout)
        try:
            wait([each for each in left if each is not getcurrent()])
        finally:
            timer.cancel()
    if getcurrent() in left:
        getcurrent().kill(exception, block)
