# SPDX-License-Identifier: MIT OR Apache-2.0
"""Operations on descriptors, by the functions of _fiberrt."""

import errno
import os
import select
import socket

import pytest

import fiberrt
from fiberrt import _fiberrt as engine


@pytest.fixture
def pair():
    a, b = socket.socketpair()
    with a, b:
        yield a, b


def test_recv_and_send(pair):
    a, b = pair
    fiber = fiberrt.spawn(engine.recv, a, 100)
    fiberrt.reschedule()
    assert fiber.waits_for == "recv"
    assert engine.send(b.fileno(), b"hello") == 5
    assert fiber.result() == b"hello"
    buffer = bytearray(10)
    engine.sendall(b, memoryview(b"0123456789"))
    assert engine.recv_into(a, buffer, 4) == 4 and buffer[:4] == b"0123"
    assert engine.recv_into(a, memoryview(buffer)[4:]) == 6 and buffer == b"0123456789"
    b.close()
    assert engine.recv(a, 10) == b""


def test_much_data(pair):
    a, b = pair
    data = os.urandom(3_000_000)
    sender = fiberrt.spawn(engine.sendall, b, data)
    got = bytearray()
    while len(got) < len(data):
        got += engine.recv(a, 65536)
    assert got == data and sender.result() is None


def test_timeouts_and_cancels(pair):
    a, b = pair
    with pytest.raises(TimeoutError):
        engine.recv(a, 1, 0, 0.01)
    with pytest.raises(TimeoutError):
        engine.recv(a, 1, 0, 0)
    with fiberrt.move_on_after(0.01) as scope:
        engine.recv(a, 1, 0, 60)
    assert scope.expired
    fiber = fiberrt.spawn(engine.recv, a, 1)
    fiberrt.reschedule()
    fiber.cancel()
    fiber.join()
    assert fiber.cancelled
    engine.send(b, b"x")
    assert engine.recv(a, 1, 0, 0) == b"x"


def test_pipes_and_wait_fd():
    r, w = os.pipe()
    try:
        assert engine.wait_fd(r, select.POLLIN, 0.01) == 0
        fiber = fiberrt.spawn(engine.wait_fd, r, select.POLLIN)
        fiberrt.reschedule()
        assert engine.write(w, b"abc") == 3
        assert fiber.result() == select.POLLIN
        assert engine.read(r, 10) == b"abc"
    finally:
        os.close(r), os.close(w)


def test_close_ends_calls_of_others(pair):
    a, b = pair
    fiber = fiberrt.spawn(engine.recv, a, 1)
    fiberrt.reschedule()
    engine.close(a.detach())
    with pytest.raises(OSError) as caught:
        fiber.result()
    assert caught.value.errno == errno.EBADF


def test_accept_and_connect():
    with socket.create_server(("127.0.0.1", 0)) as server:
        fiber = fiberrt.spawn(engine.accept, server)
        fiberrt.reschedule()
        host, port = server.getsockname()
        address = socket.AF_INET.to_bytes(2, "little") + port.to_bytes(2, "big") + socket.inet_aton(host) + bytes(8)
        with socket.socket() as client:
            engine.connect(client, address)
            with socket.socket(fileno=fiber.result()) as accepted:
                engine.sendall(client, b"hi")
                assert engine.recv(accepted, 10) == b"hi"
                assert not os.get_inheritable(accepted.fileno())
    with socket.socket() as client, pytest.raises(ConnectionRefusedError):
        engine.connect(client, address)


def test_bad_arguments(pair):
    a, b = pair
    with pytest.raises(ValueError):
        engine.recv(a, -1)
    with pytest.raises(TypeError):
        engine.recv("x", 1)
    with pytest.raises(TypeError):
        engine.recv(a)
    with pytest.raises(TypeError):
        engine.send(a, "text")
    with pytest.raises((TypeError, BufferError)):
        engine.recv_into(a, b"constant")
    with pytest.raises(ValueError):
        engine.recv_into(a, bytearray(2), 3)
    with pytest.raises(OverflowError):
        engine.recv(a, 1, 1 << 40)
    with pytest.raises(OSError) as caught:
        engine.recv(1_000_000, 1)
    assert caught.value.errno == errno.EBADF
    with pytest.raises(ValueError):
        engine.recv(-1, 1)
