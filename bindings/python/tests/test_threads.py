# SPDX-License-Identifier: MIT OR Apache-2.0
"""to_thread: blocking functions, and waits that end before the function does."""

import contextvars
import gc
import threading
import weakref

import pytest

import fiberrt

PATIENCE = 60


def test_results_and_exceptions():
    assert fiberrt.to_thread(lambda a, *, b: (a, b), 1, b=2) == (1, 2)
    with pytest.raises(ZeroDivisionError):
        fiberrt.to_thread(divmod, 1, 0)
    assert fiberrt.to_thread(threading.get_ident) != threading.get_ident()
    with pytest.raises(TypeError):
        fiberrt.to_thread()
    with pytest.raises(TypeError):
        fiberrt.to_thread(1)


def test_others_run_meanwhile():
    go = threading.Event()
    fibers = [fiberrt.spawn(fiberrt.to_thread, go.wait, PATIENCE) for i in range(5)]
    fiberrt.reschedule()
    go.set()
    assert [fiber.result(PATIENCE) for fiber in fibers] == [True] * 5


def test_context_variables():
    variable = contextvars.ContextVar("variable", default=0)

    def there():
        seen = variable.get()
        variable.set(99)
        return seen

    variable.set(7)
    assert fiberrt.to_thread(there) == 7 and variable.get() == 7


def test_fibers_in_the_thread():
    assert fiberrt.to_thread(lambda: fiberrt.spawn(lambda: fiberrt.sleep(0.001) or 5).result()) == 5


def test_a_cancel_does_not_wait_for_the_function():
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    class Mark:
        pass

    def body(mark):
        begun.set()
        go.wait(PATIENCE)
        ended.set()
        return mark

    mark = Mark()
    alive = weakref.ref(mark)
    fiber = fiberrt.spawn(fiberrt.to_thread, body, mark)
    del mark
    while not begun.is_set():
        fiberrt.sleep(0.001)
    fiber.cancel()
    fiber.join(PATIENCE)
    assert fiber.cancelled and not ended.is_set()
    del fiber
    go.set()
    assert ended.wait(PATIENCE)
    with fiberrt.fail_after(PATIENCE):
        while alive() is not None:  # nothing is left of it
            gc.collect()
            fiberrt.sleep(0.001)


def test_a_call_cancelled_before_it_begins_never_runs():
    ran = []

    def body():
        with fiberrt.shield():
            fiberrt.sleep(0.001)
        with pytest.raises(fiberrt.CancelledError):
            fiberrt.to_thread(ran.append, 1)

    fiber = fiberrt.spawn(body)
    fiberrt.reschedule()
    fiber.cancel()
    fiber.result(PATIENCE)
    assert not ran


def test_throw_ends_the_wait():
    begun, go = threading.Event(), threading.Event()
    fiber = fiberrt.spawn(fiberrt.to_thread, lambda: (begun.set(), go.wait(PATIENCE)))
    while not begun.is_set():
        fiberrt.sleep(0.001)
    fiber.throw(KeyError("x"))
    with pytest.raises(KeyError):
        fiber.result(PATIENCE)
    go.set()


def test_a_function_that_is_left_does_not_hold_up_the_end(lines):
    assert lines("""
        import fiberrt, threading, time
        begun = threading.Event()
        def body():
            begun.set()
            time.sleep(0.05)
            for i in range(100): time.sleep(1)
        fiber = fiberrt.spawn(fiberrt.to_thread, body)
        while not begun.is_set(): fiberrt.sleep(0.001)
        fiber.cancel()
        fiber.join()
        print(fiber.cancelled)
    """) == ["True"]
