# SPDX-License-Identifier: MIT OR Apache-2.0
"""fiberrt.server, and the worker for gunicorn."""

import errno
import fcntl
import os
import ssl
import subprocess
import sys
from types import SimpleNamespace

import pytest
import servers
import web

import fiberrt
import fiberrt.ssl
from fiberrt import socket
from fiberrt.server import StreamServer


def echo(connection, address):
    while data := connection.recv(4096):
        connection.sendall(data)


def test_many_clients():
    with StreamServer(("127.0.0.1", 0), echo) as server:
        texts = [b"%d" % number * 1000 for number in range(50)]
        assert list(fiberrt.map(lambda text: web.ask(server.address, text), texts)) == texts
        assert server.join() and server.connections == 0


def test_listeners(tmp_path):
    path = str(tmp_path / "socket")
    with StreamServer(path, echo):
        with pytest.raises(OSError):
            StreamServer(path, echo)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"x")
            assert client.recv(1) == b"x"
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    with StreamServer(listener, echo):
        assert listener.fileno() == -1 and web.ask(address) == b"hello"
    with StreamServer(path, echo) as server:  # close() has removed it
        # Otherwise accept4() in a stopped server could block the thread, if another process takes the connection.
        assert not os.get_blocking(server._listener.fileno())
    with StreamServer(("::1", 0), echo) as server:
        assert web.ask(server.address[:2]) == b"hello"


def test_misuse():
    for arguments, error in (
        ((("127.0.0.1", 0), None), TypeError), ((None, echo), AttributeError), ((("127.0.0.1", -1), echo), OverflowError),
    ):  # fmt: skip
        with pytest.raises(error):
            StreamServer(*arguments)
    with pytest.raises(ValueError):
        StreamServer(("127.0.0.1", 0), echo, limit=0)
    with pytest.raises(TypeError, match=r"fiberrt\.ssl"):
        StreamServer(("127.0.0.1", 0), echo, ssl=ssl.create_default_context())
    with StreamServer(("127.0.0.1", 0), echo) as server, pytest.raises(RuntimeError):
        server.start()


def test_limit():
    ended = fiberrt.Event()
    most = [0]

    def handle(connection, address):
        most[0] = max(most[0], server.connections)
        connection.sendall(b"begun")
        ended.wait()

    with StreamServer(("127.0.0.1", 0), handle, limit=2) as server:
        clients = [socket.create_connection(server.address) for _ in range(5)]
        for client in clients[:2]:
            assert client.recv(10) == b"begun"
        clients[2].settimeout(0.01)
        with pytest.raises(TimeoutError):
            clients[2].recv(10)
        ended.set()
        clients[2].settimeout(None)
        for client in clients[2:]:
            assert client.recv(10) == b"begun"
        for client in clients:
            client.close()
    assert most == [2]


def test_the_end_of_the_block_can_be_cut_short():
    with pytest.raises(TimeoutError), fiberrt.fail_after(0.01):
        with StreamServer(("127.0.0.1", 0), echo) as server:
            client = socket.create_connection(server.address)
            client.sendall(b"x")
            client.recv(1)
    assert server.connections == 0
    client.close()


def test_a_stop_while_all_places_are_taken():
    with StreamServer(("127.0.0.1", 0), echo, limit=1) as server:
        client = socket.create_connection(server.address)
        client.sendall(b"x")
        client.recv(1)
        assert server.stop(0.001) == 1
        server._accepting.join()
    client.close()


def test_stop_lets_connections_end():
    begun, go_on = fiberrt.Event(), fiberrt.Event()

    def handle(connection, address):
        begun.set()
        go_on.wait()
        connection.sendall(b"done")

    server = StreamServer(("127.0.0.1", 0), handle)
    server.start()
    client = socket.create_connection(server.address)
    begun.wait()
    stopping = fiberrt.spawn(server.stop)
    server._accepting.join()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(client.getpeername())
    go_on.set()
    assert stopping.result() == 0 and client.recv(10) == b"done"
    client.close()


