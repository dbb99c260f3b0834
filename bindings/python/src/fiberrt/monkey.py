# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lets code that knows nothing of fibers wait as they do, by replacing parts of the standard library.

    import fiberrt.monkey
    fiberrt.monkey.patch()      # before other imports: what they have taken by name already stays as it was

It holds for the whole process, also for threads without fibers, and cannot be undone.
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


_SPECIAL: dict[str, Callable[[], None]] = {"ssl": _patch_ssl, "time": _patch_time}


def patch(*modules: str) -> None:
    """Replace what waits in these modules of the standard library; without arguments: in all that are known, which are
    select, selectors, socket, ssl, subprocess and time. Once is enough. ValueError: a module is not known."""
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
