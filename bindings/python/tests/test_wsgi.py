# SPDX-License-Identifier: MIT OR Apache-2.0
"""The web server for WSGI applications."""

import logging
import os
import signal
import subprocess
import sys
from wsgiref.validate import validator

import pytest
import servers
import web

import fiberrt
from fiberrt import socket

servers.needs("the tests of the WSGI server", "h11")
from fiberrt.wsgi import WSGIServer  # noqa: E402 - needs h11


def answering(environ, start_response):
    """Answers with what the path asks for."""
    path = environ["PATH_INFO"]
    plain = [("Content-Type", "text/plain")]
    if path == "/upload":
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 1 << 30))
        start_response("200 OK", plain)
        return [body]
    if path == "/lines":
        start_response("200 OK", plain)
        return [b"%d," % len(line) for line in iter(environ["wsgi.input"].readline, b"")]
    if path == "/write":
        write = start_response("200 OK", plain)
        write(b"by ")
        write(b"write")
        return []
    if path == "/stream":
        start_response("200 OK", plain)
        return (b"%d\n" % i for i in range(5))
    if path == "/empty":
        start_response("204 No Content", [])
        return []
    if path == "/fail":
        raise KeyError("of the application")
    if path == "/late":
        start_response("200 OK", plain)
        return failing()
    if path == "/much":
        start_response("200 OK", plain)
        much.append(path)
        return [b"x" * 50_000_000]
    if path == "/refused":
        raise ConnectionRefusedError("of the application's database")
    if path == "/exit":
        sys.exit(5)
    if path == "/split":
        start_response("302 to\r\nSet-Cookie: x", plain)
        return [b"x"]
    if path == "/cookies":
        start_response("200 OK", plain)
        return [environ["HTTP_COOKIE"].encode()]
    if path == "/silent":
        return [b"x"]
    start_response("200 OK", plain)
    return [f"{environ['REQUEST_METHOD']} {path} {environ['QUERY_STRING']} {environ.get('HTTP_X_NAME')}".encode("latin-1")]


much = []


def failing():
    yield b"begun"
    raise KeyError("of the application")


@pytest.fixture
def server():
    with WSGIServer(("127.0.0.1", 0), answering) as server:
        yield server
        server.stop(0)


class Client:
    def __init__(self, server):
        self.sock = socket.create_connection(server if isinstance(server, tuple) else server.address)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.sock.close()

    def send(self, text):
        self.sock.sendall(text)

    def until(self, end):
        while end not in self.buffer:
            data = self.sock.recv(4096)
            if not data:
                raise EOFError(self.buffer)
            self.buffer += data
        found, _, self.buffer = self.buffer.partition(end)
        return found

    def rest(self):
        while data := self.sock.recv(4096):
            self.buffer += data
        return self.buffer

    def response(self, head=False):
        """Returns the status, the headers and the body of the next response."""
        status, *lines = self.until(b"\r\n\r\n").decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = b""
        if head or status.split()[1] in ("100", "204"):
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while size := int(self.until(b"\r\n"), 16):
                body += self.exactly(size + 2)[:-2]
            self.exactly(2)
        elif "content-length" in headers:
            body = self.exactly(int(headers["content-length"]))
        else:
            body = self.rest()
        return int(status.split()[1]), headers, body

    def exactly(self, size):
        while len(self.buffer) < size:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError(self.buffer)
            self.buffer += data
        found, self.buffer = self.buffer[:size], self.buffer[size:]
        return found

    def get(self, path, method="GET", headers="", body=b""):
        self.send(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode() + body)
        return self.response(method == "HEAD")