def test_stop_cancels_connections_after_its_timeout():
    with StreamServer(("127.0.0.1", 0), echo) as server:
        clients = [socket.create_connection(server.address) for _ in range(3)]
        for client in clients:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
        assert server.stop(0.001) == 3
        for client in clients:
            assert client.recv(1) == b""
            client.close()


def test_serve_forever_ends_with_its_fiber():
    server = StreamServer(("127.0.0.1", 0), echo)
    address = server.address
    serving = fiberrt.spawn(server.serve_forever)
    assert web.ask(address) == b"hello"
    serving.cancel()
    serving.join()
    with pytest.raises(ConnectionRefusedError):
        web.ask(address)


def test_exceptions_of_the_handler(unraisable):
    def fail(connection, address):
        raise KeyError("of the handler")

    with StreamServer(("127.0.0.1", 0), fail) as server:
        assert web.ask(server.address, b"") == b""
        assert web.ask(server.address, b"") == b""
    assert [kind for kind, _ in unraisable] == [KeyError] * 2


def test_without_descriptors_it_tries_again(monkeypatch):
    monkeypatch.setattr("fiberrt.server._PAUSE_S", 0.001)
    with StreamServer(("127.0.0.1", 0), echo) as server:
        accept = server._listener.accept
        refusals = [errno.EMFILE, errno.ECONNABORTED, errno.ENOMEM, errno.EPROTO, errno.EPERM]

        class Listener:
            def accept(self):
                if refusals:
                    raise OSError(number := refusals.pop(), os.strerror(number))
                return accept()

            def __getattr__(self, name):
                return getattr(listener, name)

        listener, server._listener = server._listener, Listener()
        assert web.ask(listener.getsockname()) == b"hello"  # the accept under way
        assert web.ask(listener.getsockname()) == b"hello"
        assert not refusals


@pytest.fixture
def certificate(tmp_path):
    """The files of a certificate for localhost, and of its key."""
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        capture_output=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return certificate, key


def test_tls(certificate):
    certificate, key = certificate
    context = fiberrt.ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusting = fiberrt.ssl.create_default_context(cafile=str(certificate))
    with StreamServer(("127.0.0.1", 0), echo, ssl=context) as server:
        try:
            assert b"not TLS" not in web.ask(server.address, b"not TLS at all")
        except ConnectionResetError:
            pass
        with socket.create_connection(server.address) as plain:
            with trusting.wrap_socket(plain, server_hostname="localhost") as client:
                client.sendall(b"secret")
                assert client.recv(100) == b"secret"


# --- gunicorn

APPLICATION = """
import os, threading, time

both = threading.Barrier(20)

def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/together":
        both.wait(60)       # 20 requests must be in here at the same time
    elif path == "/slow":
        open(os.path.join(os.environ["FOLDER"], "begun"), "w").close()
        time.sleep(0.5)
    elif path == "/upload":
        body = environ["wsgi.input"].read()
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]
    elif path == "/stream":
        start_response("200 OK", [])
        return (b"%d\\n" % i for i in range(10))
    elif path == "/fail":
        raise KeyError("of the application")
    answer = b"%d" % os.getpid()
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]
"""


@pytest.fixture
def gunicorn(tmp_path):
    servers.needs("the test of gunicorn", "gunicorn")
    return lambda *options: web.Gunicorn(tmp_path, APPLICATION, *options)


def test_requests_of_a_gunicorn_worker_are_fibers(gunicorn):
    with gunicorn("--keep-alive", "5") as server:
        answers = list(fiberrt.map(server.get, ["/together"] * 20))
        assert [status for status, _ in answers] == [200] * 20 and len({pid for _, pid in answers}) == 1
        body = os.urandom(1_000_000)
        assert server.get("/upload", body) == (200, body)
        assert server.get("/stream") == (200, b"".join(b"%d\n" % i for i in range(10)))
        assert server.get("/fail")[0] == 500
        status, worker = server.get("/")
        assert status == 200
        with socket.create_connection(server.address) as client:  # keep-alive, then idle
            for _ in range(2):
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                answer = b""
                while not answer.endswith(b"\r\n\r\n" + worker):
                    answer += client.recv(4096)
        server.process.terminate()
        assert server.process.wait() == 0


