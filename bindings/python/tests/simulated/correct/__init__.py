# SPDX-License-Identifier: MIT OR Apache-2.0
"""Correct programs with threads: no seed may make them fail. Each is a function without arguments."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

MODULES = ("queues", "locks", "waits", "executors", "times", "descriptors", "contexts", "structures")

_programs: list[Callable[[], None]] = []


def correct(program: Callable[[], None]) -> Callable[[], None]:
    """Add a function to the programs."""
    _programs.append(program)
    return program


def all_programs() -> list[Callable[[], None]]:
    for name in MODULES:
        import_module(f"{__name__}.{name}")
    return _programs
