# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs with a bug. Each is a function whose argument is a class: one with the bug, or one in which it is mended.
The function's docstring says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

MODULES = ("values", "waits", "resources", "reported_pools", "reported")


@dataclass(frozen=True)
class Bug:
    """A planted bug."""

    program: Callable[[type], None]
    wrong: type
    right: type
    switches: str  # an option of simulate()
    shows: tuple[str, ...]  # parts of the lines that explain a failure
    report: str  # the address of a report of the same bug in a library

    @property
    def name(self) -> str:
        return self.program.__name__


_bugs: list[Bug] = []


def planted(wrong: type, right: type, *shows: str, switches: str = "lines", report: str = "") -> Callable[
    [Callable[[type], None]], Callable[[type], None]
]:  # fmt: skip
    """Add a function to the bugs."""

    def add(program: Callable[[type], None]) -> Callable[[type], None]:
        _bugs.append(Bug(program, wrong, right, switches, shows, report))
        return program

    return add


def all_bugs() -> list[Bug]:
    for name in MODULES:
        import_module(f"{__name__}.{name}")
    return _bugs
