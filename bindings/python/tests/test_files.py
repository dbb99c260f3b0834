# SPDX-License-Identifier: MIT OR Apache-2.0
"""Buffered files of sockets and pipes that several fibers use at once."""

import sys
import threading

import pytest

import fiberrt
from fiberrt import socket, subprocess


@pytest.mark.parametrize("mode, newline", [("rb", b"\n"), ("rwb", b"\n"), ("r", "\n")])
def test_readers_of_one_file_take_turns(mode, newline):
    a, b = socket.socketpair()
    with a, b, a.makefile(mode) as file:
        readers = [fiberrt.spawn(file.readline) for _ in range(3)]
        fiberrt.reschedule()
        b.sendall(b"1\n2\n3\n")  # at once: what one has read too much is the next one's
        got = [reader.result() for reader in readers]
    assert [line[:1] for line in got] == [line[:1] for line in ("123" if mode == "r" else (b"1", b"2", b"3"))]
    assert all(line[1:] == newline for line in got)


@pytest.mark.parametrize("mode", ["w", "wb", "rwb"])
def test_writers_of_one_file_lose_nothing(mode):
    a, b = socket.socketpair()
    size = 500_000

    def write(letter):
        file.write(letter * size if mode == "w" else letter.encode() * size)
        file.flush()

    def read():
        data = b""
        while len(data) < 3 * size and (part := b.recv(1 << 20)):
            data += part
        return data

    with a, b, a.makefile(mode) as file, fiberrt.fail_after(60):
        writers = [fiberrt.spawn(write, letter) for letter in "xyz"]
        fiberrt.reschedule()
        data = fiberrt.spawn(read).result()
        for writer in writers:
            writer.result()
    assert data == b"".join(letter * size for letter in (b"x", b"y", b"z"))


def test_one_writes_while_another_reads():
    a, b = socket.socketpair()
    with a, b, a.makefile("rwb") as file, fiberrt.fail_after(60):
        reader = fiberrt.spawn(file.readline)
        fiberrt.reschedule()
        file.write(b"question\n")
        file.flush()
        assert b.recv(100) == b"question\n"
        b.sendall(b"answer\n")
        assert reader.result() == b"answer\n"


def test_a_fiber_of_another_thread_waits_as_a_fiber():
    a, b = socket.socketpair()
    runs = threading.Event()
    got = []

    def other():
        reader = fiberrt.spawn(file.readline)
        fiberrt.spawn(runs.set)
        got.append(reader.result())

    with a, b, a.makefile("rb") as file:
        reader = fiberrt.spawn(file.readline)
        fiberrt.reschedule()
        thread = threading.Thread(target=other)
        thread.start()
        ran = fiberrt.to_thread(runs.wait, 60)
        b.sendall(b"1\n2\n")
        got.append(reader.result())
        fiberrt.to_thread(thread.join)
    assert ran and sorted(got) == [b"1\n", b"2\n"]


def test_a_cancelled_fiber_closes_and_a_cancelled_one_leaves_the_queue():
    a, b = socket.socketpair()

    def use():
        with a.makefile("rb") as file:
            opened.append(file)
            file.read(1)

    opened = []
    fiber = fiberrt.spawn(use)
    fiberrt.reschedule()
    second = fiberrt.spawn(opened[0].read, 1)
    fiberrt.reschedule()
    second.cancel()
    with pytest.raises(fiberrt.CancelledError):
        second.result()
    fiber.cancel()
    with pytest.raises(fiberrt.CancelledError):
        fiber.result()
    assert opened[0].closed
    a.close()
    b.close()


@pytest.mark.parametrize("text", [False, True])
def test_readers_of_a_pipe_take_turns(text):
    code = "input(); print(1); print(2)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=text
    ) as child:
        readers = [fiberrt.spawn(child.stdout.readline) for _ in range(2)]
        fiberrt.reschedule()
        child.stdin.write("\n" if text else b"\n")
        child.stdin.flush()
        assert [int(reader.result()) for reader in readers] == [1, 2]
