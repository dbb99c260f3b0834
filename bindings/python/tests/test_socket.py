# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares fiberrt.socket with the standard library's socket: each test runs on both, with fibers and with threads."""

import array
import concurrent.futures
import errno
import gc
import io
import os
import socket as stdlib
import struct
import sys
import threading

import pytest

import fiberrt
import fiberrt.socket

PATIENCE = 60


class World:
    """A socket module, and a way to run functions in parallel to the test."""

    def __init__(self, net, start):
        self.net = net
        self.start = start

    def pair(self, *args):
        a, b = self.net.socketpair(*args)
        a.settimeout(PATIENCE), b.settimeout(PATIENCE)
        return a, b

    def tcp(self):
        with self.net.create_server(("127.0.0.1", 0)) as server:
            client = self.start(self.net.create_connection, server.getsockname())
            accepted, address = server.accept()
            client = client.result(PATIENCE)
            assert address == client.getsockname()
            return client, accepted


@pytest.fixture(params=["stdlib", "fiberrt"])
def world(request):
    if request.param == "fiberrt":
        yield World(fiberrt.socket, fiberrt.spawn)
        return
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        yield World(stdlib, threads.submit)


@pytest.fixture
def pair():
    a, b = fiberrt.socket.socketpair()
    with a, b:
        yield a, b


def small_buffers(*sockets):
    for each in sockets:
        each.setsockopt(stdlib.SOL_SOCKET, stdlib.SO_SNDBUF, 4096)


# Tests that run on both


def test_it_is_a_socket(world):
    with world.net.socket() as made:
        assert isinstance(made, stdlib.socket) and isinstance(made, world.net.socket)
        assert made.family == stdlib.AF_INET and made.gettimeout() is None and made.getblocking()
        with made.dup() as copy:
            assert type(copy) is type(made) and copy.fileno() != made.fileno()
    assert made.fileno() == -1
    for call in (lambda: made.recv(1), lambda: made.send(b""), lambda: made.accept(), lambda: made.recvfrom(1),
                 lambda: made.connect(("127.0.0.1", 1)), lambda: made.sendto(b"x", ("127.0.0.1", 1))):
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.EBADF
    made.close()


def test_echo(world):
    client, server = world.tcp()
    with client, server:

        def echo():
            while data := server.recv(1000):
                server.sendall(data)
            server.shutdown(stdlib.SHUT_WR)

        fiber = world.start(echo)
        for i in range(20):
            client.sendall(b"%d\n" % i)
            assert client.recv(100) == b"%d\n" % i
        client.shutdown(stdlib.SHUT_WR)  # half of the connection: the data sent before still comes back
        assert client.recv(100) == b""
        fiber.result(PATIENCE)


def test_recv_into(world):
    a, b = world.pair()
    with a, b:
        memory = bytearray(8)
        a.sendall(b"abcdefgh")
        assert b.recv_into(memory, 3) == 3 and memory[:3] == b"abc"
        assert b.recv_into(memoryview(memory)[3:], flags=stdlib.MSG_PEEK) == 5 and memory == b"abcdefgh"
        assert b.recv_into(buffer=memory, nbytes=0) == 5 and memory[:5] == b"defgh"
        with pytest.raises(ValueError):
            b.recv_into(memory, 9)
        with pytest.raises(ValueError):
            b.recv_into(memory, -1)
        with pytest.raises(TypeError):
            b.recv_into()
        with pytest.raises(TypeError):
            b.recv_into(memory, nothing=1)
        with pytest.raises(TypeError):
            b.recv_into(memory, 1, 0, 1)
        with pytest.raises((TypeError, BufferError)):
            b.recv_into(b"constant")
        with pytest.raises(ValueError):
            b.recv(-1)
        with pytest.raises(TypeError):
            b.recv("1")
        with pytest.raises(TypeError):
            b.recv()
        with pytest.raises(TypeError):
            b.send("text")
        with pytest.raises(TypeError):
            b.sendall(None)
        with pytest.raises(OverflowError):
            b.recv(1, 1 << 40)
        with pytest.raises(OverflowError):
            b.recv(1 << 70)
        a.send(b"x")
        assert b.recv(0) == b"" and b.recv(1) == b"x"


