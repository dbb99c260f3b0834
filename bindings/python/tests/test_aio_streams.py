# SPDX-License-Identifier: MIT OR Apache-2.0
"""asyncio's streams on fiberrt.aio: the same results as on asyncio's own loop, by methods in C++."""

import asyncio
import inspect
import random
import socket
import sys

import pytest
from recording import LOOPS, both, run

from fiberrt import _streams, aio

SEVERAL = [(b"\n", b"ab"), ()] if sys.version_info >= (3, 13) else []  # separators


class Paused:
    """Stands for the transport of a reader."""

    def __init__(self):
        self.calls = []

    def pause_reading(self):
        self.calls.append("pause")

    def resume_reading(self):
        self.calls.append("resume")


# --- Readers


def test_their_classes():
    async def main():
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for ours, plain in (reader, asyncio.StreamReader), (writer, asyncio.StreamWriter):
            assert isinstance(ours, plain) and type(ours) is not plain and type(ours).__name__ == plain.__name__
        assert isinstance(writer.transport.get_protocol(), asyncio.StreamReaderProtocol)
        assert type(asyncio.StreamReader(loop=other)) is asyncio.StreamReader
        assert type(asyncio.StreamReader()) is type(reader)

        class Own(asyncio.StreamReader):
            pass

        assert type(Own(loop=asyncio.get_running_loop())) is Own
        writer.close()

    async def serve():
        nonlocal server
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        await main()
        server.close()

    assert str(inspect.signature(asyncio.StreamReader)) == "(limit=65536, loop=None)"
    server = None
    other = asyncio.SelectorEventLoop()
    run(serve())
    other.close()


@both
def test_a_subclass_with_a_base_that_makes_objects(factory):
    class Base:
        def __new__(cls, *args, **kwargs):
            made = super().__new__(cls)
            made.given = args, kwargs
            return made

    class Reader(asyncio.StreamReader, Base):
        pass

    class Protocol(asyncio.StreamReaderProtocol, Base):
        pass

    class Writer(asyncio.StreamWriter, Base):
        def __del__(self):
            pass

    async def main():
        loop = asyncio.get_running_loop()
        reader = Reader(5, loop=loop)
        assert type(reader) is Reader and reader.given == ((5,), {"loop": loop}) and reader._limit == 5
        protocol = Protocol(reader, None, loop)
        assert protocol.given == ((reader, None, loop), {})
        assert Writer(None, protocol, reader, loop=loop).given == ((None, protocol, reader), {"loop": loop})

    run(main(), factory)


def some_reads(chance):
    """A list of reads, and of feeds between them."""
    script = []
    for _ in range(chance.randint(1, 25)):
        kind = chance.choice(["feed"] * 6 + ["read", "read", "all", "exactly", "line", "line", "until", "until"])
        if kind == "feed":
            data = bytes(chance.choice(b"ab\n;") for _ in range(chance.choice([0, 1, 2, 3, 5, 9, 40, 200])))
            script.append(("feed_data", chance.choice([bytes, bytearray, memoryview])(data)))
        elif kind == "read":
            script.append(("read", chance.choice([0, 1, 2, 7, 1000])))
        elif kind == "all":
            script.append(("read", -1))
        elif kind == "exactly":
            script.append(("readexactly", chance.choice([-1, 0, 1, 3, 10, 50])))
        elif kind == "line":
            script.append(("readline",))
        else:
            script.append(("readuntil", chance.choice([b"\n", b";", b"ab", b"aab\n", b"", *SEVERAL])))
    end = chance.choice(["eof", "eof", "error", "cancel"])
    script.append(("feed_eof",) if end == "eof" else ("set_exception", OSError("end")) if end == "error" else ("stop",))
    script += [(chance.choice(["readline", "read", "exception", "at_eof"]),) for _ in range(3)]
    return script


