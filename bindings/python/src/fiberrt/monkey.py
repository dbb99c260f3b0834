# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lets code that knows nothing of fibers wait as they do, by replacing parts of the standard library.

    import fiberrt.monkey
    fiberrt.monkey.patch()      # before other imports: what they have taken by name already stays as it was

It holds for the whole process, also for threads without fibers, and cannot be undone.

What waits in threading and queue is then for fibers of all threads, and threading.Thread.start() begins a fiber of the
calling thread: code that makes 100 threads makes 100 fibers. These take turns, so that one which only computes keeps
others from running. Real threads come from to_thread() and _thread.start_new_thread(); a Thread that is started by a
function on a thread of to_thread() or offload() is a thread, too, as that one would end before it. A daemon is cancelled
at exit, after the others have ended.

A loop that only looks - select() with a timeout of 0 or something ready, Event.wait(0), Lock.acquire(False),
get_nowait(), is_set(), is_alive(), Future.done(), Popen.poll(), os.waitpid() with WNOHANG, reads that would block -
gives other fibers of the thread a turn whenever it has done so for 1 ms. Such a call then raises CancelledError in a
fiber that is cancelled.

os.read(), os.write(), os.sendfile() and os.splice() wait as fibers for pipes, sockets, terminals and eventfds; files,
sys.stdin and input() block the thread, and so does the builtin open() of a FIFO. os.open() of a FIFO, os.system(),
fcntl.flock() and fcntl.lockf() wait as fibers. A cancel, or an exception of a signal's handler, ends the wait of
os.system() at once; the command goes on, and the program ignores SIGINT until it ends. These calls of os and fcntl block
the thread in a greenlet, and in a signal's handler or finalizer that must not wait. psycopg2 and psycopg wait as fibers,
too, also if they are imported later.

patch() also replaces names of threading and queue that modules have imported before, and locks that are global names of
modules or belong to logging's handlers, if they are not held. Other locks that are older than patch() stay the threads':
if a fiber that waits holds one, another fiber that takes it blocks the thread; an old RLock takes all fibers of a thread
for one. So do the interpreter's own locks: a module that two fibers import at once may be seen half made, as in imports
that go in a circle, and a buffered file of io's own that two fibers use at once raises RuntimeError (files of sockets and
pipes do not).

A signal's handler runs in whichever fiber of the main thread runs at that moment, so Ctrl-C may raise KeyboardInterrupt
in a Thread, and a handler that calls sys.exit() raises SystemExit there. An exception of a handler that ends a Thread of
the main thread is raised in the main flow; a Thread that catches it keeps it from there. This applies also to a
KeyboardInterrupt that the Thread's own code raises, which a real thread would hand to threading.excepthook while the
main flow goes on.

An asyncio loop is the thread's, and only one fiber of the thread may run one. A thread's trace and profile functions
apply to all fibers of the thread. multiprocessing's locks and queues block the thread; join() and, if it is imported
after patch(), its connections do not.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from . import _fiberrt, _later

# fiberrt.select is a function, and fiberrt.os would be in the way of os.
_OWN = {"fcntl": "_os", "os": "_os", "select": "_select"}

# Of each module, what the one of the same name in this package has instead. The module's other functions call these:
# they need not be replaced, and a program may replace these once more, by mocks.
_NAMES = {
    "fcntl": ("flock", "lockf"),
    "os": (
        "eventfd_read", "eventfd_write", "open", "read", "readv", "sched_yield", "sendfile", "splice", "system", "wait",
        "wait3", "wait4", "waitid", "waitpid", "write", "writev",
    ),
    "select": ("epoll", "poll", "select"),
    "selectors": ("DefaultSelector", "EpollSelector", "PollSelector", "SelectSelector"),
    "signal": ("pause", "signal", "sigtimedwait", "sigwait", "sigwaitinfo"),
    "socket": (
        "SocketType", "close", "getaddrinfo", "gethostbyaddr", "gethostbyname", "gethostbyname_ex", "getnameinfo",
        "socket",
    ),
    "subprocess": ("Popen", "_PopenSelector"),
}  # fmt: skip

_done: set[str] = set()


def _patch_time() -> None:
    import time

    time.sleep = _fiberrt.sleep  # type: ignore[assignment]


def _patch_ssl() -> None:
    # Its classes stay: their methods name them. All contexts make sockets that wait as fibers.
    import ssl

    from . import ssl as own

    ssl.SSLContext.sslsocket_class = own.SSLSocket
    ssl.SSLContext._wrap_socket = own._wrap_socket  # type: ignore[attr-defined]
    ssl.create_connection = own.create_connection  # type: ignore[attr-defined]


def _patch_threading() -> None:
    # Queues are of threading's locks, and an executor's threads wait in one: neither is sound without the other.
    import queue
    import threading  # noqa: F401

    from . import _queue, _threading

    instead = _threading.patch()
    instead[id(queue.SimpleQueue)] = _queue.SimpleQueue
    _queue.let_polls_give_turns(queue.Queue)
    _threading.sweep(instead)
    _done.update(("queue", "threading"))


_SPECIAL: dict[str, Callable[[], None]] = {
    "queue": _patch_threading,
    "ssl": _patch_ssl,
    "threading": _patch_threading,
    "time": _patch_time,
}


def patch(*modules: str) -> None:
    """Replace what waits in these modules of the standard library; without arguments: in all that are known, which are
    fcntl, os, queue, select, selectors, signal, socket, ssl, subprocess, threading and time; queue and threading only go
    together. Once is enough. ValueError: a module is not known."""
    known = {*_NAMES, *_SPECIAL}
    for name in modules:
        if name not in known:
            raise ValueError(f"{name!r} is none of {', '.join(sorted(known))}")
    # Those of this package are made of the standard library's as they are, so all of these are imported first.
    names = sorted({*(modules or known)} - _done)
    own = {name: import_module(f"{__package__}.{_OWN.get(name, name)}") for name in names if name in _NAMES}
    if "ssl" in names:
        import_module(f"{__package__}.ssl")
    for name in names:
        if name in _done:
            continue
        if name in _SPECIAL:
            _SPECIAL[name]()
        else:
            there = import_module(name)
            for what in _NAMES[name]:
                if hasattr(there, what):
                    setattr(there, what, getattr(own[name], what))
        _done.add(name)
    _fiberrt.let_polls_give_turns()
    _later.watch(_done)


def is_patched(module: str) -> bool:
    """Whether patch() has replaced what waits in a module."""
    return module in _done
