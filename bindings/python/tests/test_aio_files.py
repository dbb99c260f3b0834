# SPDX-License-Identifier: MIT OR Apache-2.0
"""fiberrt.aio.open(): files for coroutines."""

import asyncio
import os

import pytest

import fiberrt
from fiberrt import _fiberrt, aio


def run(coroutine):
    with asyncio.Runner(loop_factory=aio.EventLoop) as runner:
        return runner.run(coroutine)


def test_reading_and_writing(tmp_path):
    path = tmp_path / "file"

    async def main():
        async with aio.open(path, "w+", encoding="utf-8") as file:
            assert isinstance(file, aio.AsyncFile)
            assert (file.name, file.mode, file.encoding, file.closed) == (str(path), "w+", "utf-8", False)
            assert (file.readable(), file.writable(), file.seekable(), file.isatty()) == (True, True, True, False)
            assert os.fstat(file.fileno()).st_size == 0
            assert await file.write("one\ntwo\nthree\n") == 14
            await file.writelines(["four\n", "five"])
            await file.flush()
            assert os.fstat(file.fileno()).st_size == 23
            assert await file.seek(0) == 0
            assert await file.readline() == "one\n"
            assert [line async for line in file] == ["two\n", "three\n", "four\n", "five"]
            assert await file.seek(4) == await file.tell() == 4
            assert await file.readlines() == ["two\n", "three\n", "four\n", "five"]
            assert await file.truncate(3) == 3
        assert file.closed
        file = await aio.open(path, "rb")
        buffer = bytearray(2)
        assert (await file.readinto(buffer), buffer, await file.read1(5), await file.read()) == (2, b"on", b"e", b"")
        await file.close()
        await file.close()
        with pytest.raises(ValueError):
            await file.read()
        with pytest.raises(AttributeError):
            file.no_such_attribute
        with pytest.raises(FileNotFoundError):
            await aio.open(tmp_path / "none")
        with pytest.raises(FileNotFoundError):
            async with aio.open(tmp_path / "none"):
                pass
        with pytest.raises(ValueError):
            await aio.open(path, "no mode")
        with pytest.raises(TypeError):
            await aio.open()

    run(main())


def test_the_loop_runs_while_a_file_waits(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)

    async def read():
        async with aio.open(path, "rb") as file:
            opened.set()
            return await file.read()

    async def main():
        global opened
        opened = asyncio.Event()
        reader = asyncio.create_task(read())
        await asyncio.sleep(0.01)
        assert not opened.is_set()
        async with aio.open(path, "wb", 0) as file:
            await opened.wait()
            await file.write(b"through ")
            await asyncio.sleep(0)
            assert not reader.done()
            await file.write(b"a FIFO")
        assert await reader == b"through a FIFO"

    run(main())


def test_a_cancel_and_a_timeout_of_the_coroutine(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await aio.open(path)
        file = await aio.open(path, "r+b", 0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await file.read(1)
        task = asyncio.create_task(file.read(1))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await file.write(b"x")
        assert await file.read(10) == b"x"
        await file.close()

    run(main())


def test_a_cancelled_close_closes_the_file(tmp_path, monkeypatch):
    path = tmp_path / "file"

    async def main():
        file = await aio.open(path, "w")
        await file.write("kept")
        monkeypatch.setattr(_fiberrt, "spawn", spawn_cancelled)
        with pytest.raises(asyncio.CancelledError):
            await file.close()
        return file.closed, path.read_text()

    def spawn_cancelled(*arguments):
        monkeypatch.undo()
        fiber = _fiberrt.spawn(*arguments)
        fiber.cancel()  # as by a cancel of the task, before the fiber runs
        return fiber

    assert run(main()) == (True, "kept")


def test_coroutines_that_share_a_file_take_turns(tmp_path):
    path = tmp_path / "file"

    async def main():
        async with aio.open(path, "w") as file:
            async def write(letter):
                for _ in range(50):
                    await file.write(letter * 20 + "\n")
                    await file.flush()

            await asyncio.gather(*map(write, "abc"))
        async with aio.open(path) as file:
            return sorted([line async for line in file])

    assert run(main()) == [letter * 20 + "\n" for letter in "abc" for _ in range(50)]


def test_it_can_be_opened_by_fibers_too(tmp_path):
    async def main():
        return await aio.run(lambda: fiberrt.open(tmp_path / "file", "w").write("x"))

    assert run(main()) == 1
