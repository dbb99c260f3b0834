# SPDX-License-Identifier: MIT OR Apache-2.0
"""The fakes of fiberrt.testing: races between clients of Redis, PostgreSQL and WSGI applications are found, correct
clients pass, and the servers answer as the real ones do. test_testing_fakes.py runs this file in an own process, because
a simulation begins in a process that has no fibers."""

import contextlib
import importlib.util
import pathlib
import re
import socket
import threading
import time
import urllib.request

import fiberrt
import pytest
import servers
from fiberrt.testing import SimulationFailed, _explore, simulate
from fiberrt.testing import http as fake_http
from fiberrt.testing.postgresql import Error, fake_postgresql
from fiberrt.testing.redis import fake_redis

DOCUMENT = pathlib.Path(__file__).resolve().parents[1] / "docs" / "testing-fakes.md"


@pytest.fixture(autouse=True)
def no_shrinking(monkeypatch):
    """The first failing run is enough here."""
    monkeypatch.setattr(_explore.Explorer, "look_closer", lambda *_: None)


def found(test, seeds=1000):
    """Simulate a test that must fail, and return its exception."""
    with pytest.raises(SimulationFailed) as info:
        simulate(seeds=seeds)(test)()
    assert info.value.report.outcome.kind.startswith("AssertionError"), info.value
    return info.value


def passes(test, seeds=25, faults=0):
    simulate(seeds=seeds, faults=faults)(test)()


