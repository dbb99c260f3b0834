# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names the locks and queues of a recorded run as the program does, and hides the locks within the libraries."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from ._program import Program
from ._source import call, receiver


class Use(NamedTuple):
    """The object whose method the program has called: a lock or a queue, or what owns the lock."""

    owner: Any
    text: str  # as the program names it; empty if that is not known
    is_lock_of: bool = False  # the owner is a Condition, and its lock is meant
    inside: str = ""  # the program's call, if the lock is within the owner

    @property
    def is_start(self) -> bool:
        """Whether start() of a Thread waits until the new thread runs."""
        return self.text == _STARTS


_JOINS, _STARTS = "join()", "start()"



class Names:
    """Names locks, queues and threads."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._conditions: dict[int, Any] = {}  # by the id of its lock: the first
        self._numbers: dict[type, list[Callable[[], Any]]] = {}  # return the named objects, in their order
        self._threads: dict[str, list[Callable[[], threading.Thread | None]]] = {}  # likewise, by their names

    def belongs(self, lock: Any, condition: Any) -> None:
        """Note the lock of a new condition."""
        self._conditions.setdefault(id(lock), condition)

    def use(self, thing: Any, frame: FrameType | None) -> Use | None:
        """Return the object whose method the program has called, in the innermost frames of a thread. thing: the lock
        that the method uses. None: the thread runs no code of the program."""
        called = None
        while frame is not None and not self._program.contains(frame.f_code):
            called, frame = frame, frame.f_back
        if frame is None or called is None:
            return Use(thing, _JOINS) if isinstance(thing, threading.Thread) else None
        owner = called.f_locals.get("self", thing)
        condition = self._conditions.get(id(thing))
        is_lock_of = condition is not None and (owner is condition or owner is thing)
        owner = condition if is_lock_of else owner
        inside = call(frame) if owner is not thing and not is_lock_of else ""
        if isinstance(thing, threading.Thread):
            return Use(thing, _JOINS, inside=inside)
        if isinstance(owner, threading.Thread) and called.f_code.co_name == "start":
            return Use(owner, _STARTS)
        return Use(owner, receiver(frame, owner), is_lock_of, inside)

    def of(self, use: Use) -> str:
        """Return what a lock or a queue is called: as the program names it, and its type and number."""
        if use.text == _JOINS:
            return f"the end of {self.of_thread(use.owner)}"
        kind = type(use.owner)
        name = f"{kind.__name__} {_number_in(self._numbers.setdefault(kind, []), use.owner)}"
        return ("the lock of " if use.is_lock_of else "") + (f"{use.text} ({name})" if use.text else name)

    def of_thread(self, thread: threading.Thread) -> str:
        """Return the name of a thread, with a number if an earlier thread has the same name."""
        name = _name_of(thread)
        number = _number_in(self._threads.setdefault(name, []), thread)
        return name if number == 1 else f"{name} ({number})"


def _number_in(known: list[Callable[[], Any]], thing: Any) -> int:
    """Return the number of an object in a list, to which it is added if it is not there."""
    number = next((i for i, other in enumerate(known, 1) if other() is thing), 0)
    if not number:
        try:
            known.append(weakref.ref(thing))  # the record must not change when an object is freed
        except TypeError:
            known.append(lambda: thing)
    return number or len(known)


def _name_of(thread: threading.Thread) -> str:
    if thread is threading.main_thread():
        return "main"
    kind = type(thread)
    return thread.name if kind is threading.Thread else f"{thread.name} ({kind.__name__})"
