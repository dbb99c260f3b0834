# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lets code that knows nothing of fibers wait as they do, by replacing parts of the standard library.

    import fiberrt.monkey
    fiberrt.monkey.patch()      # before other imports: what they have taken by name already stays as it was

It holds for the whole process, also for threads without fibers, and cannot be undone.

What waits in threading and queue is then for fibers of all threads, and threading.Thread.start() begins a fiber of the
calling thread: code that makes 100 threads makes 100 fibers. These take turns, so that one which only computes keeps
others from running. Real threads come from to_thread() and _thread.start_new_thread(). A daemon is cancelled at exit,
after the others have ended.

Of these two modules also names that modules have taken by then are replaced, and locks that are global names of modules
or belong to logging's handlers, where nobody has them. Other locks that are older than patch() stay the threads': one
that is held by a fiber that waits is not waited for, it blocks the thread; an old RLock takes fibers of a thread for one.
So do the interpreter's own: what two fibers import at once may be seen half made, as in imports that go in a circle, and
a buffered file of io's own that two fibers use at once raises RuntimeError (those of sockets and pipes may be used so).
An asyncio loop is the thread's, and only one of its fibers may run one. A thread's trace and profile functions are those
of all of its fibers. multiprocessing's pipes block the thread.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from . import _fiberrt

# fiberrt.select is a function.
_OWN = {"select": "_select"}

# Of each module, what the one of the same name in this package has instead.
_NAMES = {
    "select": ("poll", "select"),
    "selectors": ("DefaultSelector", "EpollSelector", "PollSelector", "SelectSelector"),
    "signal": ("signal",),
    "socket": (
        "SocketType", "close", "create_connection", "create_server", "fromfd", "getaddrinfo", "getfqdn",
        "gethostbyaddr", "gethostbyname", "gethostbyname_ex", "getnameinfo", "socket", "socketpair",
    ),
    "subprocess": (
        "Popen", "_PopenSelector", "call", "check_call", "check_output", "getoutput", "getstatusoutput", "run",
    ),
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
    queue, select, selectors, signal, socket, ssl, subprocess, threading and time; queue and threading only go together.
    Once is enough. ValueError: a module is not known."""
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
                setattr(there, what, getattr(own[name], what))
        _done.add(name)


def is_patched(module: str) -> bool:
    """Whether patch() has replaced what waits in a module."""
    return module in _done
