# SPDX-License-Identifier: MIT OR Apache-2.0
"""The transports of fiberrt.aio for pipes. Most tests run on asyncio's own loop, too, with the same results."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
import weakref

import pytest
from recording import Recorder, both, run

from fiberrt import aio


@contextlib.contextmanager
def pipe():
    ends = os.pipe()
    with open(ends[0], "rb", 0) as reads, open(ends[1], "wb", 0) as writes:
        yield reads, writes


@both
def test_a_pipe(factory):
    async def main():
        loop = asyncio.get_running_loop()
        with pipe() as (reads, writes):
            reader, received = await loop.connect_read_pipe(Recorder, reads)
            writer, sent = await loop.connect_write_pipe(Recorder, writes)
            assert reader.get_extra_info("pipe") is reads and isinstance(reader, asyncio.ReadTransport)
            assert writer.get_extra_info("pipe") is writes and isinstance(writer, asyncio.WriteTransport)
            assert not hasattr(reader, "write") and writer.can_write_eof()
            knows = sys.version_info >= (3, 11, 4) or factory is aio.EventLoop  # asyncio's had no is_reading() before
            assert not knows or reader.is_reading()
            for data in b"bytes", bytearray(b"an array"), memoryview(b"a view"):
                writer.write(data)
            writer.write(b"")
            writer.writelines([b"|", b"lines"])
            await received.until(1)
            reader.pause_reading()
            reader.pause_reading()
            assert not knows or not reader.is_reading()
            writer.write(b"|paused")
            await asyncio.sleep(0)
            before = len(received.events)
            reader.resume_reading()
            await received.until(before + 1)
            writer.write_eof()
            writer.close()
            await sent.over
            await received.over
            assert b"".join(received.events[:-2]) == b"bytesan arraya view|lines|paused"
            assert received.events[-2:] == ["eof", ("lost", None)] and sent.events == [("lost", None)]
            assert reads.closed and writes.closed and "closed" in repr(reader) and "closed" in repr(writer)
            reader.close()
            writer.close()

    run(main(), factory)


@both
@pytest.mark.parametrize("size", [1, 65_536, 65_537, 3_000_000])
def test_much_through_a_pipe(factory, size):
    async def main():
        loop = asyncio.get_running_loop()
        with pipe() as (reads, writes):
            writer, sent = await loop.connect_write_pipe(Recorder, writes)
            data = os.urandom(size)
            writer.write(data)
            assert (writer.get_write_buffer_size() > 0) == (size > 65_536)
            writer.close()  # when all is written
            assert writer.is_closing()
            _, received = await loop.connect_read_pipe(Recorder, reads)
            await sent.over
            await received.over
            assert b"".join(received.events[:-2]) == data
            assert sent.events == ["pause", "resume", ("lost", None)] or size <= 200_000

    run(main(), factory)


@both
@pytest.mark.parametrize("aborts", [False, True])
def test_a_write_after_close_does_not_stop_the_data_before_it(factory, aborts):
    async def main():
        loop = asyncio.get_running_loop()
        with pipe() as (reads, writes):
            writer, sent = await loop.connect_write_pipe(Recorder, writes)
            data = os.urandom(1_000_000)
            writer.write(data)
            writer.close()
            for _ in range(3):
                writer.write(b"x")
            if aborts:
                writer.abort()
                await sent.over
                assert len(reads.readall()) < len(data)
            else:
                _, received = await loop.connect_read_pipe(Recorder, reads)
                await sent.over
                await received.over
                assert b"".join(received.events[:-2]) == data
            assert sent.events[-1] == ("lost", None)
            writer.write(b"x")

    run(main(), factory)


@both
@pytest.mark.parametrize("full", [False, True])
def test_the_readers_close_is_noticed(factory, full, caplog):
    async def main():
        loop = asyncio.get_running_loop()
        with pipe() as (reads, writes):
            writer, sent = await loop.connect_write_pipe(Recorder, writes)
            await asyncio.sleep(0)
            if full:
                writer.write(b"x" * 1_000_000)
            reads.close()
            await sent.over
            assert sent.events[-1] == ("lost", BrokenPipeError if full else None)
            for _ in range(10):
                writer.write(b"x")

    run(main(), factory)
    assert "pipe closed by peer" in caplog.text


@both
def test_a_write_into_a_pipe_without_a_reader(factory):
    async def main():
        loop = asyncio.get_running_loop()
        with pipe() as (reads, writes):
            writer, sent = await loop.connect_write_pipe(Recorder, writes)
            reads.close()
            writer.write(b"x")
            await sent.over
            assert sent.events == [("lost", BrokenPipeError)]

    run(main(), factory)


@both
def test_an_exception_of_data_received_leaves_the_pipe_open(factory):
    async def main():
        class Failing(Recorder):
            def data_received(self, data):
                self.note(data)
                raise ValueError(data)

        loop = asyncio.get_running_loop()
        failures = []
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
        with pipe() as (reads, writes):
            _, received = await loop.connect_read_pipe(Failing, reads)
            writes.write(b"1")
            await received.until(1)
            writes.write(b"2")
            writes.close()
            await received.over
            assert received.events == [b"1", b"2", "eof", ("lost", None)]
            assert [error.args for error in failures] == [(b"1",), (b"2",)]

    run(main(), factory)


@both
def test_a_closed_pipe_reads_no_more(factory):
    async def main():
        loop = asyncio.get_running_loop()
        with pipe() as (reads, writes):
            reader, received = await loop.connect_read_pipe(Recorder, reads)
            writes.write(b"x")
            reader.close()
            reader.resume_reading()
            await received.over
            assert received.events == [("lost", None)]
        with pipe() as (reads, writes):
            writer, sent = await loop.connect_write_pipe(Recorder, writes)
            writer.write(b"x" * 1_000_000)
            writer.abort()
            await sent.over
            assert sent.events[-1] == ("lost", None) and len(reads.read(1_000_000)) < 1_000_000

    run(main(), factory)


@both
def test_other_files(factory, tmp_path):
    async def main():
        loop = asyncio.get_running_loop()
        for connect in loop.connect_read_pipe, loop.connect_write_pipe:
            with open(tmp_path / "file", "wb+", 0) as file, pytest.raises(ValueError, match="Pipe transport is"):
                await connect(Recorder, file)
        ends = socket.socketpair()
        reader, received = await loop.connect_read_pipe(Recorder, ends[0])
        writer, sent = await loop.connect_write_pipe(Recorder, ends[1])
        writer.write(b"through sockets")
        assert await received.until(1) == [b"through sockets"]
        reader.close()
        await received.over
        await sent.over
        assert sent.events == [("lost", None)]
        main_end, other_end = os.openpty()
        with open(main_end, "wb", 0) as keyboard, open(other_end, "rb", 0) as terminal:
            reader, received = await loop.connect_read_pipe(Recorder, terminal)
            writer, sent = await loop.connect_write_pipe(Recorder, keyboard)
            writer.write(b"line\n")
            assert await received.until(1) == [b"line\n"]
            writer.close()
            await sent.over
            await received.over  # EIO
            assert received.events[-1][0] == "lost"

    run(main(), factory)


def test_an_unclosed_pipe_is_reported():
    async def main(connect, end):
        loop = asyncio.get_running_loop()
        transport, _ = await getattr(loop, connect)(Recorder, end)
        return weakref.ref(transport)

    for i, connect in enumerate(["connect_read_pipe", "connect_write_pipe"]):
        loop = aio.EventLoop()
        with pipe() as ends:
            with pytest.warns(ResourceWarning, match="unclosed transport"):
                ref = loop.run_until_complete(main(connect, ends[i]))
                loop.close()
                gc.collect()
            assert ref() is None and ends[i].closed


@both
def test_pipes_of_a_process(factory):
    async def main():
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "import sys; sys.stderr.write('e'); sys.stdout.write(sys.stdin.read()[::-1])",
            stdin=-1, stdout=-1, stderr=-1,
        )  # fmt: skip
        data = b"0123456789" * 50_000
        out, err = await process.communicate(data)
        assert out == data[::-1] and err == b"e" and process.returncode == 0

        process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
        process.stdin.write(b"a line\nand more")
        await process.stdin.drain()
        assert await process.stdout.readline() == b"a line\n"
        process.send_signal(signal.SIGKILL)
        assert await process.wait() == -signal.SIGKILL
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(100):
                process.stdin.write(b"x")
                await process.stdin.drain()

    run(main(), factory)
