# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bugs that were reported of caches, executors and clients: the same fault, in own and much smaller code."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .. import together
from . import planted


class Cache:
    """Forgets an item after ten seconds."""

    def __init__(self) -> None:
        self.items = {"key": "value"}
        self.ends = {"key": time.monotonic() + 10}
        self.lock = threading.Lock()

    def expire(self) -> None:
        for key in list(self.items):
            if self.ends[key] <= time.monotonic():
                del self.items[key]

    def __setitem__(self, key: str, value: str) -> None:
        self.expire()
        self.ends[key] = time.monotonic() + 10
        self.items[key] = value


class LockedCache(Cache):
    def __setitem__(self, key: str, value: str) -> None:
        with self.lock:
            super().__setitem__(key, value)


@planted(Cache, LockedCache, "if self.ends[key] <= time.monotonic():", "del self.items[key]",
         report="https://github.com/tkem/cachetools/issues/288")  # fmt: skip
def cache(Cache: type) -> None:
    """Both threads find the same item too old, and the second to delete it gets KeyError."""
    cache = Cache()
    time.sleep(10)
    together(ann=lambda: cache.__setitem__("a", "1"), bob=lambda: cache.__setitem__("b", "2"))


class Executor:
    """Runs each call in a new thread. At the end of the process it waits for them."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.ended = False
        self.lock = threading.Lock()

    def submit(self, call: Callable[[], None]) -> None:
        if self.ended:
            return
        thread = threading.Thread(target=call, name="worker", daemon=True)
        thread.start()
        self.threads.append(thread)

    def end(self) -> None:
        self.ended = True
        for thread in list(self.threads):
            thread.join()


class LockedExecutor(Executor):
    def submit(self, call: Callable[[], None]) -> None:
        with self.lock:
            super().submit(call)

    def end(self) -> None:
        with self.lock:
            self.ended = True
        super().end()


@planted(Executor, LockedExecutor, "if self.ended:", "self.ended = True", "self.threads.append(thread)",
         report="https://github.com/python/cpython/issues/75964")  # fmt: skip
def executor(Executor: type) -> None:
    """A thread submits a call while another ends the executor, which does not wait for the new worker."""
    executor = Executor()
    calls = []

    def call() -> None:
        calls.append("begins")
        time.sleep(1)
        calls.append("ends")

    submitter = threading.Thread(target=lambda: executor.submit(call), name="submitter")
    submitter.start()
    time.sleep(0.001)
    executor.end()
    submitter.join()
    time.sleep(0.5)
    assert calls in ([], ["begins", "ends"])


class Worker:
    """A thread that works. If its work fails, it says so under the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.broken = False
        self.thread = threading.Thread(target=self.work, name="worker")
        self.thread.start()

    def work(self) -> None:
        with self.lock:
            self.broken = True

    def shut_down(self) -> None:
        with self.lock:
            if not self.broken:
                self.thread.join()


class UnlockedWorker(Worker):
    def shut_down(self) -> None:
        self.thread.join()


@planted(Worker, UnlockedWorker, "with self.lock:", "self.thread.join()", switches="waits",
         report="https://github.com/python/cpython/pull/125492")  # fmt: skip
def worker(Worker: type) -> None:
    """The shutdown holds the lock while it joins the worker, which needs the lock for its end."""
    Worker().shut_down()


class Future:
    def __init__(self) -> None:
        self.done = threading.Event()
        self.error = ""


class Broker:
    """Sends requests. A close makes those in flight fail."""

    def __init__(self) -> None:
        self.connected = True
        self.in_flight: list[Future] = []
        self.lock = threading.Lock()

    def send(self) -> Future:
        future = Future()
        if not self.connected:
            self.fail(future)
            return future
        self.in_flight.append(future)
        return future

    def close(self) -> None:
        self.connected = False
        failed, self.in_flight = self.in_flight, []
        for future in failed:
            self.fail(future)

    def fail(self, future: Future) -> None:
        future.error = "the connection is closed"
        future.done.set()


class LockedBroker(Broker):
    def send(self) -> Future:
        with self.lock:
            return super().send()

    def close(self) -> None:
        with self.lock:
            super().close()


@planted(Broker, LockedBroker, "if not self.connected:", "failed, self.in_flight = self.in_flight, []",
         "self.in_flight.append(future)", report="https://github.com/dpkp/kafka-python/pull/1746")  # fmt: skip
def broker(Broker: type) -> None:
    """A request is added to those in flight after a close has made them fail. Its sender waits forever."""
    broker = Broker()
    together(sender=lambda: broker.send().done.wait(), closer=broker.close)