def test_much_data_meets_small_buffers(world):
    client, server = world.pair()
    with client, server:
        small_buffers(client, server)
        data = os.urandom(1_000_000)
        sender = world.start(client.sendall, data)
        got = bytearray()
        while len(got) < len(data):
            got += server.recv(65536)
        assert got == data and sender.result(PATIENCE) is None


def test_timeouts(world):
    client, server = world.tcp()
    with client, server, world.net.create_server(("127.0.0.1", 0)) as listener:
        server.settimeout(0.02)
        listener.settimeout(0.02)
        datagrams = world.net.socket(stdlib.AF_INET, stdlib.SOCK_DGRAM)
        datagrams.settimeout(0.02)
        with datagrams:
            for call in (lambda: server.recv(1), lambda: server.recv_into(bytearray(1)), lambda: server.recvfrom(1),
                         lambda: server.recvmsg(1), lambda: server.recv(1, stdlib.MSG_DONTWAIT), listener.accept,
                         lambda: datagrams.recvfrom(1)):
                with pytest.raises(TimeoutError, match="^timed out$"):
                    call()
        assert server.gettimeout() == 0.02 and not os.get_blocking(server.fileno())
        client.send(b"x")
        assert server.recv(1) == b"x"
        server.settimeout(None)
        assert server.getblocking() and os.get_blocking(server.fileno())
        with pytest.raises(BlockingIOError):
            server.recv(1, stdlib.MSG_DONTWAIT)
        with pytest.raises(BlockingIOError):
            server.recvfrom(1, stdlib.MSG_DONTWAIT)


def test_timeout_in_the_midst_of_sendall(world):
    client, server = world.pair()
    with client, server:
        small_buffers(client, server)
        client.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.sendall(bytes(10_000_000))
        assert server.recv(1) == b"\0"  # a part has been sent


def until_refused(call, argument):
    """A late acknowledgement may have made room again."""
    while True:
        call(argument)


def test_without_waiting(world):
    client, server = world.tcp()
    with client, server, world.net.create_server(("127.0.0.1", 0)) as listener:
        server.setblocking(False)
        listener.setblocking(False)
        assert server.gettimeout() == 0.0 and not os.get_blocking(server.fileno())
        for call in (lambda: server.recv(1), lambda: server.recv_into(bytearray(1)), lambda: server.recvfrom(1),
                     lambda: server.recvmsg(1), lambda: server.recvmsg_into([bytearray(1)]), listener.accept,
                     lambda: server.sendall(bytes(10_000_000)), lambda: until_refused(server.send, b"x"),
                     lambda: until_refused(server.sendmsg, [b"x"])):
            with pytest.raises(BlockingIOError) as caught:
                call()
            assert caught.value.errno == errno.EAGAIN
        with world.net.socket() as other:
            other.setblocking(False)
            with pytest.raises(BlockingIOError) as caught:
                other.connect(listener.getsockname())
            assert caught.value.errno == errno.EINPROGRESS
            listener.settimeout(PATIENCE)
            accepted, address = listener.accept()
            with accepted:
                assert accepted.getblocking() and os.get_blocking(accepted.fileno())
                assert other.connect_ex(listener.getsockname()) in (0, errno.EISCONN)
                assert address == other.getsockname()


