# SPDX-License-Identifier: MIT OR Apache-2.0
"""State that the interpreter keeps per thread is separate for each fiber."""

import contextvars
import copy
import functools
import gc
import pickle
import socket
import sys
import threading
import tracemalloc
import weakref

import pytest

import fiberrt
from fiberrt import _fiberrt


def test_exceptions_that_are_handled():
    def f(kind):
        try:
            raise kind("x")
        except kind:
            for _ in range(5):
                fiberrt.reschedule()
                assert sys.exc_info()[0] is kind
            try:
                raise
            except kind as again:
                return type(again)

    kinds = [KeyError, ValueError, OSError]
    fibers = [fiberrt.spawn(f, kind) for kind in kinds]
    assert [fiber.result() for fiber in fibers] == kinds
    assert sys.exc_info() == (None, None, None)


def test_context_variables():
    var = contextvars.ContextVar("var", default=0)

    def f(n):
        assert var.get() == 5
        var.set(n)
        fiberrt.reschedule()
        assert var.get() == n
        assert contextvars.copy_context().run(g, n) == -n
        return var.get()

    def g(n):
        var.set(-n)
        fiberrt.reschedule()
        return var.get()

    var.set(5)
    fibers = [fiberrt.spawn(f, n) for n in range(1, 10)]
    assert [fiber.result() for fiber in fibers] == list(range(1, 10))
    assert var.get() == 5


def test_a_local_whose_init_fails_is_made_anew():
    class Mine(fiberrt.local):
        def __init__(self):
            calls.append(1)
            if len(calls) == 2:
                raise LookupError
            self.x = len(calls)

    def f():
        with pytest.raises(LookupError):
            mine.x
        return mine.x

    calls = []
    mine = Mine()
    assert fiberrt.spawn(f).result() == 3


def test_local():
    class Counted(fiberrt.local):
        made = 0

        def __init__(self, start):
            Counted.made += 1
            self.n = start

    mine, counted = fiberrt.local(), Counted(3)
    mine.x = 1

    def f():
        assert not hasattr(mine, "x")
        mine.x = 2
        counted.n += 1
        fiberrt.reschedule()
        del mine.x
        with pytest.raises(AttributeError):
            del mine.x
        return counted.n

    assert [fiberrt.spawn(f).result() for _ in range(3)] == [4, 4, 4]
    assert mine.x == 1 and mine.__dict__ == {"x": 1} and counted.n == 3 and Counted.made == 4
    with pytest.raises(TypeError):
        fiberrt.local(1)


@pytest.mark.parametrize("kind", [threading.local, fiberrt.local], ids=["threading", "fiberrt"])
def test_a_local_cannot_be_copied(kind):
    class Mine(kind):
        pass

    class Whole(kind):
        def __getstate__(self):
            return {"x": self.x}

        def __setstate__(self, state):
            self.x = state["x"] + 1

    class Reduced(kind):
        def __reduce__(self):
            return int, ("7",)

    for made in kind(), Mine():
        made.x = 1
        for how in copy.copy, copy.deepcopy, *(functools.partial(pickle.dumps, protocol=i) for i in range(6)):
            with pytest.raises((TypeError, pickle.PicklingError)):
                how(made)
    whole = Whole()
    whole.x = 1
    assert copy.copy(whole).x == 2 and copy.copy(Reduced()) == 7


def test_generators_pass_between_fibers():
    def numbers():
        for i in range(6):
            fiberrt.reschedule()
            yield i

    generator = numbers()
    seen = []

    def f():
        seen.append(next(generator))

    for _ in range(3):
        fiberrt.spawn(f).join()
    assert seen == [0, 1, 2] and next(generator) == 3
    busy = fiberrt.spawn(f)
    fiberrt.reschedule()
    with pytest.raises(ValueError, match="already executing"):
        next(generator)
    busy.join()


def test_recursion_depth_is_each_fibers_own():
    def deep(n):
        if n:
            return deep(n - 1)
        fiberrt.reschedule()
        return True

    fibers = [fiberrt.spawn(deep, 400) for _ in range(10)]
    assert all(fiber.result() for fiber in fibers)