def test_gunicorn_ends_gracefully(gunicorn, tmp_path):
    with gunicorn() as server:
        slow = fiberrt.spawn(server.get, "/slow")
        while not (tmp_path / "begun").exists():
            fiberrt.sleep(0.01)
        server.process.terminate()
        assert slow.result()[0] == 200
        assert server.process.wait() == 0


def test_the_head_of_a_response_waits_for_the_body():
    servers.needs("the test of gunicorn's responses", "gunicorn")
    from gunicorn.config import Config

    from fiberrt.gunicorn import _Response

    class Recording:
        """A connection, and the flags of each call of sendall(). The kernel sends a head with MSG_MORE after 200 ms by
        itself, so the flags say more than its queue."""

        def __init__(self, sock):
            self._sock, self.flags = sock, []

        def sendall(self, data, *flags):
            self.flags.append(flags)
            self._sock.sendall(data, *flags)

        def __getattr__(self, name):
            return getattr(self._sock, name)

    def respond(status, *headers):
        request = SimpleNamespace(version=(1, 1), method="GET", headers=[], should_close=lambda: False)
        response = _Response(request, connection, Config())
        response.start_response(status, list(headers))
        return response

    def received(end):
        data = b""
        while not data.endswith(end):
            data += client.recv(4096)
        return data

    def unsent():
        siocoutqnsd = 0x894B
        return int.from_bytes(fcntl.ioctl(connection, siocoutqnsd, bytes(4)), sys.byteorder)

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        accepted = listener.accept()[0]
        with accepted:
            connection = Recording(accepted)
            response = respond("200 OK", ("Content-Length", "4"))
            response.send_headers()
            assert connection.flags == [(socket.MSG_MORE,)]
            response.write(b"body")
            response.close()
            assert unsent() == 0 and received(b"body").endswith(b"\r\n\r\nbody")
            respond("204 No Content").close()
            assert unsent() == 0 and received(b"\r\n\r\n").startswith(b"HTTP/1.1 204 No Content\r\n")
            connection.flags.clear()
            response = respond("200 OK", ("Content-Length", "4"))
            response.write(b"")  # as applications send the head early
            assert connection.flags[0] == () and unsent() == 0
            assert received(b"\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")
            response.write(b"body")
            assert received(b"body") == b"body"


def test_gunicorn_with_tls(gunicorn, certificate):
    certificate, key = certificate
    trusting = fiberrt.ssl.create_default_context(cafile=str(certificate))
    with gunicorn("--certfile", certificate, "--keyfile", key) as server:
        with socket.create_connection(server.address) as plain:
            with trusting.wrap_socket(plain, server_hostname="localhost") as client:
                client.sendall(b"GET /stream HTTP/1.0\r\n\r\n")
                answer = b"".join(iter(lambda: client.recv(4096), b""))
                assert answer.endswith(b"\r\n\r\n" + b"".join(b"%d\n" % i for i in range(10)))


def test_gunicorn_on_a_unix_socket(gunicorn, tmp_path):
    with gunicorn("-b", f"unix:{tmp_path / 'socket'}") as server:
        assert server.get("/")[0] == 200
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "socket"))
            client.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            assert b"".join(iter(lambda: client.recv(4096), b"")).startswith(b"HTTP/1.0 200 OK\r\n")


def test_a_worker_of_gunicorn_that_is_told_to_end_while_it_starts(gunicorn, tmp_path):
    (tmp_path / "settings.py").write_text("""
import os, signal
import fiberrt.monkey
def post_fork(server, worker):
    def end_and_patch(patch=fiberrt.monkey.patch):
        os.kill(os.getpid(), signal.SIGTERM)
        patch()
    fiberrt.monkey.patch = end_and_patch
""")
    with gunicorn("-c", "settings.py") as server, socket.create_connection(server.address) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        client.settimeout(0)
        while "Worker exiting" not in server.log.read_text():
            with pytest.raises(BlockingIOError):  # no worker answers: all of them end
                client.recv(1)
            fiberrt.sleep(0.01)
