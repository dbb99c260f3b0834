# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.greenlet: a function that runs in a fiber, as an object."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from types import MethodType, TracebackType
from typing import Any

from ... import _fiberrt
from ..._scopes import shield
from ._current import RawGreenlet, _running, getcurrent, killing, made, throw
from ._links import IfFailed, IfSuccessful, Spawned
from ._loop import watching
from ._timers import Timer, after_fork
from ._waits import joinall, killall
from .exceptions import GreenletExit
from .hub import forget_hub, get_hub
from .timeout import Timeout, within

__all__ = ["Greenlet", "GreenletExit", "Timeout", "getcurrent", "joinall", "killall"]

_number = count()
_spawn_callbacks: list[Callable[[Any], object]] = []


class Greenlet(RawGreenlet):
    """Greenlet(function, *args, **kwargs), or a subclass with a method _run(*args, **kwargs), which start() runs in a
    fiber.

    An exception of the function is kept for get(), and printed by the hub's handle_error(). GreenletExit, which kill()
    raises, counts as the result instead. SystemExit and KeyboardInterrupt also go to the thread's main flow.
    """

    spawning_stack: Any = None  # not recorded
    spawning_stack_limit = 0

    def __init__(self, run: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        if run is not None:
            self._run = run  # type: ignore[method-assign]
        if not callable(self._run):
            raise TypeError("The run argument or self._run must be callable")
        self.args, self.kwargs = args, kwargs
        self.value: Any = None
        self._exc_info: Any = None
        self._begun = self._ended = False
        self._timer: Timer | None = None  # of start_later()
        self._over: Any = None  # an Event, once there is a waiter
        self._links: list[Callable[[Any], object]] | None = None
        spawner = getcurrent()
        self._spawner = weakref.ref(spawner)
        self._number: int | None = None
        self._name: str | None = None
        self._text: str | None = None  # the function and its arguments, when it has ended
        # A dict shared by this Greenlet and all its descendants.
        self.spawn_tree_locals: Any = getattr(spawner, "spawn_tree_locals", None)
        if self.spawn_tree_locals is None:
            self.spawn_tree_locals = {}

    def _run(self) -> Any:
        """Replaced by subclasses, or by the function of __init__()."""

    # --- What there is to know

    @property
    def spawning_greenlet(self) -> Any:
        """A function that returns the greenlet that made this one, or None if it is gone."""
        return self._spawner

    @property
    def minimal_ident(self) -> int:
        """A number that no other Greenlet has."""
        if self._number is None:
            self._number = next(_number)
        return self._number

    @property
    def name(self) -> str:
        """The fiber's name."""
        if self._name is None:
            self._name = f"{type(self).__name__}-{self.minimal_ident}"
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name
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
        return self._ended and not self._exc_info

    @property
    def exception(self) -> BaseException | None:
        """The exception that has ended the Greenlet, or None."""
        return self._exc_info[1] if self._exc_info else None

    @property
    def exc_info(self) -> tuple[Any, ...] | None:
        """The exception's type, the exception and its traceback, or None if there is none."""
        return self._exc_info

    def has_links(self) -> int:
        """The number of callbacks."""
        return len(self._links or ())

    def __repr__(self) -> str:
        name = "" if self._name is None else f' "{self._name}"'
        return f"<{type(self).__name__}{name} at {id(self):#x}: {self._text or self._described()}>"

    def _described(self) -> str:
        run = self.__dict__.get("_run")
        text = "_run" if run is None else getattr(run, "__name__", None) or repr(run)
        owner = getattr(run, "__self__", None)
        if owner is not None and isinstance(run, MethodType):
            text = f"<bound method {type(owner).__name__}.{text} of {owner!r}>"
        shown = [repr(each)[:50] for each in self.args] + [f"{k}={v!r}"[:50] for k, v in self.kwargs.items()]
        return f"{text}({', '.join(shown)})" if shown else text

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
        if cls is Greenlet and not args:
            raise TypeError("spawn_later() takes a number of seconds and a function")
        greenlet = cls(*args, **kwargs)
        greenlet.start_later(seconds)
        return greenlet

    def start(self) -> None:
        """Let the function run when the calling fiber waits. It does nothing if the Greenlet was started or killed."""
        if self._timer is None and self._fiber is None and not self._ended:
            self._start()
            self._tell_spawned()

    def start_later(self, seconds: float) -> None:
        """Start after so many seconds."""
        if self._timer is None and self._fiber is None and not self._ended:
            self._timer = Timer(seconds, self._start)
            self._tell_spawned()

    def _tell_spawned(self) -> None:
        for callback in list(_spawn_callbacks):
            callback(self)

    def _start(self) -> None:
        self._timer = None
        self._fiber = _fiberrt.spawn(self._main, self._run)
        _running[self._fiber] = self
        if self._name is not None:
            self._fiber.name = self._name

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

    def _main(self, function: Callable[..., Any]) -> None:
        self._begun = True
        try:
            try:
                self.run()
            finally:
                del _running[_fiberrt.current()]
        except _fiberrt.CancelledError:  # the program or its thread ends
            self._end(GreenletExit())

    _fiberrt.calls_argument(_main, 0)

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

    def _end(self, value: Any, error: BaseException | None = None, begun: bool = True) -> None:
        if self._ended:
            return
        self._ended = True
        self.value = value
        if error is not None:
            self._exc_info = (type(error), error, error.__traceback__)
        with suppress(Exception):  # of repr()
            self._text = self._described()
        self.__dict__.pop("_run", None)
        self.args, self.kwargs = (), {}
        with shield():
            try:
                if error is not None:
                    get_hub().handle_error(self, *self._exc_info)
            finally:
                if begun:
                    self._call_links()
                elif self._links:
                    _fiberrt.spawn(self._call_links)
                if self._over is not None:
                    self._over.set()

    def _call_links(self) -> None:
        """Call the callbacks in the ending fiber, or in a new one if the Greenlet never began. Meanwhile getcurrent()
        returns the hub."""
        if not self._links:
            return
        hub, fiber = get_hub(), _fiberrt.current()
        before = _running.get(fiber)
        _running[fiber] = hub
        while self._links:  # a callback may remove others
            link = self._links.pop(0)
            try:
                link(self)
            except BaseException as error:
                hub.handle_error((link, self), type(error), error, error.__traceback__)
        if before is not None:
            _running[fiber] = before
        else:
            del _running[fiber]

    # --- Waiting for its end

    def _wait(self, timeout: Any) -> bool:
        if self._ended:
            return True
        if self is getcurrent():
            raise AssertionError("a Greenlet cannot wait for its own end")
        if self._over is None:
            self._over = _fiberrt.Event()
        return self._ended or bool(within(timeout, self._over.wait))

    def join(self, timeout: Any = None) -> None:
        """Wait until the Greenlet has ended, or the timeout in seconds has passed."""
        try:
            self._wait(timeout)
        except Timeout as error:
            if error is not timeout:
                raise

    def get(self, block: bool = True, timeout: Any = None) -> Any:
        """Wait for the end, and return the result or raise the exception. Timeout: it has not ended in time."""
        if not self._ended and not (block and self._wait(timeout)):
            raise Timeout(timeout)
        if self._exc_info:
            raise self._exc_info[1].with_traceback(self._exc_info[2])
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
        if self._fiber is not None:
            self._fiber.cancel()
            _running.pop(self._fiber, None)
        if isinstance(exception, GreenletExit):
            self._end(exception, None, begun=False)
        else:
            self._end(None, exception, begun=False)

    def kill(self, exception: Any = GreenletExit, block: bool = True, timeout: float | None = None) -> None:
        """Raise an exception in the Greenlet, and wait until it has ended or the timeout in seconds has passed. A
        Greenlet that has not begun never runs. block=False: do not wait; the exception is raised when the caller
        waits."""
        if self._ended:
            return
        error = killing(exception)
        if self is getcurrent():
            if block:
                raise error
            _fiberrt.spawn(self._throw, error)
            return
        self._throw(error)
        if block:
            self.join(timeout)

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for the end. An exception of the with block ends the Greenlet."""
        if exception is not None:
            with suppress(Exception):  # of a subclass
                self.kill(exception)
            return
        try:
            self.join()
        except BaseException as error:
            self.kill(error)
            raise

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
        self.rawlink((SpawnedLink or Spawned)(callback))

    def link_value(self, callback: Callable[[Any], object], SpawnedLink: Any = None) -> None:
        """link(), if the Greenlet is successful."""
        self.link(callback, SpawnedLink or IfSuccessful)

    def link_exception(self, callback: Callable[[Any], object], SpawnedLink: Any = None) -> None:
        """link(), if the Greenlet is not successful."""
        self.link(callback, SpawnedLink or IfFailed)

    def unlink(self, callback: Callable[[Any], object], /) -> None:
        """Undo one rawlink() or link()."""
        if self._links and callback in self._links:
            self._links.remove(callback)

    def unlink_all(self) -> None:
        """Remove all callbacks."""
        self._links = None


def _at_exit() -> None:
    """As with gevent, the greenlets of all threads that live at the end of the program run no further."""
    for fiber in _running:
        _fiberrt.abandon(fiber)


def _after_fork() -> None:
    """In the child, only the fiber that called fork() continues. The other Greenlets end as if killed."""
    forget_hub()
    if not _running and not watching:
        after_fork()
        return
    me = _fiberrt.current()
    lost = [(fiber, greenlet) for fiber, greenlet in _running.items() if fiber is not me]
    watching.intersection_update((me,))
    for fiber, _ in lost:
        del _running[fiber]
    for _, greenlet in lost:
        if isinstance(greenlet, Greenlet):
            greenlet._end(GreenletExit(), None, begun=False)
    after_fork()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