async def play(script, limit):
    """Returns what the calls of a reader return, or raise, in the order of their ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit, loop=loop)
    transport = Paused()
    reader.set_transport(transport)
    results = []

    async def read(name, args):
        try:
            result = await getattr(reader, name)(*args)
        except asyncio.CancelledError:
            result = "cancelled"
        except BaseException as error:
            result = type(error), str(error), getattr(error, "partial", None), getattr(error, "consumed", None)
        results.append((name, result, bytes(reader._buffer)))

    tasks = []
    for name, *args in script:
        if name == "stop":
            for task in tasks:
                task.cancel()
        elif inspect.iscoroutinefunction(getattr(asyncio.StreamReader, name)):
            if not tasks or tasks[-1].done():  # one at a time
                tasks.append(loop.create_task(read(name, args)))
        else:
            try:
                results.append((name, getattr(reader, name)(*args)))
            except AssertionError as error:
                results.append(str(error))
        for _ in range(3):
            await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks)
    return [str(result) for result in results], transport.calls, repr(reader).replace("transport=", "")[:20]


@pytest.mark.parametrize("seed", range(0, 300, 100))
def test_reads_give_the_same_as_on_asyncios_loop(seed):
    for number in range(seed, seed + 100):
        outcomes = []
        for factory in LOOPS:
            chance = random.Random(number)
            outcomes.append(run(play(some_reads(chance), chance.choice([1, 4, 16, 65536])), factory))
        assert outcomes[0] == outcomes[1], number


def test_attributes_that_programs_use():
    async def main():
        reader = asyncio.StreamReader(limit=5)
        assert reader._limit == 5 and reader._buffer == b"" and repr(reader) == "<StreamReader limit=5>"
        reader.feed_data(b"abc")
        reader._buffer.extend(b"def")
        assert await reader.read(2) == b"ab" and reader._buffer == bytearray(b"cdef")
        reader._buffer = bytearray(b"12")
        assert await reader.readexactly(n=2) == b"12"
        reader.feed_data(data=b"x\ny")
        assert await reader.readuntil(separator=b"\n") == b"x\n" and await reader.read(n=1) == b"y"
        reader._limit = float("inf")
        reader.feed_data(b"z" * 100 + b"\n")
        assert len(await reader.readline()) == 101 and reader._limit == float("inf")
        for wrong in "text", None:
            with pytest.raises(TypeError):
                reader._limit = wrong
            with pytest.raises(TypeError):
                reader._buffer = wrong
        with pytest.raises(TypeError):
            reader.read(1, 2)
        with pytest.raises(TypeError):
            reader.readexactly()
        with pytest.raises(TypeError):
            reader.read(m=1)
        with pytest.raises(TypeError):
            await reader.readexactly("text")
        reader.feed_data(b"1\n2\n")
        reader.feed_eof()
        assert [line async for line in reader] == [b"1\n", b"2\n"] and reader.at_eof()

    run(main())


def test_a_second_reader_is_refused_and_the_first_goes_on():
    async def main():
        reader = asyncio.StreamReader()
        first = asyncio.create_task(reader.read(10))
        await asyncio.sleep(0)
        for call in reader.read(1), reader.readline(), reader.readexactly(3), reader.readuntil(b";"):
            with pytest.raises(RuntimeError, match=r"called while another coroutine is\s+already waiting"):
                await call
        reader.feed_data(b"data")
        assert await first == b"data"

    run(main())


def test_a_reader_that_waits_again_is_woken_again():
    """A read that is woken must not drop the waiter of another read, which has begun in between."""

    async def main():
        reader = asyncio.StreamReader()
        first = asyncio.create_task(reader.readexactly(1))
        await asyncio.sleep(0)
        reader.feed_data(b"1")
        second = reader.readexactly(2)
        waiter = second.send(None)
        assert await first == b"1" and reader._waiter is waiter
        reader.feed_data(b"23")
        with pytest.raises(StopIteration, match="23"):
            second.send(None)

    run(main())


def test_a_read_may_take_data_that_another_one_has_searched():
    async def main():
        reader = asyncio.StreamReader()
        line = asyncio.create_task(reader.readline())
        reader.feed_data(b"abc")
        await asyncio.sleep(0)
        assert await reader.read(2) == b"ab"
        reader.feed_data(b"d\n")
        assert await line == b"cd\n"

    run(main())


@both
def test_an_exception_may_be_a_class(factory):
    async def main():
        ends = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ends[0])
        for given, raised in (KeyError, KeyError), (KeyError(1), KeyError), (5, TypeError):
            reader.set_exception(given)
            for call in reader.read(1), reader.readexactly(1), reader.readuntil(b";"), writer.drain():
                with pytest.raises(raised):
                    await call
        writer.close()
        ends[1].close()

    run(main(), factory)


@both
def test_a_read_reports_the_end_that_has_woken_it_before_a_later_exception(factory):
    async def main():
        for name, *args in ("readexactly", 5), ("readuntil", b";"), ("readline",):
            reader = asyncio.StreamReader()
            reader.feed_data(b"ab")
            reading = asyncio.create_task(getattr(reader, name)(*args))
            await asyncio.sleep(0)
            reader.feed_eof()
            reader.set_exception(OSError("later"))
            if name == "readline":
                assert await reading == b"ab"
            else:
                with pytest.raises(asyncio.IncompleteReadError) as incomplete:
                    await reading
                assert incomplete.value.partial == b"ab"
            with pytest.raises(OSError, match="later"):
                await getattr(reader, name)(*args)
        for name, error, *args in ("readuntil", asyncio.LimitOverrunError, b";"), ("readline", ValueError):
            reader = asyncio.StreamReader(limit=3)
            reading = asyncio.create_task(getattr(reader, name)(*args))
            await asyncio.sleep(0)
            reader.feed_data(b"abcdefgh")
            reader.set_exception(OSError("later"))
            with pytest.raises(error):
                await reading
            assert reader.exception().args == ("later",)

    run(main(), factory)


@both
def test_a_read_of_many_pieces_looks_for_an_exception_only_at_its_beginning(factory):
    async def main():
        reader = asyncio.StreamReader()
        reading = asyncio.create_task(reader.readexactly(1000))
        await asyncio.sleep(0)
        reader._exception = OSError("later")
        for _ in range(300):
            assert reader._waiter is not None
            reader.feed_data(b"x")
            while reader._waiter is None and not reading.done():
                await asyncio.sleep(0)
        reader.feed_eof()
        with pytest.raises(asyncio.IncompleteReadError) as incomplete:
            await reading
        assert incomplete.value.partial == b"x" * 300

    run(main(), factory)


@both
def test_methods_that_a_program_sets(factory):
    async def main():
        ends = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ends[0])
        plain = reader.feed_data
        reader.feed_data = lambda data: plain(data.upper())
        ends[1].send(b"data")
        assert await reader.readexactly(4) == b"DATA"
        del reader.feed_data
        ends[1].send(b"data")
        assert await reader.readexactly(4) == b"data"

        async def read_until(separator):
            for _ in range(3):
                await asyncio.sleep(0)
            return separator + b" of its own"

        reader.readuntil = read_until
        ends[1].close()
        assert await reader.readline() == b"\n of its own"
        writer.close()

    run(main(), factory)


@both
def test_methods_of_the_protocol_the_transport_and_the_loop_that_a_program_sets(factory):
    async def main():
        loop = asyncio.get_running_loop()
        ends = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ends[0])
        protocol, transport = writer.transport.get_protocol(), writer.transport
        calls = []

        def noting(name, plain):
            def method(*args):
                calls.append(name)
                return plain(*args)

            return method

        for times in range(2):
            for owner, name in (protocol, "data_received"), (transport, "write"), (loop, "create_future"):
                setattr(owner, name, noting(name, getattr(owner, name)))
            writer.write(b"data")
            assert ends[1].recv(10) == b"data"
            reading = asyncio.create_task(reader.read(10))
            await asyncio.sleep(0)
            ends[1].send(b"answer")
            assert await reading == b"answer"
            assert calls == ["write", "create_future", "data_received"] * (times + 1)
            for owner, name in (protocol, "data_received"), (transport, "write"), (loop, "create_future"):
                delattr(owner, name)
            writer.write(b"data")
            assert ends[1].recv(10) == b"data"
            ends[1].send(b"answer")
            assert await reader.read(10) == b"answer"
            assert calls == ["write", "create_future", "data_received"] * (times + 1)
        writer.close()
        ends[1].close()

    run(main(), factory)


@both
def test_methods_of_subclasses(factory):
    calls = []

    class Loop(factory):
        def create_future(self):
            calls.append("create_future")
            return super().create_future()

    async def main():
        loop = asyncio.get_running_loop()
        plain = asyncio.StreamReader()

        class Reader(type(plain)):
            def feed_data(self, data):
                calls.append("feed_data")
                super().feed_data(data)

        class Protocol(type(asyncio.StreamReaderProtocol(plain))):
            def data_received(self, data):
                calls.append("data_received")
                super().data_received(data)

        async def exchange(reader, protocol):
            ends = socket.socketpair()
            transport, _ = await loop.create_connection(lambda: protocol, sock=ends[0])
            reading = asyncio.create_task(reader.read(10))
            calls.clear()
            await asyncio.sleep(0)
            ends[1].send(b"answer")
            assert await reading == b"answer"
            transport.close()
            ends[1].close()

        await exchange(plain, asyncio.StreamReaderProtocol(plain))
        assert calls == ["create_future"]
        reader = Reader()
        await exchange(reader, Protocol(reader))
        assert calls == ["create_future", "data_received", "feed_data"]

    run(main(), Loop)


@both
def test_a_loop_whose_futures_cannot_be_awaited(factory):
    class Loop:
        def create_future(self):
            return object()

    async def main():
        reader = asyncio.StreamReader()
        reader._loop = Loop()
        for _ in range(2):
            with pytest.raises(TypeError, match="await"):
                await reader.read(1)
            assert reader._waiter is None

    run(main(), factory)


# --- Writers


@both
def test_drain(factory):
    async def main():
        loop = asyncio.get_running_loop()
        ends = socket.socketpair()
        ends[1].setblocking(False)
        reader, writer = await asyncio.open_connection(sock=ends[0])
        writer.transport.set_write_buffer_limits(high=10)
        await writer.drain()
        size = 0
        while not (waits := writer.transport.get_write_buffer_size()):
            writer.write(data=b"x" * 100_000)
            size += 100_000
        assert waits
        draining = asyncio.create_task(writer.drain())
        cancelled = asyncio.create_task(writer.drain())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.sleep(0)
        assert not draining.done() and writer.transport.get_write_buffer_size() == waits
        while size:
            size -= len(await loop.sock_recv(ends[1], 1 << 20))
            low, _ = writer.transport.get_write_buffer_limits()
            assert not draining.done() or writer.transport.get_write_buffer_size() <= low
        await draining
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        writer.writelines([b"a", b"b"])
        assert await loop.sock_recv(ends[1], 10) == b"ab"
        reader.set_exception(ValueError("of the reader"))
        with pytest.raises(ValueError, match="of the reader"):
            await writer.drain()
        reader._exception = None
        writer.close()
        with pytest.raises(ConnectionResetError):
            await writer.drain()
            await writer.drain()
        await writer.wait_closed()
        ends[1].close()

    run(main(), factory)


def test_a_drain_waits_for_any_protocol():
    """Also for one whose helper outlives a cancel."""

    async def helper():
        events.append("begins")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            events.append("cancelled")
            await asyncio.sleep(0)
        events.append("ends")

    async def main():
        class Transport(asyncio.Transport):
            def is_closing(self):
                return False

        class Protocol(asyncio.Protocol):
            _drain_helper = staticmethod(helper)

        protocol = Protocol()
        writer = asyncio.StreamWriter(Transport(), protocol, None, asyncio.get_running_loop())
        draining = asyncio.create_task(writer.drain())
        await asyncio.sleep(0)
        draining.cancel()
        assert await draining is None
        draining = writer.drain()
        draining.send(None)
        draining.close()
        writer._transport.is_closing = lambda: True

    events = []
    run(main())
    assert events == ["begins", "cancelled", "ends", "begins"]


def test_a_drain_that_is_never_awaited_is_reported():
    async def main():
        ends = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=ends[0])
        with pytest.warns(RuntimeWarning, match=r"coroutine 'StreamWriter\.drain' was never awaited"):
            writer.drain()
        writer.close()
        await writer.wait_closed()
        ends[1].close()

    run(main())


@pytest.mark.parametrize("size", [100_000, 3_000_000])
def test_a_slow_reader_pauses_the_sender(size):
    async def main():
        async def serve(reader, writer):
            for _ in range(size // 1000):
                writer.write(b"x" * 1000)
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=1000)
        got = 0
        while data := await reader.read(700):
            got += len(data)
            assert len(reader._buffer) < 600_000
        writer.close()
        server.close()
        return got

    assert run(main()) == size


def test_an_exception_of_the_connection_reaches_the_read():
    async def main():
        server = socket.create_server(("127.0.0.1", 0))
        reader, writer = await asyncio.open_connection(*server.getsockname())
        connection, _ = server.accept()
        reading = asyncio.create_task(reader.readline())
        await asyncio.sleep(0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
        with pytest.raises(ConnectionResetError):
            await reading
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        with pytest.raises(ConnectionResetError):
            await writer.drain()
        server.close()

    run(main())


def test_a_class_may_contain_a_method_of_the_loop_without_being_one():
    class Fake:
        create_future = aio.EventLoop.create_future

        def get_debug(self):
            return False

    async def main():
        with pytest.raises(TypeError, match="create_future"):
            await _streams.StreamReader(loop=Fake()).read(1)

    run(main())


def test_a_protocol_may_look_up_its_methods_itself():
    seen = []

    class Spy(asyncio.StreamReaderProtocol):
        def __getattribute__(self, name):
            seen.append(name)
            return super().__getattribute__(name)

    async def main():
        a, b = socket.socketpair()
        with a, b:
            a.setblocking(False)
            reader = asyncio.StreamReader()
            await asyncio.get_running_loop().create_connection(lambda: Spy(reader), sock=a)
            b.send(b"x")
            assert await reader.read(1) == b"x"

    run(main())
    assert "data_received" in seen
