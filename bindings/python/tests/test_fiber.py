# SPDX-License-Identifier: MIT OR Apache-2.0
"""spawn and Fiber."""

import gc
import sys
import threading
import time
import weakref

import pytest

import fiberrt
from fiberrt import CancelledError, _fiberrt


def test_result_and_arguments():
    def f(*args, **kwargs):
        return args, kwargs

    assert fiberrt.spawn(f).result() == ((), {})
    assert fiberrt.spawn(f, 1, 2, a=3, b=4).result() == ((1, 2), {"a": 3, "b": 4})
    assert fiberrt.spawn(f, a=3).result() == ((), {"a": 3})
    assert fiberrt.spawn(len, "abc").result() == 3
    assert fiberrt.spawn(int, "ff", base=16).result() == 255


def test_runs_at_its_turn_and_in_order():
    seen = []
    fibers = [fiberrt.spawn(seen.append, i) for i in range(5)]
    assert seen == []
    fiberrt.reschedule()
    assert seen == [0, 1, 2, 3, 4]
    assert all(fiber.done for fiber in fibers)


def test_reschedule_takes_turns():
    seen = []

    def f(name):
        for i in range(3):
            seen.append((name, i))
            fiberrt.reschedule()

    a, b = fiberrt.spawn(f, "a"), fiberrt.spawn(f, "b")
    a.join(), b.join()
    assert seen == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_exception_is_raised_by_result_with_its_traceback():
    def inner():
        raise KeyError("x")

    fiber = fiberrt.spawn(inner)
    with pytest.raises(KeyError) as caught:
        fiber.result()
    assert caught.traceback[-1].name == "inner"
    assert isinstance(fiber.exception, KeyError)
    assert fiber.join() is True  # does not raise


def test_an_unretrieved_exception_is_reported_once(unraisable):
    def bad():
        raise ValueError("lost")

    fiber = fiberrt.spawn(bad)
    fiberrt.reschedule()
    assert unraisable == []  # the program may still ask for it
    del fiber
    assert unraisable == [(ValueError, "lost")]
    fiber = fiberrt.spawn(bad)
    fiber.join()
    del fiber
    gc.collect()
    assert len(unraisable) == 1


def test_cancelled_fiber_is_not_reported(unraisable):
    fiber = fiberrt.spawn(fiberrt.sleep, 60)
    fiberrt.reschedule()
    fiber.cancel()
    fiberrt.reschedule()
    assert fiber.done and fiber.cancelled
    del fiber
    assert unraisable == []


def test_cancel_ends_the_present_wait_and_all_later_ones():
    seen = []

    def f():
        try:
            fiberrt.sleep(60)
        except CancelledError:
            seen.append("first")
        try:
            fiberrt.reschedule()
        except CancelledError:
            seen.append("second")
        with fiberrt.shield():
            fiberrt.sleep(0.001)
            seen.append("shielded")
        return 7

    fiber = fiberrt.spawn(f)
    fiberrt.reschedule()
    assert fiber.cancel() is True
    assert fiber.result() == 7
    assert seen == ["first", "second", "shielded"]
    assert fiber.cancel() is False


def test_cancel_before_it_begins_never_runs_it():
    seen = []
    fiber = fiberrt.spawn(seen.append, 1)
    fiber.cancel()
    with pytest.raises(CancelledError):
        fiber.result()
    assert seen == [] and fiber.cancelled


def test_throw_is_raised_once():
    def f():
        try:
            fiberrt.sleep(60)
        except KeyError as error:
            fiberrt.sleep(0)
            return error.args

    fiber = fiberrt.spawn(f)
    fiberrt.reschedule()
    fiber.throw(KeyError("k"))
    assert fiber.result() == ("k",)


