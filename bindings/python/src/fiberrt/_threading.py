# SPDX-License-Identifier: MIT OR Apache-2.0
"""The parts that fiberrt.monkey puts into the module threading, so that a Thread is a fiber of the thread that starts
it.

threading's own Python code stays and does most of the work. It gets other locks, other identifiers, and another way to
start a thread and to wait for its end: a lock until Python 3.12, a handle since 3.13.
"""

from __future__ import annotations

import _thread
import contextvars
import os
import signal
import sys
import threading
from collections.abc import Callable
from operator import index
from time import monotonic
from types import FrameType
from typing import Any

from . import _fiberrt
from ._condition import Condition
from ._fiberrt import BoundedSemaphore, CancelledError, Event, Fiber, Lock, RLock, Semaphore, ident, offload_detached
from ._local import local

_threading: Any = threading
# The attribute of a Thread that holds its handle, since Python 3.13.
_handle = "_os_thread_handle" if hasattr(_threading._main_thread, "_os_thread_handle") else "_handle"
_VARARGS = 0x04  # inspect.CO_VARARGS: inspect takes long to import
_least_stack = 256 * 1024
_default_stack = _fiberrt.stack_size()
_stack = 0
# The fibers that are Threads, by the Thread's identifier: the fiber, and its handle if the exit must wait for it, or
# None.
_running: dict[int, tuple[Fiber[Any], Any]] = {}
# Its attribute `threads` is set in a thread whose Threads must be real threads.
_real = _thread._local()
# Keeps, for each fiber, the Dummy that current_thread() has made for it.
_dummies = local()


class _End:
    """The end of a Thread. First its function ends, which tell() reports; then its fiber, after finalizers of its
    locals."""

    def __init__(self) -> None:
        self._told = Event()
        self._fiber: Fiber[Any] | None = None

    def tell(self, fiber: Fiber[Any] | None = None) -> None:
        self._fiber = fiber
        self._told.set()

    def has_come(self) -> bool:
        fiber = self._fiber
        return self._told._flag and (fiber is None or fiber.done)

    def wait(self, timeout: float | None) -> bool:
        if timeout == 0:
            _fiberrt.poll_turn()
            return self.has_come()  # the caller may be one of these finalizers
        until = None if timeout is None else monotonic() + timeout
        if not self._told.wait(timeout):
            return False
        left = None if until is None else max(until - monotonic(), 0)
        return self._fiber is None or self._fiber.join(left)


class Handle:
    """The object that a Thread's join() waits for, since Python 3.13."""

    def __init__(self, number: int | None = None, real: Any = None) -> None:
        self.ident = number
        self._end = _End()
        self._real = real  # the handle of a real thread, whose join() blocks the caller's thread

    def is_done(self) -> bool:
        _fiberrt.poll_turn()
        return self._end.has_come() or (self._real is not None and bool(self._real.is_done()))

    def _set_done(self, fiber: Fiber[Any] | None = None) -> None:
        self._end.tell(fiber)

    def join(self, timeout: float | None = None) -> None:
        _fiberrt.raise_thrown()
        if self.is_done():
            return
        if self._real is not None:
            offload_detached(self._real.join, timeout)
        else:
            self._end.wait(timeout)


class Sentinel:
    """The lock that a Thread holds while it lives, until Python 3.12. A later acquire() only waits for the Thread's
    end."""

    def __init__(self) -> None:
        self._begun = False
        self._end = _End()
        self._end.tell()

    def acquire(self, block: bool = True, timeout: float = -1) -> bool:
        if not self._begun:
            self._begun = True
            self._end = _End()
            return True
        return self._end.wait((None if timeout == -1 else timeout) if block else 0)

    def release(self) -> None:
        if not self._end.has_come():
            self._end.tell()

    def _set_done(self, fiber: Fiber[Any] | None = None) -> None:
        self._end.tell(fiber)

    def locked(self) -> bool:
        return not self._end.has_come()

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]


def _main_flow() -> Fiber[Any] | None:
    """Return the main flow of the main thread if another fiber of that thread calls; else None."""
    here = _thread.get_ident()
    if here != _threading._main_thread._ident:
        return None
    first = next((fiber for fiber in _fiberrt.fibers() if _fiberrt.thread_of(fiber) == here), None)
    return None if first is _fiberrt.current() else first


def _is_of_handler(error: BaseException | None) -> bool:
    """Whether a signal's handler has raised the exception. The interpreter calls a handler with a number and the
    interrupted frame, which in the traceback is the frame before the handler's."""
    at = error.__traceback__ if error is not None else None
    before: FrameType | None = None
    while at is not None:
        frame, code = at.tb_frame, at.tb_frame.f_code
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & _VARARGS)
        values: list[Any] = []
        for name in code.co_varnames[:count] if before is not None else ():
            value = frame.f_locals.get(name)
            values.extend(value if isinstance(value, tuple) else (value,))
        if any(value is before and isinstance(number, int) for number, value in zip(values, values[1:])):
            return True
        before, at = frame, at.tb_next
    return False


