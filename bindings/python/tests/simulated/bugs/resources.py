# SPDX-License-Identifier: MIT OR Apache-2.0
"""Connections that threads share, and time limits."""

from __future__ import annotations

import threading
import time

from .. import together
from . import planted


class Connections:
    """At most two are in use. A request uses one, and one more for its second query."""

    def __init__(self) -> None:
        self.free = threading.Semaphore(2)

    def request(self) -> None:
        with self.free:
            self.query()

    def query(self) -> None:
        with self.free:
            pass


class ReusedConnections(Connections):
    def request(self) -> None:
        with self.free:
            pass  # the query uses the same connection


@planted(Connections, ReusedConnections, "with self.free:", "self.query()", switches="waits")
def connections(Connections: type) -> None:
    """Each thread has a connection of a pool of two, and waits for another before it returns its own."""
    pool = Connections()
    together(ann=pool.request, bob=pool.request)


class Door:
    def __init__(self) -> None:
        self.closed = False
        self.closings = 0
        self.lock = threading.Lock()

    def close(self) -> None:
        if not self.closed:
            self.really_close()
            self.closed = True

    def really_close(self) -> None:
        self.closings += 1
        if self.closings > 1:
            raise OSError("it is closed already")


class LockedDoor(Door):
    def close(self) -> None:
        with self.lock:
            super().close()


@planted(Door, LockedDoor, "if not self.closed:", "self.really_close()")
def door(Door: type) -> None:
    """Both threads see that the door is not closed before one has closed it, and it is closed twice."""
    door = Door()
    together(ann=door.close, bob=door.close)


class Calls:
    """A caller waits a second for the answer of another thread."""

    def __init__(self) -> None:
        self.answered: dict[str, threading.Event] = {}
        self.answers: dict[str, str] = {}

    def ask(self, question: str) -> str:
        self.answered[question] = threading.Event()
        in_time = self.answered[question].wait(timeout=1)
        del self.answered[question]
        return self.answers[question] if in_time else "no answer"

    def answer(self, question: str) -> None:
        if question in self.answered:
            self.answers[question] = "blue"
            self.answered[question].set()


class KeptCalls(Calls):
    def answer(self, question: str) -> None:
        event = self.answered.get(question)
        if event is not None:
            self.answers[question] = "blue"
            event.set()


@planted(Calls, KeptCalls, "if question in self.answered:", "del self.answered[question]",
         "self.answered[question].set()")  # fmt: skip
def calls(Calls: type) -> None:
    """The caller's time limit ends after the other thread has seen that it waits, and before that thread wakes it."""
    calls = Calls()

    def answer() -> None:
        time.sleep(1)
        calls.answer("colour?")

    together(caller=lambda: calls.ask("colour?"), answerer=answer)


class Session:
    """A timer closes the session if it is not used for a minute."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_open = True
        self.last_use = time.monotonic()
        threading.Timer(60, self.expire).start()

    def expire(self) -> None:
        if time.monotonic() - self.last_use >= 60:
            self.is_open = False

    def use(self) -> None:
        if self.is_open:
            self.last_use = time.monotonic()
            self.send()

    def send(self) -> None:
        if not self.is_open:
            raise OSError("the session is closed")


class LockedSession(Session):
    def expire(self) -> None:
        with self.lock:
            super().expire()

    def use(self) -> None:
        with self.lock:
            super().use()


@planted(Session, LockedSession, "if self.is_open:", "self.is_open = False", "self.send()")
def session(Session: type) -> None:
    """The timer sees that the session is not in use just before it is used, and closes it."""
    session = Session()
    time.sleep(60)
    session.use()
