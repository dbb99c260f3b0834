# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs not written for fibers run by `python -m fiberrt`: waitress serves a flask application, a celery worker with
threads takes tasks from Redis, kombu sends and receives messages over Redis. In each test all requests, tasks or
consumers must be in progress at the same time: a call that blocked the thread would hang."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import servers

import fiberrt

COUNT = 8
PATIENCE = 300

# Passes when COUNT flows are in it at once, each in a fiber of one thread. All of them sleep at the same time.
TOGETHER = f"""
import _thread, threading, time
COUNT, PATIENCE = {COUNT}, {PATIENCE}
gate = threading.Barrier(COUNT)
asleep = set()
main = _thread.get_ident()
def together(i):
    gate.wait(PATIENCE)
    asleep.add(i)
    while len(asleep) < COUNT: time.sleep(0.01)
    gate.wait(PATIENCE)
    asleep.clear()
    return "fiber" if _thread.get_ident() == main != threading.get_ident() else "thread"
"""


@contextlib.contextmanager
def program(folder: Path, *arguments: str):
    """Runs `python -m fiberrt` with arguments, in a folder, until the block ends. Yields its Popen and its output
    file."""
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "fiberrt", *arguments], cwd=folder, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(folder)},
            preexec_fn=servers.end_with_us(signal.SIGKILL),
        )  # fmt: skip
        try:
            yield process, Path(log.name)
        except BaseException:
            print(Path(log.name).read_text(errors="replace"))  # pytest shows it with the failure
            raise
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def run_to_end(folder: Path, *arguments: str) -> str:
    """Returns the output of `python -m fiberrt` with arguments, which must exit with 0."""
    with program(folder, *arguments) as (process, log):
        assert process.wait(PATIENCE) == 0
        return log.read_text()


@pytest.fixture(scope="module")
def redis():
    servers.needs("the tests of celery and kombu", "celery", "kombu", "redis")
    with servers.redis() as port:
        yield port


def test_waitress_and_flask(tmp_path):
    # Each answer begins with fewer bytes than waitress sends at once. Until there are more, waitress polls a ready
    # socket in a loop, and must let the fibers run that make the answers.
    servers.needs("the test of waitress and flask", "waitress", "flask")
    (tmp_path / "pages.py").write_text(TOGETHER + """
import flask, sys, waitress
app = flask.Flask("pages")
@app.route("/together/<int:i>", methods=["POST"])
def answer(i):
    size = len(flask.request.get_data())
    def parts():
        yield f"{size} bytes, "
        yield together(i) + "."
        yield "x" * 300_000
    return parts()
waitress.serve(app, host="127.0.0.1", port=int(sys.argv[1]), threads=COUNT, send_bytes=18000)
""")
    port = servers.free_port()
    open_url = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def ask(i):
        with open_url(f"http://127.0.0.1:{port}/together/{i}", bytes(200_000 + i), PATIENCE) as answer:
            start, rest = answer.read().decode().split(".")
            return start, len(rest)

    with program(tmp_path, "pages.py", str(port)) as (process, log):
        with servers.serving(process, log, port, signal.SIGTERM):
            for _ in range(3):
                with ThreadPoolExecutor(COUNT) as clients:
                    answers = list(clients.map(ask, range(COUNT)))
                assert answers == [(f"{200_000 + i} bytes, fiber", 300_000) for i in range(COUNT)]


