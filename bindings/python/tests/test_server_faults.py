# SPDX-License-Identifier: MIT OR Apache-2.0
"""Faults under load, on gunicorn with our worker and on our own web server: no request that was answered with success is
lost, and the worker goes on."""

import os
import signal
from contextlib import suppress

import pytest
import servers
import web

import fiberrt
from fiberrt import socket

servers.needs("the tests of faults under load", "gunicorn", "h11", "flask")

both_servers = pytest.mark.parametrize("kind", [web.Gunicorn, web.OurServer])

# Keeps a line in a file for each request that it answers with success. The line is there before the answer.
RECORDING = """
import os, signal, subprocess, time

def record(text):
    with open(os.path.join(os.environ["FOLDER"], "record"), "a") as file:
        file.write(text + "\\n")

def app(environ, start_response):
    status, (_, path, *rest) = "200 OK", environ["PATH_INFO"].split("/")
    answer = b"%d" % os.getpid()
    if path == "record":
        record(rest[0])
    elif path == "child":       # a process that the request waits for
        child = subprocess.Popen(["sleep", "600"])
        record(f"child {child.pid}")
        answer = b"%d" % child.wait()
    elif path == "body":
        answer = environ["wsgi.input"].read()
    elif path == "much":
        answer = b"x" * 20_000_000
    start_response(status, [("Content-Length", str(len(answer)))])
    return [answer]
"""


def recorded(folder):
    path = folder / "record"
    return path.read_text().splitlines() if path.exists() else []


class Load:
    """Fibers that send requests until the end of the block, and note which ones were answered with success. A request
    whose connection breaks, and one answered with an error, counts as failed."""

    def __init__(self, server, path, fibers=5):
        self._server, self._path, self._over = server, path, False
        self.answered, self.failed = [], []  # numbers of requests
        self._next = 0
        self._fibers = [fiberrt.spawn(self._run) for _ in range(fibers)]

    def _run(self):
        while not self._over:
            number, self._next = self._next, self._next + 1
            try:
                status, _ = self._server.get(self._path.format(number))
            except OSError:  # the connection has broken, at one of several calls
                status = 0
            (self.answered if status == 200 else self.failed).append(number)

    def await_more(self, what, count=20):
        """Waits until so many more requests have been answered, or have failed."""
        end = len(what) + count
        while len(what) < end:
            assert all(not fiber.done for fiber in self._fibers)
            fiberrt.sleep(0.002)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._over = True
        for fiber in self._fibers:
            fiber.join()
        if error[0] is None:
            for fiber in self._fibers:
                fiber.result()


@both_servers
def test_a_killed_worker_under_load(tmp_path, kind):
    options, count = (("--workers", "2"), 2) if kind is web.Gunicorn else ((), 1)
    with kind(tmp_path, RECORDING, *options) as server, Load(server, "/record/{}") as load:
        workers = set()
        while len(workers) < count:
            workers.add(server.get("/")[1])
        load.await_more(load.answered)
        os.kill(int(workers.copy().pop()), signal.SIGKILL)
        answered = None
        while answered is None or answered in workers:
            with suppress(OSError):  # by the end of the worker
                answered = server.get("/")[1]
        load.await_more(load.answered)
    assert set(map(str, load.answered)) <= set(recorded(tmp_path))


@both_servers
def test_a_killed_child_of_a_worker_under_load(tmp_path, kind):
    with kind(tmp_path, RECORDING) as server, Load(server, "/record/{}") as load:
        worker = server.get("/")
        waiting = [fiberrt.spawn(server.get, "/child") for _ in range(5)]
        while len(children := [line.split()[1] for line in recorded(tmp_path) if line.startswith("child")]) < 5:
            fiberrt.sleep(0.01)
        load.await_more(load.answered)
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        assert [request.result() for request in waiting] == [(200, b"-9")] * 5
        load.await_more(load.answered)
        assert server.get("/") == worker
    assert not load.failed and set(map(str, load.answered)) <= set(recorded(tmp_path))


@both_servers
def test_a_reload_under_load(tmp_path, kind):
    with kind(tmp_path, RECORDING) as server, Load(server, "/record/{}") as load:
        load.await_more(load.answered)
        first = server.get("/")
        server.process.send_signal(signal.SIGHUP)
        while server.get("/") == first:
            pass
        load.await_more(load.answered)
    assert not load.failed and set(map(str, load.answered)) <= set(recorded(tmp_path))


