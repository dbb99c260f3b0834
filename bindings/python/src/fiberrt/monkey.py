# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes existing code wait as fibers do, by replacing parts of the standard library.

    import fiberrt.monkey
    fiberrt.monkey.patch()      # before other imports: names that they have imported already keep their old values

The patch affects the whole process, also threads without fibers, and cannot be undone.

The locks of threading and the queues of queue then work for fibers of all threads, and threading.Thread.start() starts
a fiber of the calling thread: code that makes 100 threads makes 100 fibers. These take turns, so a fiber that only
computes keeps the others from running. to_thread() and _thread.start_new_thread() make real threads. A Thread started
by a function on a thread of to_thread() or offload() is a real thread, too, because that thread would end before it. At
exit, daemons are cancelled after the other Threads have ended.

A loop that only polls - select() with a timeout of 0 or something ready, Event.wait(0), Lock.acquire(False),
get_nowait(), is_set(), is_alive(), Future.done(), Popen.poll(), os.waitpid() with WNOHANG, reads that would block -
lets the other fibers of the thread run after every 1 ms. Such a call then raises CancelledError in a cancelled fiber.

os.read(), os.write(), os.sendfile() and os.splice() wait as fibers for pipes, sockets, terminals and eventfds. So do
os.open() of a FIFO, os.system(), fcntl.flock() and fcntl.lockf(). A cancel, or an exception of a signal handler, ends
the wait of os.system() at once; the command continues, and the program ignores SIGINT until the command ends.

The builtin open(), and with it pathlib and shutil, returns the files of fiberrt.open(), which wait as fibers. So do
sys.stdin, input() at a terminal too, os.fsync() and the like, and os.stat(), os.listdir(), os.rename() and the other
calls on paths where they may take long: on NFS, FUSE and other file systems of another machine or process. On a disk
these calls run at once. What sys.stdin has read ahead before patch() is lost.

Several Threads, which are fibers of one thread, may each run an asyncio event loop. asyncio.run() uses asyncio's own
loop; that of fiberrt.aio is faster.

patch() without names also adopts the database clients and other C extensions of fiberrt.native.KNOWN, now or when the
program imports them: psycopg2, psycopg, MySQLdb, pycurl and pymssql wait as fibers. patch(native=False) leaves them
alone; psycopg2 and psycopg then wait as fibers by their own means.

These still block the thread, or fail, after patch():

- Writes to sys.stdout and sys.stderr, if their reader is slow.
- Files that the program has opened before patch(), and those of io.FileIO(), io.BufferedReader() and the like.
- Other C extensions that wait by themselves: try fiberrt.native.adopt(), or call them by offload() or to_thread().
- os.chdir() and os.lseek() on a slow file system, and os.readv() and os.writev() of any file of a disk or such a system.
- Files of a slow file system below an overlay, or one that was unmounted lazily while it is still used: these count as
  files of a disk.
- Fibers that compute: call reschedule() in their loops.
- Waits in a greenlet, or in a signal handler or finalizer that runs during a switch: nothing can switch fibers there.
  The calls of os and fcntl named above block the thread as usual, and other waits raise RuntimeError. Let another
  fiber wait.
- Locks that are older than patch(): patch first. patch() replaces names of threading and queue that modules have
  imported before, and locks that are global names of modules or belong to logging's handlers, if they are not held.
  Other locks remain locks of threads: if a waiting fiber holds one, another fiber that takes it blocks the thread, and
  an old RLock does not distinguish the fibers of a thread.
- A file on a disk that two threads or processes write at the same time by one file description, as after a fork: each
  write uses the position that the kernel had at its beginning, so one may overwrite the other. Open it for appending.
- Two fibers that use a buffered file at the same time, if the file was not made by the patched open(), a socket or
  Popen: the second gets a RuntimeError. Protect such a file by a Lock.
- multiprocessing's locks and queues: call them by offload(). Its join() does not block, and neither do its connections
  if it is imported after patch().

A signal handler runs in the fiber of the main thread that runs at that moment. So Ctrl-C may raise KeyboardInterrupt in
a Thread, and a handler that calls sys.exit() raises SystemExit there. If a signal handler raises in a patched Thread
and the Thread does not catch it, the Thread ends and the exception is raised again in the main program. This also
applies to a KeyboardInterrupt that the Thread's own code raises; for a real thread, threading.excepthook would print
it, and the main program would continue.

