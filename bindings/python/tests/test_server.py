# SPDX-License-Identifier: MIT OR Apache-2.0
"""fiberrt.server, and the worker for gunicorn."""

import errno
import os
import re
import signal
import ssl
import subprocess
import sys

import pytest
import servers

import fiberrt
import fiberrt.ssl
from fiberrt import socket
from fiberrt.server import StreamServer


def echo(connection, address):
    while data := connection.recv(4096):
        connection.sendall(data)


def ask(address, text=b"hello"):
    with socket.create_connection(address) as client:
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(4096), b""))


def test_many_clients():
    with StreamServer(("127.0.0.1", 0), echo) as server:
        texts = [b"%d" % number * 1000 for number in range(50)]
        assert list(fiberrt.map(lambda text: ask(server.address, text), texts)) == texts
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
        assert listener.fileno() == -1 and ask(address) == b"hello"
    with StreamServer(path, echo):  # close() has removed it
        pass
    with StreamServer(("::1", 0), echo) as server:
        assert ask(server.address[:2]) == b"hello"


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
    assert ask(address) == b"hello"
    serving.cancel()
    serving.join()
    with pytest.raises(ConnectionRefusedError):
        ask(address)


def test_exceptions_of_the_handler(unraisable):
    def fail(connection, address):
        raise KeyError("of the handler")

    with StreamServer(("127.0.0.1", 0), fail) as server:
        assert ask(server.address, b"") == b""
        assert ask(server.address, b"") == b""
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
        assert ask(listener.getsockname()) == b"hello"  # the accept under way
        assert ask(listener.getsockname()) == b"hello"
        assert not refusals


def test_tls(tmp_path):
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        capture_output=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    context = fiberrt.ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusting = fiberrt.ssl.create_default_context(cafile=str(certificate))
    with StreamServer(("127.0.0.1", 0), echo, ssl=context) as server:
        try:
            assert b"not TLS" not in ask(server.address, b"not TLS at all")
        except ConnectionResetError:
            pass
        with socket.create_connection(server.address) as plain:
            with trusting.wrap_socket(plain, server_hostname="localhost") as client:
                client.sendall(b"secret")
                assert client.recv(100) == b"secret"


# --- gunicorn

DJANGO = """
import os, threading
import django
from django.conf import settings
from django.db import connection, models
from django.http import HttpResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"], MIDDLEWARE=["django.middleware.common.CommonMiddleware"], ROOT_URLCONF=__name__,
    SECRET_KEY="x", DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "USER": "postgres",
                           "NAME": "postgres", "PORT": os.environ["DATABASE_PORT"]}},
)
django.setup()

class Item(models.Model):
    number = models.IntegerField()
    class Meta:
        app_label = "application"

both = threading.Barrier(10)

def create(request):
    with connection.schema_editor() as editor:
        editor.create_model(Item)
    return HttpResponse("created")

def add(request, number):
    both.wait(60)       # 10 requests are in here at the same time, each with its own connection
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid() FROM pg_sleep(0.1)")
        backend = cursor.fetchone()[0]
    Item.objects.create(number=number)
    both.wait(60)
    return HttpResponse(str(backend))

def total(request):
    return HttpResponse(str(Item.objects.aggregate(models.Sum("number"))["number__sum"]))

urlpatterns = [path("create", create), path("add/<int:number>", add), path("total", total)]

from django.core.wsgi import get_wsgi_application
app = get_wsgi_application()
"""

APPLICATION = """
import os, threading, time

both = threading.Barrier(20)

def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/together":
        both.wait(60)       # 20 requests must be in here at the same time
    elif path == "/slow":
        open(os.environ["BEGUN"], "w").close()
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


class Gunicorn:
    def __init__(self, folder, *options, application=APPLICATION, **environment):
        (folder / "application.py").write_text(application)
        self.begun = folder / "begun"
        self.log = folder / "log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", "-k", "fiberrt.gunicorn.Worker", "-b", "127.0.0.1:0",
                 "--graceful-timeout", "60", *options, "application:app"],
                cwd=folder, stdout=log, stderr=log, env={**os.environ, "BEGUN": str(self.begun), **environment},
            )  # fmt: skip
        self.address = self.await_line(r"Listening at: http://([\d.]+):(\d+)")
        self.address = (self.address[1], int(self.address[2]))

    def await_line(self, pattern, count=1):
        """Waits until the log has `count` lines of that pattern, and returns the last one's match."""
        while True:
            found = list(re.finditer(pattern, self.log.read_text()))
            if len(found) >= count:
                return found[count - 1]
            assert self.process.poll() is None, self.log.read_text()
            fiberrt.sleep(0.01)

    def get(self, path, body=b""):
        head = b"%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        answer = ask(self.address, head % (b"POST" if body else b"GET", path.encode(), len(body)) + body)
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), body

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()


@pytest.fixture
def gunicorn(tmp_path):
    servers.needs("the test of gunicorn", "gunicorn")
    return lambda *options, **more: Gunicorn(tmp_path, *options, **more)


def test_requests_of_a_gunicorn_worker_are_fibers(gunicorn):
    with gunicorn("--keep-alive", "5") as server:
        answers = list(fiberrt.map(server.get, ["/together"] * 20))
        assert [status for status, _ in answers] == [200] * 20 and len({pid for _, pid in answers}) == 1
        body = os.urandom(1_000_000)
        assert server.get("/upload", body) == (200, body)
        status, chunks = server.get("/stream")
        assert status == 200 and all(b"%d\n" % i in chunks for i in range(10))
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


def test_gunicorn_ends_gracefully(gunicorn):
    with gunicorn() as server:
        slow = fiberrt.spawn(server.get, "/slow")
        while not server.begun.exists():
            fiberrt.sleep(0.01)
        server.process.terminate()
        assert slow.result()[0] == 200
        assert server.process.wait() == 0


def test_a_reload_of_gunicorn_loses_no_request(gunicorn):
    with gunicorn("--workers", "2") as server:
        over = []

        def load():
            statuses = []
            while not over:
                statuses.append(server.get("/")[0])
            return statuses

        server.await_line("Booting worker", 2)
        clients = [fiberrt.spawn(load) for _ in range(5)]
        server.process.send_signal(signal.SIGHUP)
        server.await_line("Booting worker", 4)
        server.await_line(r"Worker exiting", 2)
        over.append(True)
        statuses = [status for client in clients for status in client.result()]
        assert statuses and set(statuses) == {200}


def test_a_killed_worker_of_gunicorn_is_replaced(gunicorn):
    with gunicorn() as server:
        first = server.get("/")[1]
        os.kill(int(first), signal.SIGKILL)
        server.await_line("Booting worker", 2)
        status, second = server.get("/")
        assert status == 200 and second != first


def test_django_with_postgresql(gunicorn):
    servers.needs("the test of Django", "django", "psycopg")
    with servers.postgres(20) as port, gunicorn(application=DJANGO, DATABASE_PORT=str(port)) as server:
        assert server.get("/create") == (200, b"created")
        answers = list(fiberrt.map(server.get, [f"/add/{number}" for number in range(10)]))
        assert [status for status, _ in answers] == [200] * 10 and len({backend for _, backend in answers}) == 10
        assert server.get("/total") == (200, b"45")
