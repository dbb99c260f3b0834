# SPDX-License-Identifier: MIT OR Apache-2.0
"""map, wait, as_completed and FiberExecutor; and many fibers of several threads that exchange."""

import concurrent.futures
import gc
import threading

import pytest

import fiberrt
from fiberrt import FiberExecutor, Queue, as_completed, wait


def fail(error=KeyError):
    raise error


def test_map():
    running, most = [0], [0]

    def f(x, y=0):
        running[0] += 1
        most[0] = max(most[0], running[0])
        for _ in range(5 - x % 5):
            fiberrt.reschedule()
        running[0] -= 1
        return x + y

    assert list(fiberrt.map(f, range(20), limit=3)) == list(range(20)) and most == [3]
    assert list(fiberrt.map(f, range(20))) == list(range(20)) and most == [20]
    assert list(fiberrt.map(f, [1, 2, 3], [10, 20])) == [11, 22]
    assert list(fiberrt.map(f, [])) == []
    for bad, error in [((1, []), TypeError), ((f,), TypeError), ((f, 1), TypeError)]:
        with pytest.raises(error):
            fiberrt.map(*bad)
    with pytest.raises(ValueError):
        fiberrt.map(f, [], limit=0)


def test_map_raises_where_the_result_is_due_and_cancels_the_rest():
    ended = []

    def f(x):
        if x == 1:
            raise KeyError(x)
        try:
            if x:
                fiberrt.sleep(60)
        finally:
            ended.append(x)

    results = fiberrt.map(f, range(4), limit=4)
    assert next(results) is None
    with pytest.raises(KeyError):
        next(results)
    assert list(results) == []
    fiberrt.reschedule()
    fiberrt.reschedule()
    assert sorted(ended) == [0, 2, 3]

    def items():
        yield 0
        raise OSError

    results = fiberrt.map(f, items())
    assert next(results) is None
    with pytest.raises(OSError):
        next(results)


def test_an_abandoned_map_is_cancelled():
    results = fiberrt.map(fiberrt.sleep, [60, 60, 60], limit=2)
    fiberrt.reschedule()
    del results
    gc.collect()  # that no fiber is left is seen by the fixture


def test_wait():
    event = fiberrt.Event()
    slow, quick, wrong = fiberrt.spawn(event.wait), fiberrt.spawn(int), fiberrt.spawn(fail)
    done, left = wait([slow, quick, wrong, quick], return_when=fiberrt.FIRST_COMPLETED)
    assert quick in done and slow in left
    done, left = wait([slow, quick, wrong], return_when=fiberrt.FIRST_EXCEPTION)
    assert wrong in done and left == {slow}
    done, left = wait([slow, quick], timeout=0.01)
    assert (done, left) == ({quick}, {slow})
    assert wait([slow], timeout=0) == (set(), {slow})
    event.set()
    assert wait([slow, quick, wrong]) == ({slow, quick, wrong}, set())
    assert wait([]) == (set(), set())
    with pytest.raises(TypeError):
        wait([1])
    with pytest.raises(ValueError):
        wait([], return_when="x")
    with pytest.raises(RuntimeError):
        wait([fiberrt.current()])
    with pytest.raises(KeyError):
        wrong.result()


def test_as_completed():
    events = [fiberrt.Event() for _ in range(3)]
    fibers = [fiberrt.spawn(event.wait) for event in events]
    completed = as_completed(fibers)
    for i in (2, 0, 1):
        events[i].set()
        assert next(completed) is fibers[i]
    assert next(completed, None) is None
    stuck = fiberrt.spawn(fiberrt.sleep, 60)
    with pytest.raises(TimeoutError):
        list(as_completed([stuck, fibers[0]], timeout=0.01))
    assert stuck.cancel()
    assert list(as_completed([stuck])) == [stuck]


def test_they_wait_for_futures_of_threads():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        go = threading.Event()
        future = pool.submit(go.wait)
        assert wait([future], timeout=0.01).not_done == {future}
        fiberrt.spawn(go.set)
        assert list(as_completed([future])) == [future] and future.result() is True


def test_executor():
    running, most = [0], [0]

    def f(x):
        running[0] += 1
        most[0] = max(most[0], running[0])
        fiberrt.reschedule()
        running[0] -= 1
        return x * x

    with FiberExecutor(max_workers=2) as executor:
        futures = [executor.submit(f, i) for i in range(6)]
        assert isinstance(futures[0], concurrent.futures.Future)
        assert [future.result(60) for future in futures] == [0, 1, 4, 9, 16, 25] and most == [2]
        assert list(executor.map(f, range(3))) == [0, 1, 4]
        wrong = executor.submit(fail)
        with pytest.raises(KeyError):
            wrong.result()
        assert isinstance(wrong.exception(), KeyError)
        stuck = executor.submit(fiberrt.sleep, 0.05)
        with pytest.raises(TimeoutError):
            stuck.result(0)
        inner = executor.submit(executor.shutdown)
        with pytest.raises(RuntimeError):
            inner.result(60)
    assert stuck.done()
    with pytest.raises(RuntimeError):
        executor.submit(f, 1)
    executor.shutdown()
    with pytest.raises(ValueError):
        FiberExecutor(0)