def test_datagrams(world):
    net = world.net
    with net.socket(stdlib.AF_INET, stdlib.SOCK_DGRAM) as a, net.socket(stdlib.AF_INET, stdlib.SOCK_DGRAM) as b:
        a.bind(("localhost", 0)), b.bind(("127.0.0.1", 0))
        a.settimeout(PATIENCE), b.settimeout(PATIENCE)
        waits = world.start(b.recvfrom, 100)
        assert a.sendto(b"one", b.getsockname()) == 3
        assert waits.result(PATIENCE) == (b"one", a.getsockname())
        assert a.sendto(b"two", 0, ("localhost", b.getsockname()[1])) == 3
        memory = bytearray(10)
        assert b.recvfrom_into(memory, flags=0) == (3, a.getsockname()) and memory[:3] == b"two"
        a.connect(b.getsockname())
        assert a.sendmsg([b"th", b"ree"]) == 5
        assert b.recvmsg(100) == (b"three", [], 0, a.getsockname())
        assert b.sendmsg([b"four"], [], 0, a.getsockname()) == 4
        first, second = bytearray(2), bytearray(9)
        assert a.recvmsg_into([first, second]) == (4, [], 0, b.getsockname())
        assert first + second[:2] == b"four"
        for bad in (("127.0.0.1",), "127.0.0.1", ("127.0.0.1", "x"), (1, 2), ("127.0.0.1", 1, 2)):
            with pytest.raises(TypeError):
                b.sendto(b"x", bad)
        with pytest.raises(OverflowError):
            b.sendto(b"x", ("127.0.0.1", 70000))
        with pytest.raises(TypeError):
            b.sendto(b"x")
        with pytest.raises(stdlib.gaierror):
            b.sendto(b"x", ("256.256.256.256", 1))


def test_a_receiver_of_datagrams_without_room(world, tmp_path):
    path = str(tmp_path / "receiver")
    net = world.net
    with net.socket(stdlib.AF_UNIX, stdlib.SOCK_DGRAM) as a, net.socket(stdlib.AF_UNIX, stdlib.SOCK_DGRAM) as b:
        b.bind(path)
        sent = []

        def send():
            for i in range(2000):  # more than a queue has room for
                sent.append(a.sendto(b"%d" % i, path))

        sender = world.start(send)
        b.settimeout(PATIENCE)
        assert [b.recv(100) for i in range(2000)] == [b"%d" % i for i in range(2000)]
        sender.result(PATIENCE)
        assert len(sent) == 2000


def test_descriptors_are_passed(world):
    a, b = world.pair()
    r, w = os.pipe()
    try:
        with a, b:
            waits = world.start(world.net.recv_fds, b, 10, 4)
            world.net.send_fds(a, [b"here"], [r, w])
            data, fds, flags, _ = waits.result(PATIENCE)
            assert data == b"here" and len(fds) == 2
            os.write(fds[1], b"x")
            assert os.read(r, 1) == b"x"
            for fd in fds:
                os.close(fd)
            rights = [(stdlib.SOL_SOCKET, stdlib.SCM_RIGHTS, array.array("i", [r]))]
            assert a.sendmsg([b"1"], rights) == 1
            memory = bytearray(1)
            assert b.recvmsg_into([memory], stdlib.CMSG_LEN(4))[0] == 1
    finally:
        os.close(r), os.close(w)


def test_makefile(world):
    client, server = world.tcp()
    with client, server:

        def serve():
            with server.makefile("rw", encoding="utf-8", newline="\n") as file:
                for line in file:
                    file.write(line.upper())
                    file.flush()
            server.shutdown(stdlib.SHUT_WR)

        serves = world.start(serve)
        with client.makefile("rwb") as file:
            for line in (b"one\n", b"two\n", b"x" * 100_000 + b"\n"):
                file.write(line)
                file.flush()
                assert file.readline() == line.upper()
            client.shutdown(stdlib.SHUT_WR)
            assert file.read() == b""
        serves.result(PATIENCE)


def test_a_file_outlives_its_socket_s_close(world):
    a, b = world.pair()
    with b:
        file = a.makefile("rb")
        a.close()
        b.sendall(b"still\n")
        assert file.readline() == b"still\n"
        file.close()
        assert b.recv(1) == b""


def test_makefile_with_a_timeout(world):
    a, b = world.pair()
    with a, b:
        a.settimeout(0.02)
        with a.makefile("rb") as file:
            with pytest.raises(TimeoutError):
                file.readline()
            with pytest.raises(OSError, match="timed out"):
                file.readline()


