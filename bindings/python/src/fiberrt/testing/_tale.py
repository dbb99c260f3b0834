# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tells the steps of a run as text: for each stretch of a thread its lines, and why it ends."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple, Protocol

_HEAD, _TAIL = 4, 8  # lines shown of a long stretch without a switch


class Place(NamedTuple):
    """A line of the program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"

    @property
    def source(self) -> str:
        return linecache.getline(self.file, self.line).strip()


class Named(Protocol):
    """A thread."""

    @property
    def name(self) -> str: ...


class Step(NamedTuple):
    """A thread begins a line, or goes on in the middle of it; or, without a place, what else happens to the thread."""

    thread: Named
    place: Place | None
    note: str
    goes_on: bool = False


def tell(steps: Iterable[Step], left_out: int) -> list[str]:
    """Return the text. left_out: the number of steps before these."""
    text = [f"(the first {left_out} steps are left out)"] if left_out else []
    for thread, stretch in groupby(steps, key=lambda step: step.thread):
        text += [thread.name, *(f"    {line}" for line in _stretch(list(stretch)))]
    return text


def _stretch(steps: list[Step]) -> list[str]:
    lines: list[str] = []
    skipped = 0
    for i, step in enumerate(steps):
        if step.place is None:
            lines.append(f"-- {step.thread.name} {step.note}")
            continue
        near_note = i + 1 < len(steps) and steps[i + 1].place is None
        if _HEAD <= i < len(steps) - _TAIL and not near_note and len(steps) > _HEAD + _TAIL + 1:
            skipped += 1
            continue
        if skipped:
            lines.append(f"... {skipped} lines")
            skipped = 0
        lines.append(f"{step.place!s:<24} {'(goes on in) ' if step.goes_on else ''}{step.place.source}")
    return lines
