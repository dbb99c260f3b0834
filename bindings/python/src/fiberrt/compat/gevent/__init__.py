# SPDX-License-Identifier: MIT OR Apache-2.0
"""gevent's interface, on fibers.

    from fiberrt.compat import gevent
    from fiberrt.compat.gevent import monkey, pool
    monkey.patch_all()

For packages that import gevent themselves: install() makes `import gevent` find these modules. Call it before any of
them is imported, or run the program by `python -m fiberrt --gevent`:

    import fiberrt.compat.gevent.as_gevent      # the same as install(); then import locust, socketio, ...

The page "Coming from gevent, eventlet, asyncio or trio" of the documentation names the differences.
"""

from __future__ import annotations

from typing import Any

from ._current import getcurrent
from ._install import install, installed
from .exceptions import GreenletExit
from .greenlet import Greenlet, joinall, killall
from .hub import get_hub, idle, iwait, kill, reinit, sleep, spawn_raw, wait
from .hub import signal as signal_handler
from .os import fork
from .timeout import Timeout, with_timeout

__all__ = [
    "Greenlet", "GreenletExit", "Timeout", "config", "fork", "get_hub", "getcurrent", "getswitchinterval", "idle",
    "install", "installed", "iwait", "joinall", "kill", "killall", "reinit", "setswitchinterval", "signal_handler",
    "sleep", "spawn", "spawn_later", "spawn_raw", "wait", "with_timeout",
]  # fmt: skip

__version__ = "26.9.0"  # the version of gevent with this interface
version_info = (26, 9, 0, "final", 0)

spawn = Greenlet.spawn
spawn_later = Greenlet.spawn_later


class _Config:
    """gevent's settings. None has an effect."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


config = _Config()
_interval = 0.005


def getswitchinterval() -> float:
    """Return the value of setswitchinterval()."""
    return _interval


def setswitchinterval(interval: float) -> None:
    """It has no effect: a fiber runs until it waits."""
    global _interval
    if interval <= 0:
        raise ValueError("Interval must be positive")
    _interval = interval


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if not name.startswith("_"):
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
