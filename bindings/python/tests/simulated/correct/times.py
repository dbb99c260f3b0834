# SPDX-License-Identifier: MIT OR Apache-2.0
"""Clocks, timers and schedulers: the time is simulated."""

from __future__ import annotations

import datetime
import heapq
import sched
import threading
import time

from .. import together
from . import correct


@correct
def sleepers_wake_in_order() -> None:
    woken = []

    def sleep(seconds: int) -> None:
        time.sleep(seconds)
        woken.append(seconds)

    together(ann=lambda: sleep(30), bob=lambda: sleep(10), cid=lambda: sleep(20))
    assert woken == [10, 20, 30]


@correct
def timer() -> None:
    fired = threading.Event()
    begun = time.time()
    threading.Timer(3600, fired.set).start()
    fired.wait()
    assert 3600 <= time.time() - begun < 3601


@correct
def cancelled_timer() -> None:
    calls = []
    timer = threading.Timer(10, lambda: calls.append(1))
    timer.start()
    time.sleep(5)
    timer.cancel()
    timer.join()
    assert not calls


@correct
def a_day_passes() -> None:
    begun = datetime.datetime.now()
    time.sleep(24 * 3600)
    assert (datetime.datetime.now() - begun).days == 1


@correct
def scheduler_of_the_library() -> None:
    log: list[str] = []
    scheduler = sched.scheduler(time.monotonic, time.sleep)
    scheduler.enter(2, 1, log.append, ("second",))
    scheduler.enter(1, 1, log.append, ("first",))
    together(ann=scheduler.run)
    assert log == ["first", "second"]


class Scheduler:
    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.jobs: list[tuple[float, str]] = []
        self.log: list[str] = []

    def add(self, delay_s: float, name: str) -> None:
        with self.condition:
            heapq.heappush(self.jobs, (time.monotonic() + delay_s, name))
            self.condition.notify()

    def run(self) -> None:
        with self.condition:
            while "stop" not in self.log:
                left_s = self.jobs[0][0] - time.monotonic() if self.jobs else None
                if left_s is None or left_s > 0:
                    self.condition.wait(left_s)
                else:
                    self.log.append(heapq.heappop(self.jobs)[1])


@correct
def scheduler_with_a_heap() -> None:
    scheduler = Scheduler()

    def add() -> None:
        scheduler.add(20, "second")
        scheduler.add(10, "first")
        scheduler.add(30, "stop")

    together(scheduler=scheduler.run, adder=add)
    assert scheduler.log == ["first", "second", "stop"]


@correct
def rate_limiter() -> None:
    lock, next_turn, times = threading.Lock(), [0.0], []

    def call() -> None:
        with lock:
            now = time.monotonic()
            next_turn[0] = max(next_turn[0], now) + 1
            delay_s = next_turn[0] - now
        time.sleep(delay_s)
        times.append(time.monotonic())

    begun = time.monotonic()
    together(ann=call, bob=call, cid=call)
    assert max(times) - begun >= 3


@correct
def token_bucket() -> None:
    tokens = threading.Semaphore(1)

    def refill() -> None:
        for _ in range(2):
            time.sleep(1)
            tokens.release()

    begun = time.monotonic()
    together(refiller=refill, ann=tokens.acquire, bob=tokens.acquire, cid=tokens.acquire)
    assert time.monotonic() - begun >= 2


@correct
def retries_with_growing_delays() -> None:
    attempts = []

    def attempt() -> None:
        for delay_s in (1, 2, 4):
            attempts.append(time.monotonic())
            time.sleep(delay_s)

    together(ann=attempt)
    assert attempts[1] - attempts[0] >= 1
    assert attempts[2] - attempts[1] >= 2


@correct
def heartbeat() -> None:
    last, stop, missed = [time.monotonic()], threading.Event(), []

    def beat() -> None:
        while not stop.wait(1):
            last[0] = time.monotonic()

    def watch() -> None:
        for _ in range(4):
            time.sleep(2)
            if time.monotonic() - last[0] > 1.5:
                missed.append(1)
        stop.set()

    together(beater=beat, watcher=watch)
    assert not missed


@correct
def cache_with_expiry() -> None:
    lock, entries = threading.Lock(), {}

    def get(key: str) -> float:
        with lock:
            entry = entries.get(key)
            if entry is None or time.monotonic() - entry >= 10:
                entry = entries[key] = time.monotonic()
            return entry

    first = get("a")
    together(ann=lambda: get("a"), bob=lambda: get("b"))
    time.sleep(10)
    assert get("a") > first


@correct
def repeated_timer() -> None:
    done, ticks = threading.Event(), []

    def tick() -> None:
        ticks.append(1)
        if len(ticks) < 3:
            threading.Timer(60, tick).start()
        else:
            done.set()

    tick()
    done.wait()
    assert len(ticks) == 3
