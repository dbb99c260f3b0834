# SPDX-License-Identifier: MIT OR Apache-2.0
"""Packages with parts in C, as wheels bring them, wait as fibers when fiberrt.native has adopted them. Their servers are
those of native_servers.py, on fibers of the same thread. bindings/python/docs/tutorial.md shows the call."""

from pathlib import Path

import pytest
import servers

START = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})" + """
import fiberrt, fiberrt.native, native_servers
from native_servers import Gate, serve
COUNT = 100
def in_all(function):
    "The results of COUNT calls, each in a fiber."
    with fiberrt.fail_after(native_servers.LIMIT_S):
        return [fiber.result() for fiber in [fiberrt.spawn(function, i) for i in range(COUNT)]]
"""

# connect(port), and query(connection, i), which returns what the server has answered to request i.
CLIENTS = {
    "psycopg2": """
import psycopg2 as client
def connect(port):
    made = client.connect(f"host=127.0.0.1 port={port} user=u dbname=d sslmode=disable gssencmode=disable")
    made.autocommit = True
    return made
def query(connection, i):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {i}")
        return int(cursor.fetchone()[0])
""",
    "psycopg": """
import psycopg as client
def connect(port):
    return client.connect(f"host=127.0.0.1 port={port} user=u dbname=d sslmode=disable gssencmode=disable", autocommit=True)
def query(connection, i):
    return int(connection.execute(f"SELECT {i}").fetchone()[0])
""",
    "MySQLdb": """
import MySQLdb as client
def connect(port): return client.connect(host="127.0.0.1", port=port, user="u", password="p", ssl_mode="DISABLED")
def query(connection, i):
    cursor = connection.cursor()
    cursor.execute(f"SELECT {i}")
    return int(cursor.fetchone()[0])
""",
    "pycurl": """
import io, pycurl as client
def connect(port):
    made = client.Curl()
    made.setopt(client.PROXY, "")
    made.port = port
    return made
def query(connection, i):
    answer = io.BytesIO()
    connection.setopt(client.URL, f"http://127.0.0.1:{PORT}/{i}")
    connection.setopt(client.WRITEDATA, answer)
    connection.perform()
    return int(answer.getvalue())
client.Error = client.error
""",
}
SERVERS = {"psycopg2": "postgresql", "psycopg": "postgresql", "MySQLdb": "mysql", "pycurl": "http"}
SERVE = "PORT = serve(native_servers.{}, {})\n"


def client(name):
    servers.needs(f"the test of {name} with fiberrt.native", name)
    return START + f"adopted = fiberrt.native.adopt({name!r})\n" + CLIENTS[name].replace("    made.port = port\n", "")


names = pytest.mark.parametrize("name", CLIENTS)


@names
def test_queries_overlap(lines, name):
    source = client(name) + SERVE.format(f"{SERVERS[name]}", "gate := Gate(COUNT)") + """
connections = [connect(PORT) for _ in range(COUNT)]
print(in_all(lambda i: query(connections[i], i)) == list(range(COUNT)), gate.left)
# The gate is open. Each asks again, several times.
print(in_all(lambda i: [query(connections[i], 1000 * i + k) for k in range(5)]) == [[1000 * i + k for k in range(5)] for i in range(COUNT)])
for connection in connections: connection.close()
"""
    assert lines(source) == ["True 0", "True"]


@names
def test_connects_overlap(lines, name):
    # Each fiber connects by itself, while others have connected or wait for their answers.
    assert lines(client(name) + SERVE.format(SERVERS[name], "Gate(COUNT)") + """
def work(i):
    connection = connect(PORT)
    try: return query(connection, i)
    finally: connection.close()
print(in_all(work) == list(range(COUNT)))
""") == ["True"]  # fmt: skip


@names
def test_threads_with_fibers(lines, name):
    assert lines(client(name) + """
import threading
failures = []
def work():
    global PORT
    try:
        with fiberrt.fail_after(native_servers.LIMIT_S):
            port = serve(native_servers.SERVER, Gate(0))
            PORT = port
            connections = [connect(port) for _ in range(10)]
            def ask(i): return [query(connections[i], 100 * i + k) for k in range(10)]
            for fiber, i in [(fiberrt.spawn(ask, i), i) for i in range(10)]:
                assert fiber.result() == [100 * i + k for k in range(10)]
            for connection in connections: connection.close()
    except BaseException as error:
        failures.append(error)
PORT = None
threads = [threading.Thread(target=work) for _ in range(5)]
for thread in threads:
    thread.start()
    if "curl" in adopted[0] + adopted[-1]: thread.join() # its address is global here
for thread in threads: thread.join()
print(failures)
""".replace("SERVER", SERVERS[name])) == ["[]"]  # fmt: skip


@names
def test_a_cancelled_query_closes_the_connection(lines, name):
    # The next query must not get the answer to this one: it fails, or is answered with its own number.
    assert lines(client(name) + SERVE.format(SERVERS[name], "gate := Gate(COUNT + 1)") + """
