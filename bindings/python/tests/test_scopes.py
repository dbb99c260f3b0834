# SPDX-License-Identifier: MIT OR Apache-2.0
"""Time limits, shields and groups."""

import pytest

import fiberrt
from fiberrt import CancelledError, TaskGroup, _fiberrt


def test_move_on_after():
    with fiberrt.move_on_after(0.01) as scope:
        fiberrt.sleep(60)
    assert scope.expired
    with fiberrt.move_on_after(60) as scope:
        fiberrt.sleep(0)
    assert not scope.expired
    with fiberrt.move_on_after(None) as scope:
        fiberrt.sleep(0)
    assert not scope.expired


def test_fail_after():
    with pytest.raises(TimeoutError):
        with fiberrt.fail_after(0.01):
            fiberrt.sleep(60)
    with pytest.raises(KeyError):
        with fiberrt.fail_after(0.01):
            raise KeyError
    with pytest.raises(ValueError):
        with fiberrt.fail_after(-1):
            pass


def test_nested_limits_end_the_block_of_the_one_that_expired():
    with fiberrt.move_on_after(60) as outer:
        with fiberrt.move_on_after(0.01) as inner:
            fiberrt.sleep(60)
        assert inner.expired
        fiberrt.sleep(0)
    assert not outer.expired
    with fiberrt.move_on_after(0.01) as outer:
        with fiberrt.move_on_after(60) as inner:
            fiberrt.sleep(60)
        assert False, "not reached"
    assert outer.expired and not inner.expired


def test_a_limit_does_not_swallow_a_cancel():
    def f():
        with fiberrt.move_on_after(60):
            fiberrt.sleep(60)

    fiber = fiberrt.spawn(f)
    fiberrt.reschedule()
    fiber.cancel()
    fiber.join()
    assert fiber.cancelled


def test_a_limit_that_expired_does_not_swallow_a_cancel_that_came_later():
    def f():
        with fiberrt.move_on_after(0.01):
            try:
                fiberrt.sleep(60)
            finally:
                fiber.cancel()
        assert False, "not reached"

    fiber = fiberrt.spawn(f)
    fiber.join()
    assert fiber.cancelled


def test_own_timeout_and_scope_timeout_are_distinguished():
    fiber = fiberrt.spawn(fiberrt.sleep, 60)
    with fiberrt.move_on_after(0.01) as scope:
        fiber.join(60)
        assert False, "not reached"
    assert scope.expired
    with fiberrt.move_on_after(60) as scope:
        assert fiber.join(0.01) is False
    fiber.cancel()


def test_reschedule():
    with fiberrt.move_on_after(60) as scope:
        scope.reschedule(0.01)
        fiberrt.sleep(60)
    assert scope.expired
    with pytest.raises(RuntimeError):
        scope.reschedule(1)


def test_scope_is_entered_once_at_a_time():
    scope = fiberrt.move_on_after(60)
    with scope:
        with pytest.raises(RuntimeError):
            scope.__enter__()


def test_group_waits_for_all():
    seen = []

    def f(n):
        fiberrt.sleep(0.001 * n)
        seen.append(n)

    with TaskGroup() as group:
        for n in (3, 1, 2):
            group.spawn(f, n)
    assert sorted(seen) == [1, 2, 3]


def test_failure_cancels_the_others_and_the_block():
    def bad():
        fiberrt.reschedule()
        raise ValueError("bad")

    with pytest.raises(ExceptionGroup) as caught:
        with TaskGroup() as group:
            other = group.spawn(fiberrt.sleep, 60)
            group.spawn(bad)
            fiberrt.sleep(60)
    assert [str(error) for error in caught.value.exceptions] == ["bad"]
    assert other.cancelled


def test_failure_of_the_block_cancels_all():
    with pytest.raises(ExceptionGroup) as caught:
        with TaskGroup() as group:
            other = group.spawn(fiberrt.sleep, 60)
            fiberrt.reschedule()
            raise KeyError("block")
    assert isinstance(caught.value.exceptions[0], KeyError)
    assert other.cancelled


def test_failures_during_the_cancel_are_gathered():
    def stubborn():
        try:
            fiberrt.sleep(60)
        finally:
            raise OSError("in the end")

    def bad():
        raise ValueError("bad")

    with pytest.raises(ExceptionGroup) as caught:
        with TaskGroup() as group:
            group.spawn(stubborn)
            group.spawn(bad)
    assert {type(error) for error in caught.value.exceptions} == {OSError, ValueError}


def test_group_under_a_limit_and_a_cancel():
    with fiberrt.move_on_after(0.01) as scope:
        with TaskGroup() as group:
            child = group.spawn(fiberrt.sleep, 60)
    assert scope.expired and child.cancelled

    def f():
        with TaskGroup() as group:
            children.append(group.spawn(fiberrt.sleep, 60))

    children = []
    fiber = fiberrt.spawn(f)
    fiberrt.reschedule()
    fiberrt.reschedule()
    fiber.cancel()
    fiber.join()
    assert fiber.cancelled and children[0].cancelled


def test_group_cancel_and_spawn_from_children():
    with TaskGroup() as group:
        children = [group.spawn(fiberrt.sleep, 60) for _ in range(3)]
        fiberrt.reschedule()
        group.cancel()
    assert all(child.cancelled for child in children)

    seen = []

    def parent():
        group.spawn(seen.append, 1)

    with TaskGroup() as group:
        group.spawn(parent)
    assert seen == [1]
    with pytest.raises(RuntimeError):
        group.spawn(seen.append, 2)
    with pytest.raises(RuntimeError):
        group.__enter__()


