# SPDX-License-Identifier: MIT OR Apache-2.0
"""Misuse of locks, queues, channels and sockets raises an exception, and never crashes or hangs."""

import copy
import gc
import math
import os
import pickle
import queue
import signal
import threading
import weakref

import pytest

import fiberrt
from fiberrt import _fiberrt, socket

MADE = [
    fiberrt.Lock, fiberrt.RLock, fiberrt.Semaphore, fiberrt.BoundedSemaphore, fiberrt.Event, fiberrt.Condition,
    fiberrt.Queue, fiberrt.LifoQueue, fiberrt.PriorityQueue, fiberrt.Channel,
]  # fmt: skip


def held(cls):
    """A wait that nothing ends, as a function of its timeout."""
    thing = cls(0) if cls in (fiberrt.Semaphore, fiberrt.BoundedSemaphore) else cls()
    if cls is fiberrt.Lock:
        thing.acquire()
        return lambda seconds: thing.acquire(timeout=seconds)
    if cls is fiberrt.RLock:
        fiberrt.spawn(thing.acquire).join()
        return lambda seconds: thing.acquire(timeout=seconds)
    if cls is fiberrt.Condition:

        def wait(seconds):
            with thing:
                return thing.wait(seconds)

        return wait
    for name in ("acquire", "wait", "get", "receive"):
        if hasattr(thing, name):
            return lambda seconds: getattr(thing, name)(timeout=seconds)
    raise AssertionError(cls)


