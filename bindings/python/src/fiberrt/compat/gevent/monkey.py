# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent.monkey: fiberrt.monkey with gevent's functions."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ... import monkey as _own

__all__ = [
    "MonkeyPatchWarning", "get_original", "is_anything_patched", "is_module_patched", "is_object_patched",
    "patch_all", "patch_builtins", "patch_dns", "patch_os", "patch_queue", "patch_select", "patch_signal",
    "patch_socket", "patch_ssl", "patch_subprocess", "patch_sys", "patch_thread", "patch_time",
]  # fmt: skip

_THREADS = ("threading", "queue")
_NAMES = {"_thread": "threading", "thread": "threading", "Queue": "queue", "_queue": "queue"}


class MonkeyPatchWarning(RuntimeWarning):
    """Never given here."""


def patch_all(
    socket: bool = True, dns: bool = True, time: bool = True, select: bool = True, thread: bool = True, os: bool = True,
    ssl: bool = True, subprocess: bool = True, sys: bool = False, aggressive: bool = True, Event: bool = True,
    builtins: bool = True, signal: bool = True, queue: bool = True, contextvars: bool = True, **kwargs: bool,
) -> bool:  # fmt: skip
    """Call fiberrt.monkey.patch() for these parts of the standard library. dns belongs to socket, queue to thread; sys,
    which is standard input and output, Event, builtins and contextvars have no effect."""
    parts = [
        (socket, ("socket",)), (time, ("time",)), (select, ("select", "selectors")), (thread, _THREADS),
        (os, ("os", "fcntl")), (ssl and socket, ("ssl",)), (subprocess, ("subprocess",)), (signal, ("signal",)),
    ]  # fmt: skip
    chosen = [name for wanted, names in parts if wanted for name in names]
    if all(wanted for wanted, _ in parts):
        _own.patch()
    elif chosen:
        _own.patch(*chosen)
    return True


def patch_socket(dns: bool = True, aggressive: bool = True) -> None:
    """Patch socket."""
    _own.patch("socket")


def patch_dns() -> None:
    """Patch socket, to which the lookup of names belongs."""
    _own.patch("socket")


def patch_ssl(*args: Any, **kwargs: Any) -> None:
    """Patch ssl."""
    _own.patch("ssl")


def patch_select(aggressive: bool = True) -> None:
    """Patch select and selectors."""
    _own.patch("select", "selectors")


def patch_selectors(aggressive: bool = True) -> None:
    """Patch selectors."""
    _own.patch("selectors")


def patch_time() -> None:
    """Patch time."""
    _own.patch("time")


def patch_thread(*args: Any, **kwargs: Any) -> None:
    """Patch threading and queue."""
    _own.patch(*_THREADS)


patch_queue = patch_thread


def patch_os() -> None:
    """Patch os and fcntl."""
    _own.patch("os", "fcntl")


def patch_signal() -> None:
    """Patch signal."""
    _own.patch("signal")


def patch_subprocess() -> None:
    """Patch subprocess."""
    _own.patch("subprocess")


def patch_sys(*args: Any, **kwargs: Any) -> None:
    """It has no effect."""


def patch_builtins() -> None:
    """It has no effect."""


def patch_contextvars() -> None:
    """It has no effect: each fiber has its own context."""


def is_module_patched(mod_name: str) -> bool:
    """Whether a module of the standard library is patched."""
    return _own.is_patched(_NAMES.get(mod_name, mod_name))


def is_anything_patched() -> bool:
    """Whether any module of the standard library is patched."""
    return bool(_own._done)


def is_object_patched(mod_name: str, item_name: str) -> bool:
    """Whether an object of a module of the standard library is replaced."""
    return (mod_name, item_name) in _own._originals


def get_original(mod_name: str, item_name: Any) -> Any:
    """Return an object of a module as it is without the patch, except _start_new_thread and pthread_kill. item_name: a
    name, or a list of names."""
    if not isinstance(item_name, str):
        return [get_original(mod_name, name) for name in item_name]
    found = _own._originals.get((mod_name, item_name))
    return getattr(import_module(mod_name), item_name) if found is None else found