def test_setrecursionlimit_in_flight():
    def deep(n):
        return deep(n - 1) if n else True

    def tries(*levels):
        for n in levels:
            fiberrt.reschedule()
            try:
                results.append(deep(n))
            except RecursionError:
                results.append(False)

    results = []
    limit = sys.getrecursionlimit()
    fiber = fiberrt.spawn(tries, 300, 150, 300, 300, 10_000)
    fiberrt.reschedule()
    fiberrt.reschedule()
    try:
        sys.setrecursionlimit(250)  # while the fiber waits; the frames of pytest count in the main flow only
        fiberrt.reschedule()
        fiberrt.reschedule()
        sys.setrecursionlimit(limit + 5000)
        fiberrt.reschedule()
        fiber.join()
    finally:
        sys.setrecursionlimit(limit)
    assert results == [True, True, False, True, False]  # the last one because its stack is too small


def test_traceback_ends_at_the_fibers_function():
    def f():
        return [frame.f_code.co_name for frame in walk(sys._getframe())]

    def walk(frame):
        while frame:
            yield frame
            frame = frame.f_back

    assert fiberrt.spawn(f).result() == ["<listcomp>", "f"] or fiberrt.spawn(f).result() == ["f"]


def test_frames_that_outlive_the_fiber():
    def f():
        x = 5
        return sys._getframe()

    frame = fiberrt.spawn(f).result()
    for _ in range(5):
        fiberrt.spawn(lambda: [i for i in range(100)]).join()
    assert frame.f_locals["x"] == 5 and frame.f_back is None


def test_trace_and_profile_functions():
    seen = []

    def f():
        fiberrt.reschedule()
        g()

    def g():
        pass

    fiber = fiberrt.spawn(f)
    fiberrt.reschedule()
    sys.setprofile(lambda frame, event, arg: seen.append(frame.f_code.co_name) if event == "call" else None)
    try:
        fiberrt.reschedule()
    finally:
        sys.setprofile(None)
    fiber.join()
    assert "g" in seen
    seen.clear()

    def trace(frame, event, arg):
        seen.append((frame.f_code.co_name, event))
        return trace

    sys.settrace(trace)
    try:
        fiberrt.spawn(f).join()
    finally:
        sys.settrace(None)
    assert ("f", "call") in seen and ("g", "return") in seen


def test_tracemalloc():
    tracemalloc.start()
    try:
        def f():
            kept = []
            for _ in range(10):
                kept.append(bytearray(1000))
                fiberrt.reschedule()
            return len(kept)

        fibers = [fiberrt.spawn(f) for _ in range(10)]
        assert [fiber.result() for fiber in fibers] == [10] * 10
        assert tracemalloc.take_snapshot().statistics("lineno")
    finally:
        tracemalloc.stop()


def test_garbage_is_collected_while_fibers_wait():
    class Node:
        pass

    def f():
        for _ in range(20):
            a = Node()
            a.self = a
            fiberrt.reschedule()
            gc.collect(0)
        return sys.getrefcount(a) >= 2

    fibers = [fiberrt.spawn(f) for _ in range(5)]
    assert all(fiber.result() for fiber in fibers)


def test_trashcan():
    class Waits:
        def __del__(self):
            gone.append(1)

    gone = []

    def f():
        chain = [Waits()]
        for _ in range(100_000):
            chain = [chain]
        del chain
        fiberrt.reschedule()
        return len(gone)

    assert fiberrt.spawn(f).result() == 1


def test_switches_in_the_midst_of_the_trashcan():
    class Waits:
        def __init__(self, below):
            self.below = below

        def __del__(self):
            fiberrt.reschedule()
            gone.append(1)

    gone = []

    def f():
        chain = None
        for i in range(2000):
            chain = [Waits(chain)] if i % 10 == 0 else (chain,)
        del chain
        return True

    fibers = [fiberrt.spawn(f) for _ in range(5)]
    assert all(fiber.result() for fiber in fibers) and len(gone) == 5 * 200


def test_callbacks_that_ensure_the_gil_state():
    import ctypes

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)  # releases the GIL, takes it by PyGILState_Ensure

    def f(n):
        def add(value):
            fiberrt.reschedule()
            return value + n

        callback = kind(add)
        for _ in range(20):
            assert callback(1) == n + 1
            fiberrt.reschedule()

    fibers = [fiberrt.spawn(f, n) for n in range(5)]
    for fiber in fibers:
        fiber.result()