def test_executor_is_used_and_waited_for_by_threads():
    got = []
    with FiberExecutor(10) as executor:

        def plain():
            futures = [executor.submit(lambda x: x + 1, i) for i in range(50)]
            concurrent.futures.wait(futures)
            got.append(sum(future.result() for future in futures))

        threads = [threading.Thread(target=plain) for _ in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            fiberrt.sleep(0.001)
    assert got == [1275] * 3


def test_cancelled_futures():
    executor = FiberExecutor(1)
    event = fiberrt.Event()
    first, second, third = executor.submit(event.wait), executor.submit(int), executor.submit(int)
    fiberrt.reschedule()
    fiberrt.reschedule()
    assert not first.cancel() and second.cancel() and first.running()
    executor.shutdown(wait=False, cancel_futures=True)
    assert wait([third], timeout=60).done == {third} and third.cancelled()
    event.set()
    executor.shutdown()
    assert first.result() is True
    with pytest.raises(concurrent.futures.CancelledError):
        second.result()


def test_an_executor_whose_thread_ends_leaves_no_caller_waiting():
    made = []

    def home():
        executor = FiberExecutor(1)
        made.append([executor, executor.submit(fiberrt.sleep, 60), executor.submit(int)])
        fiberrt.sleep(0.01)

    thread = threading.Thread(target=home)
    thread.start()
    while thread.is_alive():
        fiberrt.sleep(0.001)
    executor, running, pending = made[0]
    for future in (running, pending):
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(60)
    with pytest.raises(RuntimeError):
        executor.submit(int)


def test_a_forgotten_executor_ends():
    FiberExecutor().submit(int)
    gc.collect()  # that no fiber is left is seen by the fixture


def test_four_threads_of_500_fibers_exchange():
    """Each fiber passes items to a fiber of the next thread, in every way there is, and gets some from the thread
    before."""
    threads, fibers, rounds = 4, 500, 20
    queues = [Queue(50) for _ in range(threads)]
    channels = [fiberrt.Channel(i % 2 * 8) for i in range(threads)]
    lock, condition, count = fiberrt.RLock(), fiberrt.Condition(), [0, 0]
    permits = fiberrt.Semaphore(7)
    go = fiberrt.Event()
    sums, errors = [], []

    def run(t, i):
        go.wait()
        total = 0
        for _ in range(rounds):
            if i % 2:
                queues[(t + 1) % threads].put(i)
                total += queues[t].get()
            elif i % 4:
                channels[(t + 1) % threads].send(i)
            else:
                total += channels[t].receive()
            with lock, permits:
                count[0] += 1
        with condition:
            count[1] += 1
            condition.notify_all() if count[1] == threads * fibers else condition.wait()
        return total

    def main(t):
        try:
            with fiberrt.fail_after(280):
                own = [fiberrt.spawn(run, t, i) for i in range(fibers)]
                sums.append(sum(fiber.result() for fiber in own))
        except BaseException as error:
            errors.append(error)

    all_threads = [threading.Thread(target=main, args=(t,)) for t in range(threads)]
    for thread in all_threads:
        thread.start()
    go.set()
    while any(thread.is_alive() for thread in all_threads):
        fiberrt.sleep(0.01)
    assert errors == []
    given = sum(i for i in range(fibers) if i % 2 or i % 4) * rounds * threads
    assert sum(sums) == given and count == [threads * fibers * rounds, threads * fibers]
    assert all(q.empty() for q in queues)


@pytest.mark.parametrize("refused", ["spawn", "watch"])
def test_an_executor_that_has_no_memory_for_a_call(monkeypatch, unraisable, refused):
    from fiberrt import _executor

    def refuse(*args):
        raise MemoryError

    executor = fiberrt.FiberExecutor()
    monkeypatch.setattr(_executor if refused == "spawn" else _executor._fiberrt, refused, refuse)
    futures = [executor.submit(int) for _ in range(3)]
    for future in futures:
        with fiberrt.fail_after(10), pytest.raises(concurrent.futures.CancelledError):
            future.result()
    monkeypatch.undo()
    executor.shutdown()
    assert executor._fiber.exception is not None


@pytest.mark.parametrize("wait", ["fiberrt.sleep, 60", "fiberrt.to_thread, time.sleep, 60", "fiberrt.offload, time.sleep, 0.1"])
def test_an_executor_at_exit(lines, wait):
    assert lines(f"""
        import fiberrt, sys, time
        executor = fiberrt.FiberExecutor(2)
        class Late:
            def __del__(self):
                try:
                    executor.submit(print, 'late')
                except RuntimeError as error:
                    print(error)
        executor.itself = executor  # it goes with the last modules
        sys.modules['late'] = Late()
        futures = [executor.submit({wait}) for _ in range(3)]
        for future in futures[1:]:
            future.add_done_callback(lambda future: print(future.done()))
        for _ in range(3):
            fiberrt.reschedule()
        """) == ["True", "True", "cannot schedule new futures after shutdown"]
