# SPDX-License-Identifier: MIT OR Apache-2.0
"""Locks, and structures that are made of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .. import together
from . import correct


@correct
def counter_with_a_lock() -> None:
    lock = threading.Lock()
    count = [0]

    def add() -> None:
        for _ in range(2):
            with lock:
                count[0] += 1

    together(ann=add, bob=add, cid=add)
    assert count == [6]


_module_lock = threading.Lock()
_module_count = [0]


@correct
def lock_of_the_module() -> None:
    def add() -> None:
        with _module_lock:
            old = _module_count[0]
            _module_count[0] = old + 1

    before = _module_count[0]
    together(ann=add, bob=add)
    assert _module_count[0] == before + 2


@correct
def recursive_lock() -> None:
    lock = threading.RLock()
    held = []

    def nested(depth: int) -> None:
        with lock:
            held.append(threading.get_ident())
            if depth:
                nested(depth - 1)
                assert len(set(held)) == 1
            else:
                held.clear()
                held.append(threading.get_ident())
            if depth == 2:
                held.clear()

    together(ann=lambda: nested(2), bob=lambda: nested(2))


@correct
def try_lock() -> None:
    lock = threading.Lock()
    taken = []

    def work() -> None:
        if lock.acquire(blocking=False):
            taken.append(1)
            lock.release()

    together(ann=work, bob=work)
    assert taken


@correct
def lock_with_a_time_limit() -> None:
    lock = threading.Lock()
    with lock:
        results = []
        together(ann=lambda: results.append(lock.acquire(timeout=2)))
    assert results == [False]


@correct
def dining_philosophers() -> None:
    forks = [threading.Lock() for _ in range(3)]
    meals = []

    def eat(place: int) -> None:
        low, high = sorted((place, (place + 1) % 3))
        with forks[low], forks[high]:
            meals.append(place)

    together(ann=lambda: eat(0), bob=lambda: eat(1), cid=lambda: eat(2))
    assert sorted(meals) == [0, 1, 2]


@correct
def double_checked_initialization() -> None:
    lock = threading.Lock()
    made: list[list[int]] = []
    shared: dict[str, list[int]] = {}

    def get() -> list[int]:
        if "it" not in shared:
            with lock:
                if "it" not in shared:
                    made.append([1])
                    shared["it"] = made[-1]
        return shared["it"]

    results: list[list[int]] = []
    together(ann=lambda: results.append(get()), bob=lambda: results.append(get()))
    assert len(made) == 1
    assert results[0] is results[1]


class ReadersWriter:
    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.readers = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self.condition:
            self.readers += 1
        yield
        with self.condition:
            self.readers -= 1
            self.condition.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self.condition:
            self.condition.wait_for(lambda: self.readers == 0)
            yield


@correct
def readers_and_writer() -> None:
    lock = ReadersWriter()
    pair = [0, 0]

    def read() -> None:
        with lock.reading():
            first = pair[0]
            assert first == pair[1]

    def write() -> None:
        with lock.writing():
            pair[0] += 1
            pair[1] += 1

    together(ann=read, bob=read, cid=write, dan=write)
    assert pair == [2, 2]


@correct
def ordered_transfers() -> None:
    money = [100, 100]
    locks = [threading.Lock(), threading.Lock()]

    def transfer(giver: int, taker: int) -> None:
        with locks[min(giver, taker)], locks[max(giver, taker)]:
            money[giver] -= 10
            money[taker] += 10

    together(ann=lambda: transfer(0, 1), bob=lambda: transfer(1, 0))
    assert money == [100, 100]


@correct
def lock_for_each_key() -> None:
    guard, locks = threading.Lock(), {}
    values: dict[str, int] = {"a": 0, "b": 0}

    def add(key: str) -> None:
        with guard:
            lock = locks.setdefault(key, threading.Lock())
        with lock:
            values[key] += 1

    together(ann=lambda: add("a"), bob=lambda: add("a"), cid=lambda: add("b"))
    assert values == {"a": 2, "b": 1}


@correct
def lock_released_by_another_thread() -> None:
    lock = threading.Lock()
    lock.acquire()
    together(ann=lock.acquire, bob=lock.release)
    assert lock.locked()


@correct
def once() -> None:
    lock = threading.Lock()
    calls = []

    def first_only() -> None:
        with lock:
            if not calls:
                calls.append(threading.current_thread().name)

    together(ann=first_only, bob=first_only, cid=first_only)
    assert len(calls) == 1


@correct
def spin_on_a_flag() -> None:
    import time

    flag = []

    def wait() -> None:
        while not flag:
            time.sleep(0)

    together(ann=wait, bob=lambda: flag.append(1))


@correct
def ticket_lock() -> None:
    guard = threading.Condition()
    next_ticket, serving = [0], [0]
    order = []

    def enter() -> None:
        with guard:
            ticket = next_ticket[0]
            next_ticket[0] += 1
            guard.wait_for(lambda: serving[0] == ticket)
        order.append(ticket)
        with guard:
            serving[0] += 1
            guard.notify_all()

    together(ann=enter, bob=enter, cid=enter)
    assert order == [0, 1, 2]
