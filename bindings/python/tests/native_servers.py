# SPDX-License-Identifier: MIT OR Apache-2.0
"""Small servers, on fibers of the calling thread, for programs of test_native_clients.py. Each request has a number, and
the answer has the same number. A Gate holds the answers back until all requests have been received: a client that blocks
the thread would wait for ever."""

import fiberrt
import fiberrt.socket

LIMIT_S = 280  # for a whole program, so that a client that blocks in a fiber's wait does not hang the tests


class Gate:
    """Opens when it has been asked `count` times; 0: it is open."""

    def __init__(self, count):
        self.left = count
        self.opened = fiberrt.Event()
        if not count:
            self.opened.set()

    def wait(self):
        self.left -= 1
        if not self.left:
            self.opened.set()
        self.opened.wait()


class Ended(Exception):
    """The client has closed its connection."""


class Connection:
    def __init__(self, socket):
        self.socket = socket
        self.data = b""

    def take(self, count):
        while len(self.data) < count:
            received = self.socket.recv(65536)
            if not received:
                raise Ended
            self.data += received
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def take_line(self):
        while b"\r\n" not in self.data:
            received = self.take(len(self.data) + 1)
            self.data = received + self.data
        return self.take(self.data.index(b"\r\n") + 2)

    def send(self, data):
        self.socket.sendall(data)


def serve(handle, gate):
    """Serve connections by handle(connection, gate), each in a fiber. Return the port."""
    listener = fiberrt.socket.create_server(("127.0.0.1", 0), backlog=256)

    def accept():
        while True:
            fiberrt.spawn(run, listener.accept()[0])

    def run(socket):
        with socket:
            try:
                handle(Connection(socket), gate)
            except (Ended, ConnectionError):
                pass

    fiberrt.spawn(accept)
    return listener.getsockname()[1]


def _pg(kind, body):
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def _pg_row(number):
    text = b"%d" % number
    about = b"\0\1number\0" + bytes(6) + (25).to_bytes(4, "big") + b"\xff\xff" + b"\xff" * 4 + b"\0\0"
    row = b"\0\1" + len(text).to_bytes(4, "big") + text
    return _pg(b"T", about) + _pg(b"D", row) + _pg(b"C", b"SELECT 1\0")


def postgresql(connection, gate):
    """Answers SELECT n, in the simple and the extended protocol of PostgreSQL, and all other statements."""
    startup = None
    while startup is None or int.from_bytes(startup[:4], "big") != 196608:  # requests of encryption are refused
        if startup is not None:
            connection.send(b"N")
        startup = connection.take(int.from_bytes(connection.take(4), "big") - 4)
    told = {b"server_version": b"15.0", b"client_encoding": b"UTF8", b"server_encoding": b"UTF8", b"DateStyle": b"ISO, MDY",
            b"integer_datetimes": b"on", b"standard_conforming_strings": b"on", b"TimeZone": b"UTC"}  # fmt: skip
    status = b"".join(_pg(b"S", name + b"\0" + value + b"\0") for name, value in told.items())
    ready = _pg(b"Z", b"I")
    connection.send(_pg(b"R", bytes(4)) + status + _pg(b"K", bytes(8)) + ready)
    number = 0
    while True:
        kind = connection.take(1)
        body = connection.take(int.from_bytes(connection.take(4), "big") - 4)
        if kind == b"X":
            return
        if kind in b"QP":
            statement = body.strip(b"\0").split()
            number = int(statement[1]) if statement[0] == b"SELECT" else -1
        if kind == b"Q":
            if number < 0:
                connection.send(_pg(b"C", b"SET\0") + ready)
                continue
            gate.wait()
            connection.send(_pg_row(number) + ready)
        elif kind == b"S":
            gate.wait()
            connection.send(_pg(b"1", b"") + _pg(b"2", b"") + _pg_row(number) + ready)


def mysql(connection, gate):
    """Answers SELECT n, and all other statements, in the protocol of MySQL."""

    def packet(sequence, body):
        return len(body).to_bytes(3, "little") + bytes([sequence]) + body

    def take():
        size = int.from_bytes(connection.take(3), "little")
        return connection.take(1)[0], connection.take(size)

    able = 0x0000_A201 | 0x0008_0000  # long passwords, protocol 4.1, transactions, secure connections, plugins
    greeting = b"\x0a5.7.0\0" + bytes(4) + b"12345678\0" + able.to_bytes(4, "little")[:2] + b"\x21\2\0"
    greeting += able.to_bytes(4, "little")[2:] + b"\x15" + bytes(10) + b"123456789012\0mysql_native_password\0"
    fine = b"\0\0\0\2\0\0\0"
    connection.send(packet(0, greeting))
    sequence, _ = take()
    connection.send(packet(sequence + 1, fine))
    while True:
        _, body = take()
        if body[:1] == b"\1":  # the end
            return
        words = body[1:].split()
        if body[:1] != b"\3" or words[0] != b"SELECT":
            connection.send(packet(1, fine))
            continue
        gate.wait()
        text = words[1]
        column = b"\3def\0\0\0\6number\0\x0c\x21\0" + (255).to_bytes(4, "little") + b"\xfd\0\0\0\0\0"
        end = b"\xfe\0\0\2\0"
        rows = [b"\1", column, end, bytes([len(text)]) + text, end]
        connection.send(b"".join(packet(i + 1, row) for i, row in enumerate(rows)))


def http(connection, gate):
    """Answers GET /n with n, on connections that are kept."""
    while True:
        number = connection.take_line().split()[1][1:]
        while connection.take_line() != b"\r\n":
            pass
        gate.wait()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(number), number))


def silent(connection, gate):
    """Closes the connection when all clients have sent something."""
    connection.take(1)
    gate.wait()
