# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares fiberrt.ssl with the standard library's ssl, with a certificate made here."""

import concurrent.futures
import errno
import os
import shutil
import socket as stdlib_socket
import ssl as stdlib_ssl
import subprocess
import threading

import pytest

import fiberrt
import fiberrt.socket
import fiberrt.ssl

PATIENCE = 60


class World:
    def __init__(self, net, ssl, start, certificate):
        self.net = net
        self.ssl = ssl
        self.start = start
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(certificate)
        self.client = ssl.create_default_context(cafile=certificate)

    def pair(self, **kwargs):
        """Returns the two ends of a connection: client and server."""
        a, b = self.net.socketpair()
        a.settimeout(PATIENCE), b.settimeout(PATIENCE)
        server = self.start(lambda: self.server.wrap_socket(b, server_side=True))
        client = self.client.wrap_socket(a, server_hostname="localhost", **kwargs)
        return client, server.result(PATIENCE)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder / "key", "-out", folder / "certificate"],
        check=True, capture_output=True, timeout=PATIENCE,
    )
    both = folder / "both"
    both.write_bytes((folder / "key").read_bytes() + (folder / "certificate").read_bytes())
    return str(both)


@pytest.fixture
def fibers(certificate):
    return World(fiberrt.socket, fiberrt.ssl, fiberrt.spawn, certificate)


@pytest.fixture(params=["stdlib", "fiberrt"])
def world(request, certificate):
    if request.param == "fiberrt":
        yield request.getfixturevalue("fibers")
        return
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        yield World(stdlib_socket, stdlib_ssl, threads.submit, certificate)


# Tests that run on both


def test_both_ways(world):
    client, server = world.pair()
    with client, server:
        assert isinstance(client, stdlib_ssl.SSLSocket) and isinstance(client, world.net.socket)
        assert client.version() == server.version() and client.cipher()
        assert client.getpeercert()["subject"] == ((("commonName", "localhost"),),)
        for i in range(10):
            client.sendall(b"%d" % i)
            assert server.recv(100) == b"%d" % i
        memory = bytearray(10)
        server.send(b"hello")
        assert client.recv_into(memory) == 5 and memory[:5] == b"hello"
        server.write(b"again")
        assert client.recv(2) == b"ag" and client.pending() == 3 and client.read(10) == b"ain"
        assert client.context is world.client
        with pytest.raises(ValueError):
            client.send(b"x", 1)
        with pytest.raises(NotImplementedError):
            client.dup()


def receive(end, count):
    got = bytearray()
    while len(got) < count:
        got += end.recv(100_000)
    return got


def test_much_data(world):
    client, server = world.pair()
    data = os.urandom(1_000_000)
    with client, server:
        for one, other in ((client, server), (server, client)):
            receives = world.start(receive, one, len(data))
            other.sendall(data)
            assert receives.result(PATIENCE) == data


def test_unwrap(world):
    client, server = world.pair()
    with client, server:
        other = world.start(server.unwrap)
        under = client.unwrap()
        under_server = other.result(PATIENCE)
        assert under is client and under_server is server
        under.sendall(b"in clear")
        assert under_server.recv(100) == b"in clear"
        under.settimeout(None)
        assert os.get_blocking(under.fileno())
        with pytest.raises(ValueError):
            client.unwrap()


@pytest.mark.parametrize("suppress", [True, False])
def test_a_peer_that_vanishes_in_the_midst(world, suppress):
    """The peer closes without a TLS message: an end of file or, if requested, an error. Earlier data is not lost."""
    client, server = world.pair(suppress_ragged_eofs=suppress)
    server.sendall(b"before")
    reading = world.start(lambda: [client.recv(6), client.recv(6)])
    plain = world.net.socket(fileno=server.detach())
    plain.shutdown(stdlib_socket.SHUT_RDWR)
    plain.close()
    if suppress:
        assert reading.result(PATIENCE) == [b"before", b""]
    else:
        with pytest.raises(stdlib_ssl.SSLEOFError):
            reading.result(PATIENCE)
    client.close()


def test_one_end_says_that_it_is_done_while_the_other_reads(world):
    client, server = world.pair()
    reading = world.start(lambda: [server.recv(8), server.recv(8), server.unwrap()])
    client.sendall(b"the last")
    plain = client.unwrap()
    *read, other = reading.result(PATIENCE)
    assert read == [b"the last", b""]
    plain.sendall(b"plain")
    assert other.recv(8) == b"plain"
    plain.close(), other.close()