@pytest.mark.parametrize("cls", MADE)
def test_neither_copied_nor_pickled(cls):
    # A shallow copy of the two that are written in Python shares their lock, as one of the standard library's does.
    shallow = () if cls in (fiberrt.Condition, fiberrt.PriorityQueue) else (copy.copy,)
    for make in (*shallow, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            make(cls())


@pytest.mark.parametrize("cls", MADE)
def test_strange_timeouts(cls):
    wait = held(cls)
    for bad in (math.nan, "1", [], 1j):
        with pytest.raises((TypeError, ValueError)):
            wait(bad)
    try:
        assert not wait(1e-9)
    except (queue.Empty, TimeoutError):
        pass


@pytest.mark.parametrize("cls", MADE)
def test_a_cancel_ends_each_wait(cls):
    wait = held(cls)
    fibers = [fiberrt.spawn(wait, 3600) for _ in range(3)]
    fiberrt.reschedule()
    for fiber in fibers:
        fiber.cancel()
    for fiber in fibers:
        assert fiber.join(60)
        assert fiber.cancelled


@pytest.mark.parametrize("cls", [cls for cls in MADE if cls is not fiberrt.Channel])  # which is final
def test_freed_in_a_cycle(cls):
    class Mine(cls):
        pass

    thing = Mine()
    thing.itself = thing
    seen = weakref.ref(thing)
    del thing
    gc.collect()
    assert seen() is None


def test_collected_while_others_wait():
    things = [fiberrt.Queue(), fiberrt.Channel(), fiberrt.Event()]
    fibers = [fiberrt.spawn(f) for f in (things[0].get, things[1].receive, things[2].wait)]
    fiberrt.reschedule()
    things.clear()
    for _ in range(3):
        gc.collect()
    assert [fiber.done for fiber in fibers] == [False] * 3
    for fiber in fibers:
        fiber.cancel()
        assert fiber.join(60)


def test_a_finalizer_of_an_item_uses_the_queue():
    items = fiberrt.Queue()
    seen = []

    class Item:
        def __del__(self):
            fiberrt.reschedule()
            seen.append(items.qsize())

    for _ in range(5):
        items.put(Item())
    items.shutdown(immediate=True)
    assert len(seen) == 5
    assert items.unfinished_tasks == 0


def test_a_finalizer_that_waits_and_raises(unraisable):
    class Item:
        def __del__(self):
            fiberrt.sleep(0)
            raise LookupError("from __del__")

    items = fiberrt.Queue()
    items.put(Item())
    del items
    gc.collect()
    assert unraisable == [(LookupError, "from __del__")]


def test_a_signal_handler_puts():
    items = fiberrt.Queue()
    before = signal.signal(signal.SIGUSR1, lambda *_: items.put("signal"))
    try:
        fiber = fiberrt.spawn(lambda: os.kill(os.getpid(), signal.SIGUSR1))
        assert items.get(timeout=60) == "signal"
        assert fiber.join(60)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_ten_thousand_wait():
    event = fiberrt.Event()
    fibers = [fiberrt.spawn(event.wait) for _ in range(10_000)]
    fiberrt.reschedule()
    for fiber in fibers[::2]:
        fiber.cancel()
    event.set()
    fiberrt.wait(fibers)
    assert sum(fiber.cancelled for fiber in fibers) == 5000


def test_a_buffer_that_is_received_into_is_not_resized():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        buffer = bytearray(16)
        fiber = fiberrt.spawn(ours.recv_into, buffer)
        fiberrt.reschedule()
        with pytest.raises(BufferError):
            buffer.extend(b"x" * 100_000)
        theirs.sendall(b"abc")
        assert fiber.result() == 3
        buffer.extend(b"x")


def test_closed_during_sendall():
    ours, theirs = socket.socketpair()
    with theirs:
        data = bytearray(8_000_000)
        fiber = fiberrt.spawn(ours.sendall, data)
        fiberrt.sleep(0.01)
        assert not fiber.done
        ours.close()
        assert fiber.join(60)
        assert isinstance(fiber.exception, OSError)
        data.clear()  # the list is unused by now


def test_a_queue_of_a_thread_that_has_ended():
    made = []

    def make():
        made.append(fiberrt.Queue())
        made[0].put(1)
        fiberrt.sleep(0)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert made[0].get(timeout=60) == 1
    with pytest.raises(queue.Empty):
        made[0].get(timeout=0)


def test_forked_while_others_wait(lines):
    assert lines(
        """
        import os, fiberrt
        items = fiberrt.Queue()
        waits = [fiberrt.spawn(items.get) for _ in range(3)]
        fiberrt.reschedule()
        child = os.fork()
        if not child:
            try:
                new = fiberrt.Queue()
                fiber = fiberrt.spawn(new.get)
                new.put(7)
                assert fiber.result() == 7
            except BaseException:
                os._exit(1)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        for i in range(3):
            items.put(i)
        print(sorted(fiber.result() for fiber in waits))
        """
    ) == ["0", "[0, 1, 2]"]


def test_waited_in_at_exit(lines):
    assert lines(
        """
        import fiberrt
        def wait(f):
            try:
                f()
            finally:
                print("ended")
        things = fiberrt.Queue().get, fiberrt.Channel().receive, fiberrt.Event().wait
        for f in (*things, fiberrt.Semaphore(0).acquire):
            fiberrt.spawn(wait, f)
        fiberrt.reschedule()
        """
    ) == ["ended"] * 4


def test_patched_twice(lines):
    assert lines(
        """
        import fiberrt.monkey, socket
        fiberrt.monkey.patch()
        first = socket.socket
        fiberrt.monkey.patch()
        fiberrt.monkey.patch("socket", "socket")
        print(first is socket.socket)
        """
    ) == ["True"]


def test_no_fiber_selects_itself_or_a_main_flow():
    main = fiberrt.current()

    def f():
        for fiber in (main, fiberrt.current()):
            with pytest.raises(RuntimeError, match="cannot"):
                fiberrt.select(fiber, timeout=60)
        return True

    assert fiberrt.spawn(f).result()
    with pytest.raises(RuntimeError, match="its own end"):
        fiberrt.select(main, timeout=60)


@pytest.mark.parametrize(
    "hold",
    [
        "thing = fiberrt.Queue(); thing.put(last)",
        "thing = fiberrt.LifoQueue(); thing.put(last)",
        "thing = Mine(); thing.put(last)",
        "thing = fiberrt.Channel(1); thing.send(last)",
        "thing = fiberrt.spawn(lambda last: last, last); thing.join()",
    ],
)
def test_freed_during_another_free(lines, hold):
    assert lines(f"""
        import fiberrt
        class Mine(fiberrt.Queue):
            pass
        def f():
            last = None
            for _ in range(100_000):
                {hold}
                last = thing
            return True
        print(fiberrt.spawn(f).result())
        """) == ["True"]


def test_a_function_whose_name_waits_until_it_has_run(lines, monkeypatch):
    monkeypatch.setenv("PYTHONMALLOC", "debug")  # so that what was freed is seen
    assert lines("""
        import fiberrt
        class Function:
            def __getattribute__(self, name):
                if name == '__qualname__':
                    fiberrt.sleep(0.001)
                return object.__getattribute__(self, name)
            def __getattr__(self, name):
                return type(self).__name__
            def __call__(self):
                pass
        print('(Function)' in repr(fiberrt.spawn(Function())))
        """) == ["True"]


def test_a_finalizer_sets_the_size_of_stacks_while_one_is_made(lines):
    assert lines("""
        import fiberrt, gc, sys
        class Sets:
            def __del__(self):
                fiberrt.stack_size(256 << 20)
        def deep(n):
            return sorted([n], key=lambda n: deep(n + 1))
        def f():
            try:
                deep(0)
            except RecursionError:
                return 'RecursionError'
        sys.setrecursionlimit(1_000_000)
        fiberrt.spawn(int).join()
        gc.disable()
        gc.collect()
        garbage = Sets()
        garbage.itself = garbage
        del garbage
        gc.set_threshold(1)
        containers = [[] for _ in range(10)]
        gc.enable()
        fiber = fiberrt.spawn(f)
        print(fiber.result())
        """) == ["RecursionError"]


@pytest.mark.parametrize("wait", ["fiber.join()", "fiberrt.sleep(0.01)"])
def test_a_fiber_ends_while_the_first_watches_it(wait):
    """As a finalizer waits that runs when the list of those is made."""

    class Waits:
        def __del__(self):
            exec(wait, {"fiber": fiber, "fiberrt": fiberrt})
            seen.append(fiber.done)

    def f():
        gc.disable()
        gc.collect()  # also what lists are made of without a collection
        lists = [[] for _ in range(1000)]
        garbage = Waits()
        garbage.itself = garbage
        del garbage
        gc.set_threshold(1)
        gc.enable()
        _fiberrt.watch(fiber, queue)
        gc.set_threshold(*before)
        gc.collect()
        return len(lists)

    before, seen, queue = gc.get_threshold(), [], fiberrt.Queue()
    fiber = fiberrt.spawn(fiberrt.reschedule)
    try:
        assert fiberrt.spawn(f).result() == 1000
    finally:
        gc.set_threshold(*before)
        gc.enable()
    assert seen == [True] and queue.get(timeout=60) is fiber and queue.empty()


def test_a_finalizer_sets_the_first_local_meanwhile():
    mine = fiberrt.local()

    class Sets:
        def __del__(self):
            mine.by_finalizer = 5

    def f():
        me = fiberrt.current()
        gc.disable()
        gc.collect()  # also what dicts are made of without a collection
        garbage = Sets()
        garbage.itself = garbage
        del garbage
        gc.set_threshold(1)
        gc.enable()
        first = me._locals
        gc.set_threshold(*before)
        gc.collect()
        return first is me._locals, mine.by_finalizer

    before = gc.get_threshold()
    try:
        assert fiberrt.spawn(f).result() == (True, 5)
    finally:
        gc.set_threshold(*before)
        gc.enable()


@pytest.mark.parametrize("begun", [False, True])
def test_a_throw_that_failed_for_lack_of_memory_is_not_raised(begun):
    testcapi = pytest.importorskip("_testcapi", reason="the interpreter has no _testcapi")
    error = KeyError("not thrown")
    refused = 0

    def f():
        fiberrt.reschedule()
        fiberrt.reschedule()
        return 5

    for n in range(10):
        fiber = fiberrt.spawn(f)
        if begun:
            fiberrt.reschedule()
        throw = fiber.throw
        try:
            testcapi.set_nomemory(n, n + 1)
            try:
                throw(error)
            finally:
                testcapi.remove_mem_hooks()
        except MemoryError:
            refused += 1
            assert fiber.result() == 5
        else:
            assert fiber.join() and fiber.exception is error
            break
    assert refused
