# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records a run: the lines, the switches, and the waits of its threads. _tale makes a text of the steps."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from .. import _fiberrt
from ._program import Program
from ._tale import Place, Step, tell

current: Recorder | None = None

_MOST_STEPS = 20_000  # remembered: the newest


class _Thread:
    """What the recorder knows of a thread."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = ""
        self.place: Place | None = None  # the last line that has begun
        self.waits_for: Any = None  # a lock, a queue, a Thread
        self.point = ""  # the call in which it may be preempted, and when
        self.error: BaseException | None = None  # the last that it has raised


class Recorder:
    """Gets each line of the program before it runs, and the waits of locks and queues."""

    def __init__(self, program: Program, root: CodeType) -> None:
        """root: what calls the test."""
        self.program = program
        self._root = root
        self.steps: deque[Step] = deque(maxlen=_MOST_STEPS)
        self.left_out = 0
        self.stuck: list[str] = []  # the threads at a deadlock, as text; nothing is recorded after it
        self._threads: dict[int, _Thread] = {}
        self._last: _Thread | None = None
        self._holders: dict[int, list[tuple[_Thread, Place | None]]] = {}  # by the id of the lock
        self._waiters: dict[int, list[_Thread]] = {}  # by the id of the Condition: those not notified
        self._conditions: dict[int, Any] = {}  # by the id of its lock: the first
        self._numbers: dict[int, tuple[int, Any]] = {}  # of locks, by id; each is kept, so that its id is its own

    # --- What the program's run reports

    def before_line(self, frame: FrameType, goes_on: bool) -> None:
        thread = self._thread()
        place = Place(frame.f_code.co_filename, frame.f_lineno)
        switched = self._switched_to(thread)
        if switched or goes_on or thread.place != place:
            self._add(Step(thread, place, "", goes_on))
        thread.place = place

    def raised(self, _frame: FrameType, error: BaseException) -> None:
        thread = self._thread()
        if error is thread.error or isinstance(error, (StopIteration, GeneratorExit)):
            return
        thread.error = error
        if _is_deadlock(error):
            self._freeze()
        self._note(thread, f"gets {_in_short(error)}")

    @contextmanager
    def waits(self, thing: Any) -> Iterator[None]:
        thread = self._thread()
        before, thread.waits_for = thread.waits_for, thing
        try:
            yield
        except RuntimeError as error:
            if _is_deadlock(error):
                self._freeze()
            raise
        finally:
            thread.waits_for = before
        if before is None and self._switched_to(thread) and thread.place is not None:
            self._add(Step(thread, thread.place, "", True))

    @contextmanager
    def at(self, point: str, thing: Any) -> Iterator[None]:
        """Surrounds a preemption point of a lock."""
        thread = self._thread()
        before, thread.point = thread.point, f"{point} {self._name(thing)}"
        try:
            yield
        finally:
            thread.point = before

    def timed_out(self, thing: Any) -> None:
        self._note(self._thread(), f"has waited for {self._name(thing)} until its time limit")

    def belongs(self, lock: Any, condition: Any) -> None:
        """Note the lock of a new condition."""
        self._conditions.setdefault(id(lock), condition)

    def taken(self, lock: Any) -> None:
        thread = self._thread()
        self._name(lock)
        self._holders.setdefault(id(lock), []).append((thread, thread.place))

    def released(self, lock: Any) -> None:
        holders, thread = self._holders.get(id(lock), []), self._thread()
        own = [i for i, (holder, _) in enumerate(holders) if holder is thread]
        if holders:
            del holders[own[-1] if own else -1]

    def begins_to_wait(self, condition: Any) -> None:
        self._waiters.setdefault(id(condition), []).append(self._thread())

    def ends_to_wait(self, condition: Any) -> None:
        waiters = self._waiters[id(condition)]
        if self._thread() in waiters:
            waiters.remove(self._thread())

    def notifies(self, condition: Any, count: int) -> None:
        waiters = self._waiters.setdefault(id(condition), [])
        notified = [waiter.name for waiter in waiters[:count]]
        del waiters[:count]
        whom = f"wakes {' and '.join(notified)}" if notified else "wakes no thread: none waits for it"
        self._note(self._thread(), f"notifies {self._name(condition)}, which {whom}")

    # --- Steps

    def _add(self, step: Step) -> None:
        if not self.stuck:
            self.left_out += len(self.steps) == _MOST_STEPS
            self.steps.append(step)

    def forget_steps(self) -> None:
        self.left_out += len(self.steps)
        self.steps.clear()

    def _note(self, thread: _Thread, note: str) -> None:
        self._switched_to(thread)
        self._add(Step(thread, None, note))

    def _switched_to(self, thread: _Thread) -> bool:
        """Record why the last thread has stopped, if it is another one. Return whether it is."""
        last, self._last = self._last, thread
        if last is None or last is thread:
            return False
        self._add(Step(last, None, self._why(last)))
        return True

    def _thread(self) -> _Thread:
        number = _fiberrt.ident()
        known = self._threads.get(number)
        if known is None:
            known = self._threads[number] = _Thread(number)
        if not known.name:  # a thread that begins has none yet
            thread = threading._active.get(number)  # type: ignore[attr-defined]
            if thread is threading.main_thread():
                known.name = "main"
            elif thread is not None:
                kind = type(thread)
                known.name = thread.name if kind is threading.Thread else f"{thread.name} ({kind.__name__})"
        return known

    # --- Names and reasons

    def _name(self, thing: Any) -> str:
        """Return what a lock or a queue is called: its type and, if there are several, a number."""
        if isinstance(thing, threading.Thread):
            return f"the end of {thing.name}"
        if id(thing) in self._conditions:
            return f"the lock of {self._name(self._conditions[id(thing)])}"
        name = type(thing).__name__
        if id(thing) not in self._numbers:
            same = sum(type(other) is type(thing) for _, other in self._numbers.values())
            self._numbers[id(thing)] = (same + 1, thing)
        return f"{name} {self._numbers[id(thing)][0]}"

    def _holders_of(self, thing: Any) -> list[tuple[_Thread, Place | None]]:
        if isinstance(thing, threading.Thread):
            return [(known, None) for known in self._threads.values() if known.number == thing.ident]
        return self._holders.get(id(thing), [])

    def _thing(self, thing: Any) -> str:
        """Name a lock or a queue, and its holders."""
        name = self._name(thing)
        if isinstance(thing, threading.Thread):
            return name
        held = [f"{thread.name} has held since {place or 'its begin'}" for thread, place in self._holders_of(thing)]
        return f"{name}, which {' and '.join(held)}" if held else name

    def _why(self, thread: _Thread) -> str:
        """Return why a thread does not run now."""
        fiber = next((one for one in _fiberrt.fibers() if _number(one) == thread.number), None)
        if fiber is None or fiber.done:
            return "ends"
        what = _fiberrt.waits_for(fiber)
        if what is None or what == "preempted":
            return f"is preempted {thread.point or self._where(thread, fiber)}"
        calls = self._calls(fiber)
        called = f" in {calls}" if calls else ""
        if thread.waits_for is not None:
            return f"waits{called} for {self._thing(thread.waits_for)}"
        return f"waits{called} ({what})"

    def _where(self, thread: _Thread, fiber: Any) -> str:
        """Return at which line a thread was preempted."""
        frame = _fiberrt.frame(fiber)
        while frame is not None and not self.program.contains(frame.f_code):
            frame = frame.f_back
        if frame is None:
            return ""
        place = Place(frame.f_code.co_filename, frame.f_lineno)
        return f"in the middle of {place}" if place == thread.place else f"before {place}"

    def _calls(self, fiber: Any) -> str:
        """Return the function of a library that the program's code has called."""
        frame, called = _fiberrt.frame(fiber), ""
        while frame is not None and not self.program.contains(frame.f_code):
            if "fiberrt" not in frame.f_code.co_filename.split(os.sep)[-3:]:
                called = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
            frame = frame.f_back
        return f"{called}()" if called and frame is not None else ""

    # --- A deadlock

    def _freeze(self) -> None:
        """Note the state of the threads. What this thread does because of the deadlock is not recorded."""
        if not self.stuck:
            thread = self._thread()
            self._switched_to(thread)
            if thread.waits_for is not None:
                self._add(Step(thread, None, f"waits for {self._thing(thread.waits_for)}"))
            self.stuck = self._circle() or self._all_waiting()

    def _circle(self) -> list[str]:
        """Return the threads that wait for each other in a circle, as text; empty if there are none."""
        for first in self._threads.values():
            path: list[_Thread] = []
            thread: _Thread | None = first
            while thread is not None and thread.waits_for is not None and thread not in path:
                path.append(thread)
                holders = [holder for holder, _ in self._holders_of(thread.waits_for) if holder is not thread]
                thread = next((holder for holder in holders if holder is first), holders[0] if holders else None)
            if thread is first and path:
                return [line for one in path for line in self._stuck(one)]
        return []

    def _stuck(self, thread: _Thread) -> list[str]:
        return [f"{thread.name} waits for {self._thing(thread.waits_for)}", *self._lines_of(thread)]

    def _lines_of(self, thread: _Thread) -> list[str]:
        """Return the program's lines in the thread's stack, the innermost first."""
        fiber = next((one for one in _fiberrt.fibers() if _number(one) == thread.number), None)
        frame = None if fiber is None else _fiberrt.frame(fiber)
        text = []
        while frame is not None and frame.f_code is not self._root:
            if self.program.contains(frame.f_code):
                place = Place(frame.f_code.co_filename, frame.f_lineno)
                text.append(f"    {place!s:<24} {place.source}")
            frame = frame.f_back
        return text

    def _all_waiting(self) -> list[str]:
        """Return where each thread waits now, as text."""
        live = {_number(fiber) for fiber in _fiberrt.fibers()}
        text = []
        for thread in self._threads.values():
            if thread.number not in live:
                continue
            if thread.waits_for is not None:
                text += self._stuck(thread)
            elif thread.number != _fiberrt.ident():
                text += [f"{thread.name} {self._why(thread)}", *self._lines_of(thread)]
        return text

    def tell(self) -> list[str]:
        return tell(self.steps, self.left_out)


def _number(fiber: Any) -> int:
    return int(_fiberrt.number_of(fiber))


def _is_deadlock(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and str(error).startswith("deadlock:")


def _in_short(error: BaseException) -> str:
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