connections = [connect(PORT) for _ in range(COUNT)]
results = []
def work(i):
    try: query(connections[i], i)
    except Exception as error: results.append(isinstance(error, (client.Error, OSError)))
    else: results.append("answered")
    with fiberrt.shield():
        for again in (1000 + i, 2000 + i):
            try: got = query(connections[i], again)
            except Exception as error: results.append(isinstance(error, (client.Error, OSError)))
            else: results.append(got == again)
fibers = [fiberrt.spawn(work, i) for i in range(COUNT)]
while gate.left > 1: fiberrt.sleep(0.001)
for fiber in fibers: fiber.cancel()
while any("native" in repr(fiber) for fiber in fibers) and gate.left > 1: fiberrt.sleep(0.001)
gate.opened.set()
for fiber in fibers: fiber.join()
print(len(results), set(results))
""") == ["300 {True}"]  # fmt: skip


@names
def test_a_time_limit_ends_a_query(lines, name):
    assert lines(client(name) + SERVE.format(SERVERS[name], "gate := Gate(2)") + """
connection = connect(PORT)
try:
    with fiberrt.move_on_after(0.05): query(connection, 1)
except Exception as error: print(isinstance(error, client.Error))
gate.opened.set()
connection = connect(PORT)
print(query(connection, 2))
""") == ["True", "2"]  # fmt: skip


def test_connect_timeout_of_psycopg2(lines):
    assert lines(client("psycopg2") + """
port = serve(native_servers.silent, gate := Gate(2))
try: client.connect(f"host=127.0.0.1 port={port} user=u dbname=d sslmode=disable gssencmode=disable connect_timeout=2")
except client.OperationalError as error: print("timeout expired" in str(error))
""") == ["True"]  # fmt: skip


def test_two_fibers_on_one_connection(lines):
    # psycopg2 holds a mutex of the connection while libpq waits.
    source = client("psycopg2") + SERVE.format("postgresql", "Gate(0)")
    told = lines(source + """
if not any("pthread_mutex_lock" in functions for functions in fiberrt.native.adopted().values()): raise SystemExit(print("no locks"))
connection = connect(PORT)
print(sorted(in_all(lambda i: query(connection, i))) == list(range(COUNT)))
""")  # fmt: skip
    if told == ["no locks"]:
        servers.did_not_run("two fibers on one connection of psycopg2", "this library does not adopt locks")
    assert told == ["True"]


def test_callbacks_of_pycurl_wait(lines):
    assert lines(client("pycurl") + SERVE.format("http", "Gate(COUNT)") + """
turns = fiberrt.Queue()
def work(i):
    curl, parts = connect(PORT), []
    def write(data):
        turns.get()
        fiberrt.sleep(0)
        parts.append(data)
    curl.setopt(client.URL, f"http://127.0.0.1:{PORT}/{i}")
    curl.setopt(client.WRITEFUNCTION, write)
    curl.perform()
    curl.close()
    return int(b"".join(parts))
def feed():
    for i in range(COUNT): turns.put(i)
fiberrt.spawn(feed)
print(in_all(work) == list(range(COUNT)))
""") == ["True"]  # fmt: skip


def test_pymssql_connects_overlap(lines):
    servers.needs("the test of pymssql with fiberrt.native", "pymssql")
    # The server closes the connections when all clients have sent their first message.
    assert lines(START.replace("COUNT = 100", "COUNT = 20") + """
fiberrt.native.adopt("pymssql")
import pymssql
gate = Gate(COUNT)
port = serve(native_servers.silent, gate)
def work(i):
    try: pymssql.connect(server="127.0.0.1", port=str(port), user="u", password="p", database="d", tds_version="7.4")
    except pymssql.OperationalError: return "refused"
print(set(in_all(work)), gate.left <= 0)
""") == ["{'refused'} True"]  # fmt: skip


def test_lxml_reads_pipes(lines):
    servers.needs("the test of lxml with fiberrt.native", "lxml")
    # libxml2 no longer fetches documents by HTTP. Each fiber needs its own parser, which has a lock.
    assert lines(START + """
fiberrt.native.adopt("lxml.etree")
import lxml.etree, os
pipes = [os.pipe() for _ in range(COUNT)]
begun = []
def write():
    while len(begun) < COUNT: fiberrt.sleep(0)
    for i, (_, end) in enumerate(pipes):
        os.write(end, b"<a>%d</a>" % i)
        os.close(end)
def work(i):
    begun.append(i)
    return int(lxml.etree.parse(f"/proc/self/fd/{pipes[i][0]}", lxml.etree.XMLParser()).getroot().text)
fiberrt.spawn(write)
print(in_all(work) == list(range(COUNT)))
""") == ["True"]  # fmt: skip


def test_confluent_kafka_has_threads_of_its_own(lines):
    servers.needs("the test of confluent_kafka with fiberrt.native", "confluent_kafka")
    # Its threads are not affected. The calling fiber waits for them by a condition variable.
    assert lines(START + """
fiberrt.native.adopt("confluent_kafka")
import confluent_kafka
producer = confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
producer.produce("topic", b"value")
print(fiberrt.spawn(producer.flush, 0.05).result())
producer.purge()
print(fiberrt.spawn(producer.flush, 60).result())
""") == ["1", "0"]  # fmt: skip