def _reporting(invoke: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap a Thread's report of the exception that ends it. A cancel is not reported. A KeyboardInterrupt, and an
    exception of a signal's handler, go to the main flow instead."""

    def report(thread: Any) -> None:
        error = sys.exc_info()[1]
        for_main = isinstance(error, KeyboardInterrupt) or _is_of_handler(error)
        main = _main_flow() if for_main else None
        if main is not None and error is not None:
            main.throw(error)
        elif not isinstance(error, CancelledError):
            invoke(thread)

    return report


def _run(thread: Any, bootstrap: Callable[[], None], handle: Handle | None) -> None:
    number = ident()
    own_thread = number == _thread.get_ident()  # a real thread: waiters cannot join a fiber
    _running[number] = (_fiberrt.current(), None if thread is None or thread.daemon else handle)
    if thread is not None:
        thread._invoke_excepthook = _reporting(thread._invoke_excepthook)
    if handle is not None:
        handle.ident = number
    try:
        contextvars.Context().run(bootstrap)  # a thread begins with an empty context
    finally:
        _running.pop(number, None)
        end = getattr(thread, "_tstate_lock", None) if handle is None else handle
        if end is not None:
            end._set_done(None if own_thread else _fiberrt.current())


def _run_on_thread(thread: Any, bootstrap: Callable[[], None], handle: Handle | None) -> None:
    _real.threads = True
    _run(thread, bootstrap, handle)


def _start(bootstrap: Callable[[], None], handle: Handle | None) -> None:
    """Start a Thread as a fiber. On a thread of to_thread() or offload(), which may end before the fiber, start a real
    thread."""
    thread: Any = getattr(bootstrap, "__self__", None)
    if _fiberrt.on_helper() or getattr(_real, "threads", False):
        _thread.start_new_thread(_run_on_thread, (thread, bootstrap, handle))
        return
    try:
        fiber = _fiberrt.spawn(_run, thread, bootstrap, handle)
    except MemoryError as error:
        raise RuntimeError("can't start new thread") from error
    if thread is not None:
        fiber.name = thread.name


def start_new_thread(bootstrap: Callable[[], None], args: tuple[()] = ()) -> None:
    """The function of threading that starts a thread, until Python 3.12."""
    _start(bootstrap, None)


def start_joinable_thread(bootstrap: Callable[[], None], handle: Any = None, daemon: bool = True) -> Any:
    """The function of threading that starts a thread, since Python 3.13."""
    if not isinstance(handle, Handle):
        handle = Handle()
        thread: Any = getattr(bootstrap, "__self__", None)
        if thread is not None:  # the Thread was made before patch()
            setattr(thread, _handle, handle)
    _start(bootstrap, handle)
    return handle


def _wait_for_tstate_lock(self: Any, block: bool = True, timeout: float = -1) -> None:
    """The method of Thread that waits for its end, until Python 3.12. An exception in the wait does not end the
    thread."""
    if block:
        _fiberrt.raise_thrown()
    sentinel = self._tstate_lock
    if sentinel is None:
        return
    if isinstance(sentinel, Sentinel) or not block:
        ended = sentinel.acquire(block, timeout)
    else:
        ended = offload_detached(sentinel.acquire, block, timeout)
    if ended:
        sentinel.release()
        self._stop()


class _Forget:
    """Removes a Dummy from threading's list when its fiber is freed."""

    def __init__(self, dummy: Any) -> None:
        self._dummy = dummy

    def __del__(self) -> None:
        active = _threading._active
        if active is not None and active.get(self._dummy._ident) is self._dummy:
            del active[self._dummy._ident]


_threading_forgets_none = not hasattr(_threading, "_ThreadHandle")  # until Python 3.12
_first_dummy_init = _threading._DummyThread.__init__


def _dummy_init(self: Any) -> None:
    _first_dummy_init(self)
    if _fiberrt.on_helper():
        self._daemonic = False  # so that Threads started by its function are not daemons
    if _threading_forgets_none and ident() != _thread.get_ident():
        _dummies.forget = _Forget(self)


def _shutdown_real() -> None:
    """threading's _thread_shutdown, since Python 3.13: wait for all Threads that are not daemons, then for real
    threads."""
    while True:
        left = [handle for _, handle in _running.values() if handle is not None and handle.ident != ident()]
        if not left:
            break
        for handle in left:
            handle.join()
    _thread._shutdown()  # type: ignore[attr-defined]


def _forked() -> None:
    """In the child of a fork, mark all Threads except the calling one as ended."""
    here = ident()
    for number, (_, handle) in list(_running.items()):
        if number != here:
            del _running[number]
            if handle is not None:
                handle._set_done()


def stack_size(size: int = 0, /) -> int:
    """threading.stack_size() for fibers, whose stacks have at least 256 KiB."""
    global _stack
    size = index(size)
    if size != 0 and size < 32 * 1024:
        raise ValueError(f"size not valid: {size} bytes")
    _fiberrt.stack_size(max(size, _least_stack) if size else _default_stack)
    before, _stack = _stack, size
    return before


_real_pthread_kill = signal.pthread_kill


def pthread_kill(thread_id: int, signalnum: int, /) -> None:
    """signal.pthread_kill() for Threads that are fibers: the fiber's thread gets the signal. (The standard library's
    function crashes with the identifier of a fiber.)"""
    if thread_id in _running:
        thread_id = _fiberrt.thread_of(_running[thread_id][0]) or 0
    elif 0 <= thread_id < 1 << 32:  # not the identifier of a thread
        raise ProcessLookupError(3, "No such process")
    _real_pthread_kill(thread_id, signalnum)


_enumerate = _threading.enumerate
_active_count = _threading.active_count


def enumerate() -> list[threading.Thread]:
    """threading.enumerate()"""
    _fiberrt.poll_turn()
    return _enumerate()  # type: ignore[no-any-return]


def active_count() -> int:
    """threading.active_count()"""
    _fiberrt.poll_turn()
    return _active_count()  # type: ignore[no-any-return]


REPLACED: dict[str, Any] = {
    "BoundedSemaphore": BoundedSemaphore,
    "Condition": Condition,
    "Event": Event,
    "Lock": Lock,
    "RLock": RLock,
    "Semaphore": Semaphore,
    "_CRLock": RLock,
    "_allocate_lock": Lock,
    "active_count": active_count,
    "enumerate": enumerate,
    "get_ident": ident,
    "local": local,
    "stack_size": stack_size,
}


def _is_held(lock: Any) -> bool:
    """Whether an RLock is held."""
    if lock._is_owned() or not lock.acquire(False):
        return True
    lock.release()
    return False


def sweep(instead: dict[int, Any]) -> None:
    """Update all imported modules: names of replaced objects (`instead`, by their id) get the replacement, and locks
    that are not held become locks of fibers."""
    plain, recursive = type(_thread.allocate_lock()), type(_thread.RLock())
    for name, module in list(sys.modules.items()):
        if module is None or name == "_thread" or name.split(".")[0] in ("fiberrt", "_frozen_importlib", "importlib"):
            continue
        try:
            names = vars(module)
        except TypeError:
            continue
        if not isinstance(names, dict):  # a program may put any object into sys.modules
            continue
        for key, value in list(names.items()):
            if id(value) in instead:
                names[key] = instead[id(value)]
            elif type(value) is plain and not value.locked():
                names[key] = Lock()
            elif type(value) is recursive and not _is_held(value):
                names[key] = RLock()
    logging: Any = sys.modules.get("logging")
    for reference in list(logging._handlerList) if logging is not None else ():
        handler = reference()
        if handler is not None and type(handler.lock) is recursive and not _is_held(handler.lock):
            handler.lock = RLock()


def patch() -> dict[int, Any]:
    """Replace the parts of threading. Return the replacements, by the ids of the replaced objects."""
    instead: dict[int, Any] = {id(_thread.allocate_lock): Lock, id(_thread.RLock): RLock}
    for name, value in REPLACED.items():
        first = getattr(_threading, name)
        if first is not None:
            instead[id(first)] = value
    instead[id(_thread.get_ident)] = ident
    _threading._DummyThread.__init__ = _dummy_init
    threads = _threading._enumerate()
    for name, value in REPLACED.items():
        setattr(_threading, name, value)
    if hasattr(_threading, "_ThreadHandle"):
        _threading._start_joinable_thread = start_joinable_thread
        _threading._ThreadHandle = Handle
        _threading._make_thread_handle = Handle
        _threading._thread_shutdown = _shutdown_real
        _threading._thread_local_info = local()
        _threading._get_main_thread_ident = ident  # called in the child of a fork
        for thread in threads:
            first = getattr(thread, _handle)
            if thread is not _threading._main_thread:
                setattr(thread, _handle, Handle(thread._ident, first))
            elif not first.is_done():
                setattr(thread, _handle, Handle(thread._ident))
    else:
        _threading._start_new_thread = start_new_thread
        _threading._set_sentinel = Sentinel
        _threading.Thread._wait_for_tstate_lock = _wait_for_tstate_lock
        main = _threading._main_thread
        if main._tstate_lock is not None:
            first, own = main._tstate_lock, Sentinel()
            own.acquire()
            main._tstate_lock = own
            _threading._shutdown_locks.discard(first)
            _threading._shutdown_locks.add(own)
    signal.pthread_kill = pthread_kill
    os.register_at_fork(after_in_child=_forked)
    return instead
