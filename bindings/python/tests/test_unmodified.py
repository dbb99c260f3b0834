# SPDX-License-Identifier: MIT OR Apache-2.0
"""Libraries not written for fibers overlap in 100 fibers: urllib, requests, redis and pg8000, by spawn and by threads.
Each of the 100 waits until all wait, as the server or a barrier reports: a call that blocked the thread would hang."""

import subprocess
import sys
from pathlib import Path

import pytest
import servers

COUNT = 100
SIZE = 3_000_000  # more than sockets hold: the server waits until it is read

START = """
import fiberrt.monkey
fiberrt.monkey.patch()
import _thread, sys, threading, time
import concurrent.futures
import fiberrt
COUNT = 100
port, how = int(sys.argv[1]), sys.argv[2]
def in_all(function):
    "The results of COUNT calls, each in a flow of its own."
    with fiberrt.fail_after(280):
        if how == "fibers":
            return [fiber.result() for fiber in [fiberrt.spawn(function, i) for i in range(COUNT)]]
        if how == "threads":
            results = {}
            def run(i): results[i] = function(i), _thread.get_ident()
            threads = [threading.Thread(target=run, args=(i,)) for i in range(COUNT)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            assert {ident for result, ident in results.values()} == {_thread.get_ident()}
            return [results[i][0] for i in range(COUNT)]
        with concurrent.futures.ThreadPoolExecutor(COUNT) as pool:
            return list(pool.map(function, range(COUNT)))
"""


@pytest.fixture
def lines(program):
    """Returns the lines that a program writes. On a busy machine, 100 connections take a server long."""

    def run(source: str, *args: str) -> list[str]:
        done = program(source, *args, timeout=300)
        assert (done.code, done.err) == (0, "")
        return done.out.splitlines()

    return run


hows = pytest.mark.parametrize("how", ["fibers", "threads", "executor"])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("files")
    (root / "big").write_bytes(b"x" * SIZE)
    for i in range(COUNT):
        (root / f"{i}.txt").write_text(f"file {i}")
    return root


@pytest.fixture(scope="module", params=["httpd", "http.server"])
def web(request, files):
    with servers.http(request.param, files) as port:
        yield port


@pytest.fixture(scope="module")
def redis():
    servers.needs("the test of redis", "redis")
    with servers.redis() as port:
        yield port


@pytest.fixture(scope="module")
def postgres():
    with servers.postgres(COUNT + 20) as port:
        yield port


@hows
def test_urlopen(lines, web, how):
    # All have received the beginning of a big file before any of them reads on.
    assert lines(START + """
import urllib.request
gate = threading.Barrier(COUNT)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
urllib.request.install_opener(opener)
def fetch(i):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/big", timeout=280) as answer:
        gate.wait(280)
        size = 0
        while part := answer.read(200_000): size += len(part)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{i}.txt") as answer:
        return size, answer.read()
print(in_all(fetch) == [(3_000_000, b"file %d" % i) for i in range(COUNT)])
""", str(web), how) == ["True"]  # fmt: skip


@hows
def test_requests(lines, web, how):
    servers.needs("the test of requests", "requests")
    # All share one session and its pool of connections.
    assert lines(START + """
import requests, requests.adapters
session = requests.Session()
session.trust_env = False
session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=COUNT))
gate = threading.Barrier(COUNT)
def fetch(i):
    with session.get(f"http://127.0.0.1:{port}/big", stream=True, timeout=280) as answer:
        gate.wait(280)
        size = sum(map(len, answer.iter_content(200_000)))
    return size, session.get(f"http://127.0.0.1:{port}/{i}.txt").text
print(in_all(fetch) == [(3_000_000, f"file {i}") for i in range(COUNT)])
session.close()
""", str(web), how) == ["True"]  # fmt: skip


@hows
def test_redis(lines, redis, how):
    # The items are put only after the server has reported that all wait for one.
    assert lines(START + """
import redis
client = redis.Redis(port=port, socket_timeout=None, max_connections=2 * COUNT)
client.flushall()
def feed():
    while client.info("clients")["blocked_clients"] < COUNT: time.sleep(0.01)
    print("all wait")
    client.rpush("items", *range(COUNT))
feeder = fiberrt.spawn(feed)
def take(i): return int(client.blpop(["items"], timeout=0)[1])
print(sorted(in_all(take)) == list(range(COUNT)))
feeder.result()
# 100 over 10 connections.
small = redis.Redis(connection_pool=redis.BlockingConnectionPool(port=port, max_connections=10, timeout=280))
print(sorted(in_all(lambda i: small.incr("count"))) == list(range(1, COUNT + 1)))
print(int(client.info("clients")["maxclients"]) > COUNT)
small.close(); client.close()
""", str(redis), how) == ["all wait", "True", "True", "True"]  # fmt: skip