UPLOADS = """
import os, resource
import flask

resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))   # a larger file does not fit, like on a full disk
app = flask.Flask("application")

@app.route("/full", methods=["POST"])
def full():
    with open("/dev/full", "wb") as file:
        file.write(flask.request.get_data())
    return "written"

@app.route("/upload/<name>", methods=["POST"])
def upload(name):
    flask.request.files["file"].save(os.path.join(os.environ["FOLDER"], name))
    return "saved"

@app.route("/")
def process():
    return str(os.getpid())
"""


@both_servers
def test_a_full_disk_under_uploads(tmp_path, kind):
    with kind(tmp_path, UPLOADS) as server:
        worker = server.get("/")
        contents = {f"{number}": os.urandom(number * 200_000) for number in range(1, 11)}  # the first five fit

        def upload(name):
            headers, body = web.multipart(contents[name])
            return server.get(f"/upload/{name}", body, headers)[0]

        statuses = dict(zip(contents, fiberrt.map(upload, contents)))
        assert statuses == {name: 200 if len(content) <= 1 << 20 else 500 for name, content in contents.items()}
        for name, status in statuses.items():
            if status == 200:
                assert (tmp_path / name).read_bytes() == contents[name]
        assert [status for status, _ in fiberrt.map(lambda _: server.get("/full", b"x" * 10_000), range(5))] == [500] * 5
        assert server.get("/") == worker


DATABASE = """
import os
import django
from django.conf import settings
from django.db import connection
from django.http import HttpResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"], MIDDLEWARE=[], ROOT_URLCONF=__name__, SECRET_KEY="x",
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "USER": "postgres",
                           "NAME": "postgres", "PORT": os.environ["DATABASE_PORT"]}},
)
django.setup()

def execute(statement, *values):
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else None

def create(request):
    execute("CREATE TABLE number (number int)")
    return HttpResponse("created")

def add(request, number):
    execute("INSERT INTO number SELECT %s FROM pg_sleep(0.01)", number)
    return HttpResponse("added")

def all_numbers(request):
    return HttpResponse(" ".join(str(number) for number, in execute("SELECT number FROM number")))

def process(request):
    return HttpResponse(str(os.getpid()))

urlpatterns = [path("create", create), path("add/<int:number>", add), path("all", all_numbers), path("", process)]

from django.core.wsgi import get_wsgi_application
app = get_wsgi_application()
"""


def test_a_database_that_goes_away_and_comes_back(tmp_path):
    servers.needs("the test of a database that goes away", "django", "psycopg")
    with servers.Postgres(30) as database:
        for kind in web.Gunicorn, web.OurServer:
            folder = tmp_path / kind.__name__
            folder.mkdir()
            with kind(folder, DATABASE, DATABASE_PORT=str(database.port)) as server:
                worker = server.get("/")
                if kind is web.Gunicorn:
                    assert server.get("/create") == (200, b"created")
                with Load(server, "/add/{}") as load:
                    load.await_more(load.answered)
                    database.crash()
                    load.await_more(load.failed)
                    before = len(load.answered)
                    assert server.get("/all")[0] == 500 and server.get("/") == worker
                    database.start()
                    load.await_more(load.answered)
                assert len(load.answered) > before
                assert set(map(str, load.answered)) <= set(server.get("/all")[1].decode().split())
                assert server.get("/") == worker


@both_servers
def test_slow_clients_hold_up_no_other(tmp_path, kind):
    options = ("--keep-alive", "60") if kind is web.Gunicorn else ("--timeout", "60")
    text = b"POST /body HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10\r\n\r\n0123456789"
    with kind(tmp_path, RECORDING, *options) as server:
        slow = [socket.create_connection(server.address) for _ in range(10)]
        unwilling = socket.create_connection(server.address)  # it does not read its answer
        unwilling.sendall(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
        for byte in text:
            for client in slow:
                client.sendall(bytes([byte]))
            assert server.get("/")[0] == 200
        for client in slow:
            assert b"".join(iter(lambda: client.recv(100), b"")).endswith(b"\r\n\r\n0123456789")
            client.close()
        unwilling.close()
        assert server.get("/")[0] == 200


@both_servers
def test_a_client_that_never_ends_its_request_is_left(tmp_path, kind):
    options = ("--keep-alive", "1") if kind is web.Gunicorn else ("--timeout", "1")
    with kind(tmp_path, RECORDING, *options) as server, socket.create_connection(server.address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHos")
        with suppress(ConnectionResetError):
            assert client.recv(100) == b""
        assert server.get("/")[0] == 200
