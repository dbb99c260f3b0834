# SPDX-License-Identifier: MIT OR Apache-2.0
"""Conditions, events, semaphores and barriers."""

from __future__ import annotations

import threading
import time

from .. import together
from . import correct


@correct
def hand_over() -> None:
    condition, box = threading.Condition(), []

    def take() -> None:
        with condition:
            while not box:
                condition.wait()
            assert box.pop() == 1

    def give() -> None:
        with condition:
            box.append(1)
            condition.notify()

    together(taker=take, giver=give)


@correct
def ping_pong() -> None:
    condition, turn, log = threading.Condition(), ["ping"], []

    def play(own: str, other: str) -> None:
        for _ in range(2):
            with condition:
                condition.wait_for(lambda: turn[0] == own)
                log.append(own)
                turn[0] = other
                condition.notify()

    together(ann=lambda: play("ping", "pong"), bob=lambda: play("pong", "ping"))
    assert log == ["ping", "pong"] * 2


class BoundedBuffer:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.not_full, self.not_empty = threading.Condition(self.lock), threading.Condition(self.lock)
        self.items: list[int] = []

    def put(self, item: int) -> None:
        with self.not_full:
            self.not_full.wait_for(lambda: len(self.items) < 1)
            self.items.append(item)
            self.not_empty.notify()

    def get(self) -> int:
        with self.not_empty:
            self.not_empty.wait_for(lambda: self.items)
            item = self.items.pop()
            self.not_full.notify()
            return item


@correct
def bounded_buffer() -> None:
    buffer, got = BoundedBuffer(), []
    together(
        ann=lambda: buffer.put(1), bob=lambda: buffer.put(2),
        cid=lambda: got.append(buffer.get()), dan=lambda: got.append(buffer.get()),
    )  # fmt: skip
    assert sorted(got) == [1, 2]


@correct
def event_starts_all() -> None:
    start, ran = threading.Event(), []

    def run() -> None:
        start.wait()
        ran.append(1)

    together(ann=run, bob=run, starter=start.set)
    assert len(ran) == 2


@correct
def latch() -> None:
    condition, left, seen = threading.Condition(), [2], []

    def arrive() -> None:
        with condition:
            left[0] -= 1
            condition.notify_all()

    def wait() -> None:
        with condition:
            condition.wait_for(lambda: left[0] == 0)
            seen.append(left[0])

    together(waiter=wait, ann=arrive, bob=arrive)
    assert seen == [0]


@correct
def barrier() -> None:
    barrier, before = threading.Barrier(3), []

    def meet() -> None:
        before.append(1)
        barrier.wait()
        assert len(before) == 3

    together(ann=meet, bob=meet, cid=meet)


@correct
def barrier_of_two_rounds() -> None:
    barrier, log = threading.Barrier(2), []

    def work() -> None:
        for step in range(2):
            log.append(step)
            barrier.wait()

    together(ann=work, bob=work)
    assert log == [0, 0, 1, 1]


@correct
def barrier_with_an_action() -> None:
    calls = []
    barrier = threading.Barrier(2, action=lambda: calls.append(1))
    together(ann=barrier.wait, bob=barrier.wait)
    assert calls == [1]


@correct
def broken_barrier() -> None:
    barrier, errors = threading.Barrier(2), []

    def meet() -> None:
        try:
            barrier.wait(timeout=1)
        except threading.BrokenBarrierError:
            errors.append(1)

    together(ann=meet)
    assert errors == [1]


@correct
def semaphore_limits() -> None:
    free, guard, inside = threading.Semaphore(2), threading.Lock(), [0]

    def work() -> None:
        with free:
            with guard:
                inside[0] += 1
                assert inside[0] <= 2
            time.sleep(0.1)
            with guard:
                inside[0] -= 1

    together(ann=work, bob=work, cid=work, dan=work)


@correct
def semaphore_as_a_signal() -> None:
    ready, log = threading.Semaphore(0), []

    def wait() -> None:
        ready.acquire()
        log.append("second")

    def signal() -> None:
        log.append("first")
        ready.release()

    together(waiter=wait, signaller=signal)
    assert log == ["first", "second"]


@correct
def bounded_semaphore() -> None:
    free = threading.BoundedSemaphore(1)

    def work() -> None:
        with free:
            pass

    together(ann=work, bob=work)
    try:
        free.release()
    except ValueError:
        return
    raise AssertionError


@correct
def wait_with_a_time_limit() -> None:
    condition = threading.Condition()
    with condition:
        assert not condition.wait(timeout=3)
        assert not condition.wait_for(lambda: False, timeout=3)


@correct
def stop_flag() -> None:
    stop, ticks = threading.Event(), []

    def tick() -> None:
        while not stop.wait(1):
            ticks.append(1)

    def stop_later() -> None:
        time.sleep(3.5)
        stop.set()

    together(ticker=tick, stopper=stop_later)
    assert len(ticks) == 3


@correct
def future_of_own_making() -> None:
    class Promise:
        def __init__(self) -> None:
            self.done, self.value = threading.Event(), 0

        def set(self, value: int) -> None:
            self.value = value
            self.done.set()

        def get(self) -> int:
            self.done.wait()
            return self.value

    promise, got = Promise(), []
    together(ann=lambda: got.append(promise.get()), bob=lambda: promise.set(5), cid=lambda: got.append(promise.get()))
    assert got == [5, 5]


@correct
def reset_event() -> None:
    ready, taken = threading.Event(), threading.Event()
    got, box = [], []

    def give() -> None:
        for number in range(2):
            box.append(number)
            ready.set()
            taken.wait()
            taken.clear()

    def take() -> None:
        for _ in range(2):
            ready.wait()
            ready.clear()
            got.append(box.pop())
            taken.set()

    together(giver=give, taker=take)
    assert got == [0, 1]
