# SPDX-License-Identifier: MIT OR Apache-2.0
"""FiberExecutor: an Executor of concurrent.futures whose calls run in fibers.

A fiber of the thread that made the executor, the dispatcher, starts the calls. One queue brings it new work, fibers
that have ended, and the shutdown of the executor.
"""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from . import _fiberrt
from ._condition import Condition
from ._fiberrt import CancelledError, Fiber, Queue, spawn
from ._queue import ShutDown
from ._scopes import shield

P = ParamSpec("P")
T = TypeVar("T")


def _without_turns(name: str) -> Callable[[Any], bool]:
    """Return a method of Future as it is without patch()."""
    method = getattr(concurrent.futures.Future, name)
    return getattr(method, "__wrapped__", method)  # type: ignore[no-any-return]


_is_cancelled = _without_turns("cancelled")
_is_done = _without_turns("done")

_Work = tuple["FiberFuture", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class FiberFuture(concurrent.futures.Future[Any]):
    """A Future that fibers of any thread, and threads, can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._condition = Condition()  # type: ignore[assignment]


def _run(future: FiberFuture, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function(*args, **kwargs)
    except CancelledError:
        raise  # the dispatcher reports it
    except (KeyboardInterrupt, SystemExit) as error:
        future.set_exception(error)
        raise  # they are also for the main flow
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


_fiberrt.calls_argument(_run, 1)


def _drop(future: FiberFuture) -> None:
    """Cancel a Future whose call will not run."""
    if future.cancel():
        future.set_running_or_notify_cancel()


class _Dispatcher:
    def __init__(self, inbox: Queue[Any], most: int | None) -> None:
        self.inbox = inbox
        self.most = most
        self.waiting: deque[_Work] = deque()
        self.running: dict[Fiber[Any], FiberFuture] = {}
        self.closing = False

    def run(self) -> None:
        try:
            while not (self.closing and not self.waiting and not self.running):
                self._take(self.inbox.get())
        except BaseException:
            with shield():
                self._abandon()
            raise
        finally:
            self.inbox.shutdown()  # work that has arrived meanwhile is refused
            while self.inbox._count:
                message = self.inbox.get()
                if isinstance(message, tuple):
                    _drop(message[0])

    def _abandon(self) -> None:
        """End the dispatcher, because its thread ends or there is no memory."""
        self.most = 0  # start no more calls
        for fiber in self.running:
            fiber.cancel()
        while self.running:
            while self.waiting:
                _drop(self.waiting.popleft()[0])
            self._take(self.inbox.get())
        while self.waiting:
            _drop(self.waiting.popleft()[0])

    def _take(self, message: Any) -> None:
        if isinstance(message, Fiber):
            self._ended(message)
        elif message is None:
            self.closing = True
        elif message is _Dispatcher:
            while self.waiting:
                _drop(self.waiting.popleft()[0])
        else:
            self.waiting.append(message)
        while self.waiting and (self.most is None or len(self.running) < self.most):
            work = self.waiting[0]  # its Future gets the error if there is no memory for a fiber
            fiber = spawn(_run, *work)
            try:
                _fiberrt.watch(fiber, self.inbox)
            except BaseException:
                fiber.cancel()  # the fiber has not begun
                raise
            self.running[fiber] = self.waiting.popleft()[0]

    def _ended(self, fiber: Fiber[Any]) -> None:
        future = self.running.pop(fiber)
        if _is_done(future):
            return
        error = fiber.exception
        if not future.cancel() and not _is_done(future):  # the call was running
            if error is None or isinstance(error, CancelledError):
                error = concurrent.futures.CancelledError("the fiber was cancelled")
            future.set_exception(error)
        elif _is_cancelled(future):
            future.set_running_or_notify_cancel()


class FiberExecutor(concurrent.futures.Executor):
    """``with FiberExecutor(max_workers=100) as executor: future = executor.submit(fetch, url)``

    Calls run in fibers of the thread that made the executor, at most max_workers at a time; None means any number. Any
    thread may submit work, and any fiber and thread may wait for its Futures. In the executor's thread, use
    fiberrt.wait() and fiberrt.as_completed(), not those of concurrent.futures.
    """

    def __init__(self, max_workers: int | None = None) -> None:
        if max_workers is not None and max_workers < 1:
            raise ValueError("max_workers must be greater than 0")
        self._inbox: Queue[Any] = Queue()
        self._shut_down = False
        self._dispatcher = _Dispatcher(self._inbox, max_workers)
        self._fiber = spawn(self._dispatcher.run)
        self._fiber.name = "FiberExecutor"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> concurrent.futures.Future[T]:
        """Call fn(*args, **kwargs) in a fiber; return its Future. RuntimeError: the executor has been shut down."""
        future = FiberFuture()
        try:
            if self._shut_down or self._fiber.done:
                raise ShutDown
            self._inbox.put((future, fn, args, kwargs))
        except ShutDown:
            raise RuntimeError("cannot schedule new futures after shutdown") from None
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more work, and wait until all submitted calls have ended. With cancel_futures, cancel the calls
        that have not begun.

        RuntimeError: a call that runs in this executor would wait for itself.
        """
        if wait and self._dispatcher.running and _fiberrt.current() in self._dispatcher.running:
            raise RuntimeError("a call of the executor cannot wait for its end")
        self._shut_down = True
        if self._fiber.done:  # the thread or the program ends, when Python cannot import the queue's exception
            return
        try:
            if cancel_futures:
                self._inbox.put(_Dispatcher)
            self._inbox.put(None)
        except ShutDown:
            pass
        if wait:
            self._fiber.join()

    def __del__(self) -> None:
        if not getattr(self, "_shut_down", True):
            self.shutdown(wait=False)
