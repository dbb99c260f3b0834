# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reports fibers that run for long without a wait, so that the other fibers of the thread cannot run. A separate thread
checks now and then."""

from __future__ import annotations

import _thread
import os
import sys
from time import monotonic

from . import _fiberrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Turn = tuple[_fiberrt.Fiber[Any], int]


class _Watch:
    def __init__(self, after: float) -> None:
        self.after = after
        self.stopped = _thread.allocate_lock()  # the watcher ends when it is released
        self.stopped.acquire()
        self.begin()

    def begin(self) -> None:
        _thread.start_new_thread(self.run, ())

    def run(self) -> None:
        since: dict[Turn, float] = {}  # when each turn in progress was first seen; -1: reported
        while not self.stopped.acquire(timeout=min(self.after / 2, _thread.TIMEOUT_MAX)):
            now = monotonic()
            since = {turn: since.get(turn, now) for turn in _fiberrt.running()}
            for turn, begun in since.items():
                if begun >= 0 and now - begun >= self.after:
                    since[turn] = -1.0
                    self.report(turn[0])

    def report(self, fiber: _fiberrt.Fiber[Any]) -> None:
        import traceback

        frame = _fiberrt.frame(fiber)
        stack = "".join(traceback.format_stack(frame)) if frame else ""
        try:
            sys.stderr.write(f"fiberrt: {fiber!r} has kept its thread for over {self.after:g} s:\n{stack}")
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):
            pass  # stderr is missing or closed


_watch: _Watch | None = None


def report_blocking(after: float | None = 0.1) -> None:
    """Report each fiber that runs for more than `after` seconds without letting other fibers run, while it still runs.

    A report on sys.stderr shows the stack of the fiber, the innermost call last; each such run is reported once. This
    finds calls that block the thread, such as those of a library that was not written for fibers. The main flow is
    reported, too, while there are other fibers. A call of a library that fiberrt.native has adopted, and that blocks
    because its caller holds the GIL, is reported before it blocks. None turns the reports off.

    They are on from the start, with 0.1 s, under ``python -X dev`` and if the environment has FIBERRT_DEBUG=1.
    Raises ValueError if the time is not positive.
    """
    global _watch
    if after is not None and not after > 0:
        raise ValueError("report_blocking() takes a time above zero")
    if _watch:
        _watch.stopped.release()
    _watch = None if after is None else _Watch(after)
    _fiberrt.native_report(after is not None)


def _begin_again() -> None:
    if _watch:
        _watch.begin()


os.register_at_fork(after_in_child=_begin_again)  # the child has only one thread
