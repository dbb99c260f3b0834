# SPDX-License-Identifier: MIT OR Apache-2.0
"""The event loop of fiberrt.aio, and waits between coroutines and fibers. CPython's and uvloop's own tests of event
loops run by suites.py --loop."""

import asyncio
import contextlib
import contextvars
import functools
import gc
import logging
import os
import signal
import socket
import sys
import threading
import weakref

import pytest

import fiberrt
from fiberrt import _fiberrt, aio


def run(coroutine):
    with asyncio.Runner(loop_factory=aio.EventLoop) as runner:
        return runner.run(coroutine)


@pytest.fixture
def loop():
    loop = aio.EventLoop()
    loop.set_debug(False)
    loop.failures = []
    loop.set_exception_handler(lambda _, context: loop.failures.append(context))
    yield loop
    loop.close()


@pytest.fixture
def pair():
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    yield ends
    for end in ends:
        end.close()


# --- The loop


def test_other_fibers_run_while_the_loop_waits():
    turns = []

    async def main():
        waits = asyncio.Event()
        asyncio.get_running_loop().call_later(60, turns.append, "never")

        def other():
            turns.append("other")
            asyncio_loop.call_soon(waits.set)  # wakes the loop

        asyncio_loop = asyncio.get_running_loop()
        fiberrt.spawn(other)
        await waits.wait()
        turns.append("main")

    run(main())
    assert turns == ["other", "main"]


def test_order_of_callbacks(loop):
    order = []
    now = loop.time()
    loop.call_at(now - 1, order.append, "second timer")
    loop.call_at(now - 2, order.append, "first timer")
    loop.call_at(now - 1, order.append, "third timer")
    loop.call_soon(order.append, "soon")
    loop.call_soon(lambda: loop.call_soon(order.append, "next turn"))
    never = loop.call_at(now - 1.5, order.append, "cancelled")
    never.cancel()
    never.cancel()
    assert never.cancelled() and never.when() == now - 1.5
    loop.call_soon(lambda: loop.call_soon(loop.stop))
    loop.run_forever()
    assert order == ["soon", "first timer", "second timer", "third timer", "next turn"]


def test_many_timers_and_cancels(loop):
    order = []
    timers = [loop.call_at(loop.time() - 1000 + (i * 7919) % 1000, order.append, (i * 7919) % 1000) for i in range(1000)]
    for timer in timers[::3]:
        timer.cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    left = sorted((i * 7919) % 1000 for i in range(1000) if i % 3)
    assert order == left


def test_handles(loop):
    handle = loop.call_soon(print, 1, 2)
    assert repr(handle) == repr(asyncio.Handle(print, (1, 2), loop)) and not handle.cancelled()
    assert handle.get_context() is not None
    handle.cancel()
    assert repr(handle) == "<Handle cancelled>"
    timer = loop.call_later(5, print)
    assert repr(timer).startswith("<TimerHandle when=")
    timer.cancel()
    for arguments in (), (1,), ((1,),), (1, 2):
        handle = loop.call_soon(print, *arguments)
        assert handle._args == arguments and handle._callback is print
        handle.cancel()
        assert handle._args is handle._callback is None


def test_a_handle_has_nothing_of_an_earlier_one(loop):
    class Argument:
        pass

    for make in loop.call_soon, functools.partial(loop.call_later, 5):
        for count in 0, 1, 2:
            handle = make(print, *(Argument() for _ in range(count)), context=contextvars.Context())
            references = [weakref.ref(handle), *map(weakref.ref, handle._args)]
            handle.cancel()
            loop.call_soon(loop.stop)
            loop.run_forever()
            del handle
            assert [reference() for reference in references] == [None] * (count + 1)
            plain = loop.call_soon(Argument)
            assert plain._args == () and not plain.cancelled() and plain.get_context() is not None
            assert not hasattr(plain, "when")


def test_a_callback_may_cancel_its_own_handle(loop):
    handles = []
    handles.append(loop.call_soon(lambda: handles[0].cancel()))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert loop.failures == []


def test_contexts(loop):
    variable = contextvars.ContextVar("variable", default="outside")
    seen = []
    context = contextvars.copy_context()
    context.run(variable.set, "inside")
    loop.call_soon(lambda: seen.append(variable.get()), context=context)
    variable.set("changed")
    loop.call_soon(lambda: seen.append(variable.get()))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == ["inside", "changed"]
    with pytest.raises(TypeError):
        loop.call_soon(print, context={})