def by_two(function):
    threads = [threading.Thread(target=function, name=f"client {number}") for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def the_redis():
    servers.needs("the test of the Redis fake", "redis")
    return importlib.import_module("redis")


# --- Redis


def count_by(change):
    def test():
        with fake_redis() as server:
            client = server.client()
            client.set("count", 0)
            by_two(lambda: change(client))
            assert client.get("count") == b"2"

    return test


def by_get_and_set(client):
    client.set("count", int(client.get("count")) + 1)


def by_watch(client):
    def change(pipeline):
        count = int(pipeline.get("count"))
        pipeline.multi()
        pipeline.set("count", count + 1)

    client.transaction(change, "count")


def test_redis_a_lost_update_is_found():
    the_redis()
    found(count_by(by_get_and_set))


@pytest.mark.parametrize("change", [by_watch, lambda client: client.incr("count")], ids=["watch", "incr"])
def test_redis_an_atomic_update_passes(change):
    the_redis()
    passes(count_by(change))


def leased(work_s):
    def test():
        inside = []

        def work():
            with server.client().lock("door", timeout=30, sleep=1):
                inside.append(threading.current_thread().name)
                assert len(inside) == 1
                time.sleep(work_s)
                inside.pop()

        with fake_redis() as server:
            by_two(work)

    return test


def test_redis_a_lock_s_lease_ends_in_the_simulated_time():
    the_redis()
    begun = time.monotonic()
    found(leased(work_s=40))
    passes(leased(work_s=20))
    assert time.monotonic() - begun < 300


def test_redis_unmodified_clients_reach_a_name():
    redis = the_redis()

    def test():
        with fake_redis("localhost", "cache.test:7000"):
            assert redis.Redis().set("a", 1)
            for version in (2, 3):
                with redis.Redis(host="cache.test", port=7000, protocol=version) as client:
                    assert (client.get("a"), client.get("none"), client.hgetall("none")) == (b"1", None, {})

    test()  # by threads of the system
    passes(test, 5)


def commands():
    redis = the_redis()
    with fake_redis() as server:
        client = server.client(decode_responses=True)
        assert client.ping() and client.echo("x") == "x" and client.time()[0] > 0
        assert client.set("a", 1, nx=True) and not client.set("a", 2, nx=True)
        assert client.set("a", 3, xx=True, px=50) and 0 < client.pttl("a") <= 50
        time.sleep(0.06)
        assert (client.get("a"), client.ttl("a"), client.exists("a")) == (None, -2, 0)
        assert client.set("a", 5, ex=10) and client.set("a", 6, keepttl=True) and client.ttl("a") in (9, 10)
        assert client.persist("a") and client.ttl("a") == -1 and client.expire("a", 10, nx=True)
        assert [client.incr("n"), client.incrby("n", 5), client.decr("n"), client.append("n", "0")] == [1, 6, 5, 2]
        assert client.mset({"b": 1, "c": 2}) and client.mget("b", "none", "c") == ["1", None, "2"]
        assert client.rpush("l", 1, 2, 3) == 3 and client.lpush("l", 0) == 4
        assert client.lrange("l", 0, -1) == ["0", "1", "2", "3"] and client.lrange("l", -2, -1) == ["2", "3"]
        assert (client.lpop("l"), client.rpop("l"), client.llen("l"), client.lrem("l", 0, "2")) == ("0", "3", 2, 1)
        assert client.lmove("l", "m", "LEFT", "RIGHT") == "1" and list(client.brpop("m")) == ["m", "1"]
        assert not client.exists("l", "m") and client.blpop("l", timeout=0.01) is None
        assert client.hset("h", mapping={"a": 1, "b": 2}) == 2 and client.hgetall("h") == {"a": "1", "b": "2"}
        assert client.hincrby("h", "a", 4) == 5 and client.hdel("h", "a", "x") == 1 and client.hmget("h", "b") == ["2"]
        assert client.sadd("s", 1, 2) == 2 and client.smembers("s") == {"1", "2"} and client.srem("s", 1, 3) == 1
        assert sorted(client.keys("[a-c]")) == ["a", "b", "c"] and list(client.scan_iter("h")) == ["h"]
        assert client.pipeline().incr("x").incr("x").execute() == [1, 2] and client.type("x") == "string"
        assert client.pipeline(transaction=False).blpop("none", timeout=0.01).get("x").execute() == [None, "2"]
        with client.lock("k", timeout=5) as lock:
            assert lock.extend(5) and lock.reacquire() and lock.owned()
        subscriber = client.pubsub()
        subscriber.subscribe("news")
        assert subscriber.get_message(timeout=1)["type"] == "subscribe"
        assert client.publish("news", "hello") == 1 and subscriber.get_message(timeout=1)["data"] == "hello"
        subscriber.close()
        server.register("return 1 + 1", lambda call, keys, arguments: int(call("INCRBY", keys[0], arguments[0])))
        assert client.eval("return 1  + 1", 1, "y", 7) == 7 and client.register_script("return 1 + 1")(["y"], [1]) == 8
        for wrong, text in [
            (lambda: client.incr("h"), "wrong kind"), (lambda: client.incr("s2", "x"), "not an integer"),
            (lambda: client.execute_command("GET"), "wrong number"), (lambda: client.execute_command("DEL"), "wrong number"),
            (lambda: client.xadd("q", {"a": 1}), "does not have it"), (lambda: client.eval("return 2", 0), "no Lua"),
            (lambda: client.execute_command("SET", "a", "b", "NX", "XX"), "syntax"),
            (lambda: client.execute_command("EXEC"), "without MULTI"),
        ]:  # fmt: skip
            with pytest.raises(redis.ResponseError, match=text):
                wrong()
        assert client.flushdb() and client.dbsize() == 0


@pytest.mark.parametrize("faults", [None, 0, 1])
def test_redis_commands(faults):
    the_redis()
    commands() if faults is None else passes(commands, 5, faults)


def test_redis_a_blocked_client_gets_items_in_order_and_leaves_the_queue_when_it_closes():
    redis = the_redis()

    def test():
        got = {}

        def pop(name, client):
            got[name] = client.blpop("jobs")[1]

        with fake_redis() as server:
            impatient = server.client(socket_timeout=1, retry_on_timeout=False, retry=None)
            with pytest.raises(redis.TimeoutError):
                impatient.blpop("jobs")
            impatient.connection_pool.disconnect()
            time.sleep(1)
            threads = []
            for name in ("first", "second"):
                threads.append(threading.Thread(target=pop, args=(name, server.client(socket_timeout=None))))
                threads[-1].start()
                time.sleep(1)  # until the client waits: the fake delays a command by some milliseconds only
            server.client().rpush("jobs", 1, 2)
            for thread in threads:
                thread.join()
        assert got == {"first": b"1", "second": b"2"}

    passes(test, 10)


def test_redis_bytes_that_are_no_command_are_refused():
    with fake_redis() as server:
        for data, answer in [(b"*1\r\n:1\r\n", b"-ERR Protocol"), (b"*x\r\n", b"-ERR Protocol"), (b"PING\r\n", b"+PONG")]:
            with server.connect() as connection:
                connection.sendall(data)
                assert connection.recv(100).startswith(answer)


# --- HTTP


class Shop:
    """A WSGI application that sells its only item, after it has looked whether there is one."""

    def __init__(self, lock=None):
        self.stock, self.sold = 1, 0
        self.lock = lock or contextlib.nullcontext()

    def __call__(self, environ, start_response):
        with self.lock:
            if self.stock:
                time.sleep(0.001)  # asks a database
                self.stock -= 1
                self.sold += 1
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"done"]