def test_sqlite_callbacks():
    sqlite3 = pytest.importorskip("sqlite3")

    def f(n):
        base = sqlite3.connect(":memory:")

        def plus(value):
            fiberrt.reschedule()
            return value + n

        base.create_function("plus", 1, plus)
        for i in range(10):
            assert base.execute("select plus(?)", (i,)).fetchone() == (i + n,)
            fiberrt.reschedule()
        base.close()

    for fiber in [fiberrt.spawn(f, n) for n in range(5)]:
        fiber.result()


def test_exceptions_of_cpp_are_each_fibers_own():
    import ctypes

    class Globals(ctypes.Structure):
        _fields_ = [("caught", ctypes.c_void_p), ("uncaught", ctypes.c_uint)]

    get = ctypes.CDLL("libstdc++.so.6").__cxa_get_globals
    get.restype = ctypes.POINTER(Globals)

    def f(n):
        seen = []
        for count in range(1, 4):
            get().contents.uncaught = 10 * n + count
            fiberrt.reschedule()
            seen.append(get().contents.uncaught)
        get().contents.uncaught = 0
        return seen

    fibers = [fiberrt.spawn(f, n) for n in range(3)]
    assert [fiber.result() for fiber in fibers] == [[10 * n + 1, 10 * n + 2, 10 * n + 3] for n in range(3)]
    assert get().contents.uncaught == 0


def test_the_gil_is_released_only_when_the_poll_really_blocks():
    a, b = socket.socketpair()
    begin, seen = threading.Lock(), []
    begin.acquire()

    def waits_for_the_gil():
        with begin:
            seen.append(1)

    def echo():
        for _ in range(50):
            _fiberrt.send(b.fileno(), _fiberrt.recv(b.fileno(), 10))

    thread = threading.Thread(target=waits_for_the_gil)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # so that no thread is asked to release the GIL
    try:
        thread.start()
        fiberrt.sleep(0.01)  # until it waits for the lock
        fiber = fiberrt.spawn(echo)
        begin.release()
        for _ in range(50):
            fiberrt.reschedule()
            _fiberrt.send(a.fileno(), b"x")
            assert _fiberrt.recv(a.fileno(), 10) == b"x"
        meanwhile = len(seen)
        fiber.join()
        assert meanwhile == 0
        with fiberrt.fail_after(60):
            while not seen:
                fiberrt.sleep(0.001)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
        a.close()
        b.close()


def test_coroutines_and_asyncio_in_a_fiber():
    import asyncio

    async def work():
        await asyncio.sleep(0.001)
        return 4

    assert fiberrt.spawn(lambda: asyncio.run(work())).result() == 4


def test_threads():
    def work(n):
        total = []

        def f(i):
            for _ in range(3):
                fiberrt.reschedule()
            fiberrt.sleep(0.0001 * (i % 7))
            total.append(i)

        fibers = [fiberrt.spawn(f, i) for i in range(500)]
        for fiber in fibers:
            fiber.join()
        results[n] = sum(total)

    results = {}
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: 499 * 250 for n in range(4)}


def test_join_cancel_and_throw_from_another_thread():
    ready = threading.Event()
    fibers = {}

    def work():
        fibers["slow"] = fiberrt.spawn(fiberrt.sleep, 60)
        fibers["thrown"] = fiberrt.spawn(fiberrt.sleep, 60)
        fibers["quick"] = fiberrt.spawn(lambda: (fiberrt.sleep(0.01), 9)[1])
        fiberrt.reschedule()
        ready.set()
        for fiber in fibers.values():
            fiber.join()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    assert fibers["quick"].result() == 9
    assert fibers["slow"].join(0.001) is False
    fibers["slow"].cancel()
    fibers["thrown"].throw(KeyError)
    assert fibers["slow"].join() and fibers["slow"].cancelled
    with pytest.raises(KeyError):
        fibers["thrown"].result()
    thread.join()


def test_a_thread_runs_while_fibers_wait_and_while_they_spin():
    for wait in (lambda: fiberrt.sleep(0.2), lambda: [fiberrt.reschedule() for _ in range(300_000)]):
        seen = []
        thread = threading.Thread(target=lambda: [seen.append(i) for i in range(1000)])
        thread.start()
        wait()
        thread.join()
        assert len(seen) == 1000


