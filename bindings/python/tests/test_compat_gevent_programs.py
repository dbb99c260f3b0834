# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs for gevent that run on fibers by fiberrt.compat.gevent: locust, flask-socketio, gunicorn's and celery's own
gevent workers, zmq.green. bindings/python/docs/coming-from.md shows the commands and imports."""

import contextlib
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import servers

PATIENCE_S = 120


@contextlib.contextmanager
def running(folder, port, *arguments, ready=None):
    """Runs `python -m fiberrt --gevent` with arguments until it answers at the port, and ends it by SIGTERM."""
    path = folder / "log"
    with open(path, "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "fiberrt", "--gevent", *arguments], cwd=folder,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(folder)},
            preexec_fn=servers.end_with_us(signal.SIGKILL),
        )  # fmt: skip
    try:
        with servers.serving(process, path, port, signal.SIGTERM):
            yield process, path
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


PAGES = """
import sys
from gevent.pywsgi import WSGIServer
from gevent import monkey; monkey.patch_all()
import time
count = 0
def app(environ, start_response):
    global count
    count += 1
    time.sleep(0.001)
    start_response("200 OK", [("X-Count", str(count))])
    return [type(__import__("gevent").getcurrent()).__module__.encode()]
if __name__ == "__main__":
    WSGIServer(("127.0.0.1", int(sys.argv[1])), app, log=None).serve_forever()
"""


def test_locust(tmp_path):
    servers.needs_installed("the test of locust", "locust", "h11")
    (tmp_path / "pages.py").write_text(PAGES)
    (tmp_path / "users.py").write_text("""
import locust, gevent.event
class Slow(locust.HttpUser):
    @locust.task
    def ask(self):
        self.client.get("/slow")
class Fast(locust.FastHttpUser):
    @locust.task
    def ask(self):
        self.client.get("/fast")
asked, enough = {"/slow": 0, "/fast": 0}, gevent.event.Event()
@locust.events.request.add_listener
def seen(name, **_):
    asked[name] += 1
    if min(asked.values()) > 20:
        enough.set()
@locust.events.init.add_listener
def begin(environment, **_):
    gevent.spawn(enough.wait).link(lambda _: environment.runner.quit())
    print("modules of", gevent.__name__)
""")
    port = servers.free_port()
    with running(tmp_path, port, "pages.py", str(port)):
        done = subprocess.run(
            [sys.executable, "-m", "fiberrt", "--gevent", "-m", "locust", "-f", "users.py", "--headless",
             "--users", "10", "--spawn-rate", "10", "--host", f"http://127.0.0.1:{port}", "--run-time", f"{PATIENCE_S}s", "--json"],
            cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "modules of fiberrt.compat.gevent" in done.stdout
    assert '"num_failures": 0' in done.stdout and "Traceback" not in done.stderr


@pytest.mark.parametrize("handler", ["geventwebsocket", "simple_websocket"])
def test_flask_socketio(tmp_path, handler):
    servers.needs_installed("the test of flask-socketio", "flask_socketio", "socketio", "websocket", "h11", handler)
    (tmp_path / "app.py").write_text(f"""
import sys
if {handler!r} != "geventwebsocket":
    sys.modules["geventwebsocket"] = None
import gevent, flask, flask_socketio
app = flask.Flask("app")
io = flask_socketio.SocketIO(app, async_mode="gevent")
@io.on("double")
def double(number):
    for part in "a", "b":
        flask_socketio.emit("part", part)
        io.sleep(0)
    return 2 * number
@io.on("stop")
def stop():
    io.start_background_task(io.stop)
