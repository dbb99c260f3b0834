# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fibers: plain functions, not ``async def``, that run concurrently.

    import fiberrt

    fiber = fiberrt.spawn(fetch, url)
    page = fiber.result()

A fiber runs until it waits in one of the functions of this package. The fibers of a thread take turns on that thread.
"""

from __future__ import annotations as _annotations

import atexit as _atexit
import os as _os
import sys as _sys
from importlib import import_module as _import_module

from . import _fiberrt
from ._condition import Condition
from ._dump import dump
from ._fiberrt import (
    BoundedSemaphore,
    CancelledError,
    Channel,
    ChannelClosed,
    Event,
    Fiber,
    LifoQueue,
    Lock,
    Queue,
    RLock,
    Semaphore,
    __version__,
    backend,
    current,
    offload,
    park,
    reschedule,
    select,
    sleep,
    spawn,
    stack_size,
    wait_fd,
)
from ._fiberrt import forked as _forked
from ._fiberrt import shut_down as _shut_down
from ._groups import TaskGroup
from ._local import local
from ._overflows import report_overflows
from ._scopes import CancelScope, fail_after, move_on_after, shield
from ._threads import to_thread

TYPE_CHECKING = False  # not from typing, which takes longer to import than this package
if TYPE_CHECKING:
    from builtins import open
    from typing import Any as _Any

    from ._blocking import report_blocking
    from ._executor import FiberExecutor
    from ._limiter import CapacityLimiter
    from ._queue import PriorityQueue, ShutDown
    from ._times import accounting, thread_times, times, times_by_name
    from ._together import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, as_completed, map, wait
    from ._traces import trace, trace_counter, trace_slice
del TYPE_CHECKING

__all__ = [
    "ALL_COMPLETED",
    "BoundedSemaphore",
    "CancelScope",
    "CancelledError",
    "CapacityLimiter",
    "Channel",
    "ChannelClosed",
    "Condition",
    "Event",
    "FIRST_COMPLETED",
    "FIRST_EXCEPTION",
    "Fiber",
    "FiberExecutor",
    "LifoQueue",
    "Lock",
    "PriorityQueue",
    "Queue",
    "RLock",
    "Semaphore",
    "ShutDown",
    "TaskGroup",
    "accounting",
    "as_completed",
    "backend",
    "current",
    "dump",
    "fail_after",
    "local",
    "map",
    "move_on_after",
    "offload",
    "open",
    "park",
    "report_blocking",
    "report_overflows",
    "reschedule",
    "select",
    "shield",
    "sleep",
    "spawn",
    "stack_size",
    "thread_times",
    "times",
    "times_by_name",
    "to_thread",
    "trace",
    "trace_counter",
    "trace_slice",
    "wait",
    "wait_fd",
]

# Modules that are imported at their first use, and names from such modules.
_modules = frozenset({"aio", "compat", "console", "monkey", "native", "selectors", "server", "signal", "socket", "ssl", "subprocess"})
_optional = frozenset({"wsgi"})  # these need another package, so dir() does not name them
_names = {
    "ALL_COMPLETED": "_together",
    "CapacityLimiter": "_limiter",
    "FIRST_COMPLETED": "_together",
    "FIRST_EXCEPTION": "_together",
    "FiberExecutor": "_executor",
    "PriorityQueue": "_queue",
    "ShutDown": "_queue",
    "accounting": "_times",
    "as_completed": "_together",
    "map": "_together",
    "open": "_files",
    "report_blocking": "_blocking",
    "thread_times": "_times",
    "times": "_times",
    "times_by_name": "_times",
    "trace": "_traces",
    "trace_counter": "_traces",
    "trace_slice": "_traces",
    "wait": "_together",
}


def __getattr__(name: str) -> _Any:
    if name in _modules or name in _optional:
        return _import_module(f"{__name__}.{name}")
    if name in _names:
        value = globals()[name] = getattr(_import_module(f"{__name__}.{_names[name]}"), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules, *_names})


def _at_exit() -> None:
    left = _shut_down(10.0)
    if left:
        print(f"fiberrt: at exit {left} fibers did not end", file=_sys.stderr)


if hasattr(_fiberrt, "setrecursionlimit"):
    _sys.setrecursionlimit = _fiberrt.setrecursionlimit
_atexit.register(_at_exit)
_os.register_at_fork(after_in_child=_forked)
if _sys.flags.dev_mode or _os.environ.get("FIBERRT_DEBUG", "0") not in ("", "0"):
    _import_module(f"{__name__}._blocking").report_blocking()