def test_arguments_by_name(loop):
    called = []
    loop.call_soon(callback=lambda: called.append("soon"))
    loop.call_later(delay=0, callback=lambda: called.append("later"))
    loop.call_at(when=0, callback=lambda: called.append("at"))
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert called == ["soon", "at", "later"]
    for wrong in (
        lambda: loop.call_later(delay=1), lambda: loop.call_later(1, print, delay=1),
        lambda: loop.call_soon(print, callback=print), lambda: loop.call_at(callback=print),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            wrong()


def test_misuse(loop):
    for call in (
        lambda: loop.call_soon(), lambda: loop.call_later(1), lambda: loop.call_later(None, print),
        lambda: loop.call_at(None, print), lambda: loop.call_later("1", print), lambda: loop.call_soon(print, wrong=1),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            call()
    for call in loop.call_later, loop.call_at:
        with pytest.raises(ValueError, match="NaN"):
            call(float("nan"), print)
    with open(__file__) as file, pytest.raises(PermissionError):
        loop.add_reader(file, print)
    ends = os.pipe()
    for end in ends:
        os.close(end)
    with pytest.raises(OSError, match="Bad file descriptor"):
        loop.add_reader(ends[0], print)
    for wrong in ("0", -1, object(), 1 << 40):
        with pytest.raises(ValueError):
            loop.add_reader(wrong, print)
    loop.close()
    for call in lambda: loop.call_soon(print), lambda: loop.call_later(1, print), lambda: loop.add_reader(0, print):
        with pytest.raises(RuntimeError, match="closed"):
            call()
    assert loop.remove_reader(0) is False


def test_exceptions_of_callbacks(loop):
    error = KeyError("of the callback")

    def fail():
        raise error

    loop.call_soon(fail)
    loop.call_later(0, fail)
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert [context["exception"] for context in loop.failures] == [error, error]
    assert "fail" in loop.failures[0]["message"] and isinstance(loop.failures[0]["handle"], _fiberrt.Handle)

    for ends in KeyboardInterrupt, SystemExit:

        def leave(ends=ends):
            raise ends

        loop.call_soon(leave)
        loop.call_soon(loop.stop)
        with pytest.raises(ends):
            loop.run_forever()
        loop.run_forever()  # the rest of that turn
    assert len(loop.failures) == 2


def test_debug_mode(loop, caplog):
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0
    called = []
    with caplog.at_level(logging.WARNING, "asyncio"):
        loop.call_soon(called.append, 1)
        timer = loop.call_later(0, called.append, 2)
        loop.call_later(60, called.append, 3).cancel()
        loop.call_later(0.001, loop.stop)
        loop.run_forever()
    assert called == [1, 2] and isinstance(timer, asyncio.TimerHandle)
    assert "Executing <Handle" in caplog.text and "created at" in caplog.text
    for make in loop.call_soon, loop.call_soon_threadsafe, lambda *args: loop.call_later(60, *args):
        assert make(print)._source_traceback[-1][0] == __file__
    with pytest.raises(TypeError, match="coroutine"):
        loop.call_soon(asyncio.sleep)

    async def main():
        await loop.run_in_executor(None, lambda: pytest.raises(RuntimeError, loop.call_soon, print))
        await loop.shutdown_default_executor()

    loop.run_until_complete(main())


def test_call_soon_from_a_thread(loop):
    called = []
    threads = [threading.Thread(target=lambda: loop.call_soon_threadsafe(called.append, 1)) for _ in range(20)]

    async def main():
        for thread in threads:
            thread.start()
        while len(called) < 20:
            await asyncio.sleep(0.001)

    loop.run_until_complete(main())
    for thread in threads:
        thread.join()


def test_signal_handlers():
    async def main():
        loop = asyncio.get_running_loop()
        came = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, came.set)
        os.kill(os.getpid(), signal.SIGUSR1)
        await came.wait()
        assert loop.remove_signal_handler(signal.SIGUSR1)

    run(main())


def test_ctrl_c_cancels_the_main_task(program):
    done = program("""
        import asyncio, os, signal
        from fiberrt import aio

        async def main():
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0)
                print("finally", flush=True)

        with asyncio.Runner(loop_factory=aio.EventLoop) as runner:
            runner.run(main())
    """)
    assert done.out == "finally\n" and "KeyboardInterrupt" in done.err


def test_a_loop_and_its_callbacks_are_freed():
    class Canary:
        pass

    def use():
        loop, canary = aio.EventLoop(), Canary()
        loop.call_soon(print, canary, loop)
        loop.call_later(60, print, canary, loop)
        with contextlib.ExitStack() as ends:
            first, second = map(ends.enter_context, socket.socketpair())
            loop.add_reader(first, print, canary, loop, second)
            loop.close()
        return weakref.ref(canary), weakref.ref(loop)

    dead = use()
    gc.collect()
    assert [ref() for ref in dead] == [None, None]


# --- Readers and writers


def test_readers_and_writers(loop, pair):
    mine, other = pair
    got = []

    def read():
        got.append(mine.recv(100))
        if len(b"".join(got)) == 2:
            loop.stop()

    loop.add_reader(mine, read)
    loop.add_writer(other.fileno(), lambda: (other.send(b"x"), loop.remove_writer(other)))
    loop.call_later(0, other.send, b"y")
    loop.run_forever()
    assert b"".join(got) in (b"xy", b"yx")
    assert loop.remove_reader(mine) is True
    assert loop.remove_reader(mine) is False and loop.remove_writer(other) is False


def test_a_ready_reader_is_called_in_each_turn_until_it_is_removed(loop, pair):
    mine, other = pair
    other.send(b"unread")
    calls = []

    def look():
        calls.append(1)
        if len(calls) == 5:
            loop.remove_reader(mine)
            loop.call_soon(loop.stop)

    loop.add_reader(mine, look)
    loop.run_forever()
    assert len(calls) == 5


def test_a_second_reader_replaces_the_first(loop, pair):
    mine, other = pair
    called = []
    first = loop._add_reader(mine.fileno(), called.append, "first")
    loop.add_reader(mine, lambda: (called.append("second"), loop.stop()))
    assert first.cancelled()
    other.send(b"x")
    loop.run_forever()
    assert called == ["second"]
    assert loop._selector.get_key(mine.fileno()).events == 1
    loop.remove_reader(mine)
    with pytest.raises(KeyError):
        loop._selector.get_key(mine.fileno())


def test_the_kernel_forgets_a_descriptor_with_its_reader(loop, pair):
    mine, other = pair
    loop.add_reader(mine, print)
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    loop.remove_reader(mine)
    mine.close()
    assert other.recv(1) == b""  # the end of the connection: no poll holds it


def test_a_loop_may_run_on_another_thread_than_before(pair):
    mine, other = pair
    loop = aio.EventLoop()
    called = []

    def read():
        called.append((mine.recv(1), threading.get_ident()))
        loop.stop()

    loop.add_reader(mine, read)
    other.send(b"a")
    loop.run_forever()
    other.send(b"b")
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    thread.join()
    other.send(b"c")
    loop.run_forever()
    loop.close()
    assert [byte for byte, _ in called] == [b"a", b"b", b"c"]
    assert len({ident for _, ident in called}) == 2


def test_a_reader_whose_descriptor_is_closed_is_not_called_again(loop):
    ends = socket.socketpair()
    calls = []

    def read():
        calls.append(1)
        ends[0].close()  # without remove_reader()

    loop.add_reader(ends[0], read)
    ends[1].send(b"x")
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    ends[1].close()
    assert calls == [1] and loop.failures == []


def test_a_finalizer_may_remove_the_reader_that_replaces_its_own(loop, pair):
    class Remover:
        def __del__(self):
            loop.remove_reader(pair[0])

    loop.add_reader(pair[0], print, Remover())
    gc.collect()
    loop.add_reader(pair[0], print)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert loop.remove_reader(pair[0]) is False


def test_a_server_begun_on_one_thread_serves_on_another():
    async def echo(reader, writer):
        writer.write(await reader.read(100))
        writer.close()

    loop = aio.EventLoop()
    server = loop.run_until_complete(asyncio.start_server(echo, "127.0.0.1", 0))
    address = server.sockets[0].getsockname()
    answers = []

    def ask():
        with socket.create_connection(address) as client:
            client.send(b"hello")
            answers.append(client.recv(100))
        loop.call_soon_threadsafe(loop.stop)

    threads = [threading.Thread(target=target) for target in (loop.run_forever, ask)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()  # blocks this thread, and so its fibers
    server.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert answers == [b"hello"]


def test_a_loop_waits_though_only_a_signal_could_end_that(lines):
    assert lines("""
        import signal
        from fiberrt import aio

        loop = aio.EventLoop()
        signal.signal(signal.SIGALRM, lambda number, frame: loop.call_soon_threadsafe(loop.stop))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        loop.run_forever()
        loop.close()
        print("stopped")
    """) == ["stopped"]


def test_a_wakeup_of_the_loops_fiber_is_kept_for_park(loop):
    here = fiberrt.current()

    def wake():
        here.wakeup()
        loop.call_soon(loop.stop)

    fiberrt.spawn(wake)
    loop.run_forever()
    assert fiberrt.park(60)


def test_a_wait_that_ends_for_two_reasons_leaves_no_wakeup(loop):
    def schedule():  # when the loop's time is up, too
        fiberrt.sleep(0.001)
        loop.call_soon(order.append, "soon")

    def keep_the_thread(due):
        while loop.time() < due:
            pass

    def begin():
        due = loop.time() + 0.01
        fiberrt.spawn(schedule)
        fiberrt.spawn(keep_the_thread, due)
        loop.call_at(due, order.append, "timer")
        loop.call_at(due, loop.stop)

    order = []
    loop.call_soon(begin)
    loop.run_forever()
    assert sorted(order) == ["soon", "timer"]
    assert not fiberrt.park(0)


def test_data_that_came_at_the_end_of_a_run_is_reported_on_another_thread(pair):
    loop = aio.EventLoop()

    def end_of_run():
        pair[1].send(b"data")
        for _ in range(100):  # the receive is done meanwhile, but the loop does not report it
            fiberrt.sleep(0)
        loop.stop()

    async def begin():
        return await connected(pair)

    transport, protocol = loop.run_until_complete(begin())
    loop.call_soon(lambda: loop.call_soon(end_of_run))
    loop.run_forever()
    assert protocol.events == []

    async def finish():
        while not protocol.events:
            await asyncio.sleep(0)
        transport.abort()
        await protocol.over

    thread = threading.Thread(target=loop.run_until_complete, args=(finish(),))
    thread.start()
    thread.join(60)
    assert not thread.is_alive() and protocol.events == [b"data", None]
    loop.close()


# --- Transports


class Recorder(asyncio.Protocol):
    def __init__(self):
        self.events = []
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.events.append(data)

    def eof_received(self):
        self.events.append("eof")

    def pause_writing(self):
        self.events.append("pause")

    def resume_writing(self):
        self.events.append("resume")

    def connection_lost(self, error):
        self.events.append(error)
        self.over.set_result(None)


async def connected(pair, protocol=Recorder):
    transport, protocol = await asyncio.get_running_loop().create_connection(protocol, sock=pair[0])
    return transport, protocol


@pytest.mark.parametrize("size", [1, 2047, 2048, 2049, 5000, 300_000, 5_000_000])
def test_a_stream_of_that_size_comes_through(size):
    data = bytes(range(256)) * (size // 256 + 1)

    async def serve(reader, writer):
        writer.write(await reader.readexactly(size))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(data[:size])
        back = await reader.read()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return back == data[:size]

    assert run(main())


def test_flow_control(pair):
    async def main():
        transport, protocol = await connected(pair)
        transport.set_write_buffer_limits(high=1000, low=10)
        assert transport.get_write_buffer_limits() == (10, 1000)
        sent = 0
        while "pause" not in protocol.events:
            transport.write(b"x" * 50_000)
            sent += 50_000
        assert transport.get_write_buffer_size() > 1000
        transport.writelines([b"y", bytearray(b"y"), memoryview(b"y")])
        left = sent + 3
        while left:
            left -= len(await asyncio.get_running_loop().sock_recv(pair[1], 1 << 20))
        while "resume" not in protocol.events:
            await asyncio.sleep(0)
        assert transport.get_write_buffer_size() == 0
        for high, low in (1, 2), (-1, None), (1, -1):
            with pytest.raises(ValueError):
                transport.set_write_buffer_limits(high=high, low=low)
        transport.close()
        await protocol.over
        assert protocol.events == ["pause", "resume", None]

    run(main())


def test_pausing_keeps_received_data(pair):
    async def main():
        loop = asyncio.get_running_loop()
        transport, protocol = await connected(pair)
        await asyncio.sleep(0.001)  # a receive is under way
        transport.pause_reading()
        assert not transport.is_reading()
        pair[1].send(b"while paused")
        other = socket.socketpair()
        other[1].send(b"x")
        other[0].setblocking(False)
        await loop.sock_recv(other[0], 1)  # the loop has looked for events since
        for end in other:
            end.close()
        assert protocol.events == []
        for _ in range(3):
            transport.resume_reading()
            transport.pause_reading()
        transport.resume_reading()
        while not protocol.events:
            await asyncio.sleep(0)
        assert protocol.events == [b"while paused"]
        transport.abort()
        await protocol.over

    run(main())


def test_pausing_in_the_turn_in_which_data_has_come(pair):
    async def main():
        transport, protocol = await connected(pair)
        pair[1].send(b"first")
        for _ in range(100):  # the receive is done meanwhile, but the loop cannot report it
            fiberrt.sleep(0)
        transport.pause_reading()
        await asyncio.sleep(0)
        transport.resume_reading()
        pair[1].send(b"second")
        while b"".join(protocol.events) != b"firstsecond":
            await asyncio.sleep(0)
        transport.abort()
        await protocol.over

    run(main())


@pytest.mark.parametrize("change", ["pause", "protocol", "close"])
def test_a_small_buffer_and_a_change_in_between(pair, change):
    received = []

    class Plain(Recorder):
        def data_received(self, data):
            received.append(("plain", data))

    class Buffered(asyncio.BufferedProtocol, Recorder):
        def get_buffer(self, hint):
            self.buffer = bytearray(2)
            return self.buffer

        def buffer_updated(self, count):
            received.append(("buffered", bytes(self.buffer[:count])))
            if len(received) == 1 and change == "pause":
                self.transport.pause_reading()
            elif change == "protocol":
                self.transport.set_protocol(plain)
            elif change == "close":
                self.transport.close()

    async def main():
        nonlocal plain
        plain = Plain()
        transport, protocol = await connected(pair, Buffered)
        pair[1].send(b"abcdef")
        while not received:
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        if change == "pause":
            assert len(received) == 1
            transport.resume_reading()
            while len(received) < 3:
                await asyncio.sleep(0)
        transport.abort()
        await (plain if change == "protocol" else protocol).over

    plain = None
    run(main())
    assert received == {
        "pause": [("buffered", b"ab"), ("buffered", b"cd"), ("buffered", b"ef")],
        "protocol": [("buffered", b"ab"), ("plain", b"cdef")],
        "close": [("buffered", b"ab")],
    }[change]


def test_an_exception_of_connection_lost_does_not_end_the_loop(loop, pair):
    error = ValueError("of connection_lost()")

    class Failing(Recorder):
        def connection_lost(self, _):
            self.over.set_result(None)
            raise error

    async def main():
        transport, protocol = await connected(pair, Failing)
        while not transport.get_write_buffer_size():
            transport.write(b"x" * 50_000)
        transport.close()
        while not protocol.over.done():
            await loop.sock_recv(pair[1], 1 << 20)
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    assert [context["exception"] for context in loop.failures] == [error]


def test_a_wait_for_the_sent_data_ends_with_the_connection(pair):
    async def main():
        transport, protocol = await connected(pair)
        while not transport.get_write_buffer_size():
            transport.write(b"x" * 50_000)
        waiter = transport._make_empty_waiter()
        transport.abort()
        with pytest.raises(ConnectionError):
            await waiter

    run(main())


def test_another_fiber_closes_a_transport_at_the_end_of_a_run(loop, pair):
    async def begin():
        return await connected(pair)

    transport, protocol = loop.run_until_complete(begin())
    loop.call_soon(fiberrt.spawn, transport.abort)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.run_until_complete(protocol.over)
    assert protocol.events == [None]


def test_ends_of_a_connection(pair):
    async def main():
        transport, protocol = await connected(pair)
        assert transport.get_extra_info("socket").fileno() == pair[0].fileno()
        assert transport.get_extra_info("nothing", 5) == 5
        for wrong in "text", 5, None:
            with pytest.raises(TypeError):
                transport.write(wrong)
            with pytest.raises(TypeError):
                transport.writelines([wrong])
        assert isinstance(transport, asyncio.Transport) and transport.get_protocol() is protocol
        transport.write(b"last")
        transport.write_eof()
        transport.write_eof()
        with pytest.raises(RuntimeError, match="write_eof"):
            transport.write(b"more")
        assert pair[1].recv(100) == b"last" and pair[1].recv(100) == b""
        pair[1].close()
        await protocol.over
        assert protocol.events == ["eof", None] and transport.is_closing()
        assert "closed" in repr(transport)
        transport.close()
        transport.abort()

    run(main())


def test_writes_after_the_connection_is_lost(pair, caplog):
    async def main():
        transport, protocol = await connected(pair)
        transport.abort()
        for _ in range(10):
            transport.write(b"x")
        await protocol.over
        transport.write(b"x")
        assert protocol.events == [None]

    run(main())
    assert "socket.send() raised exception" in caplog.text


def test_a_reset_connection(loop):
    async def main():
        accepted = loop.create_future()

        class Accepting(Recorder):
            def connection_made(self, transport):
                accepted.set_result(self)

        server = await loop.create_server(Accepting, "127.0.0.1", 0)
        client = socket.create_connection(server.sockets[0].getsockname())
        protocol = await accepted
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        await protocol.over
        server.close()
        assert isinstance(protocol.events[-1], ConnectionResetError)

    loop.run_until_complete(main())


@pytest.mark.parametrize("call", ["data_received", "eof_received", "get_buffer", "buffer_updated", "no buffer"])
def test_exceptions_of_protocols(loop, pair, call):
    error = ValueError("of the protocol")

    class Failing(Recorder):
        pass

    class FailingBuffered(asyncio.BufferedProtocol, Recorder):
        def get_buffer(self, hint):
            return bytearray(0 if call == "no buffer" else 10)

        def buffer_updated(self, count):
            pass

    kind = FailingBuffered if "buffer" in call else Failing
    if call != "no buffer":

        def fail(self, *args):
            raise error

        setattr(kind, call, fail)

    async def main():
        _, protocol = await connected(pair, kind)
        pair[1].send(b"x")
        pair[1].shutdown(socket.SHUT_WR)
        await protocol.over
        return protocol.events[-1]

    lost = loop.run_until_complete(main())
    assert lost is loop.failures[0]["exception"] and isinstance(lost, (ValueError, RuntimeError))


def test_a_buffered_protocol_gets_all(pair):
    received = bytearray()

    class Buffered(asyncio.BufferedProtocol, Recorder):
        def get_buffer(self, hint):
            self.buffer = bytearray(7)
            return self.buffer

        def buffer_updated(self, count):
            received.extend(self.buffer[:count])

    async def main():
        _, protocol = await connected(pair, Buffered)
        await asyncio.get_running_loop().sock_sendall(pair[1], bytes(range(256)) * 100)
        pair[1].shutdown(socket.SHUT_WR)
        await protocol.over

    run(main())
    assert received == bytes(range(256)) * 100


def test_an_unclosed_transport_is_reported(pair):
    async def main():
        transport, _ = await connected(pair)
        return weakref.ref(transport)

    loop = aio.EventLoop()
    with pytest.warns(ResourceWarning, match="unclosed transport"):
        ref = loop.run_until_complete(main())
        loop.close()
        gc.collect()
    assert ref() is None


def test_callbacks_may_wait_as_fibers(pair):
    async def main():
        order = []

        class Waiting(Recorder):
            def data_received(self, data):
                fiberrt.spawn(order.append, "other fiber").join()
                order.append(data)

        transport, protocol = await connected(pair, Waiting)
        pair[1].send(b"x")
        pair[1].close()
        await protocol.over
        return order

    assert run(main()) == ["other fiber", b"x"]


def test_subprocesses():
    async def main():
        process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
        assert await process.communicate(b"through the child") == (b"through the child", None)
        process = await asyncio.create_subprocess_shell("exit 3")
        assert await process.wait() == 3
        process = await asyncio.create_subprocess_exec("sleep", "60")
        process.kill()
        assert await process.wait() == -signal.SIGKILL

    run(main())


# --- Several loops in a thread


def test_each_fiber_has_its_own_running_loop():
    met = fiberrt.Event()
    seen = {}

    async def main(name, other):
        seen[name] = asyncio.get_running_loop()
        if len(seen) == 2:
            met.set()
        while not met.is_set():
            await asyncio.sleep(0.001)
        for _ in range(3):
            assert asyncio.get_running_loop() is seen[name] is not seen[other]
            fiberrt.reschedule()
            await asyncio.sleep(0)

    def plain():
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        assert sys.get_asyncgen_hooks() == (None, None)

    fibers = [fiberrt.spawn(run, main("a", "b")), fiberrt.spawn(run, main("b", "a"))]
    met.wait()
    fiberrt.spawn(plain).result()
    plain()
    for fiber in fibers:
        fiber.result()
    plain()


def test_hooks_of_fibers_that_run_no_loop_stay():
    def hook(generator):
        pass

    async def main():
        await aio.run(lambda: seen.append(sys.get_asyncgen_hooks().firstiter))
        seen.append(sys.get_asyncgen_hooks().firstiter)

    seen = []
    before = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=hook)
    try:
        run(main())
        assert seen[0] is hook is sys.get_asyncgen_hooks().firstiter is not seen[1]
    finally:
        sys.set_asyncgen_hooks(*before)


def test_a_loop_closes_its_own_asynchronous_generators():
    closed = []

    async def numbers(name):
        try:
            yield 1
            yield 2
        finally:
            closed.append((name, asyncio.get_running_loop()))

    async def main(name):
        generator = numbers(name)
        assert await anext(generator) == 1
        await asyncio.sleep(0.001)  # the other fiber's loop runs
        return asyncio.get_running_loop(), generator  # not exhausted

    fibers = [fiberrt.spawn(run, main(name)) for name in "ab"]
    loops = [fiber.result()[0] for fiber in fibers]
    assert sorted(closed, key=lambda pair: pair[0]) == [("a", loops[0]), ("b", loops[1])]


def test_a_fiber_knows_the_loop_that_ran_before_its_thread_had_fibers(lines):
    assert lines("""
        import asyncio
        from fiberrt import aio, spawn

        async def main():
            async def three():
                return 3
            return await aio.run(lambda: aio.await_(three()))

        with asyncio.Runner(loop_factory=aio.EventLoop) as runner:
            print(runner.run(main()))
    """) == ["3"]


def test_nesting_is_refused():
    async def main():
        with pytest.raises(RuntimeError, match="running"):
            asyncio.get_running_loop().run_forever()
        inner = aio.EventLoop()
        with pytest.raises(RuntimeError, match="another loop is running"):
            inner.run_forever()
        with pytest.raises(RuntimeError, match="running"):
            asyncio.get_running_loop().close()
        inner.close()
        with pytest.raises(RuntimeError, match="closed"):
            inner.run_forever()
        assert asyncio.get_running_loop().is_running()

    run(main())


# --- Coroutines wait for fibers


def test_await_a_fiber():
    async def main():
        assert await fiberrt.spawn(lambda: 5) == 5
        ended = fiberrt.spawn(int)
        ended.join()
        assert await ended == 0 and await ended == 0
        failing = fiberrt.spawn(lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await failing
        with pytest.raises(ZeroDivisionError):
            await failing
        return await aio.run(divmod, 7, 2)

    assert run(main()) == (3, 1)
    ended = fiberrt.spawn(lambda: (1, 2))
    ended.join()
    with pytest.raises(StopIteration) as stop:
        next(iter(ended.__await__()))
    assert stop.value.value == (1, 2)


def test_a_cancel_of_the_coroutine_cancels_the_fiber():
    events = []

    def sleep():
        try:
            fiberrt.sleep(60)
        except fiberrt.CancelledError:
            events.append("fiber cancelled")
            raise

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await aio.run(sleep)
        task = asyncio.create_task(aio.run(sleep))
        await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Shielded, the fiber goes on.
        fiber = fiberrt.spawn(fiberrt.park)
        task = asyncio.create_task(_until(fiber))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not fiber.done
        fiber.wakeup()
        assert await fiber is True

    async def _until(fiber):
        async def inner():
            return await fiber

        return await asyncio.shield(inner())

    run(main())
    assert events == ["fiber cancelled"] * 2


def test_a_fiber_that_finishes_in_spite_of_the_cancel():
    def stubborn():
        try:
            fiberrt.sleep(60)
        except fiberrt.CancelledError:
            return "done anyway"

    async def main():
        task = asyncio.create_task(aio.run(stubborn))
        await asyncio.sleep(0.001)
        task.cancel()
        return await task

    assert run(main()) == "done anyway"


def test_a_cancelled_fiber_cancels_the_coroutine_that_waits_for_it():
    async def main():
        fiber = fiberrt.spawn(fiberrt.sleep, 60)
        asyncio.get_running_loop().call_soon(fiber.cancel)
        with pytest.raises(asyncio.CancelledError):
            await fiber

    run(main())


def test_await_a_fiber_of_another_thread():
    made, ended = fiberrt.Queue(), fiberrt.Event()

    def thread():
        made.put(fiberrt.spawn(lambda: ended.wait() and 7))
        ended.wait()
        fiberrt.sleep(0.001)

    async def main():
        other = threading.Thread(target=thread)
        other.start()
        fiber = await aio.run(made.get)
        asyncio.get_running_loop().call_later(0.001, ended.set)
        assert await fiber == 7
        other.join()

    run(main())


def test_done_callbacks(unraisable):
    called = []
    fiber = fiberrt.spawn(int)
    fiber.add_done_callback(called.append)
    fiber.add_done_callback(called.append)
    fiber.add_done_callback(print)
    assert fiber.remove_done_callback(print) == 1 and fiber.remove_done_callback(print) == 0
    fiber.add_done_callback(lambda _: 1 / 0)
    fiber.join()
    assert called == [fiber, fiber] and [kind for kind, _ in unraisable] == [ZeroDivisionError]
    fiber.add_done_callback(called.append)
    assert len(called) == 3
    for wrong in None, 5, fiberrt.Queue():
        with pytest.raises(TypeError):
            fiber.add_done_callback(wrong)


# --- Fibers wait for coroutines


async def double(number):
    await asyncio.sleep(0)
    return 2 * number


def test_await_from_a_fiber():
    variable = contextvars.ContextVar("variable", default=0)

    async def value():
        return variable.get()

    async def fail():
        raise KeyError("of the coroutine")

    def fiber():
        assert aio.await_(double(4)) == 8
        variable.set(5)
        assert aio.await_(value()) == 5
        with pytest.raises(KeyError, match="of the coroutine"):
            aio.await_(fail())
        with pytest.raises(TypeError):
            aio.await_(5)
        return aio.await_(asyncio.sleep(0, "slept"))

    async def main():
        future = asyncio.get_running_loop().create_future()
        waits = fiberrt.spawn(aio.await_, future)
        await asyncio.sleep(0)
        future.set_result("of the future")
        assert await waits == "of the future"
        return await aio.run(fiber)

    assert run(main()) == "slept"


def test_await_from_another_thread():
    async def main():
        loop = asyncio.get_running_loop()
        return await asyncio.to_thread(lambda: aio.await_(double(8), loop))

    assert run(main()) == 16


def test_a_cancel_of_the_fiber_cancels_the_coroutine():
    events = []

    async def sleep():
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            events.append("finally")

    def limited():
        with pytest.raises(TimeoutError), fiberrt.fail_after(0.001):
            aio.await_(sleep())
        return events == ["finally"]

    async def main():
        assert await aio.run(limited)
        fiber = fiberrt.spawn(aio.await_, sleep())
        await asyncio.sleep(0.001)
        fiber.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fiber
        assert events == ["finally"] * 2

    run(main())


def test_await_where_it_cannot_work():
    async def main():
        coroutine = double(1)
        with pytest.raises(RuntimeError, match="another fiber"):
            aio.await_(coroutine)
        coroutine.close()

    run(main())
    coroutine = double(1)
    with pytest.raises(RuntimeError, match="no fiber of this thread runs"):
        aio.await_(coroutine)
    coroutine.close()


# --- A cancel or a time limit of the fiber that runs the loop


def test_a_cancel_of_the_loops_fiber_cancels_its_task():
    events = []

    async def main():
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.001)
            events.append("finally")

    fiber = fiberrt.spawn(run, main())
    fiberrt.sleep(0.001)
    fiber.cancel()
    with pytest.raises(fiberrt.CancelledError):
        fiber.result()
    with pytest.raises(TimeoutError), fiberrt.fail_after(0.001):
        run(main())
    assert events == ["finally"] * 2


def test_an_exception_thrown_into_the_loops_fiber():
    fiber = fiberrt.spawn(run, asyncio.sleep(60))
    fiberrt.sleep(0.001)
    fiber.throw(LookupError("thrown"))
    with pytest.raises(LookupError, match="thrown"):
        fiber.result()


# --- Patched programs


POLICIES = ["", "asyncio.set_event_loop_policy(fiberrt.aio.EventLoopPolicy())"]  # Python 3.14 deprecates them


@pytest.mark.parametrize("policy", POLICIES if sys.version_info < (3, 14) else POLICIES[:1])
@pytest.mark.parametrize("first", ["asyncio, threading", "fiberrt.monkey; fiberrt.monkey.patch()"])
def test_patched_threads_each_run_a_loop(lines, first, policy):
    assert lines(f"""
        import {first}
        import fiberrt.monkey; fiberrt.monkey.patch()
        import asyncio, threading
        import fiberrt.aio
        {policy}

        both = threading.Barrier(2)

        async def main():
            loop = asyncio.get_running_loop()
            await asyncio.to_thread(both.wait)
            assert asyncio.get_running_loop() is loop
            return loop

        loops = []
        threads = [threading.Thread(target=lambda: loops.append(asyncio.run(main()))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(len(set(loops)), *{{type(loop).__module__ for loop in loops}})
    """) == [f"2 {'fiberrt.aio' if policy else 'asyncio.unix_events'}"]
