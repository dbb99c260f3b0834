# SPDX-License-Identifier: MIT OR Apache-2.0
"""The coroutines in C++ of asyncio's streams: reads and drains as coroutines of Python, for await, tasks and inspect."""

import asyncio
import gc
import inspect
import io
import types
import warnings
import weakref

import pytest
from recording import both, run


def test_they_are_coroutines():
    async def main():
        reader = asyncio.StreamReader()
        call = reader.read(1)
        assert asyncio.iscoroutine(call) and inspect.isawaitable(call)
        assert call.__name__ == "read" and call.__qualname__ == "StreamReader.read" and "StreamReader.read" in repr(call)
        task = asyncio.create_task(call)
        await asyncio.sleep(0)
        assert "StreamReader.read" in repr(task) and not call.cr_running
        with pytest.raises(RuntimeError, match="coroutine is being awaited already"):
            await call
        reader.feed_data(b"ab")
        assert await task == b"a"
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            await call
        with pytest.raises(RuntimeError, match="cannot reuse"):
            call.throw(ValueError)
        call.close()
        assert await asyncio.wait_for(reader.read(5), 60) == b"b"
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(5), 0.001)
        assert await asyncio.gather(asyncio.sleep(0), reader.read(0)) == [None, b""]
        reader.feed_data(b"c")
        assert await reader.read(5) == b"c"

    run(main())


def test_they_may_be_driven_by_hand():
    async def main():
        reader = asyncio.StreamReader()
        call = reader.readexactly(2)
        with pytest.raises(TypeError, match="just-started"):
            call.send(5)
        future = call.send(None)
        assert asyncio.isfuture(future) and future is reader._waiter
        with pytest.raises(KeyError, match="thrown"):
            call.throw(KeyError("thrown"))
        assert reader._waiter is None
        call = reader.readexactly(2)
        next(iter(call))
        call.close()
        assert reader._waiter is None
        for wrong in (), (5,), (int,):
            fresh = reader.readexactly(2)
            with pytest.raises(TypeError):
                fresh.throw(*wrong)
            fresh.close()
        fresh = reader.read(1)
        with pytest.raises(ValueError, match="arguments"):
            fresh.throw(ValueError, "arguments", None)
        reader.feed_data(b"ab")
        with pytest.raises(StopIteration) as end:
            reader.readexactly(2).send(None)
        assert end.value.value == b"ab"
        del call, fresh
        forgotten = reader.readexactly(1)
        forgotten.send(None)
        del forgotten
        assert reader._waiter is None

    run(main())


def test_one_that_is_never_awaited_is_reported():
    async def main():
        reader = asyncio.StreamReader()
        for name, *args in ("read", 1), ("readexactly", 1), ("readuntil", b";"), ("readline",):
            with pytest.warns(RuntimeWarning, match=f"coroutine 'StreamReader.{name}' was never awaited"):
                getattr(reader, name)(*args)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            reader.read(1).close()
        assert caught == []

    run(main())


@pytest.mark.parametrize("state", ["fresh", "waits", "over"])
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_cycle_through_a_read_is_freed(state):
    async def main():
        reader = asyncio.StreamReader()
        call = reader.read(1)
        if state != "fresh":
            call.send(None)
        if state == "over":
            call.close()
        reader._exception = call
        return weakref.ref(reader)

    ref = run(main())
    gc.collect()
    assert ref() is None


@both
def test_inspect_knows_their_states(factory):
    class Transport:
        def resume_reading(self):
            states.append(inspect.getcoroutinestate(call))

    async def main():
        nonlocal call
        reader = asyncio.StreamReader()
        reader._transport, reader._paused = Transport(), True
        call = reader.read(1)
        states.append(inspect.getcoroutinestate(call))
        assert call.cr_await is None
        task = asyncio.create_task(call)
        await asyncio.sleep(0)
        states.append(inspect.getcoroutinestate(call))
        assert call.cr_await is not None
        (frame,) = task.get_stack()
        assert "read" in frame.f_code.co_name
        written = io.StringIO()
        task.print_stack(file=written)
        assert "read" in written.getvalue()
        reader.feed_data(b"a")
        assert await task == b"a"
        states.append(inspect.getcoroutinestate(call))
        assert call.cr_await is None and call.cr_frame is None
        closed = reader.read(1)
        closed.close()
        states.append(inspect.getcoroutinestate(closed))

    states, call = [], None
    run(main(), factory)
    assert states == [f"CORO_{state}" for state in ("CREATED", "RUNNING", "SUSPENDED", "CLOSED", "CLOSED")]


class Once:
    """An iterator without throw() and close()."""

    def __init__(self):
        self.values = iter([None])

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.values)


@types.coroutine
def generator():
    yield
    return "a generator's value is ignored"


class Unawaitable:
    def __await__(self):
        return 5


def drain_of(helper):
    """Returns a coroutine that waits in helper()."""

    class Transport(asyncio.Transport):
        closing = False

        def is_closing(self):
            return self.closing

    class Protocol(asyncio.Protocol):
        def _drain_helper(self):
            transport.closing = True  # the writer's __del__ asks for it
            return helper()

    transport = Transport()
    return asyncio.StreamWriter(transport, Protocol(), None, asyncio.get_running_loop()).drain()


@both
@pytest.mark.parametrize("helper", [Once, generator])
def test_they_wait_for_any_awaitable(factory, helper):
    async def main():
        assert await drain_of(helper) is None
        call = drain_of(helper)
        call.send(None)
        call.close()
        assert inspect.getcoroutinestate(call) == "CORO_CLOSED"
        call = drain_of(helper)
        call.send(None)
        with pytest.raises(KeyError):
            call.throw(KeyError)
        assert inspect.getcoroutinestate(call) == "CORO_CLOSED"
        with pytest.raises(TypeError):
            await drain_of(Unawaitable)

    run(main(), factory)


@both
def test_a_stop_iteration_is_no_result(factory):
    async def main():
        reader = asyncio.StreamReader()
        reader._exception = StopIteration(5)
        with pytest.raises(RuntimeError, match="coroutine raised StopIteration") as error:
            await reader.read(1)
        assert error.value.__cause__.value == 5 and error.value.__context__ is error.value.__cause__

    run(main(), factory)


def test_a_thrown_stop_iteration_is_no_result():  # it is one in Python's own coroutines since 3.12
    async def main():
        waits = drain_of(Once)
        waits.send(None)
        for call in asyncio.StreamReader().read(1), waits:
            with pytest.raises(RuntimeError, match="coroutine raised StopIteration"):
                call.throw(StopIteration(5))
            assert inspect.getcoroutinestate(call) == "CORO_CLOSED"

    run(main())


def test_a_thrown_class_whose_check_fails():
    class Meta(type):
        def __instancecheck__(cls, instance):
            raise KeyError("of the check")

    class Error(Exception, metaclass=Meta):
        pass

    async def main():
        with pytest.raises(KeyError, match="of the check"):
            asyncio.StreamReader().read(1).throw(Error, 5)

    run(main())