@pytest.mark.parametrize("pool", ["threads", "custom"])
def test_celery(tmp_path, redis, pool, monkeypatch):
    monkeypatch.setenv("CELERY_CUSTOM_WORKER_POOL", "fiberrt.celery:TaskPool")
    (tmp_path / "work.py").write_text(TOGETHER + f"""
import celery
url = "redis://127.0.0.1:{redis}/1"
app = celery.Celery("work", broker=url, backend=url)
app.conf.broker_connection_retry_on_startup = True
@app.task
def meet(i): return i, together(i)
@app.task
def double(i): return 2 * i
@app.task(bind=True)
def own(self, i):
    mine = self.request.id
    together(i)
    return self.request.id == mine and celery.current_task.request.id == mine and i
@app.task
def fail(): raise LookupError("on purpose")
""")
    (tmp_path / "ask.py").write_text("""
import work
for _ in range(3):
    print(work.celery.group(work.meet.s(i) for i in range(work.COUNT))().get(timeout=work.PATIENCE))
print(work.celery.group(work.own.s(i) | work.double.s() for i in range(work.COUNT))().get(timeout=work.PATIENCE))
try:
    work.fail.delay().get(timeout=work.PATIENCE)
except LookupError as error:
    print(error)
""")
    worker = ["-m", "celery", "-A", "work", "worker", "-P", pool, "-c", str(COUNT), "--loglevel", "INFO"]
    with program(tmp_path, *worker) as (process, log):
        told = run_to_end(tmp_path, "ask.py").splitlines()
        chained = str([2 * i for i in range(COUNT)])
        assert told == 3 * [str([[i, "fiber"] for i in range(COUNT)])] + [chained, "on purpose"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert "Warm shutdown" in log.read_text()


def test_limits_and_revocations_of_celery(tmp_path, redis, monkeypatch):
    monkeypatch.setenv("CELERY_CUSTOM_WORKER_POOL", "fiberrt.celery:TaskPool")
    (tmp_path / "work.py").write_text(f"""
import time
import celery, celery.exceptions
url = "redis://127.0.0.1:{redis}/3"
app = celery.Celery("work", broker=url, backend=url)
app.conf.broker_connection_retry_on_startup = True
app.conf.task_track_started = True
PATIENCE = {PATIENCE}
@app.task
def nap():
    try:
        time.sleep(PATIENCE)
    except celery.exceptions.SoftTimeLimitExceeded:
        return "soft"
""")
    (tmp_path / "ask.py").write_text("""
import time
import celery.exceptions
import work
print(work.nap.apply_async(soft_time_limit=2).get(timeout=work.PATIENCE))
try:
    work.nap.apply_async(time_limit=0.2).get(timeout=work.PATIENCE)
except celery.exceptions.TimeLimitExceeded:
    print("hard")
task = work.nap.delay()
while task.state != "STARTED": time.sleep(0.01)
task.revoke(terminate=True)
try:
    task.get(timeout=work.PATIENCE)
except celery.exceptions.TaskRevokedError:
    print("revoked")
""")
    with program(tmp_path, "-m", "celery", "-A", "work", "worker", "-P", "custom", "-c", "2") as (process, log):
        assert run_to_end(tmp_path, "ask.py").splitlines() == ["soft", "hard", "revoked"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_kombu(tmp_path, redis):
    # The producer waits until the server reports that all consumers wait.
    (tmp_path / "messages.py").write_text(f"""
import threading, time
import kombu, redis
COUNT, PATIENCE = {COUNT}, {PATIENCE}
url = "redis://127.0.0.1:{redis}/2"
got = []
def consume():
    with kombu.Connection(url) as connection, connection.SimpleQueue("items") as queue:
        message = queue.get(timeout=PATIENCE)
        got.append(message.payload["number"])
        message.ack()
consumers = [threading.Thread(target=consume) for _ in range(COUNT)]
for consumer in consumers: consumer.start()
client = redis.Redis(port={redis})
while client.info("clients")["blocked_clients"] < COUNT: time.sleep(0.01)
print("all wait")
with kombu.Connection(url) as connection, connection.SimpleQueue("items") as queue:
    for number in range(COUNT): queue.put({{"number": number}})
for consumer in consumers: consumer.join()
print(sorted(got))
""")
    assert run_to_end(tmp_path, "messages.py").splitlines() == ["all wait", str(list(range(COUNT)))]
