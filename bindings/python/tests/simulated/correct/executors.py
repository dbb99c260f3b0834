# SPDX-License-Identifier: MIT OR Apache-2.0
"""Executors, futures, and the ends of threads."""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, TimeoutError, as_completed, wait
from multiprocessing.pool import ThreadPool

from .. import together
from . import correct


@correct
def map_of_an_executor() -> None:
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda number: number * 2, range(4))) == [0, 2, 4, 6]


@correct
def submitted_calls() -> None:
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(pow, number, 2) for number in range(3)]
        assert sorted(future.result() for future in as_completed(futures)) == [0, 1, 4]


@correct
def failing_call() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(lambda: 1 // 0).exception(), ZeroDivisionError)


@correct
def first_completed() -> None:
    with ThreadPoolExecutor(2) as pool:
        slow, fast = pool.submit(time.sleep, 10), pool.submit(time.sleep, 1)
        done, left = wait([slow, fast], return_when=FIRST_COMPLETED)
        assert (done, left) == ({fast}, {slow})


@correct
def result_with_a_time_limit() -> None:
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(time.sleep, 10)
        try:
            future.result(timeout=1)
        except TimeoutError:
            return
        raise AssertionError


@correct
def cancelled_future() -> None:
    release = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        first, second = pool.submit(release.wait), pool.submit(len, "x")
        assert second.cancel()
        release.set()
        assert first.result()


@correct
def callbacks_of_a_future() -> None:
    future: Future[int] = Future()
    called: list[int] = []

    def watch() -> None:
        future.add_done_callback(lambda done: called.append(done.result()))

    together(ann=watch, bob=lambda: future.set_result(3), cid=watch)
    assert called == [3, 3]


@correct
def shutdown_waits() -> None:
    done = []
    pool = ThreadPoolExecutor(2)
    for number in range(3):
        pool.submit(done.append, number)
    pool.shutdown()
    assert sorted(done) == [0, 1, 2]


@correct
def shutdown_cancels() -> None:
    begun, release = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        release.wait()

    pool = ThreadPoolExecutor(1)
    pool.submit(work)
    waiting = pool.submit(work)
    begun.wait()
    pool.shutdown(wait=False, cancel_futures=True)
    release.set()
    assert waiting.cancelled()


@correct
def nested_executors() -> None:
    with ThreadPoolExecutor(1) as outer, ThreadPoolExecutor(1) as inner:
        assert outer.submit(lambda: inner.submit(len, "abc").result()).result() == 3


@correct
def initialized_workers() -> None:
    local = threading.local()

    def begin() -> None:
        local.value = 7

    with ThreadPoolExecutor(2, initializer=begin) as pool:
        assert {pool.submit(lambda: local.value).result() for _ in range(3)} == {7}


@correct
def thread_pool_of_multiprocessing() -> None:
    with ThreadPool(2) as pool:
        assert pool.map(abs, [-1, -2, -3]) == [1, 2, 3]


@correct
def result_of_a_thread() -> None:
    class Returning(threading.Thread):
        value = 0

        def run(self) -> None:
            self.value = 5

    thread = Returning()
    thread.start()
    thread.join()
    assert thread.value == 5
    assert not thread.is_alive()


@correct
def daemon_left_waiting() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()


@correct
def thread_that_outlives_the_test() -> None:
    threading.Thread(target=time.sleep, args=(5,)).start()


@correct
def joined_with_a_time_limit() -> None:
    thread = threading.Thread(target=time.sleep, args=(5,))
    thread.start()
    thread.join(timeout=1)
    assert thread.is_alive()
    thread.join()


@correct
def threads_started_by_threads() -> None:
    depths = []

    def nest(depth: int) -> None:
        depths.append(depth)
        if depth:
            child = threading.Thread(target=nest, args=(depth - 1,))
            child.start()
            child.join()

    together(ann=lambda: nest(2))
    assert depths == [2, 1, 0]
