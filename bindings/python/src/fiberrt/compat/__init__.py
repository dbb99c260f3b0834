# SPDX-License-Identifier: MIT OR Apache-2.0
"""The interfaces of other libraries, for programs written for them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name == "gevent":
        return import_module(f"{__name__}.gevent")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