def test_dump():
    import io

    def waits_here():
        fiberrt.sleep(60)

    fiber = fiberrt.spawn(waits_here)
    fiberrt.reschedule()
    text = io.StringIO()
    fiberrt.dump(text)
    fiber.cancel()
    assert "waits_here" in text.getvalue() and "waiting: sleep" in text.getvalue()
    assert "'main' running" in text.getvalue() and "test_dump" in text.getvalue()


def test_dump_of_other_threads():
    import io

    ready = threading.Event()
    over = []

    def in_thread():
        fiberrt.spawn(in_fiber)
        while not over:
            fiberrt.sleep(0.001)

    def in_fiber():
        ready.set()
        while not over:
            fiberrt.sleep(0.001)

    thread = threading.Thread(target=in_thread, name="the-other")
    thread.start()
    ready.wait()
    for _ in range(20):
        text = io.StringIO()
        fiberrt.dump(text)
        assert "in_fiber" in text.getvalue() and "in_thread" in text.getvalue() and "the-other" in text.getvalue()
    over.append(1)
    thread.join()


def test_greenlet_in_a_fiber():
    greenlet = pytest.importorskip("greenlet", reason="greenlet is not installed")

    def f():
        def g():
            try:
                fiberrt.reschedule()
            except RuntimeError as error:
                return str(error)

        told = greenlet.greenlet(g).switch()
        fiberrt.reschedule()
        return told

    others = [fiberrt.spawn(fiberrt.reschedule) for _ in range(3)]
    assert "greenlet" in fiberrt.spawn(f).result()
    for other in others:
        other.join()


def test_references_do_not_leak(unraisable):
    def ok(x):
        fiberrt.reschedule()
        return [x]

    def bad():
        raise ValueError

    def all_of_it():
        fiberrt.spawn(ok, 1).result()
        fiberrt.spawn(ok, x=1).join()
        fiber = fiberrt.spawn(bad)
        try:
            fiber.result()
        except ValueError:
            pass
        fiber = fiberrt.spawn(fiberrt.sleep, 60)
        fiberrt.reschedule()
        fiber.cancel()
        fiber.join()
        with fiberrt.move_on_after(0):
            fiberrt.sleep(60)
        with fiberrt.TaskGroup() as group:
            group.spawn(ok, 1)
        fiberrt.spawn(ok, 1)
        fiberrt.spawn(keeps, Waits()).cancel()
        fiberrt.spawn(keeps, Waits()).throw(KeyError)
        fiberrt.spawn(Waits)
        fiberrt.spawn(bad)
        fiberrt.spawn(keeps, Waits()).join()
        watched.append(weakref.ref(fiberrt.spawn(keeps, 1)))
        fiberrt.reschedule()
        watched.clear()
        fiberrt.sleep(0)

    class Waits:
        def __del__(self):
            fiberrt.reschedule()

    def keeps(thing):
        mine.thing = thing
        variable.set(Waits())

    mine, variable, watched = fiberrt.local(), contextvars.ContextVar("variable"), []

    # The references themselves are counted by a debug build.
    count = getattr(sys, "gettotalrefcount", sys.getallocatedblocks)

    def counted():
        gc.collect()
        return count()

    for _ in range(50):
        all_of_it()
    unraisable.clear()
    before = counted()
    for _ in range(500):
        all_of_it()
    seen = {kind for kind, _ in unraisable}
    unraisable.clear()
    assert abs(counted() - before) < 200
    assert seen == {KeyError, ValueError}


def test_patches_and_unused_locals_open_no_cord(lines):
    """So the program may still choose the backend, as fiberrt.testing does in the child of a fork."""
    source = """
        import os
        import fiberrt
        import fiberrt.monkey
        from fiberrt import _fiberrt

        fiberrt.monkey.patch()
        fiberrt.local()
        os.stat(".")
        open(os.devnull).close()
        print(_fiberrt.fibers())
        os.environ["FIBERRT_BACKEND"] = "sim"
        print(fiberrt.backend())
    """
    assert lines(source) == ["[]", "sim"]