def test_throw_before_it_begins_several_and_of_classes():
    fiber = fiberrt.spawn(lambda: 1)
    fiber.throw(ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        fiber.result()

    seen = []

    def f():
        for _ in range(3):
            try:
                fiberrt.sleep(60)
            except Exception as error:
                seen.append(type(error))

    fiber = fiberrt.spawn(f)
    fiberrt.reschedule()
    for kind in (KeyError, IndexError, OSError):
        fiber.throw(kind)
    fiber.join()
    assert seen == [KeyError, IndexError, OSError]


def test_throw_to_oneself_and_to_the_main_flow():
    def f():
        fiberrt.current().throw(KeyError)

    with pytest.raises(KeyError):
        fiberrt.spawn(f).result()

    fiberrt.spawn(fiberrt.current().throw, IndexError("main"))
    with pytest.raises(IndexError, match="main"):
        fiberrt.sleep(60)


def test_bad_arguments():
    with pytest.raises(TypeError):
        fiberrt.spawn()
    with pytest.raises(TypeError):
        fiberrt.spawn(3)
    with pytest.raises(TypeError):
        fiberrt.Fiber()
    with pytest.raises(TypeError):
        fiberrt.spawn(lambda: 1, 2).result()
    fiber = fiberrt.spawn(lambda: 1)
    for bad in (3, int, "x", None):
        with pytest.raises(TypeError):
            fiber.throw(bad)
    with pytest.raises(TypeError):
        fiber.join("1")
    with pytest.raises(ValueError):
        fiber.join(-1)
    with pytest.raises(TypeError):
        fiber.join(1, 2)
    with pytest.raises(RuntimeError):
        fiber.exception
    with pytest.raises(TypeError):
        fiber.name = 3
    fiber.join()
    with pytest.raises(RuntimeError):
        fiber.throw(KeyError)
    for bad in (-1, float("nan"), -(10**400)):
        with pytest.raises(ValueError):
            fiberrt.sleep(bad)
    for bad in ("x", None, [], 1j):
        with pytest.raises(TypeError):
            fiberrt.sleep(bad)


def test_fibers_that_have_ended():
    def bad():
        raise KeyError("x")

    good, failed, cancelled = fiberrt.spawn(int), fiberrt.spawn(bad), fiberrt.spawn(int)
    cancelled.cancel()
    for fiber in (good, failed, cancelled):
        assert fiber.join() and fiber.join(0) and fiber.done
        fiber.cancel()  # as harmless as wakeup
        fiber.wakeup()
        with pytest.raises(RuntimeError):
            fiber.throw(ValueError)
    for _ in range(2):
        assert good.result() == 0
        with pytest.raises(KeyError):
            failed.result()
        with pytest.raises(CancelledError):
            cancelled.result()
    assert (good.cancelled, failed.cancelled, cancelled.cancelled) == (False, False, True)


def test_main_flow_and_self_cannot_be_joined():
    with pytest.raises(RuntimeError):
        fiberrt.current().join()
    with pytest.raises(RuntimeError):
        fiberrt.current().cancel()
    with pytest.raises(RuntimeError):
        fiberrt.spawn(lambda: fiberrt.current().join()).result()


def test_join_and_result_with_timeouts():
    fiber = fiberrt.spawn(fiberrt.sleep, 60)
    assert fiber.join(0) is False
    assert fiber.join(0.01) is False
    with pytest.raises(TimeoutError):
        fiber.result(0.01)
    fiber.cancel()
    assert fiber.join(10**400) is True


def test_many_join_one():
    def f():
        fiberrt.sleep(0.01)
        return "r"

    fiber = fiberrt.spawn(f)
    joiners = [fiberrt.spawn(fiber.result) for _ in range(20)]
    joiners[3].throw(KeyError)
    fiberrt.reschedule()
    joiners[5].cancel()
    assert [joiners[i].result() for i in (0, 1, 2, 4, 19)] == ["r"] * 5
    with pytest.raises(KeyError):
        joiners[3].result()
    with pytest.raises(CancelledError):
        joiners[5].result()


def test_dir_has_the_names_that_are_imported_when_they_are_used(lines):
    assert lines("""
        import fiberrt, sys
        names = dir(fiberrt)
        lazy = {"monkey", "selectors", "signal", "socket", "ssl", "subprocess", "map", "wait", "FiberExecutor"}
        print(lazy <= set(names), {*fiberrt.__all__} <= set(names), names == sorted(set(names)))
        print("fiberrt._executor" in sys.modules, {*vars(fiberrt)} <= set(names))
        print(all(hasattr(fiberrt, name) for name in names))
    """) == ["True True True", "False True", "True"]


def test_name_state_repr():
    def f():
        fiberrt.sleep(60)

    fiber = fiberrt.spawn(f)
    assert "new" in repr(fiber) and "f" in repr(fiber)
    fiber.name = "worker"
    assert fiber.name == "worker"
    fiberrt.reschedule()
    assert fiber.state == "waiting" and fiber.waits_for == "sleep"
    assert "'worker'" in repr(fiber) and "waiting: sleep" in repr(fiber)
    fiber.cancel()
    fiber.join()
    assert fiber.state == "cancelled" and fiber.waits_for is None
    assert fiberrt.current().state == "running" and fiberrt.current().name == "main"


def test_current():
    main = fiberrt.current()
    fiber = fiberrt.spawn(fiberrt.current)
    assert fiber.result() is fiber
    assert fiberrt.current() is main


def test_objects_it_held_are_freed_when_it_ends():
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    fiber = fiberrt.spawn(lambda x: None, thing)
    del thing
    fiber.join()
    assert gone() is None
    here = weakref.ref(fiber)
    del fiber
    assert here() is None


def test_finalizers_may_not_wait_in_a_switch_but_elsewhere():
    class Waits:
        def __del__(self):
            try:
                fiberrt.sleep(0)
                seen.append("waited")
            except RuntimeError:
                seen.append("refused")

    seen = []
    fiberrt.spawn(Waits)  # the result is freed with the fiber
    fiberrt.reschedule()
    fiberrt.reschedule()
    assert seen in (["waited"], ["refused"])


def test_park_and_wake():
    seen = []

    def f():
        seen.append(fiberrt.park(0.001))
        seen.append(fiberrt.park())
        seen.append(fiberrt.park())

    fiber = fiberrt.spawn(f)
    while seen != [False]:
        fiberrt.sleep(0.001)
    fiberrt.reschedule()
    fiber.wakeup()
    fiberrt.reschedule()
    assert seen == [False, True]
    threading.Timer(0.01, fiber.wakeup).start()
    fiber.join()
    assert seen == [False, True, True]


def test_dead_lock_of_the_main_flow_is_an_error(program):
    done = program("""
        import fiberrt
        fiber = fiberrt.spawn(fiberrt.park)
        try:
            fiber.join()
        except RuntimeError as error:
            print(error)
        fiber.cancel()
        fiber.join()
    """)
    # Other threads, or I/O in progress, hide the deadlock: then the join would last for ever.
    assert done.code == 0 and "deadlock" in done.out


def test_sleep_lasts_as_long_as_it_says():
    begun = time.monotonic()
    fiberrt.sleep(0.05)
    assert time.monotonic() - begun >= 0.05


def test_stack_size():
    before = fiberrt.stack_size()
    assert before >= 8 << 20
    for bad, error in ((1000, ValueError), (-1, ValueError), (10**30, OverflowError), ("1", TypeError), (1.5, TypeError)):
        with pytest.raises(error):
            fiberrt.stack_size(bad)
    assert fiberrt.stack_size(256 << 10) == before
    try:
        assert fiberrt.stack_size() == 256 << 10
        assert fiberrt.spawn(sum, [1, 2]).result() == 3
    finally:
        fiberrt.stack_size(before)


def test_pybind11_callbacks_run_no_finalizer_that_waits():
    class Waits:
        """Several of these at a time would end the process, were they asked within a function of pybind11's."""

        def __index__(self):
            fiberrt.reschedule()
            return 0

        __repr__ = __index__

    for function in (fiberrt.stack_size, _fiberrt.core_dump, _fiberrt.report_overflows):
        fibers = [fiberrt.spawn(function, Waits()) for _ in range(3)]
        for fiber in fibers:
            with pytest.raises(TypeError):
                fiber.result()
    with pytest.raises(OSError):
        _fiberrt.core_dump(-1)
    own = {name for name, value in vars(_fiberrt).items() if type(getattr(value, "__self__", None)) is type(sys)}
    others = {name for name, value in vars(_fiberrt).items() if callable(value) and not isinstance(value, type)} - own
    assert {"reschedule", "sleep", "park", "read", "offload"} <= own
    assert others == {"stack_size", "stats", "backend", "core_version", "core_dump", "report_overflows"}  # these do not wait


def test_the_init_of_a_local_that_fails_in_a_fiber_is_called_again():
    class Numbered(fiberrt.local):
        def __init__(self):
            calls.append(1)
            if len(calls) == 2:
                raise ValueError("this time")
            self.number = len(calls)

    def f():
        with pytest.raises(ValueError):
            mine.number
        return mine.number

    calls = []
    mine = Numbered()
    assert fiberrt.spawn(f).result() == 3
    assert mine.number == 1