def buy_by_requests(shop):
    servers.needs("the test of the HTTP fake", "requests")
    requests = importlib.import_module("requests")

    def buy():
        with requests.Session() as session:
            session.mount("http://shop.test", fake_http.requests_adapter(shop))
            assert session.post("http://shop.test/buy", data="x", timeout=60).text == "done"

    by_two(buy)


def buy_by_urllib3(shop):
    manager = fake_http.urllib3_pool_manager(shop)
    by_two(lambda: manager.request("GET", "https://shop.test/buy", timeout=60))


def buy_by_name(shop):
    with fake_http.serve(shop, "shop.test"):
        by_two(lambda: urllib.request.urlopen("http://shop.test/buy").read())


BUYING = [buy_by_requests, buy_by_urllib3, buy_by_name]


def selling(buy, locked):
    def test():
        shop = Shop(threading.Lock() if locked else None)
        buy(shop)
        assert shop.sold == 1

    return test


@pytest.mark.parametrize("buy", BUYING)
def test_http_a_check_before_an_act_is_found(buy):
    servers.needs("the test of the HTTP fake", "requests", "urllib3")
    found(selling(buy, locked=False))
    passes(selling(buy, locked=True), 10)


def test_http_flask():
    servers.needs("the test of the HTTP fake with Flask", "flask", "requests")
    import flask
    import requests

    def test():
        app = flask.Flask(__name__)
        tickets = [1]

        @app.post("/take")
        def take():
            free = bool(tickets)
            time.sleep(0.001)
            return {"ticket": tickets.pop()} if free else ({}, 409)

        with fake_http.serve(app, "tickets.test"):
            codes = []
            by_two(lambda: codes.append(requests.post("http://tickets.test/take", json={}, timeout=60).status_code))
        assert sorted(codes) == [200, 409]

    found(test)


def test_http_requests_and_responses(capsys):
    servers.needs("the test of the HTTP fake", "urllib3")

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/broken":
            raise ValueError("broken")
        size = int(environ["CONTENT_LENGTH"] or 0)
        body = environ["wsgi.input"].read(size) + environ["wsgi.url_scheme"].encode()
        start_response("201 Created", [("Content-Length", str(len(body))), ("X-Query", environ["QUERY_STRING"])])
        return [body]

    manager = fake_http.urllib3_pool_manager(app)
    answer = manager.request("POST", "https://any.test/x?a=b", body=b"body ")
    assert (answer.status, answer.data, answer.headers["X-Query"]) == (201, b"body https", "a=b")
    assert manager.request("HEAD", "http://any.test/").data == b""
    with fake_http.serve(app) as server, contextlib.closing(urllib.request.urlopen(server.url)) as answer:
        assert answer.read() == b"http"
    assert manager.request("POST", "http://any.test/", body=iter([b"a", b"b"]), retries=False).status == 411
    assert manager.request("GET", "http://any.test/broken", retries=False).status == 500
    assert "ValueError: broken" in capsys.readouterr().err
    with fake_http.serve(app) as server, socket.create_connection(server.listen()) as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        assert b"400" in connection.recv(1000)


# --- PostgreSQL

SCHEMA = "CREATE TABLE account (id int PRIMARY KEY, balance int, name text); INSERT INTO account VALUES (1, 100, 'a;b')"


def drivers():
    servers.needs("the test of the PostgreSQL fake", "pg8000", "psycopg", "psycopg2")
    import pg8000.dbapi
    import psycopg
    import psycopg2

    return {
        "pg8000": lambda server: pg8000.dbapi.connect("me", host=server.host, port=server.port, ssl_context=False),
        "psycopg": lambda server: psycopg.connect(server.dsn),
        "psycopg2": lambda server: psycopg2.connect(server.dsn),
    }


