# SPDX-License-Identifier: MIT OR Apache-2.0
"""Buffered files for pipes and sockets that wait as fibers do. Fibers that use a file at the same time take turns.

The standard library's buffered files have locks of the thread: such a lock refuses a second fiber of the same thread
("reentrant call"), and makes a fiber of another thread block its thread. These files use locks of fibers. A call from
within the fiber's own call, as by a signal handler, is still refused. A reader and a writer of one file do not wait for
each other.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from . import _fiberrt


def _alone(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that holds the lock with that name during the call."""

    def call(self: Any, *args: Any) -> Any:
        with getattr(self, name):
            return method(self, *args)

    call.__name__ = method.__name__
    call.__qualname__ = getattr(method, "__qualname__", method.__name__)
    call.__doc__ = method.__doc__
    return call


def _guard(kind: type, lock: str, *names: str) -> None:
    for name in names:
        setattr(kind, name, _alone(lock, getattr(kind, name)))


class BufferedReader(io.BufferedReader):
    """io.BufferedReader for several fibers."""

    def __init__(self, raw: Any, buffer_size: int = io.DEFAULT_BUFFER_SIZE) -> None:
        self._reading = _fiberrt.RLock()
        super().__init__(raw, buffer_size)


class BufferedWriter(io.BufferedWriter):
    """io.BufferedWriter for several fibers."""

    def __init__(self, raw: Any, buffer_size: int = io.DEFAULT_BUFFER_SIZE) -> None:
        self._writing = _fiberrt.RLock()
        super().__init__(raw, buffer_size)


class BufferedRWPair(io.BufferedRWPair):
    """io.BufferedRWPair for several fibers: one may read while another writes."""

    def __init__(self, reader: Any, writer: Any, buffer_size: int = io.DEFAULT_BUFFER_SIZE) -> None:
        self._reading = _fiberrt.RLock()
        self._writing = _fiberrt.RLock()
        super().__init__(reader, writer, buffer_size)

    def close(self) -> None:
        with self._writing, self._reading:
            super().close()


class TextIOWrapper(io.TextIOWrapper):
    """io.TextIOWrapper for several fibers: one may read while another writes."""

    def __init__(self, buffer: Any, *args: Any, **options: Any) -> None:
        self._reading = _fiberrt.RLock()
        self._writing = _fiberrt.RLock()
        super().__init__(buffer, *args, **options)


_IN = ("read", "read1", "readinto", "readinto1", "peek", "readline")
_guard(BufferedReader, "_reading", *_IN, "close", "detach")
_guard(BufferedWriter, "_writing", "write", "flush", "close", "detach")
_guard(BufferedRWPair, "_reading", *_IN)
_guard(BufferedRWPair, "_writing", "write", "flush")
_guard(TextIOWrapper, "_reading", "read", "readline")
_guard(TextIOWrapper, "_writing", "write", "flush")