def test_sendfile(world, tmp_path):
    path = tmp_path / "file"
    data = os.urandom(700_000)
    path.write_bytes(data)
    client, server = world.pair()
    with client, server:
        small_buffers(client, server)

        def send(timeout, *args):
            client.settimeout(timeout)
            with open(path, "rb") as file:
                return client.sendfile(file, *args), file.tell()

        def receive(count):
            got = bytearray()
            while len(got) < count:
                got += server.recv(min(65536, count - len(got)))
            return got

        for timeout in (None, PATIENCE):
            sender = world.start(send, timeout)
            assert receive(len(data)) == data
            assert sender.result(PATIENCE) == (len(data), len(data))
        sender = world.start(send, None, 100, 1000)
        assert receive(1000) == data[100:1100]
        assert sender.result(PATIENCE) == (1000, 1100)
        client.settimeout(None)
        assert client.sendfile(io.BytesIO(b"in memory")) == 9
        assert receive(9) == b"in memory"
        with open(path, "rb") as file:
            for bad, error in ((-1, ValueError), (0, ValueError), ("x", TypeError)):
                with pytest.raises(error):
                    client.sendfile(file, 0, bad)
            client.setblocking(False)
            with pytest.raises(ValueError):
                client.sendfile(file)
        with open(path) as text, pytest.raises(ValueError):
            client.sendfile(text)


def test_connecting(world):
    with world.net.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        with world.net.create_connection(("localhost", address[1]), timeout=PATIENCE) as client:
            assert client.gettimeout() == PATIENCE and client.getpeername() == address
            assert client.connect_ex(address) in (0, errno.EISCONN)  # 0: the first call since the connection was made
            with pytest.raises(OSError) as caught:
                client.connect(address)
            assert caught.value.errno == errno.EISCONN
        for bad in ("x", ("127.0.0.1",), None, ("127.0.0.1", "x")):
            with world.net.socket() as client, pytest.raises(TypeError):
                client.connect(bad)
    with world.net.socket() as client:
        with pytest.raises(ConnectionRefusedError):
            client.connect(address)
    with world.net.socket() as client:
        assert client.connect_ex(address) == errno.ECONNREFUSED
        assert os.get_blocking(client.fileno())
    with pytest.raises(ConnectionRefusedError):
        world.net.create_connection(address)
    with pytest.raises(ExceptionGroup) as caught:
        world.net.create_connection(("localhost", address[1]), all_errors=True)
    assert all(isinstance(error, ConnectionRefusedError) for error in caught.value.exceptions)


def test_a_connect_with_a_timeout(world):
    # A listener whose queue is full does not answer.
    with world.net.socket() as listener, world.net.socket() as a, world.net.socket() as b:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        a.connect(listener.getsockname())
        b.settimeout(0.02)
        with pytest.raises(TimeoutError, match="^timed out$"):
            b.connect(listener.getsockname())
        with world.net.socket() as c:
            c.settimeout(0.02)
            assert c.connect_ex(listener.getsockname()) == errno.EAGAIN


