# SPDX-License-Identifier: MIT OR Apache-2.0
"""Accounting: for how long fibers and threads run and wait."""

from __future__ import annotations

import threading
from typing import NamedTuple

from . import _fiberrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Waits(NamedTuple):
    """For how long a fiber has waited, by the kind of the wait, in seconds.

    Attributes:
        time: sleeps.
        io: for sockets, files, child processes and signals.
        lock: for locks, semaphores, events, conditions and queues, and for the ends of fibers.
        channel: for channels, and in select().
        fiber: for the end of a fiber of C code.
        children: for the fibers of a group of C code.
        wakeup: in park().
        other: in offload() and to_thread(), and all the rest.
    """

    time: float
    io: float
    lock: float
    channel: float
    fiber: float
    children: float
    wakeup: float
    other: float


class Times(NamedTuple):
    """The times of a fiber, or of several added up, in seconds.

    Attributes:
        fibers: how many fibers these are.
        turns: how often they got the thread.
        run: how long they had it, also if they waited for the interpreter's lock meanwhile.
        runnable: how long they were ready to run, while other fibers of their threads ran.
        wait: how long they waited.
        waits: how long they waited, by the kind of the wait: Waits.
    """

    fibers: int
    turns: int
    run: float
    runnable: float
    wait: float
    waits: Waits


class Spread(NamedTuple):
    """How durations spread, in seconds. Each one except `count` may be too long by a sixteenth.

    Attributes:
        count: the number of durations.
        p50: half of them are not longer.
        p90: nine tenths are not longer.
        p99: 99 % are not longer.
        p999: 99.9 % are not longer.
        longest: the longest.
    """

    count: int  # type: ignore[assignment]  # in place of tuple's method
    p50: float
    p90: float
    p99: float
    p999: float
    longest: float


class ThreadTimes(NamedTuple):
    """The times of a thread since accounting was turned on, in seconds. elapsed is the sum of run, poll and sleep.

    Attributes:
        elapsed: the whole time.
        run: the time in fibers.
        poll: the time in looks for I/O, timers and messages.
        sleep: the time in the kernel, waiting for any of these.
        slices: how long a fiber has the thread each time; a Spread.
        lags: from the end of a poll to the next one: the thread may notice I/O so late; a Spread.
        polls: how long polls take, without sleeps; a Spread.
    """

    elapsed: float
    run: float
    poll: float
    sleep: float
    slices: Spread
    lags: Spread
    polls: Spread


def accounting(on: bool = True) -> None:
    """Turn accounting on, for all threads, or off. Then times(), thread_times() and times_by_name() have results.

    All times begin at zero. Other threads follow at their next wait. Each switch takes some nanoseconds longer. While
    accounting is on, the C library and its tools know fibers that the program has not named by the names of their
    functions: the present fibers of the calling thread, and all fibers that are spawned later. FIBERRT_ACCOUNTING=1 in
    the environment turns accounting on at the start. In the child of a fork it stays on, and all times begin at zero.

    Does nothing if accounting is on, or off, already. MemoryError: there is no memory for the times. OSError
    (ENOTSUP): in a simulation, on a thread that may have no fibers.
    """
    _fiberrt.accounting(on)


def times(fiber: _fiberrt.Fiber[Any] | None = None) -> Times:
    """Return for how long a fiber has run and waited: Times, in seconds.

    fiber: of any thread; None: the calling one. The times begin when accounting was turned on, or with the fiber. They
    go up to now, or to the end of the fiber's function; a Fiber that has ended keeps them, also when accounting is
    turned off. If the fiber's thread has not noticed that accounting is on, they are zero.

    RuntimeError: accounting is off; it was off when the fiber ended; or the fiber was lost in a fork or with its
    thread. TypeError: fiber is no Fiber. MemoryError.
    """
    return _times(1, _fiberrt.times(_fiberrt.current() if fiber is None else fiber))


def thread_times(thread: threading.Thread | None = None) -> ThreadTimes:
    """Return for how long a thread has run fibers, polled and slept: ThreadTimes, in seconds.

    thread: None: the calling one. A thread whose main flow has called nothing of this package has no fibers. Neither
    has a threading.Thread that monkey.patch() has made a fiber. If the thread has not noticed that accounting is on,
    all times are zero.

    RuntimeError: accounting is off. ValueError: the thread has no fibers.
    """
    ident = threading.get_ident() if thread is None else thread.ident
    if thread is None:
        _fiberrt.current()
    found = None if ident is None else _fiberrt.thread_times(ident)
    if found is None:
        raise ValueError("the thread has no fibers")
    elapsed, run, poll, sleep, *spreads = found
    slices, lags, polls = (Spread(each[0], *(ns / 1e9 for ns in each[1:])) for each in spreads)
    return ThreadTimes(elapsed / 1e9, run / 1e9, poll / 1e9, sleep / 1e9, slices, lags, polls)


def times_by_name() -> dict[str | None, Times]:
    """Return the times of all fibers since accounting was turned on, also of those that have ended, added up by names:
    a dict from names to Times, the longest run time first.

    A fiber that the program has not named counts under the __qualname__ of its function, a main flow under "main". The
    library keeps 31 bytes: the first ones of a name that the program has given to a fiber, or "..." and the last ones
    of a function's name. Fibers that other threads spawned before accounting was on have the name "". The name None is
    for fibers for which the library had no room: it keeps some hundred names.

    RuntimeError: accounting is off. MemoryError.
    """
    sums: dict[str | None, Times] = {}
    for name, count, each in _fiberrt.times_by_name():
        times = _times(count, each)
        sums[name] = _added(sums[name], times) if name in sums else times
    return sums


def _added(one: Times, other: Times) -> Times:
    waits = Waits(*(a + b for a, b in zip(one.waits, other.waits)))
    return Times(
        one.fibers + other.fibers, one.turns + other.turns, one.run + other.run, one.runnable + other.runnable,
        one.wait + other.wait, waits,
    )  # fmt: skip


def _times(count: int, each: tuple[int, ...]) -> Times:
    waits = Waits(*(ns / 1e9 for ns in each[3:]))
    return Times(count, each[0], each[1] / 1e9, each[2] / 1e9, sum(each[3:]) / 1e9, waits)
