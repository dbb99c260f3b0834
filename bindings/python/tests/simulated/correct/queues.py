# SPDX-License-Identifier: MIT OR Apache-2.0
"""Producers, consumers and pipelines."""

from __future__ import annotations

import queue
import threading
import time

from .. import together
from . import correct


@correct
def producer_and_consumer() -> None:
    items: queue.Queue[int | None] = queue.Queue(2)
    got = []

    def consume() -> None:
        while (item := items.get()) is not None:
            got.append(item)

    def produce() -> None:
        for item in (1, 2, 3, 4, None):
            items.put(item)

    together(producer=produce, consumer=consume)
    assert got == [1, 2, 3, 4]


@correct
def several_workers() -> None:
    jobs: queue.Queue[int | None] = queue.Queue()
    done: queue.Queue[int] = queue.Queue()

    def work() -> None:
        while (job := jobs.get()) is not None:
            done.put(job * job)

    for job in (1, 2, 3, None, None):
        jobs.put(job)
    together(ann=work, bob=work)
    assert sorted(done.get() for _ in range(3)) == [1, 4, 9]


@correct
def join_of_a_queue() -> None:
    jobs: queue.Queue[int] = queue.Queue()
    done = []

    def work() -> None:
        while True:
            done.append(jobs.get())
            jobs.task_done()

    threading.Thread(target=work, daemon=True).start()
    for job in (1, 2, 3):
        jobs.put(job)
    jobs.join()
    assert done == [1, 2, 3]


@correct
def pipeline() -> None:
    first: queue.Queue[int] = queue.Queue(1)
    second: queue.Queue[int] = queue.Queue(1)
    got = []
    together(
        source=lambda: [first.put(number) for number in range(3)],
        filter=lambda: [second.put(first.get() + 10) for _ in range(3)],
        sink=lambda: got.extend(second.get() for _ in range(3)),
    )
    assert got == [10, 11, 12]


@correct
def priorities() -> None:
    items: queue.PriorityQueue[int] = queue.PriorityQueue()
    together(ann=lambda: items.put(2), bob=lambda: items.put(1), cid=lambda: items.put(3))
    assert [items.get() for _ in range(3)] == [1, 2, 3]


@correct
def last_in_first_out() -> None:
    items: queue.LifoQueue[int] = queue.LifoQueue()

    def put_two() -> None:
        items.put(1)
        items.put(2)

    together(ann=put_two)
    assert (items.get(), items.get()) == (2, 1)


@correct
def simple_queue() -> None:
    items: queue.SimpleQueue[int] = queue.SimpleQueue()
    together(ann=lambda: items.put(1), bob=lambda: items.put(2))
    assert {items.get(), items.get()} == {1, 2}
    assert items.empty()


@correct
def get_with_a_time_limit() -> None:
    items: queue.Queue[int] = queue.Queue()
    begun = time.monotonic()
    try:
        items.get(timeout=5)
    except queue.Empty:
        assert time.monotonic() - begun >= 5
    else:
        raise AssertionError


@correct
def put_into_a_full_queue() -> None:
    items: queue.Queue[int] = queue.Queue(1)
    items.put(1)
    try:
        items.put(2, timeout=1)
    except queue.Full:
        assert items.qsize() == 1
    else:
        raise AssertionError


@correct
def polling_consumer() -> None:
    items: queue.Queue[int] = queue.Queue()
    got = []

    def poll() -> None:
        while len(got) < 2:
            try:
                got.append(items.get_nowait())
            except queue.Empty:
                time.sleep(0.01)

    together(consumer=poll, producer=lambda: [items.put(number) for number in (1, 2)])
    assert got == [1, 2]


@correct
def request_and_reply() -> None:
    requests: queue.Queue[tuple[int, queue.Queue[int]] | None] = queue.Queue()

    def serve() -> None:
        while (request := requests.get()) is not None:
            number, reply = request
            reply.put(number + 1)

    def ask(number: int) -> None:
        reply: queue.Queue[int] = queue.Queue()
        requests.put((number, reply))
        assert reply.get() == number + 1

    server = threading.Thread(target=serve)
    server.start()
    together(ann=lambda: ask(1), bob=lambda: ask(2))
    requests.put(None)
    server.join()