def test_requests_on_one_connection(server):
    with Client(server) as client:
        status, headers, body = client.get("/a%20b?c=d", headers="X-Name: one\r\nX-Name: two\r\nX_Name: evil\r\n")
        assert (status, body) == (200, b"GET /a b c=d one,two") and headers["content-length"] == str(len(body))
        assert client.get("/", "HEAD")[2] == b""
        assert client.get("/stream")[2] == b"0\n1\n2\n3\n4\n"
        assert client.get("/write")[2] == b"by write"
        assert client.get("/empty")[0] == 204
        assert client.get("/upload", "POST", "Content-Length: 5\r\n", b"12345")[2] == b"12345"
        chunked = b"3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n"
        assert client.get("/upload", "POST", "Transfer-Encoding: chunked\r\n", chunked)[2] == b"abc0123456789abcdef"
        assert client.get("/lines", "POST", "Content-Length: 9\r\n", b"a\nbb\n\nlas")[2] == b"2,3,1,3,"
        # The application leaves the body: the next request is found all the same.
        assert client.get("/", "POST", "Content-Length: 5\r\n", b"12345")[0] == 200
        client.send(b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert [client.response()[2][:6] for _ in range(2)] == [b"GET /1", b"GET /2"]
        client.send(b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert client.response()[1]["connection"] == "close" and client.rest() == b""
    with Client(server) as client:
        client.send(b"GET /stream HTTP/1.0\r\n\r\n")
        assert client.rest().endswith(b"\r\n\r\n0\n1\n2\n3\n4\n")


def test_a_megabyte(server):
    body = os.urandom(1 << 20)
    with Client(server) as client:
        sending = fiberrt.spawn(
            client.send, b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        assert client.response()[2] == body
        sending.join()


def test_the_interface_is_valid():
    def application(environ, start_response):
        environ["wsgi.input"].read(3)
        environ["wsgi.input"].readline()
        environ["wsgi.input"].readlines()
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"valid"]

    with WSGIServer(("127.0.0.1", 0), validator(application)) as server:
        with Client(server) as client:
            assert client.get("/?a=b", "POST", "Content-Length: 8\r\n", b"abcde\nfg")[2] == b"valid"
        server.stop(0)


def test_expectations(server):
    with Client(server) as client:
        client.send(b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert client.response()[0] == 100
        client.send(b"ok")
        assert client.response()[2] == b"ok"
        # An application that does not read the body: the client must not send it, and the connection is closed.
        assert client.get("/", "POST", "Content-Length: 2\r\nExpect: 100-continue\r\n")[0] == 200
        assert client.rest() == b""


@pytest.mark.parametrize(
    "request_, status",
    [
        (b"nonsense\r\n\r\n", 400), (b"GET / HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 100_000, 431),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400), (b"GET x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ],
)  # fmt: skip
def test_bad_requests(server, request_, status):
    with Client(server) as client:
        client.send(request_)
        assert client.response()[0] == status
        assert client.rest() == b""
    with Client(server) as client:
        assert client.get("/")[0] == 200


def test_errors_of_the_application(server, caplog):
    for path in "/fail", "/silent", "/refused", "/exit", "/split":
        with Client(server) as client:
            assert client.get(path)[0] == 500
            assert client.rest() == b""
    with Client(server) as client:
        client.send(b"GET /late HTTP/1.1\r\nHost: x\r\n\r\n")
        with pytest.raises(EOFError):  # without the last chunk, the client knows
            client.response()
    assert [record.exc_info[0] for record in caplog.records] == [
        KeyError, RuntimeError, ConnectionRefusedError, SystemExit, ValueError, KeyError,
    ]  # fmt: skip


def test_a_body_longer_than_its_length(caplog):
    def application(environ, start_response):
        start_response("200 OK", [("Content-Length", "2")])
        return [b"three"]

    with WSGIServer(("127.0.0.1", 0), application) as server:
        with Client(server) as client:
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.rest().startswith(b"HTTP/1.1 200 OK\r\n")
        server.stop(0)
    assert "Too much data" in caplog.text


def test_targets(server):
    with Client(server) as client:
        for target, path in ("/a/http://b/c", "/a/http://b/c"), ("http://x/d?e", "/d e"), ("*", "*"):
            method = "OPTIONS" if target == "*" else "GET"
            assert client.get(target, method)[2].startswith(f"{method} {path}".encode())


def test_several_headers_with_cookies(server):
    with Client(server) as client:
        client.send(b"GET /cookies HTTP/1.1\r\nHost: x\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n")
        assert client.response()[2] == b"a=1; b=2"


def test_an_answer_to_a_client_that_still_sends(server):
    with Client(server) as client:
        body = b"x" * 300_000
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n" + body)
        assert client.response()[0] == 200


def test_a_client_that_leaves(server):
    for text in b"", b"GET / HT", b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12":
        with Client(server) as client:
            client.send(text)
    with Client(server) as client:
        assert client.get("/")[0] == 200


def test_slow_clients():
    with WSGIServer(("127.0.0.1", 0), answering, keep_alive=0.01) as server, Client(server) as idle:
        assert idle.rest() == b""
    with WSGIServer(("127.0.0.1", 0), answering, timeout=0.01, keep_alive=None) as server:
        with Client(server) as slow_head, Client(server) as slow_body:
            slow_head.send(b"GET / HTTP")
            slow_body.send(b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1")
            assert slow_head.rest() == slow_body.rest() == b""
        with Client(server) as unwilling:  # it does not read the answer
            unwilling.send(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
            while not much:
                fiberrt.sleep(0.001)
            while server.connections:
                fiberrt.sleep(0.001)


def test_stop_lets_requests_end():
    begun, go_on = fiberrt.Event(), fiberrt.Event()

    def slow(environ, start_response):
        if environ["PATH_INFO"] == "/slow":
            begun.set()
            go_on.wait()
        start_response("200 OK", [])
        return [b"done"]

    server = WSGIServer(("127.0.0.1", 0), slow, keep_alive=None)
    server.start()
    with Client(server) as idle, Client(server) as busy, Client(server) as fresh:
        assert idle.get("/")[0] == 200
        while server.connections < 3:
            fiberrt.sleep(0.001)
        busy.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        begun.wait()
        stopping = fiberrt.spawn(server.stop)
        assert idle.rest() == b""
        assert fresh.get("/")[1]["connection"] == "close"  # it has been accepted, so it has its first request
        go_on.set()
        status, headers, body = busy.response()
        assert (status, headers["connection"], body) == (200, "close", b"done")
        assert stopping.result() == 0


def test_access_log(server, caplog):
    with caplog.at_level(logging.INFO, "fiberrt.wsgi.access"), Client(server) as client:
        client.get("/stream?a=b")
    assert '127.0.0.1 "GET /stream?a=b HTTP/1.1" 200 10 ' in caplog.text


def test_misuse():
    with pytest.raises(TypeError):
        WSGIServer(("127.0.0.1", 0), None)


SLOW = """
import os, threading, time

both = threading.Barrier(20)

def app(environ, start_response):
    answer = environ["PATH_INFO"].encode()
    if answer == b"/together":
        both.wait(60)
    elif answer == b"/slow":
        open("begun", "w").close()
        time.sleep(0.3)
    elif answer == b"/forever":
        open("begun", "w").close()
        threading.Event().wait()
    elif answer == b"/process":
        answer = b"%d" % os.getpid()
    start_response("200 OK", [])
    return [answer]
"""


def test_the_command(tmp_path):
    with web.OurServer(tmp_path, SLOW, "--access-log") as server:
        assert list(fiberrt.map(server.get, ["/together"] * 20)) == [(200, b"/together")] * 20
        slow = fiberrt.spawn(server.get, "/slow")
        while not (tmp_path / "begun").exists():
            fiberrt.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        assert slow.result() == (200, b"/slow")
        assert server.process.wait() == 0 and '"GET /slow HTTP/1.1" 200' in server.log.read_text()


def test_a_reload_that_fails_leaves_the_old_application(tmp_path):
    with web.OurServer(tmp_path, SLOW) as server:
        first = server.get("/process")
        os.kill(int(first[1]), signal.SIGHUP)  # as a terminal that hangs up does
        (tmp_path / "application.py").write_text("raise LookupError('on purpose')\n")
        server.process.send_signal(signal.SIGHUP)
        server.await_line(f"has not started: exit status 1; {first[1].decode()} goes on")
        assert "LookupError: on purpose" in server.log.read_text() and server.get("/process") == first
        (tmp_path / "application.py").write_text(SLOW.replace("%d", "new %d"))
        server.process.send_signal(signal.SIGHUP)
        while not server.get("/process")[1].startswith(b"new "):  # for a moment, both processes serve
            pass


def test_a_second_signal_ends_the_command_at_once(tmp_path):
    with web.OurServer(tmp_path, SLOW, "--graceful", "600") as server:
        with socket.create_connection(server.address) as client:
            client.sendall(b"GET /forever HTTP/1.1\r\nHost: x\r\n\r\n")
            while not (tmp_path / "begun").exists():
                fiberrt.sleep(0.01)
            server.process.terminate()
            with pytest.raises(ConnectionError):  # refused, or reset if the listener closes meanwhile
                while True:
                    socket.create_connection(server.address).close()
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait() == 0


class IgnoringServer(web.OurServer):
    COMMAND = ["ignoring", *web.OurServer.COMMAND[1:]]


def test_the_command_with_ignored_ends_of_children(tmp_path):
    (tmp_path / "ignoring.py").write_text("""
import signal
from fiberrt.wsgi import main
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
main()
""")
    with IgnoringServer(tmp_path, SLOW) as server:
        first = server.get("/process")[1]
        os.kill(int(first), signal.SIGKILL)
        server.await_line(f"process {first.decode()} is replaced")
        server.await_line("serving", 2)
        assert server.get("/process")[1] != first
        server.process.terminate()
        assert server.process.wait() == 0


def test_a_serving_process_that_dies_while_another_starts(program):
    # The one that starts takes its place: no third is wanted.
    done = program("""
        import socket
        from fiberrt._supervisor import _Supervisor
        it = _Supervisor(None, socket.socket())
        it._wanted, it._has_served, it._starting, it._serving = False, True, 1, 2
        it._ended(2, -9)
        print(it._wanted)
        it._starting, it._serving = 0, 3
        it._ended(3, -9)
        print(it._wanted)
    """)
    assert done.out.splitlines() == ["False", "True"], done.err


def test_processes_of_the_command_end_together(tmp_path):
    path = tmp_path / "socket"
    (tmp_path / "application.py").write_text(SLOW)
    command = [sys.executable, "-m", "fiberrt.wsgi", "--bind", path]
    with subprocess.Popen([*command, "application:nothing"], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert "AttributeError" in process.stderr.read()  # which ends when the last process does
    assert process.returncode == 1 and not path.exists()
    with subprocess.Popen([*command, "application:app"], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert "serving application:app at " in process.stderr.readline() and path.exists()
        process.send_signal(signal.SIGINT)
        process.stderr.read()
    assert process.returncode == 0 and not path.exists()
    with subprocess.Popen([*command, "application:app"], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        process.stderr.readline()
        process.kill()  # the server ends without its supervisor
        process.stderr.read()