def depositing(connect, for_update):
    def test():
        def deposit():
            with contextlib.closing(connect(server)) as connection:
                cursor = connection.cursor()
                cursor.execute(f"SELECT balance FROM account WHERE id = %s{for_update}", (1,))
                (balance,) = cursor.fetchone()
                cursor.execute("UPDATE account SET balance = %s WHERE id = %s", (balance + 10, 1))
                connection.commit()

        with fake_postgresql(SCHEMA) as server:
            by_two(deposit)
            assert server.execute("SELECT balance FROM account") == [(120,)]

    return test


@pytest.mark.parametrize("driver", ["pg8000", "psycopg", "psycopg2"])
def test_postgresql_a_lost_update_is_found(driver):
    connect = drivers()[driver]
    found(depositing(connect, ""))
    passes(depositing(connect, " FOR UPDATE"), 10)


@pytest.mark.parametrize("driver", ["pg8000", "psycopg", "psycopg2"])
@pytest.mark.parametrize("faults", [None, 0, 1])
def test_postgresql_statements(driver, faults):
    connect = drivers()[driver]

    def test():
        with fake_postgresql(SCHEMA) as server, contextlib.closing(connect(server)) as connection:
            cursor = connection.cursor()

            def rows(sql, *values):
                cursor.execute(sql, values)
                return [tuple(row) for row in cursor.fetchall()]

            assert rows("SELECT id, balance, name, 1.5, NULL FROM account") == [(1, 100, "a;b", 1.5, None)]
            for wrong, code in [("INSERT INTO account VALUES (1)", "42601|XX000"), ("SELECT x FROM account", "42703"),
                                ("SELECT * FROM nowhere", "42P01"), ("INSERT INTO account VALUES (1, 2, 'x')", "23505")]:  # fmt: skip
                with pytest.raises(Exception) as error:
                    cursor.execute(wrong)
                state = getattr(error.value, "sqlstate", None) or getattr(error.value, "pgcode", None) or str(error.value)
                assert re.search(code, state)
                with pytest.raises(Exception):  # the transaction has failed
                    cursor.execute("SELECT 1")
                connection.rollback()
            assert rows("INSERT INTO account VALUES (%s, %s, %s) RETURNING id", 2, None, "007") == [(2,)]
            assert rows("SELECT name, balance FROM account WHERE id = %s", 2) == [("007", None)]
            connection.rollback()
            assert rows("SELECT count(*) FROM account") == [(1,)]
            cursor.execute("UPDATE account SET balance = balance + %s", (1,))
            assert cursor.rowcount == 1
            cursor.execute("SAVEPOINT here")
            cursor.execute("DELETE FROM account")
            cursor.execute("ROLLBACK TO SAVEPOINT here")
            connection.commit()
            assert rows("SELECT balance FROM account WHERE id = %s::int", 1) == [(101,)]

    test() if faults is None else passes(test, 3, faults)


def test_postgresql_transactions_of_psycopg_and_prepared_statements():
    drivers()
    import pg8000.native
    import psycopg

    def test():
        with fake_postgresql(SCHEMA) as server:
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                for number in range(8):  # prepared after the fifth
                    assert connection.execute("SELECT %s + 1", (number,)).fetchone() == (number + 1,)
                assert connection.execute("SELECT balance FROM account", binary=True).fetchone() == (100,)
                assert connection.execute("SELECT %b", (b"\0x",)).fetchone() == (b"\0x",)
                with connection.transaction():
                    with pytest.raises(ZeroDivisionError), connection.transaction():
                        connection.execute("UPDATE account SET balance = 5")
                        raise ZeroDivisionError
                    assert connection.execute("SELECT balance FROM account").fetchone() == (100,)
                    connection.execute("UPDATE account SET balance = 6")
                connection.execute("SELECT pg_sleep(0.01)")
            with contextlib.closing(
                pg8000.native.Connection("me", host=server.host, port=server.port, ssl_context=False)
            ) as connection:
                statement = connection.prepare("SELECT balance FROM account WHERE id = :id")
                assert [statement.run(id=1), statement.run(id=2), statement.run(id=1)] == [[[6]], [], [[6]]]

    test()
    passes(test, 3)