def test_timeouts(world):
    client, server = world.pair()
    with client, server:
        client.settimeout(0.02)
        with pytest.raises(TimeoutError, match="The read operation timed out"):
            client.recv(1)
        with pytest.raises(TimeoutError, match="The write operation timed out"):
            for i in range(100):
                client.sendall(bytes(1_000_000))
        client.setblocking(False)
        with pytest.raises(stdlib_ssl.SSLWantReadError):
            client.recv(1)
    a, b = world.net.socketpair()
    with a, b:
        a.settimeout(0.02)
        with pytest.raises(TimeoutError, match="handshake operation timed out"):
            world.client.wrap_socket(a, server_hostname="localhost")


def test_a_handshake_by_hand_and_without_waiting(world):
    a, b = world.net.socketpair()
    server = world.start(lambda: world.server.wrap_socket(b, server_side=True))
    client = world.client.wrap_socket(a, server_hostname="localhost", do_handshake_on_connect=False)
    with client:
        client.do_handshake()
        with server.result(PATIENCE) as end:
            end.sendall(b"x")
            assert client.recv(1) == b"x"
    a, b = world.net.socketpair()
    a.setblocking(False)
    with b:
        with pytest.raises(ValueError):
            world.client.wrap_socket(a, server_hostname="localhost")
    a, b = world.net.socketpair()
    a.setblocking(False)
    with b, world.client.wrap_socket(a, server_hostname="localhost", do_handshake_on_connect=False) as client:
        with pytest.raises(stdlib_ssl.SSLWantReadError):
            client.do_handshake()


def test_server_names(world, certificate):
    seen = []
    other = world.ssl.SSLContext(world.ssl.PROTOCOL_TLS_SERVER)
    other.load_cert_chain(certificate)

    def choose(sock, name, context):
        seen.append((type(sock), name, context))
        sock.context = other

    world.server.sni_callback = choose
    client, server = world.pair()
    with client, server:
        assert seen == [(world.ssl.SSLSocket, "localhost", world.server)] and server.context is other


def test_distrust(world):
    a, b = world.net.socketpair()
    context = world.ssl.create_default_context()

    def serve():
        with pytest.raises(OSError):
            with world.server.wrap_socket(b, server_side=True) as server:
                server.recv(1)
        b.close()

    serves = world.start(serve)
    with pytest.raises(stdlib_ssl.SSLCertVerificationError):
        context.wrap_socket(a, server_hostname="localhost")
    a.close()
    serves.result(PATIENCE)


def test_connect_and_accept(world):
    with world.net.create_server(("127.0.0.1", 0)) as plain:
        address = plain.getsockname()
        with world.server.wrap_socket(plain, server_side=True) as listener:

            def serve():
                server, _ = listener.accept()
                with server, server.makefile("rwb") as file:
                    for line in file:
                        file.write(line.upper())
                        file.flush()

            serves = world.start(serve)
            with world.client.wrap_socket(world.net.socket(), server_hostname="localhost") as client:
                client.connect(("localhost", address[1]))
                with client.makefile("rwb") as file:
                    file.write(b"one\n"), file.flush()
                    assert file.readline() == b"ONE\n"
                assert client.session is not None
            serves.result(PATIENCE)
            serves = world.start(listener.accept)
            assert "BEGIN CERTIFICATE" in world.ssl.get_server_certificate(address)
            serves.result(PATIENCE)[0].close()


def test_a_peer_without_tls(world):
    a, b = world.net.socketpair()
    with b:
        b.sendall(b"hello there, this is no TLS\n")
        with pytest.raises(stdlib_ssl.SSLError):
            world.client.wrap_socket(a, server_hostname="localhost")
    a, b = world.net.socketpair()
    b.close()
    with pytest.raises(OSError):
        world.client.wrap_socket(a, server_hostname="localhost")
    assert a.fileno() == -1


# Tests for fibers only


def test_both_ways_at_once(fibers):  # two threads would not get on with that
    client, server = fibers.pair()
    data = os.urandom(1_000_000)
    with client, server:
        work = [fiberrt.spawn(receive, end, len(data)) for end in (client, server)]
        work += [fiberrt.spawn(end.sendall, data) for end in (client, server)]
        assert [each.result(PATIENCE) for each in work] == [data, data, None, None]


