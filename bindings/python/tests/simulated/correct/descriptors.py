# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sockets and pipes within the process."""

from __future__ import annotations

import io
import os
import select
import selectors
import socket
import threading

from .. import together
from . import correct


@correct
def echo_over_a_socket_pair() -> None:
    ours, theirs = socket.socketpair()

    def echo() -> None:
        while data := theirs.recv(100):
            theirs.sendall(data)
        theirs.close()

    thread = threading.Thread(target=echo)
    thread.start()
    ours.sendall(b"hello")
    assert ours.recv(100) == b"hello"
    ours.close()
    thread.join()


@correct
def pipe() -> None:
    reader, writer = os.pipe()
    got = []
    together(reader=lambda: got.append(os.read(reader, 10)), writer=lambda: os.write(writer, b"x"))
    assert got == [b"x"]
    os.close(reader)
    os.close(writer)


@correct
def loopback_server() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"welcome")

    def connect() -> None:
        with socket.create_connection(listener.getsockname()) as client:
            assert client.recv(100) == b"welcome"

    together(server=serve, client=connect)
    listener.close()


@correct
def select_loop() -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    got = set()

    def read() -> None:
        while len(got) < 2:
            for ready in select.select([pair[0] for pair in pairs], [], [])[0]:
                got.add(ready.recv(10))

    together(reader=read, ann=lambda: pairs[0][1].send(b"a"), bob=lambda: pairs[1][1].send(b"b"))
    assert got == {b"a", b"b"}


@correct
def selector_woken_by_a_socket() -> None:
    waker, woken = socket.socketpair()
    with selectors.DefaultSelector() as selector:
        selector.register(woken, selectors.EVENT_READ)
        events = []
        together(waiter=lambda: events.extend(selector.select()), waker=lambda: waker.send(b"x"))
    assert len(events) == 1
    waker.close()
    woken.close()


@correct
def select_with_a_time_limit() -> None:
    ours, theirs = socket.socketpair()
    assert select.select([ours], [], [], 5) == ([], [], [])
    ours.close()
    theirs.close()


@correct
def recv_with_a_time_limit() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(2)
    try:
        ours.recv(1)
    except TimeoutError:
        theirs.close()
        ours.close()
        return
    raise AssertionError


@correct
def lines_over_a_file_of_a_socket() -> None:
    ours, theirs = socket.socketpair()

    def write() -> None:
        with theirs, theirs.makefile("w") as file:
            file.write("one\ntwo\n")

    lines: list[str] = []
    with ours.makefile() as file:
        together(writer=write, reader=lambda: lines.extend(file))
    ours.close()
    assert lines == ["one\n", "two\n"]


@correct
def log_into_a_stream() -> None:
    import logging

    stream = io.StringIO()
    logger = logging.Logger("correct")
    logger.addHandler(logging.StreamHandler(stream))
    together(ann=lambda: logger.error("a"), bob=lambda: logger.error("b"))
    assert sorted(stream.getvalue().split()) == ["a", "b"]