def test_postgresql_the_statements_with_which_sqlalchemy_begins():
    with fake_postgresql() as server:
        assert server.execute("select pg_catalog.version()")[0][0].startswith("PostgreSQL 16.0")
        assert server.execute("select current_schema()") == [("public",)]
        assert server.execute("show standard_conforming_strings") == [("on",)]
        assert server.execute("SELECT t.oid, typarray FROM pg_type t JOIN pg_namespace ns ON typnamespace = ns.oid"
                              " WHERE typname = 'hstore'") == []  # fmt: skip
        assert server.execute("SELECT oid::regtype::text AS regtype FROM pg_type t WHERE t.oid = to_regtype('x')") == []


def test_postgresql_a_handler_gets_the_statements():
    drivers()
    import psycopg

    def answer(sql, parameters):
        if sql == "bad":
            raise Error("42601", "a bad statement")
        time.sleep(0.001)
        return (["sql", "parameter"], [(sql, *parameters)]) if sql.startswith("SELECT") else None

    def test():
        with fake_postgresql(handler=answer) as server, psycopg.connect(server.dsn) as connection:
            assert connection.execute("SELECT %s", (3,)).fetchall() == [("SELECT $1", 3)]
            assert connection.execute("VACUUM").statusmessage == "VACUUM"
            with pytest.raises(psycopg.errors.SyntaxError, match="a bad statement"):
                connection.execute("bad")
            with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                connection.execute("SELECT 1")

    test()
    passes(test, 3)


def test_postgresql_bytes_that_are_no_message_end_the_connection():
    with fake_postgresql() as server:
        for data in (b"GET / HTTP/1.1\r\n\r\n", bytes(8), b"\0\0\0\x08\0\x03\0\0Q\0\0\0\0"):
            with server.connect() as connection:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1000):
                    pass


# --- All of them


def test_bad_input():
    with pytest.raises(TypeError, match="callable"):
        fake_http.serve(3)
    with pytest.raises(ValueError, match="HOST"):
        fake_redis("host:x")
    with fake_redis("one.test") as server:
        with pytest.raises(ValueError, match=r"one\.test:6379"):
            fake_redis("ONE.test:6379")
        server.connect().close()
    with pytest.raises(RuntimeError, match="closed"):
        server.connect()
    with pytest.raises(Error, match="42P01"):
        fake_postgresql("SELECT * FROM nowhere")
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("one.test", 6379)


def test_a_fake_that_was_started_outside_the_run_says_so():
    with fake_http.serve(Shop(), "shop.test") as server:

        def test():
            with pytest.raises(RuntimeError, match="outside this run"):
                server.listen()

        passes(test, 1)


def test_a_thread_is_simulated_after_an_offloaded_call():
    def test():
        assert fiberrt.offload(len, "abc") == 3
        by_two(lambda: None)

    passes(test, 2)


def test_small_pieces_on_a_tcp_connection_are_not_delayed():
    """By Nagle's algorithm, the kernel would keep back the second byte until the first is acknowledged."""

    def test():
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = socket.create_connection(listener.getsockname())
            server, _ = listener.accept()

            def echo():
                with server:
                    while server.recv(1, socket.MSG_WAITALL) and server.recv(1, socket.MSG_WAITALL):
                        server.sendall(b"x")

            thread = threading.Thread(target=echo)
            thread.start()
            with client:
                for _ in range(50):
                    client.sendall(b"a")
                    client.sendall(b"b")
                    assert client.recv(1) == b"x"
            thread.join()

    passes(test, 3)


# --- The page


def examples():
    text = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    return re.findall(r"(?ms)^```python\n(.*?)^```$", text)


@pytest.mark.parametrize("number", range(len(examples())))
def test_the_examples_of_the_page(number, tmp_path):
    """A function of an example whose name ends in _races fails; the others pass."""
    path = tmp_path / f"example_{number}.py"
    path.write_text(examples()[number], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tests = {name: value for name, value in vars(module).items() if name.startswith("test_")}
    assert tests
    for name, test in tests.items():
        with pytest.raises(SimulationFailed) if name.endswith("_races") else contextlib.nullcontext():
            test()