def test_unix_sockets(world, tmp_path):
    for address in (str(tmp_path / "socket"), b"\0fiberrt-test-%d" % os.getpid()):
        with world.net.socket(stdlib.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(0)

            def connect():
                client = world.net.socket(stdlib.AF_UNIX)
                client.connect(address)
                return client

            clients = [world.start(connect) for i in range(4)]  # more than there is room for
            accepted = [listener.accept() for i in range(4)]
            assert [of for _, of in accepted] == [""] * 4
            for each in [one.result(PATIENCE) for one in clients] + [one for one, _ in accepted]:
                assert each.getsockname() in (address, "")
                each.close()
            with world.net.socket(stdlib.AF_UNIX) as client:
                client.bind(b"\0fiberrt-client-%d" % os.getpid())
                start = world.start(client.connect, address)
                one, of = listener.accept()
                start.result(PATIENCE)
                assert of == b"\0fiberrt-client-%d" % os.getpid()
                one.close()


def test_ipv6(world):
    if not stdlib.has_ipv6:
        pytest.skip("no IPv6")
    try:
        listener = world.net.create_server(("::1", 0), family=stdlib.AF_INET6)
    except OSError as error:
        pytest.skip(f"no IPv6: {error}")
    with listener:
        with world.net.create_connection(listener.getsockname()[:2]) as client:
            accepted, address = listener.accept()
            with accepted:
                assert address == client.getsockname() and len(address) == 4


def test_another_family(world):
    if not hasattr(stdlib, "AF_NETLINK"):
        pytest.skip("no netlink")
    with world.net.socket(stdlib.AF_NETLINK, stdlib.SOCK_RAW, 0) as made:
        made.bind((0, 0))
        made.settimeout(PATIENCE)
        made.connect((0, 0))
        # RTM_GETLINK of all
        made.sendto(struct.pack("IHHIIBxHiII", 32, 18, 0x301, 1, 0, 0, 0, 0, 0, 0), (0, 0))
        data, address = made.recvfrom(65536)
        assert len(data) > 16 and address == (0, 0)


def test_reset(world):
    client, server = world.tcp()
    with server:
        waits = world.start(server.recv, 1)
        client.setsockopt(stdlib.SOL_SOCKET, stdlib.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        with pytest.raises(ConnectionResetError):
            waits.result(PATIENCE)
        with pytest.raises(BrokenPipeError):
            server.sendall(bytes(100))


def test_names(world):
    port = stdlib.getservbyname("http") if _has_services() else None
    net = world.net
    assert net.getaddrinfo("127.0.0.1", 80, type=stdlib.SOCK_STREAM) == stdlib.getaddrinfo("127.0.0.1", 80, type=1)
    assert net.getaddrinfo(None, 0) == stdlib.getaddrinfo(None, 0)
    assert net.getaddrinfo("localhost", None) == stdlib.getaddrinfo("localhost", None)
    if port:
        assert net.getaddrinfo("127.0.0.1", "http", type=stdlib.SOCK_STREAM)[0][4] == ("127.0.0.1", port)
    assert net.getaddrinfo("::1", 1, flags=stdlib.AI_NUMERICHOST)[0][0] == stdlib.AF_INET6
    with pytest.raises(stdlib.gaierror):
        net.getaddrinfo("not a name", 80, flags=stdlib.AI_NUMERICHOST)
    with pytest.raises(stdlib.gaierror):
        net.getaddrinfo(None, None)
    with pytest.raises((TypeError, OSError)):
        net.getaddrinfo(1.5, 80)
    assert net.gethostbyname("localhost") == stdlib.gethostbyname("localhost")
    assert net.gethostbyname_ex("127.0.0.1") == stdlib.gethostbyname_ex("127.0.0.1")
    assert net.getnameinfo(("127.0.0.1", 80), 3) == ("127.0.0.1", "80")
    assert net.getnameinfo(("127.0.0.1", 80), stdlib.NI_NUMERICSERV) == stdlib.getnameinfo(("127.0.0.1", 80), 2)
    assert net.getfqdn("localhost") == stdlib.getfqdn("localhost")


def _has_services():
    return os.path.exists("/etc/services")


class Number:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


def test_module(world):
    for name in stdlib.__all__:
        assert hasattr(world.net, name), name
    assert world.net.getdefaulttimeout() is None
    world.net.setdefaulttimeout(5)
    try:
        with world.net.socket() as made:
            assert made.gettimeout() == 5
    finally:
        world.net.setdefaulttimeout(None)
    a, b = world.pair()
    with a, b:
        with world.net.fromfd(a.fileno(), a.family, a.type) as copy:
            assert type(copy) is world.net.socket
            copy.sendall(b"x")
            assert b.recv(1) == b"x"
        fd = a.detach()
        assert a.fileno() == -1
        world.net.close(fd)
        assert b.recv(1) == b""
        for number in -1, -5, fd, Number(-1):
            with pytest.raises(OSError) as caught:
                world.net.close(number)
            assert caught.value.errno == errno.EBADF
        for number, error in (1 << 64, OverflowError), (-1 << 64, OverflowError), (1.5, TypeError), ("x", TypeError), (b, TypeError):
            with pytest.raises(error):
                world.net.close(number)
        world.net.close(Number(b.detach()))


# Tests for fibers only


def ends_with_ebadf(fiber):
    with pytest.raises(OSError) as caught:
        fiber.result(PATIENCE)
    assert caught.value.errno == errno.EBADF


@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_close_ends_waits_of_others(timeout):
    net = fiberrt.socket
    client, server = World(net, fiberrt.spawn).tcp()
    small_buffers(client, server)
    listener = net.create_server(("127.0.0.1", 0))
    datagrams = net.socket(stdlib.AF_INET, stdlib.SOCK_DGRAM)
    for each in (client, listener, datagrams):
        each.settimeout(timeout)
    fibers = [
        fiberrt.spawn(client.recv, 1),
        fiberrt.spawn(client.recv_into, bytearray(1)),
        fiberrt.spawn(client.recvfrom, 1),
        fiberrt.spawn(client.sendall, bytes(10_000_000)),
        fiberrt.spawn(listener.accept),
        fiberrt.spawn(datagrams.recvmsg, 1),
    ]
    fiberrt.sleep(0.001)
    assert not any(fiber.done for fiber in fibers)
    with server:
        client.close(), listener.close(), datagrams.close()
        for fiber in fibers:
            ends_with_ebadf(fiber)


def test_close_during_a_connect():
    with fiberrt.socket.socket() as listener, fiberrt.socket.socket() as a, fiberrt.socket.socket() as b:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        a.connect(listener.getsockname())
        fiber = fiberrt.spawn(b.connect, listener.getsockname())
        fiberrt.sleep(0.001)
        assert not fiber.done and fiber.waits_for == "connect"
        b.close()
        ends_with_ebadf(fiber)


def test_close_by_another_thread(pair):
    a, b = pair
    fiber = fiberrt.spawn(a.recv, 1)
    fiberrt.reschedule()
    thread = threading.Thread(target=a.close)
    thread.start()
    ends_with_ebadf(fiber)
    thread.join()


def test_cancel_while_waiting():
    net = fiberrt.socket
    client, server = World(net, fiberrt.spawn).tcp()
    with client, server, net.create_server(("127.0.0.1", 0)) as listener:
        small_buffers(client, server)
        fibers = [
            fiberrt.spawn(client.recv, 1),
            fiberrt.spawn(client.recvmsg, 1),
            fiberrt.spawn(client.sendall, bytes(10_000_000)),
            fiberrt.spawn(listener.accept),
        ]
        fiberrt.sleep(0.001)
        for fiber in fibers:
            fiber.cancel()
            fiber.join(PATIENCE)
            assert fiber.cancelled
        server.sendall(b"x")
        assert client.recv(1) == b"x"  # the data has not been lost


def test_a_cancelled_fiber_gets_nothing(pair):
    a, b = pair
    b.sendall(b"xyz")
    seen = []

    def body():
        try:
            fiberrt.sleep(PATIENCE)
        except fiberrt.CancelledError:
            for call in (lambda: a.recv(1), lambda: a.recvfrom(1), lambda: a.recvmsg(1)):
                with pytest.raises(fiberrt.CancelledError):
                    call()
                seen.append(1)
            with fiberrt.shield():
                seen.append(a.recv(1))
            raise

    fiber = fiberrt.spawn(body)
    fiberrt.reschedule()
    fiber.cancel()
    fiber.join()
    assert seen == [1, 1, 1, b"x"] and a.recv(10) == b"yz"


def test_a_scope_around_a_timeout(pair):
    a, b = pair
    a.settimeout(PATIENCE)
    with fiberrt.move_on_after(0.01) as scope:
        a.recv(1)
    assert scope.expired
    with fiberrt.move_on_after(0.01) as scope:
        a.recvfrom(1)
    assert scope.expired
    a.settimeout(0.01)
    with fiberrt.move_on_after(PATIENCE) as scope, pytest.raises(TimeoutError):
        a.recv(1)
    assert not scope.expired


def test_a_cancelled_create_connection_leaves_no_socket():
    with fiberrt.socket.socket() as listener, fiberrt.socket.socket() as a:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        a.connect(listener.getsockname())
        before = os.listdir("/proc/self/fd")
        fiber = fiberrt.spawn(fiberrt.socket.create_connection, listener.getsockname())
        fiberrt.sleep(0.001)
        fiber.cancel()
        fiber.join(PATIENCE)
        assert fiber.cancelled and len(os.listdir("/proc/self/fd")) == len(before)


def test_names_are_looked_up_on_a_thread(monkeypatch):
    asked, answer = threading.Event(), threading.Event()

    def slow(*args):
        asked.set()
        assert answer.wait(PATIENCE)
        return [(stdlib.AF_INET, stdlib.SOCK_STREAM, 6, "", ("127.0.0.1", 1))]

    real = fiberrt.socket._getaddrinfo

    def getaddrinfo(host, *args):
        if host == "slow.example" and not args[-1] & stdlib.AI_NUMERICHOST:
            return slow(host)
        return real(host, *args)

    monkeypatch.setattr(fiberrt.socket, "_getaddrinfo", getaddrinfo)
    fiber = fiberrt.spawn(fiberrt.socket.getaddrinfo, "slow.example", 80)
    while not asked.is_set():
        fiberrt.sleep(0.001)
    assert fiber.waits_for == "thread"
    answer.set()
    assert fiber.result(PATIENCE)[0][4] == ("127.0.0.1", 1)
    # A look-up continues after the fiber that waited for it was cancelled.
    asked.clear(), answer.clear()
    with fiberrt.move_on_after(0.01) as scope:
        fiberrt.socket.create_connection(("slow.example", 80))
    assert scope.expired
    answer.set()


def test_the_descriptor_s_mode_is_not_changed(pair):
    a, b = pair
    fiber = fiberrt.spawn(a.recv, 1)
    fiberrt.reschedule()
    assert os.get_blocking(a.fileno())
    b.send(b"x")
    fiber.result()
    assert os.get_blocking(a.fileno())


def test_threads_share_a_socket(pair):
    a, b = pair
    got = []

    def receive():
        fibers = [fiberrt.spawn(a.recv, 1) for i in range(10)]
        got.extend(fiber.result() for fiber in fibers)

    threads = [threading.Thread(target=receive) for i in range(2)]
    for thread in threads:
        thread.start()
    for i in range(20):
        b.sendall(b"x")
    for thread in threads:
        while thread.is_alive():
            fiberrt.sleep(0.001)
    assert got == [b"x"] * 20


def test_subclasses_and_fibers_that_serve(pair):
    class Own(fiberrt.socket.socket):
        pass

    with Own(fileno=pair[0].detach()) as own:
        own.mark = 1
        pair[1].sendall(b"hi")
        assert own.recv(2) == b"hi"
    with pytest.raises(TypeError):
        fiberrt.socket.socket.recv(stdlib.socket.__new__(stdlib.socket), 1)
    with pytest.raises(TypeError):
        fiberrt._fiberrt.socket_methods(int, stdlib.SocketType)


def test_no_reference_is_leaked(pair):
    a, b = pair

    def turn():
        b.sendall(b"0123456789")
        a.recv(2), a.recv_into(bytearray(2)), a.recvfrom(2), a.recvmsg(2), a.recv(2)
        a.settimeout(0)
        for call in (lambda: a.recv(1), lambda: a.recvfrom(1), lambda: a.recv_into(bytearray(1))):
            with pytest.raises(BlockingIOError):
                call()
        a.settimeout(None)
        fiberrt.to_thread(len, ())

    for i in range(10):
        turn()
    gc.collect()
    before = sys.getallocatedblocks()
    for i in range(200):
        turn()
    gc.collect()
    assert sys.getallocatedblocks() - before < 100
