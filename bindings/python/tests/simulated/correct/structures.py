# SPDX-License-Identifier: MIT OR Apache-2.0
"""Small structures as libraries have them: pools, caches, registries."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, LifoQueue

from .. import together
from . import correct


class Pool:
    def __init__(self, size: int) -> None:
        self.free: LifoQueue[int] = LifoQueue()
        for number in range(size):
            self.free.put(number)

    @contextmanager
    def connection(self) -> Iterator[int]:
        number = self.free.get()
        try:
            yield number
        finally:
            self.free.put(number)


@correct
def connection_pool() -> None:
    pool, used = Pool(2), set()

    def query() -> None:
        with pool.connection() as number:
            assert number not in used
            used.add(number)
            time.sleep(1)
            used.remove(number)

    together(ann=query, bob=query, cid=query)
    assert pool.free.qsize() == 2


@correct
def connection_returned_after_an_error() -> None:
    pool = Pool(1)

    def query() -> None:
        try:
            with pool.connection():
                raise OSError
        except OSError:
            pass

    together(ann=query, bob=query)
    assert pool.free.qsize() == 1


@correct
def cache_of_the_library() -> None:
    @functools.lru_cache
    def square(number: int) -> int:
        return number * number

    got = []
    together(ann=lambda: got.append(square(3)), bob=lambda: got.append(square(3)))
    assert got == [9, 9]


class Recent:
    def __init__(self) -> None:
        self.lock, self.items = threading.Lock(), OrderedDict()

    def get(self, key: int) -> int:
        with self.lock:
            if key in self.items:
                self.items.move_to_end(key)
                return self.items[key]
        value = key * 10
        with self.lock:
            self.items[key] = value
            if len(self.items) > 2:
                self.items.popitem(last=False)
        return value


@correct
def recently_used() -> None:
    cache = Recent()
    together(ann=lambda: [cache.get(key) for key in (1, 2, 3)], bob=lambda: [cache.get(key) for key in (3, 2, 1)])
    assert len(cache.items) == 2


class SingleFlight:
    """One thread computes a value; the others wait for it."""

    def __init__(self) -> None:
        self.lock, self.running, self.values, self.calls = threading.Lock(), {}, {}, 0

    def get(self, key: str) -> int:
        with self.lock:
            if key in self.values:
                return self.values[key]
            done = self.running.get(key)
            first = done is None
            if done is None:
                done = self.running[key] = threading.Event()
        if first:
            time.sleep(1)
            with self.lock:
                self.calls += 1
                self.values[key] = 7
            done.set()
        else:
            done.wait()
        return self.values[key]


@correct
def single_flight() -> None:
    flight, got = SingleFlight(), []
    together(ann=lambda: got.append(flight.get("a")), bob=lambda: got.append(flight.get("a")))
    assert got == [7, 7]
    assert flight.calls == 1


@correct
def publish_and_subscribe() -> None:
    lock, subscribers, got = threading.Lock(), [], []

    def subscribe() -> None:
        with lock:
            subscribers.append(got.append)

    def publish() -> None:
        with lock:
            current = list(subscribers)
        for subscriber in current:
            subscriber("news")

    together(ann=subscribe, bob=publish, cid=subscribe)
    publish()
    assert len(got) >= 2


@correct
def closed_once() -> None:
    lock, state, closings = threading.Lock(), ["open"], []

    def close() -> None:
        with lock:
            if state[0] == "closed":
                return
            state[0] = "closed"
        closings.append(1)

    together(ann=close, bob=close, cid=close)
    assert closings == [1]


@correct
def counted_references() -> None:
    lock, count, freed = threading.Lock(), [2], []

    def release() -> None:
        with lock:
            count[0] -= 1
            last = count[0] == 0
        if last:
            freed.append(1)

    together(ann=release, bob=release)
    assert freed == [1]


@correct
def weak_references() -> None:
    class Thing:
        pass

    things: weakref.WeakValueDictionary[str, Thing] = weakref.WeakValueDictionary()
    lock = threading.Lock()

    def get() -> Thing:
        with lock:
            thing = things.get("one")
            if thing is None:
                thing = things["one"] = Thing()
            return thing

    got: list[Thing] = []
    together(ann=lambda: got.append(get()), bob=lambda: got.append(get()))
    assert got[0] is got[1]


@correct
def deque_as_a_mailbox() -> None:
    letters: deque[int] = deque()
    got = []

    def take() -> None:
        while len(got) < 2:
            try:
                got.append(letters.popleft())
            except IndexError:
                time.sleep(0.1)

    together(taker=take, ann=lambda: letters.append(1), bob=lambda: letters.append(2))
    assert sorted(got) == [1, 2]


@correct
def batches() -> None:
    lock, items, sent = threading.Lock(), [], []

    def add(item: int) -> None:
        with lock:
            items.append(item)
            batch = items.copy() if len(items) == 2 else []
            if batch:
                items.clear()
        if batch:
            sent.append(sorted(batch))

    together(ann=lambda: add(1), bob=lambda: add(2))
    assert sent == [[1, 2]]


@correct
def drained_at_the_end() -> None:
    jobs: LifoQueue[int] = LifoQueue()
    done: list[int] = []
    for number in range(4):
        jobs.put(number)

    def work() -> None:
        while True:
            try:
                done.append(jobs.get_nowait())
            except Empty:
                return

    together(ann=work, bob=work)
    assert sorted(done) == [0, 1, 2, 3]
