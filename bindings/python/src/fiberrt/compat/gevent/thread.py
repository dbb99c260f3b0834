# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.thread: the names of _thread, for fibers."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import Any

from ... import _fiberrt
from ..._fiberrt import Lock, RLock
from ..._fiberrt import ident as get_ident
from .exceptions import GreenletExit
from .greenlet import Greenlet

__all__ = [
    "LockType", "RLock", "TIMEOUT_MAX", "allocate", "allocate_lock", "error", "exit", "exit_thread", "get_ident",
    "get_native_id", "interrupt_main", "stack_size", "start_new", "start_new_thread",
]  # fmt: skip

error = RuntimeError
TIMEOUT_MAX = _thread.TIMEOUT_MAX
allocate = allocate_lock = LockType = Lock
get_native_id, interrupt_main = _thread.get_native_id, _thread.interrupt_main


def start_new_thread(function: Callable[..., Any], args: tuple[Any, ...] = (), kwargs: Any = None) -> int:
    """Run a function in a Greenlet, and return the identifier that get_ident() returns there."""
    if not isinstance(args, tuple):
        raise TypeError("the arguments must be a tuple")
    greenlet = Greenlet.spawn(function, *args, **(kwargs or {}))
    return int(greenlet._fiber.name.removeprefix("fiber-"))  # a fiber without a name is named by its number


start_new = start_new_thread


def exit() -> None:
    """End the calling Greenlet."""
    raise GreenletExit


exit_thread = exit


def stack_size(size: int | None = None) -> int:
    """The size of a new fiber's stack in bytes."""
    return _fiberrt.stack_size(size or 0)
