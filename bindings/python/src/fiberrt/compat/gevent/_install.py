# SPDX-License-Identifier: MIT OR Apache-2.0
"""install(): these modules under gevent's names."""

from __future__ import annotations

import sys
from importlib import import_module

MODULES = (
    "backdoor", "baseserver", "core", "event", "exceptions", "fileobject", "greenlet", "hub", "local", "lock", "monkey", "os",
    "pool", "pywsgi", "queue", "select", "selectors", "server", "signal", "socket", "ssl", "subprocess", "thread",
    "threading", "threadpool", "time", "timeout", "util",
)  # fmt: skip


def install() -> None:
    """Let `import gevent` and its submodules find the modules of this package. RuntimeError: gevent itself has been
    imported."""
    package = __package__ or ""
    here = sys.modules[package]
    if sys.modules.get("gevent", here) is not here:
        raise RuntimeError("gevent has been imported already: install() must come first")
    own = {"gevent": here}
    for name in MODULES:
        own[f"gevent.{name}"] = import_module(f"{package}.{name}")
    sys.modules.update(own)


def installed() -> bool:
    """Whether install() has been called."""
    return sys.modules.get("gevent") is sys.modules[__package__ or ""]
