# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records a run: the lines, the switches, and the waits of its threads. _tale makes a text of the steps."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from .. import _fiberrt
from ._choices import Choices, Chosen
from ._names import Names
from ._program import Program
from ._source import half_done, leaves_block, values_after, values_in
from ._tale import PREEMPTED, Place, Step, decisions, tell

current: Recorder | None = None

_LOSES_TIME = "has run later: it was preempted while no other thread ran, or a server of fiberrt.testing took its time"
_MOST_STEPS = 20_000  # remembered: the newest


class _Thread:
    """What the recorder knows of a thread."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = ""
        self.place: Place | None = None  # the last line that has begun
        self.waits_for: Any = None  # a lock, a queue, a Thread
        self.point: tuple[str, Any] | None = None  # when it may be preempted in the call of a lock, and the lock
        self.preempted_by: Chosen | None = None  # the choice that has preempted it, until the story tells it
        self.error: BaseException | None = None  # the last that it has raised
        self.set_aside: dict[int, int] = {}  # how often it had taken a lock that a condition's wait() has released


class Recorder:
    """Gets each line of the program before it runs, and the waits of locks and queues."""

    def __init__(self, program: Program, root: CodeType, trace: str) -> None:
        """root: what calls the test. trace: the file with the choices of the run."""
        self.program = program
        self._root = root
        self._choices = Choices(trace)
        self._untold: list[Chosen] = []  # choices that have been read
        self.steps: deque[Step] = deque(maxlen=_MOST_STEPS)
        self.left_out = 0
        self.stuck: list[str] = []  # the threads at a deadlock, as text; nothing is recorded after it
        self._threads: dict[int, _Thread] = {}
        self._last: _Thread | None = None
        self._holders: dict[int, list[tuple[_Thread, Place | None]]] = {}  # by the id of the lock
        self._waiters: dict[int, list[_Thread]] = {}  # by the id of the Condition: those not notified
        self._names = Names(program)
        self._kept: dict[int, Any] = {}  # locks, so that the id of each is its own
        self._begun_s: float | None = None  # the time of the first step
        self._looked_s = 0.0  # the time when the choices were read
        self._times_matter = False

    # --- What the program's run reports

    def before_line(self, frame: FrameType, goes_on: bool) -> None:
        thread = self._thread()
        place = _place(frame)
        switched = self._switched_to(thread)
        if switched or goes_on or thread.place != place:
            goes_on = goes_on or (switched and thread.place == place)
            self._add(Step(thread, place, how="goes on in" if goes_on else "leaves" if leaves_block(frame) else ""))
        thread.place = place

    def raised(self, frame: FrameType, error: BaseException) -> None:
        thread = self._thread()
        if error is thread.error or isinstance(error, (StopIteration, GeneratorExit)):
            return
        thread.error = error
        if _is_deadlock(error):
            self._freeze()
        self._switched_to(thread)
        if thread.place != _place(frame):
            thread.place = _place(frame)
            self._add(Step(thread, thread.place, how="goes on in"))
        values = values_after(frame) if isinstance(error, AssertionError) and not error.args else ""
        note = f"gets {_in_short(error)}" + (f" ({values})" if values else "")
        self._add(Step(thread, None, note, error=id(error)))

    def preempted(self) -> None:
        """Note that the choice just made preempts this thread."""
        thread = self._thread()
        chosen = self._choices.new()
        choice = chosen.pop() if chosen else None
        if self._last is not None:  # otherwise they were made before the test
            self._untold += chosen
        if self._last is not thread:
            self._switched_to(thread)
        thread.preempted_by = choice

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
        if before is None:
            self._runs(thread)

    @contextmanager
    def at(self, when: str, thing: Any) -> Iterator[None]:
        """Surrounds a preemption point of a lock."""
        thread = self._thread()
        self._runs(thread)
        before, thread.point = thread.point, (when, thing)
        try:
            yield
        finally:
            thread.point = before
        self._runs(thread)

    def timed_out(self, thing: Any) -> None:
        self._times_matter = True
        use = self._names.use(thing, sys._getframe())
        self._note(self._thread(), f"has waited for {self._names.of(use)} until its time limit" if use else "reaches a time limit")

    def belongs(self, lock: Any, condition: Any) -> None:
        """Note the lock of a new condition."""
        self._names.belongs(lock, condition)

    def taken(self, lock: Any) -> None:
        thread = self._thread()
        self._kept[id(lock)] = lock
        self._holders.setdefault(id(lock), []).append((thread, thread.place))

    def released(self, lock: Any) -> None:
        holders, thread = self._holders.get(id(lock), []), self._thread()
        self._goes_on(thread)
        own = [i for i, (holder, _) in enumerate(holders) if holder is thread]
        if holders:
            del holders[own[-1] if own else -1]

    def released_wholly(self, lock: Any) -> None:
        """Note that a condition's wait() releases a lock, however often the thread has taken it."""
        holders, thread = self._holders.get(id(lock), []), self._thread()
        self._goes_on(thread)
        thread.set_aside[id(lock)] = sum(holder is thread for holder, _ in holders)
        holders[:] = [entry for entry in holders if entry[0] is not thread]

    def taken_again(self, lock: Any) -> None:
        """Note that the wait() has taken the lock again as often."""
        for _ in range(self._thread().set_aside.pop(id(lock), 0) or 1):
            self.taken(lock)

    def begins_to_wait(self, condition: Any) -> None:
        self._kept[id(condition)] = condition
        self._waiters.setdefault(id(condition), []).append(self._thread())

    def ends_to_wait(self, condition: Any) -> None:
        waiters = self._waiters[id(condition)]
        if self._thread() in waiters:
            waiters.remove(self._thread())

    def notifies(self, condition: Any, count: int) -> None:
        waiters = self._waiters.setdefault(id(condition), [])
        notified = [waiter.name for waiter in waiters[:count]]
        del waiters[:count]
        use = self._names.use(condition, sys._getframe())
        if use is None or (use.owner is not condition and not notified):
            return  # within a library
        whom = f"wakes {' and '.join(notified)}" if notified else "wakes no thread: none waits for it"
        others = " and ".join(waiter.name for waiter in waiters)
        if others:
            whom += f", not {others}"
        self._note(self._thread(), f"notifies {self._names.of(use)}, which {whom}")

    # --- Steps

    def _add(self, step: Step, time_s: float | None = None) -> None:
        if not self.stuck:
            self.left_out += len(self.steps) == _MOST_STEPS
            now_s = time.monotonic()  # not before the first step: the run's choices are not known to the simulation
            self._begun_s = now_s if self._begun_s is None else self._begun_s
            self.steps.append(step._replace(time_s=now_s - self._begun_s if time_s is None else time_s))

    def forget_steps(self) -> None:
        self.left_out += len(self.steps)
        self.steps.clear()

    def _note(self, thread: _Thread, note: str) -> None:
        self._runs(thread)
        self._add(Step(thread, None, note))

    def _goes_on(self, thread: _Thread) -> None:
        """Record that a thread goes on, before the holders of a lock change: the last thread may wait for it. Does not
        look at the clock otherwise, because time passes with each look."""
        if self._last is not thread:
            self._runs(thread)

    def _runs(self, thread: _Thread) -> None:
        """Record that a thread goes on, if another one ran before."""
        if self._switched_to(thread) and thread.place is not None:
            self._add(Step(thread, thread.place, how="goes on in"))

    def _switched_to(self, thread: _Thread) -> bool:
        """Record why the last thread has stopped, if it is another one. Return whether it is."""
        last, self._last = self._last, thread
        if last is None:
            self._choices.new()  # made before the test: how often threads are preempted
        before_s, self._looked_s = self._looked_s, time.monotonic()
        if last is None or (last is thread and self._looked_s == before_s):  # a wait takes time
            return False
        chosen, self._untold = self._untold + self._choices.new(), []
        note, _, detail = ("" if last is thread else self._why(last)).partition("\n")
        stopped_s = self.steps[-1].time_s if self.steps else 0.0  # time does not pass while a thread runs
        by, last.preempted_by = last.preempted_by, None
        lost = [choice for choice in chosen if choice.is_program]
        if by is not None and not note.startswith(PREEMPTED):  # it runs again, or has run in a library since
            lost, by = [by, *lost], None
        for choice in lost:
            self._add(Step(last, None, _LOSES_TIME, choice=choice), stopped_s)
        if note:
            if by is not None and by.number > 1:
                note = note.replace(PREEMPTED, f"{PREEMPTED} for 3 ms instead of 1 ms,", 1)
            self._add(Step(last, None, note, detail, choice=by), stopped_s)
        for choice in chosen:
            if not choice.is_program:
                self._add(Step(thread, None, f"runs now, because {choice.reason}", choice=choice))
        return last is not thread

    def _thread(self) -> _Thread:
        number = _fiberrt.ident()
        known = self._threads.get(number)
        if known is None:
            known = self._threads[number] = _Thread(number)
        self._learn_name(known)
        return known

    def _learn_name(self, known: _Thread) -> None:
        """Look for a thread's name, if it is not known. A thread has no number yet when it begins."""
        if known.name:
            return
        thread = threading._active.get(known.number)  # type: ignore[attr-defined]
        if thread is None:  # it is still in start()
            begins = list(threading._limbo.values())  # type: ignore[attr-defined]
            thread = next((one for one in begins if one.ident == known.number), None)
        if thread is not None:
            known.name = self._names.of_thread(thread)

    def _name_all(self) -> None:
        for known in self._threads.values():
            self._learn_name(known)
            known.name = known.name or "a thread"

    # --- Names and reasons

    def _frame(self, thread: _Thread) -> FrameType | None:
        """Return a thread's innermost frame."""
        if thread.number == _fiberrt.ident():
            return sys._getframe()
        fiber = next((one for one in _fiberrt.fibers() if _number(one) == thread.number), None)
        return None if fiber is None else _fiberrt.frame(fiber)

    def _holders_of(self, thing: Any) -> list[tuple[_Thread, Place | None]]:
        if isinstance(thing, threading.Thread):
            return [(known, None) for known in self._threads.values() if known.number == thing.ident]
        return self._holders.get(id(thing), [])

    def _wait(self, thread: _Thread) -> str:
        """Tell for what a thread waits, and its holders."""
        use = self._names.use(thread.waits_for, self._frame(thread))
        if use is None:
            return "waits"
        if use.is_start:
            return f"starts {self._names.of_thread(use.owner)}"
        name = f"waits for {self._names.of(use)}" + (f" in {use.inside}" if use.inside else "")
        if isinstance(thread.waits_for, threading.Thread):
            return name
        if isinstance(thread.waits_for, _fiberrt.Semaphore):
            return f"{name}, which has no permit left"
        for holder, place in self._holders_of(thread.waits_for):  # all are of one thread
            return f"{name}, which {holder.name} has held since {place or 'its begin'}"
        return name

    def _why(self, thread: _Thread) -> str:
        """Return why a thread does not run now, and in a second line the details."""
        fiber = next((one for one in _fiberrt.fibers() if _number(one) == thread.number), None)
        if fiber is None or fiber.done:
            return "ends"
        what = _fiberrt.waits_for(fiber)
        if what is None:
            return "lets other threads run"
        if what == "preempted":
            return f"{PREEMPTED} {self._where(thread, fiber)}"
        if thread.waits_for is not None:
            return self._wait(thread)
        self._times_matter = self._times_matter or what == "sleep"
        calls = self._calls(fiber)
        return f"waits{f' in {calls}' if calls else ''} ({what})"

    def _where(self, thread: _Thread, fiber: Any) -> str:
        """Return where a thread was preempted, and in a second line the step that would follow."""
        if thread.point is not None:
            when, thing = thread.point
            use = self._names.use(thing, _fiberrt.frame(fiber))
            if use is not None and use.is_start:
                return f"while it starts {self._names.of_thread(use.owner)}"
            if use is not None:
                return f"in {use.inside}, {when} its lock" if use.inside else f"{when} {self._names.of(use)}"
        frame = _fiberrt.frame(fiber)
        while frame is not None and not self.program.contains(frame.f_code):
            frame = frame.f_back
        if frame is None:
            return "before its first line" if thread.place is None else "after its last line"
        place = _place(frame)
        half = half_done(frame)
        where = f"between reading and writing {half} in" if half else "in the middle of" if place == thread.place else "before"
        if where == "before" and leaves_block(frame):
            where = "before it leaves"
        values = values_in(frame)
        return f"{where} {place}\n: {place.source}" + (f" ({values})" if values else "")

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
                self._add(Step(thread, None, self._wait(thread)))
            self.stuck = self._circle() or self._all_waiting()

    def _circle(self) -> list[str]:
        """Return the threads that wait for each other in a circle, as text; empty if there are none."""
        for first in self._threads.values():
            path: list[_Thread] = []
            thread: _Thread | None = first
            while thread is not None and thread.waits_for is not None and thread not in path:
                path.append(thread)
                thread = next((holder for holder, _ in self._holders_of(thread.waits_for) if holder is not thread), None)
            if thread is first and path:
                return [line for one in path for line in self._stuck(one)]
        return []

    def _stuck(self, thread: _Thread) -> list[str]:
        return [f"{thread.name} {self._wait(thread)}", *self._lines_of(thread)]

    def _lines_of(self, thread: _Thread) -> list[str]:
        """Return the program's lines in the thread's stack, the innermost first."""
        fiber = next((one for one in _fiberrt.fibers() if _number(one) == thread.number), None)
        frame = None if fiber is None else _fiberrt.frame(fiber)
        text = []
        while frame is not None and frame.f_code is not self._root:
            if self.program.contains(frame.f_code):
                place = _place(frame)
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

    # --- The text

    def tell(self, error: BaseException | None = None) -> list[str]:
        """Return the story, until the exception that fails the test."""
        self._name_all()
        steps = self._until(error)
        text = tell(steps, self.left_out, self._times_matter)
        after = sum(step.place is not None for step in self.steps) - sum(step.place is not None for step in steps)
        return [*text, f"... {after} lines after the failure"] if after else text

    def decisions(self, error: BaseException | None) -> list[str]:
        """Return the decisions of the schedule, until then."""
        self._name_all()
        return decisions(self._until(error))

    def cause(self, error: BaseException) -> list[str]:
        """Return which thread gets the exception, and where."""
        self._name_all()
        steps = self._until(error)
        if self.stuck or not steps or steps[-1].error != id(error):
            return []
        place = next((step.place for step in reversed(steps) if step.place is not None), None)
        text = f"{steps[-1].thread.name} {steps[-1].note}"
        return [text] if place is None else [text, f"    {place!s:<24} {place.source}"]

    def _until(self, error: BaseException | None) -> list[Step]:
        steps = list(self.steps)
        end = max((i for i, step in enumerate(steps) if step.error == id(error)), default=len(steps) - 1)
        return steps[: end + 1]


def _place(frame: FrameType) -> Place:
    return Place(frame.f_code.co_filename, frame.f_lineno)


def _number(fiber: Any) -> int:
    return int(_fiberrt.number_of(fiber))


def _is_deadlock(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and str(error).startswith("deadlock:")


def _in_short(error: BaseException) -> str:
    try:
        text = str(error).partition("\n")[0]
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
