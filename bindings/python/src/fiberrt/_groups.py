# SPDX-License-Identifier: MIT OR Apache-2.0
"""Groups of fibers that end together."""

from __future__ import annotations

from . import _fiberrt
from ._fiberrt import CancelledError, Fiber
from ._scopes import shield

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")


class _Status:
    """What TaskGroup.start() gives to the function that it calls."""

    __slots__ = ("_known", "_started", "_value")

    def __init__(self) -> None:
        self._known = _fiberrt.Event()
        self._started = False
        self._value: Any = None

    def started(self, value: Any = None) -> None:
        """Let start() return the value. RuntimeError: it has been called before."""
        if self._started:
            raise RuntimeError("started() has been called before")
        self._started = True
        self._value = value
        self._known.set()

    def _ended(self, fiber: Fiber[Any]) -> None:
        self._known.set()


class TaskGroup:
    """A group of fibers that have all ended when the ``with`` block ends.

        with TaskGroup() as group:
            group.spawn(fetch, "a")
            group.spawn(fetch, "b")

    If one of them or the block itself fails, the others are cancelled. At its end, the block raises an ExceptionGroup
    of all failures.
    """

    __slots__ = ("_fibers", "_errors", "_scope", "_owner", "_failed")

    def __init__(self) -> None:
        self._fibers: dict[Fiber[Any], None] = {}
        self._errors: list[BaseException] = []
        self._scope = 0
        self._owner: Fiber[Any] | None = None
        self._failed = False

    def __enter__(self) -> TaskGroup:
        if self._owner is not None:
            raise RuntimeError("a TaskGroup is entered once")
        self._owner = _fiberrt.current()
        self._scope = _fiberrt.scope_open()
        return self

    def spawn(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Fiber[T]:
        """Spawn a fiber of the group. The block and the fibers of the group may call this."""
        if not self._scope:
            raise RuntimeError("the TaskGroup is not open")
        fiber: Fiber[T] = _fiberrt.spawn(self._run, function, args, kwargs)
        self._fibers[fiber] = None
        if self._failed:
            fiber.cancel()
        return fiber

    def start(self, function: Callable[..., object], /, *args: Any, **kwargs: Any) -> Any:
        """Spawn a fiber of the group that calls function(*args, task_status=status, **kwargs), and wait until it calls
        status.started(value). Return the value. RuntimeError: the function has ended without that."""
        status = _Status()
        fiber = self.spawn(function, *args, task_status=status, **kwargs)
        fiber.add_done_callback(status._ended)
        try:
            status._known.wait()
        except BaseException:
            fiber.cancel()
            raise
        if not status._started:
            raise RuntimeError("the function has ended before it called started()")
        return status._value

    def cancel(self) -> None:
        """Cancel all fibers of the group, and the waits of the block."""
        self._failed = True
        if self._scope:
            _fiberrt.scope_cancel(self._scope)
        for fiber in list(self._fibers):
            fiber.cancel()

    def _run(self, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        try:
            return function(*args, **kwargs)
        except CancelledError:
            raise
        except BaseException as error:
            self._errors.append(error)
            self.cancel()
            raise

    _fiberrt.calls_argument(_run, 0)

    def _wait(self) -> None:
        """Wait until all fibers of the group have ended, including those that they spawn."""
        while self._fibers:
            fiber = next(iter(self._fibers))
            fiber.join()
            self._fibers.pop(fiber, None)

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        interrupted = exception
        if interrupted is None:
            try:
                self._wait()
            except BaseException as error:  # a cancel, a time limit, or a thrown exception
                interrupted = error
        by_own = self._failed  # then the group itself has ended the block's wait
        if interrupted is not None:
            self.cancel()
            with shield():
                self._wait()
        scope, self._scope = self._scope, 0
        _fiberrt.scope_close(scope)
        if isinstance(interrupted, CancelledError):
            # If an outer cancel or time limit came, too, the next wait raises it.
            if not self._errors and (not by_own or _fiberrt.cancel_pending()):
                raise interrupted
        elif isinstance(interrupted, Exception):
            self._errors.insert(0, interrupted)
        elif interrupted is not None:
            raise interrupted  # KeyboardInterrupt, SystemExit
        for failure in self._errors:
            if isinstance(failure, (KeyboardInterrupt, SystemExit)):
                raise failure
        if self._errors:
            try:
                raise BaseExceptionGroup("unhandled errors in a TaskGroup", self._errors) from None
            finally:
                self._errors = []
        return True