# The library waits in C. patch() adopts it or, without that, makes it call Python instead, whether it is imported before
# or after patch().
@pytest.mark.parametrize("how", ["fibers", "threads"])
@pytest.mark.parametrize("module", ["psycopg2", "psycopg"])
@pytest.mark.parametrize("first", ["", "import psycopg2, psycopg"], ids=["patched first", "imported first"])
@pytest.mark.parametrize("native", [True, False], ids=["native", "not native"])
def test_psycopg(lines, postgres, module, native, first, how):
    servers.needs("the test of psycopg2 and psycopg", "psycopg2", "psycopg")
    assert lines(first + START.replace("patch()", f"patch(native={native})") + """
import psycopg2, psycopg, fiberrt.native
print(fiberrt.native.is_adopted(sys.argv[3]), psycopg2.extensions.get_wait_callback() is None)
module = sys.modules[sys.argv[3]]
def connect(): return module.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres")
def run(connection, statement, *values):
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchone()
first = connect()
run(first, "SELECT pg_advisory_lock(1)")
def release():
    while run(first, "SELECT count(*) FROM pg_locks WHERE NOT granted")[0] < COUNT: time.sleep(0.01)
    print("all wait")
    run(first, "SELECT pg_advisory_unlock(1)")
releaser = fiberrt.spawn(release)
def work(i):
    connection = connect()
    run(connection, "SELECT pg_advisory_lock_shared(1)")
    process, number, _ = run(connection, "SELECT pg_backend_pid(), CAST(%s AS integer), pg_sleep(0.01)", i)
    connection.close()
    return process, number
results = in_all(work)
releaser.result()
print(len({process for process, _ in results}), [number for _, number in results] == list(range(COUNT)))
first.close()
""", str(postgres), how, module) == [f"{native} {native}", "all wait", "100 True"]  # fmt: skip


def test_copy_and_large_objects_of_psycopg2(lines, postgres):
    servers.needs("the test of psycopg2 and psycopg", "psycopg2", "psycopg")
    # psycopg2 refuses both if it calls Python to wait.
    assert lines(START + """
import io, psycopg2
def work(i):
    connection = psycopg2.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE numbers (number integer)")
        cursor.copy_from(io.StringIO("".join(f"{i + k}\\n" for k in range(1000))), "numbers")
        out = io.StringIO()
        cursor.copy_to(out, "numbers")
        sums = sum(map(int, out.getvalue().split()))
    large = connection.lobject(0, "wb")
    large.write(b"%d" % i * 10000)
    large.close()
    content = connection.lobject(large.oid, "rb").read()
    connection.close()
    return sums == 1000 * i + 499500 and content == b"%d" % i * 10000
print(set(in_all(work)))
""", str(postgres), "fibers") == ["{True}"]  # fmt: skip


@pytest.mark.parametrize("how", ["fibers", "threads"])
def test_pg8000(lines, postgres, how):
    servers.needs("the test of pg8000", "pg8000")
    # All wait for a lock, whose holder releases it when the server shows that they wait.
    assert lines(START + """
import pg8000.dbapi, pg8000.native
def connect(): return pg8000.native.Connection("postgres", host="127.0.0.1", port=port, database="postgres")
first = connect()
first.run("SELECT pg_advisory_lock(1)")
def release():
    while first.run("SELECT count(*) FROM pg_locks WHERE NOT granted")[0][0] < COUNT: time.sleep(0.01)
    print("all wait")
    first.run("SELECT pg_advisory_unlock(1)")
releaser = fiberrt.spawn(release)
def work(i):
    connection = pg8000.dbapi.connect("postgres", host="127.0.0.1", port=port, database="postgres")
    cursor = connection.cursor()
    cursor.execute("SELECT pg_advisory_lock_shared(1)")
    cursor.execute("SELECT pg_backend_pid(), CAST(%s AS integer), pg_sleep(0.01)", (i,))
    process, number, _ = cursor.fetchone()
    connection.close()
    return process, number
results = in_all(work)
releaser.result()
print(len({process for process, _ in results}), [number for _, number in results] == list(range(COUNT)))
first.close()
""", str(postgres), how) == ["all wait", "100 True"]  # fmt: skip


def test_the_example(web):
    example = Path(__file__).parent.parent / "examples" / "fetch_many.py"
    if not example.exists():
        servers.did_not_run("the test of the example fetch_many", "the tests are not next to the sources")
    urls = [f"http://127.0.0.1:{web}/{i}.txt" for i in range(20)] + [f"http://127.0.0.1:{web}/none"]
    for command in ([sys.executable, "-m", "fiberrt"], [sys.executable]):
        done = subprocess.run([*command, str(example), *urls], capture_output=True, text=True, timeout=servers.PATIENCE)
        assert done.returncode == 1, done.stderr
        told = done.stdout.splitlines()
        assert [line.split()[0] for line in told] == urls
        assert all(" bytes in " in line for line in told[:-1]) and "404" in told[-1]
