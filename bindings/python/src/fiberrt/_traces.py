# SPDX-License-Identifier: MIT OR Apache-2.0
"""Traces, which Perfetto shows, and the slices and counters that a program adds to them."""

from __future__ import annotations

import os

from . import _fiberrt
from ._fiberrt import trace_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from _typeshed import StrPath

__all__ = ["trace", "trace_counter", "trace_slice"]


class trace:
    """Write a trace of all threads to a file: when each fiber ran and waited, why it waited, and which fiber woke it.

        with fiberrt.trace("requests.pftrace"):
            serve_some_requests()

    https://ui.perfetto.dev shows it; docs/tracing.md of the C library describes it. FIBERRT_TRACE=FILE in the
    environment traces the whole run of a program. During a trace, fibers that the program has not named have the names
    of their functions: the present fibers of the calling thread, and all fibers that are spawned later.

    path: the file, which is created, or emptied. "%p" in it becomes the number of the process, and "%%" a single "%".
    An int is a descriptor, of a file, a pipe or a socket. places: also show where in Python code each fiber waited, or
    let others run: a slice "function (file:line)" on the track below the fiber's. It names the innermost function
    outside this package. ring_events: for how many events each thread has memory, of 32 bytes each; 0: 65,536. If a
    thread's memory is full, events are dropped, and the trace shows how many.

    Without `with`, call start() and stop(). There is one trace at a time, and none in the child of a fork: there, the
    end of the block does nothing.
    """

    def __init__(self, path: StrPath | bytes | int, *, places: bool = False, ring_events: int = 0) -> None:
        self._options = (path, ring_events, places)
        self._process = 0

    def start(self) -> None:
        """Start the trace. Other threads follow at their next wait. Blocks the thread while the file is opened: a named
        pipe until it has a reader.

        RuntimeError: there is a trace already. OSError: the file cannot be opened, or no thread can be made.
        ValueError: ring_events is neither 0 nor from 64 to 16,777,216, or the path has a null byte. MemoryError.
        """
        _fiberrt.trace_start(*self._options)
        self._process = os.getpid()

    def stop(self) -> None:
        """Stop the trace, and complete the file. Blocks the thread meanwhile.

        RuntimeError: there is no trace. OSError: the file could not be written, so the trace ended early; or
        (ETIMEDOUT) a pipe's reader did not read for two seconds.
        """
        _fiberrt.trace_stop()

    @staticmethod
    def stats() -> dict[str, int]:
        """Return the figures of the present trace, or of the last one: a dict with "events" and "bytes", which have
        been written, "dropped", "error", the errno that has ended the trace, or 0, and "running"."""
        return _fiberrt.trace_stats()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process == os.getpid():  # the child of a fork has no trace
            self.stop()


class trace_slice:
    """Show the block of a `with` statement in the trace, if there is one, as a slice of the calling fiber.

        with fiberrt.trace_slice("ask the database"):
            rows = connection.execute(query)

    name: a str; the library keeps 255 bytes of it, as UTF-8. Slices may lie within each other, and waits within them.
    The same fiber must enter and leave the block, so do not put a `yield` into it if another fiber may go on there.

    TypeError: name is no str. UnicodeEncodeError: it has a surrogate.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        _fiberrt.trace_begin(self._name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _fiberrt.trace_end()