def test_shield_holds_a_limit_back():
    seen = []
    with fiberrt.move_on_after(0.001) as scope:
        with fiberrt.shield():
            fiberrt.sleep(0.01)
            seen.append(1)
        fiberrt.sleep(0)
        assert False, "not reached"
    assert scope.expired and seen == [1]


def test_cancelled_error_is_not_an_exception():
    assert issubclass(CancelledError, BaseException) and not issubclass(CancelledError, Exception)


def test_a_scope_whose_opening_raises_is_not_open():
    class Neither:
        def __bool__(self):
            raise LookupError

    def f():
        with pytest.raises(LookupError):
            _fiberrt.scope_open(None, Neither())
        for wrong in (("x",), (-1,), (None, False, 1), (float("nan"), True)):
            with pytest.raises((TypeError, ValueError)):
                _fiberrt.scope_open(*wrong)
        scope = _fiberrt.scope_open(None, True)
        _fiberrt.scope_close(scope)
        return _fiberrt.scope_close(scope)

    assert fiberrt.spawn(f).result() < 0


def test_a_scope_is_not_open_where_memory_is_refused():
    testcapi = pytest.importorskip("_testcapi", reason="the interpreter has no _testcapi")
    refused = []

    def f():
        for n in range(100):
            scope = None
            testcapi.set_nomemory(n, n + 1)
            try:
                scope = _fiberrt.scope_open(None, True)
            except MemoryError:
                refused.append(n)
            finally:
                testcapi.remove_mem_hooks()
            if scope is not None:
                _fiberrt.scope_close(scope)
                break
        fiberrt.current().cancel()
        fiberrt.sleep(0)  # a shield would hold the cancel back

    fiber = fiberrt.spawn(f)
    fiber.join()
    assert fiber.cancelled and refused


def test_cancel_scopes():
    with fiberrt.CancelScope() as scope:
        fiberrt.spawn(scope.cancel)
        fiberrt.sleep(60)
    assert scope.cancel_called and scope.cancelled_caught
    with fiberrt.CancelScope(0.001) as scope:
        fiberrt.sleep(60)
    assert scope.cancelled_caught and not scope.cancel_called
    with fiberrt.CancelScope() as scope:
        scope.cancel()  # the block does not wait
    assert scope.cancel_called and not scope.cancelled_caught
    scope = fiberrt.CancelScope()
    scope.cancel()
    with scope:
        fiberrt.sleep(60)
    assert scope.cancelled_caught
    with pytest.raises(KeyError), fiberrt.CancelScope() as scope:
        scope.cancel()
        raise KeyError
    assert not scope.cancelled_caught


def test_a_cancel_scope_does_not_drop_the_cancel_of_an_outer_one():
    with fiberrt.CancelScope() as outer:
        with fiberrt.CancelScope() as inner:
            inner.cancel()
            outer.cancel()
            fiberrt.sleep(60)
        fiberrt.sleep(0)  # raises again
        assert False, "not reached"
    assert outer.cancelled_caught

    def f():
        with fiberrt.CancelScope() as scope:
            scope.cancel()
            fiberrt.current().cancel()
            fiberrt.sleep(60)
        fiberrt.sleep(0)
        return "not reached"

    fiber = fiberrt.spawn(f)
    fiber.join()
    assert fiber.cancelled


def test_a_cancel_scope_from_another_thread():
    with fiberrt.CancelScope() as scope:
        fiberrt.spawn(fiberrt.to_thread, scope.cancel)
        fiberrt.sleep(60)
    assert scope.cancelled_caught


def test_start_waits_until_the_fiber_says_so():
    def serve(port, *, task_status):
        fiberrt.sleep(0.001)
        task_status.started(port + 1)
        with pytest.raises(RuntimeError):
            task_status.started()
        order.append("started")
        ended.wait()
        order.append("ended")

    order, ended = [], fiberrt.Event()
    with TaskGroup() as group:
        assert group.start(serve, 5) == 6
        fiberrt.reschedule()
        assert order == ["started"]
        ended.set()
    assert order == ["started", "ended"]

    def never(task_status):
        fiberrt.sleep(60)

    with TaskGroup() as group, fiberrt.move_on_after(0.001) as limit:
        group.start(never)
    assert limit.expired

    def ends(task_status):
        pass

    def fails(task_status):
        raise KeyError("before the start")

    with pytest.raises(ExceptionGroup) as caught, TaskGroup() as group:
        group.start(ends)
    assert [type(error) for error in caught.value.exceptions] == [RuntimeError]
    with pytest.raises(ExceptionGroup) as caught, TaskGroup() as group:
        group.start(fails)
    assert KeyError in [type(error) for error in caught.value.exceptions]


def test_capacity_limiter():
    limiter = fiberrt.CapacityLimiter(2)
    most = [0]

    def use(_):
        with limiter:
            most[0] = max(most[0], limiter.borrowed)
            fiberrt.reschedule()

    assert len(list(fiberrt.map(use, range(10)))) == 10
    assert most == [2] and limiter.borrowed == 0 and limiter.available == limiter.total == 2
    with limiter:
        with pytest.raises(RuntimeError):
            limiter.acquire()
        assert repr(limiter) == "<fiberrt.CapacityLimiter 1 of 2>"
        other = fiberrt.spawn(limiter.release)
        with pytest.raises(RuntimeError):
            other.result()

        def twice():
            with limiter:
                return fiberrt.spawn(limiter.acquire, 0.001).result()

        assert fiberrt.spawn(twice).result() is False
    with pytest.raises(RuntimeError):
        limiter.release()
    for wrong in 0, -1, 1.5, None:
        with pytest.raises(ValueError):
            fiberrt.CapacityLimiter(wrong)