A thread's trace and profile functions apply to all fibers of the thread.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from . import _fiberrt, _later

# fiberrt.select is a function, and a module fiberrt.os could be confused with os.
_OWN = {"fcntl": "_os", "io": "_files", "os": "_os", "select": "_select"}

# For each module, the names that the module of this package replaces. The module's other functions call these, so they
# stay as they are, and a program may replace these names again, by mocks.
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
_originals: dict[tuple[str, str], Any] = {}  # the replaced objects, by their modules and names


def _patch_io() -> None:
    # Modules such as tarfile have imported the builtin open() under a name of their own.
    import builtins
    import io
    import sys

    from . import _files, _input

    plain = io.open
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in ("fiberrt", "_io", "_frozen_importlib_external", "_pyio"):
            names = getattr(module, "__dict__", None) or {}  # a program may put any object there
            for key in [key for key, value in list(names.items()) if value is plain]:
                names[key] = _files.open
    builtins.input = _input.input
    sys.stdin = _input.standard_input()


def _patch_os() -> None:
    import os

    from . import _paths

    own = import_module(f"{__package__}._os")
    for name in _NAMES["os"]:
        if hasattr(os, name):
            setattr(os, name, getattr(own, name))
    for name in _paths.NAMES:
        setattr(os, name, getattr(_paths, name))


def _patch_time() -> None:
    import time

    _originals["time", "sleep"] = time.sleep
    time.sleep = _fiberrt.sleep  # type: ignore[assignment]


def _patch_ssl() -> None:
    # The module's classes stay, because their methods refer to them. All contexts make sockets that wait as fibers.
    import ssl

    from . import ssl as own

    ssl.SSLContext.sslsocket_class = own.SSLSocket
    ssl.SSLContext._wrap_socket = own._wrap_socket  # type: ignore[attr-defined]
    ssl.create_connection = own.create_connection  # type: ignore[attr-defined]


def _patch_threading() -> None:
    # Queues consist of threading's locks, and an executor's threads wait in a queue: neither works without the other.
    import queue
    import threading

    from . import _importing, _queue, _threading

    for name in _threading.REPLACED:
        _originals["threading", name] = getattr(threading, name)
    _originals["queue", "SimpleQueue"] = queue.SimpleQueue
    _importing.patch(_fiberrt.ident)
    instead = _threading.patch()
    instead[id(queue.SimpleQueue)] = _queue.SimpleQueue
    _queue.let_polls_give_turns(queue.Queue)
    _threading.sweep(instead)
    _done.update(("queue", "threading"))


_SPECIAL: dict[str, Callable[[], None]] = {
    "io": _patch_io,
    "os": _patch_os,
    "queue": _patch_threading,
    "ssl": _patch_ssl,
    "threading": _patch_threading,
    "time": _patch_time,
}


def patch(*modules: str, native: bool | None = None) -> None:
    """Replace the waiting calls of these modules of the standard library. Without names, patch all known modules: fcntl,
    io, os, queue, select, selectors, signal, socket, ssl, subprocess, threading and time. queue and threading must be
    patched together. Patching a module again has no effect. ValueError: a module is not known.

    native: whether to adopt the packages of fiberrt.native.KNOWN, now or when they are imported. None: if no names are
    given."""
    known = {*_NAMES, *_SPECIAL}
    for name in modules:
        if name not in known:
            raise ValueError(f"{name!r} is none of {', '.join(sorted(known))}")
    # The modules of this package use the unpatched standard library, so all of them are imported first.
    names = sorted({*(modules or known)} - _done)
    own = {name: import_module(f"{__package__}.{_OWN.get(name, name)}") for name in names if name in {*_NAMES, *_OWN}}
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
                    _originals[name, what] = getattr(there, what)
                    setattr(there, what, getattr(own[name], what))
        _done.add(name)
    _fiberrt.let_polls_give_turns()
    if native or (native is None and not modules):
        import_module(f"{__package__}.native")._follow_known()
    _later.watch(_done)


def is_patched(module: str) -> bool:
    """Whether patch() has replaced the waiting calls of a module."""
    return module in _done