@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_close_ends_waits_of_others(fibers, timeout):
    client, server = fibers.pair()
    client.settimeout(timeout)
    reads = fiberrt.spawn(client.recv, 1)
    writes = fiberrt.spawn(client.sendall, bytes(10_000_000))
    fiberrt.sleep(0.001)
    assert not reads.done and not writes.done
    with server:
        client.close()
        for fiber in (reads, writes):
            with pytest.raises(OSError) as caught:
                fiber.result(PATIENCE)
            assert caught.value.errno == errno.EBADF


def test_cancel(fibers):
    client, server = fibers.pair()
    with client, server:
        fiber = fiberrt.spawn(client.recv, 1)
        fiberrt.sleep(0.001)
        fiber.cancel()
        fiber.join(PATIENCE)
        assert fiber.cancelled
        server.sendall(b"x")
        assert client.recv(1) == b"x"


def test_a_cancelled_handshake_leaves_no_socket(fibers):
    a, b = fibers.net.socketpair()
    with b:
        before = len(os.listdir("/proc/self/fd"))
        with fiberrt.move_on_after(0.01) as scope:
            fibers.client.wrap_socket(a, server_hostname="localhost")
        assert scope.expired and len(os.listdir("/proc/self/fd")) == before - 1


def test_writes_of_several_fibers(fibers):
    client, server = fibers.pair()
    with client, server:
        parts = [bytes([i]) * 300_000 for i in range(5)]
        senders = [fiberrt.spawn(client.sendall, part) for part in parts]
        counts = [0] * 5
        while sum(counts) < 1_500_000:
            for byte in (got := server.recv(16384)):
                counts[byte] += 1
            assert got
        assert counts == [300_000] * 5
        for sender in senders:
            sender.result(PATIENCE)


def test_a_wakeup_of_a_fiber_that_waits_for_anothers_write_is_kept(fibers):
    client, server = fibers.pair()
    woken = []

    def write():
        client.sendall(b"x")
        fiberrt.park()  # gets the wakeup that came meanwhile
        woken.append(True)

    with client, server, fiberrt.fail_after(PATIENCE):
        first = fiberrt.spawn(client.sendall, bytes(10_000_000))
        fiberrt.reschedule()
        second = fiberrt.spawn(write)
        fiberrt.reschedule()
        second.wakeup()
        fiberrt.reschedule()
        receive(server, 10_000_001)
        first.result(), second.result()
    assert woken


def test_one_of_several_waiting_writers_is_cancelled(fibers):
    client, server = fibers.pair()
    with client, server:
        first = fiberrt.spawn(client.sendall, b"a" * 3_000_000)
        second = fiberrt.spawn(client.send, b"b" * 1000)
        third = fiberrt.spawn(client.send, b"c" * 1000)
        fiberrt.sleep(0.001)
        second.cancel()
        second.join(PATIENCE)
        assert second.cancelled
        got = bytearray()
        while len(got) < 3_001_000:
            got += server.recv(100_000)
        assert got.count(b"a") == 3_000_000 and got.count(b"c") == 1000
        first.result(PATIENCE), third.result(PATIENCE)


def test_other_data_after_a_write_was_given_up(fibers):
    client, server = fibers.pair()
    with client, server:
        with fiberrt.move_on_after(0.01) as scope:
            while True:
                client.send(b"a" * 20_000)
        assert scope.expired
        with pytest.raises(stdlib_ssl.SSLError, match="stopped halfway"):
            client.send(b"b" * 20_000)


def test_fibers_and_a_thread_of_the_standard_library(fibers, certificate):
    with fiberrt.socket.create_server(("127.0.0.1", 0)) as plain:
        address = plain.getsockname()
        context = stdlib_ssl.create_default_context(cafile=certificate)
        got = []

        def client():
            with stdlib_socket.create_connection(address) as raw:
                with context.wrap_socket(raw, server_hostname="localhost") as sock:
                    sock.sendall(b"question")
                    got.append(sock.recv(100))

        threads = [threading.Thread(target=client) for i in range(4)]
        for thread in threads:
            thread.start()

        def serve(raw):
            with fibers.server.wrap_socket(raw, server_side=True) as sock:
                sock.sendall(b"answer to " + sock.recv(100))
                assert sock.recv(1) == b""

        serving = [fiberrt.spawn(serve, plain.accept()[0]) for i in range(4)]
        for fiber in serving:
            fiber.result(PATIENCE)
        for thread in threads:
            thread.join()
        assert got == [b"answer to question"] * 4
