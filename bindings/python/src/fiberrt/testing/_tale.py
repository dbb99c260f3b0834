# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tells the steps of a run as text: for each stretch of a thread its lines, and why it ends. And the decisions of the
schedule that the run needs."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from ._choices import Chosen
from ._source import changes

_HEAD, _TAIL = 4, 8  # lines shown of a long stretch without a switch
_WITHOUT_EFFECT = re.compile(r"(async )?def |class |@|(pass|try:|else:|finally:)$")
PREEMPTED = "is preempted"  # begins a note
_TICK_S = 0.0005  # a shorter time is the time that steps take


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
    """A thread begins a line, or goes on in the middle of it, or leaves its block; or, without a note's place, what else
    happens to the thread."""

    thread: Named
    place: Place | None
    note: str = ""
    detail: str = ""  # of the note, for the list of decisions
    how: str = ""  # of a line: "", "goes on in" or "leaves"
    choice: Chosen | None = None  # the decision of the schedule that makes the note true
    error: int = 0  # the id of the exception that the thread gets
    time_s: float = 0.0


def tell(steps: Sequence[Step], left_out: int, with_times: bool) -> list[str]:
    """Return the text. left_out: the number of steps before these. with_times: the times matter."""
    text = [f"(the first {left_out} steps are left out)"] if left_out else []
    numbers = _numbers(steps)
    time_s = steps[0].time_s if steps else 0.0
    decided = False
    for thread, group in groupby(steps, key=lambda step: step.thread):
        stretch = list(group)
        begins_s = stretch[0].time_s
        passed = with_times and begins_s - time_s > _TICK_S
        text.append(f"{thread.name}, at {begins_s:.3f} s" if passed else thread.name)
        text += [f"    {line}" for line in _stretch(stretch, numbers, decided, with_times)]
        time_s = stretch[-1].time_s
        decided = decided or any(step.choice is not None for step in stretch)
    return text


def _numbers(steps: Iterable[Step]) -> dict[Chosen, int]:
    """Number the decisions."""
    return {choice: i for i, choice in enumerate((step.choice for step in steps if step.choice is not None), 1)}


def _stretch(steps: list[Step], numbers: dict[Chosen, int], decided: bool, with_times: bool) -> Iterator[str]:
    shown: set[Place] = set()
    skipped = 0
    time_s = steps[0].time_s
    for i, step in enumerate(steps):
        if with_times and step.time_s - time_s > _TICK_S:
            yield f"-- the time is {step.time_s:.3f} s"
        time_s = step.time_s
        if step.place is not None and not step.how and _WITHOUT_EFFECT.match(step.place.source):
            continue
        decided = decided or step.choice is not None
        if step.place is not None:
            near_note = i + 1 < len(steps) and steps[i + 1].place is None
            middle = _HEAD <= i < len(steps) - _TAIL and len(steps) > _HEAD + _TAIL + 1
            matters = (decided or changes(*step.place)) and step.place not in shown
            if middle and not near_note and not matters:
                skipped += 1
                continue
            shown.add(step.place)
        if skipped:
            yield f"... {skipped} lines"
            skipped = 0
        if step.place is not None:
            yield f"{step.place!s:<24} {f'({step.how}) ' if step.how else ''}{step.place.source}"
        else:
            mark = "" if step.choice is None else f"   <== decision {numbers[step.choice]}"
            yield f"-- {step.thread.name} {step.note}{mark}"
    if skipped:
        yield f"... {skipped} lines"


def decisions(steps: Sequence[Step]) -> list[str]:
    """Tell the decisions of the schedule, and which threads run because of them."""
    text: list[str] = []
    for i, step in enumerate(steps):
        if step.choice is None:
            continue
        others = list(dict.fromkeys(other.thread.name for other in _until_it_runs(steps, i)))
        meanwhile = ""
        if others and step.note.startswith(PREEMPTED):
            meanwhile = f"; {_and(others)} {'runs' if len(others) == 1 else 'run'} before it goes on"
        text.append(f"{len(text) + 1}. {step.thread.name} {step.note}{step.detail}{meanwhile}   [{step.choice}]")
    return text


def _until_it_runs(steps: Sequence[Step], i: int) -> Iterator[Step]:
    for step in steps[i + 1 :]:
        if step.thread is steps[i].thread:
            return
        yield step


def _and(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