print(io.server.eio.async_mode, gevent.__name__, flush=True)
io.run(app, "127.0.0.1", int(sys.argv[1]), log_output=False)
print("stopped", flush=True)
""")
    import socketio

    port = servers.free_port()
    with running(tmp_path, port, "app.py", str(port)) as (process, log):
        for transports in ["polling"], ["websocket"], ["polling", "websocket"]:
            client, parts = socketio.Client(), []
            client.on("part", parts.append)
            client.connect(f"http://127.0.0.1:{port}", transports=transports, wait_timeout=PATIENCE_S)
            assert client.call("double", 21, timeout=PATIENCE_S) == 42
            assert client.transport() == transports[-1] and parts == ["a", "b"]
            client.disconnect()
        client.connect(f"http://127.0.0.1:{port}", wait_timeout=PATIENCE_S)
        client.emit("stop")
        assert process.wait(PATIENCE_S) == 0
        client.disconnect()
        text = log.read_text()
    assert "gevent fiberrt.compat.gevent" in text and "stopped" in text


@pytest.mark.parametrize("worker", ["gevent", "gevent_pywsgi"])
def test_gunicorn(tmp_path, worker):
    servers.needs_installed("the test of gunicorn's gevent worker", "gunicorn", "h11")
    (tmp_path / "pages.py").write_text(PAGES)
    port = servers.free_port()
    arguments = ["-k", worker, "--bind", f"127.0.0.1:{port}", "pages:app"]
    with running(tmp_path, port, "-m", "gunicorn", *arguments) as (process, log):
        ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        for _ in range(3):
            with ask(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S) as answer:
                assert answer.read() == b"fiberrt.compat.gevent.greenlet"


def test_celery(tmp_path):
    servers.needs_installed("the test of celery's gevent pool", "celery", "redis")
    (tmp_path / "work.py").write_text("""
import os, celery, gevent
app = celery.Celery("work", broker=os.environ["REDIS"], backend=os.environ["REDIS"])
app.conf.broker_connection_retry_on_startup = True
@app.task
def kind(number):
    gevent.sleep(0.001)
    return [number, type(gevent.getcurrent()).__module__]
""")
    with servers.redis() as port:
        environment = {**os.environ, "REDIS": f"redis://127.0.0.1:{port}", "PYTHONPATH": str(tmp_path)}
        worker = subprocess.Popen(
            [sys.executable, "-m", "fiberrt", "--gevent", "-m", "celery", "-A", "work", "worker", "-P", "gevent"],
            cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=servers.end_with_us(signal.SIGKILL),
        )  # fmt: skip
        try:
            ask = f"import work; print([work.kind.delay(n) for n in range(8)][-1].get(timeout={PATIENCE_S}))"
            done = subprocess.run(
                [sys.executable, "-c", ask], cwd=tmp_path, env=environment, capture_output=True, text=True,
                timeout=2 * PATIENCE_S,
            )  # fmt: skip
            assert done.stdout == "[7, 'fiberrt.compat.gevent.greenlet']\n", done.stderr
            worker.terminate()
            assert worker.wait(PATIENCE_S) == 0
        finally:
            if worker.poll() is None:
                worker.kill()
            worker.wait()


def test_the_imports_of_the_page(lines):
    page = Path(__file__).parent.parent / "docs" / "coming-from.md"
    if not page.exists():
        servers.did_not_run("the imports of coming-from.md", "the tests run away from the sources")
    text = page.read_text()
    part = text.partition("### gevent's own interface")[2].partition("\n## ")[0]
    imports = [line.strip() for line in part.splitlines() if line.startswith(("    from", "    import"))]
    assert len(imports) == 4 and imports.pop() == "import flask_socketio"
    assert lines("\n".join([*imports, "print(monkey, pool.Pool(1).apply(len, ['abc']))"]))[0].endswith(" 3")


def test_green_sockets_of_zmq(lines):
    servers.needs_installed("the test of zmq.green", "zmq")
    assert lines("""
        import fiberrt.compat.gevent.as_gevent
        import gevent, zmq.green as zmq
        context = zmq.Context()
        ask, answer = context.socket(zmq.REQ), context.socket(zmq.REP)
        port = answer.bind_to_random_port("tcp://127.0.0.1")
        ask.connect(f"tcp://127.0.0.1:{port}")
        def serve():
            for _ in range(3):
                answer.send(answer.recv() * 2)
        server = gevent.spawn(serve)
        for text in b"a", b"b", b"c":
            ask.send(text)
            print(ask.recv().decode())
        server.join()
        ask.close(), answer.close(), context.term()
    """) == ["aa", "bb", "cc"]
