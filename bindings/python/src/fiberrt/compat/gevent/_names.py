# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gives a module the names of another one."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def take(names: dict[str, Any], of: ModuleType) -> None:
    """Add the names of a module, except those that Python sets."""
    for name, value in vars(of).items():
        if not (name.startswith("__") and name.endswith("__")):
            names.setdefault(name, value)
