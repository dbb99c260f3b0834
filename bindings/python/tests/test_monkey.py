# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that know nothing of fibers, with fiberrt.monkey and by python -m fiberrt; and what they get of select."""

import os
import select
import socket
import subprocess
import sys

import pytest

import fiberrt
import fiberrt.monkey
from fiberrt import _select as own_select

PATIENCE = 60


def test_requests_overlap(lines):
    # A server that answers only when all of its clients have asked: one that blocked its thread would hang.
    assert lines("""
        import fiberrt.monkey
        fiberrt.monkey.patch()
        import http.server, urllib.request, threading, time, fiberrt
        count = 100
        asked = 0
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                global asked
                asked += 1
                while asked < count: time.sleep(0.001)
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")
            def log_message(self, *args): pass
        class Server(http.server.HTTPServer):
            request_queue_size = 128
            def process_request(self, request, address):
                fiberrt.spawn(self.handle_one, request, address)
            def handle_one(self, request, address):
                self.finish_request(request, address)
                self.shutdown_request(request)
        server = Server(("127.0.0.1", 0), Handler)
        serving = fiberrt.spawn(server.serve_forever)
        url = f"http://127.0.0.1:{server.server_port}/"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        def fetch():
            with opener.open(url) as answer: return answer.read()
        with fiberrt.fail_after(60):
            pages = [fiber.result() for fiber in [fiberrt.spawn(fetch) for i in range(count)]]
        print(pages == [b"ok"] * count)
        serving.cancel()
        serving.join()
        server.server_close()
    """) == ["True"]


def test_what_is_replaced(lines):
    assert lines("""
        import select, selectors, socket, ssl, subprocess, time
        import fiberrt.monkey as monkey, fiberrt
        monkey.patch("time")
        print(monkey.is_patched("time"), monkey.is_patched("socket"), time.sleep is fiberrt.sleep)
        monkey.patch(); monkey.patch()
        print(socket.socket is fiberrt.socket.socket, subprocess.Popen is fiberrt.subprocess.Popen)
        print(socket.getaddrinfo("localhost", 80)[0][4][1], socket.gethostbyname("localhost"))
        print(subprocess.check_output(["echo", "x"]), selectors.DefaultSelector is fiberrt.selectors.EpollSelector)
        context = ssl.create_default_context()
        context.options |= 0
        a, b = socket.socketpair()
        with context.wrap_socket(a, server_hostname="x", do_handshake_on_connect=False) as sock:
            print(type(sock) is fiberrt.ssl.SSLSocket, isinstance(sock, ssl.SSLSocket))
        fiber = fiberrt.spawn(b.recv, 1)
        try:
            monkey.patch("nothing")
        except ValueError as error:
            print(error)
    """) == [
        "True False True", "True True", "80 127.0.0.1", "b'x\\n' True", "True True",
        "'nothing' is none of queue, select, selectors, signal, socket, ssl, subprocess, threading, time",
    ]  # fmt: skip


def test_a_script_and_a_module(tmp_path):
    script = tmp_path / "script.py"
    (tmp_path / "beside.py").write_text("value = 5\nif __name__ == '__main__':\n    import sys; print(sys.argv[1:])\n")
    script.write_text(
        "import sys, time, socket, fiberrt, beside\n"
        "print(__name__, __file__ == sys.argv[0], sys.argv[1:], beside.value)\n"
        "print(time.sleep is fiberrt.sleep, issubclass(socket.socket, fiberrt.socket.socket))\n"
        "sys.exit(3)\n"
    )

    def run(*args):
        return subprocess.run(
            [sys.executable, "-m", "fiberrt", *args], capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path
        )

    done = run(str(script), "a", "-b")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines() == ["__main__ True ['a', '-b'] 5", "True True"]
    done = run("-m", "beside", "x")
    assert (done.returncode, done.stdout) == (0, "['x']\n"), done.stderr
    for wrong in ((), ("-m",), ("-x",), ("nothing.py",)):
        done = run(*wrong)
        assert done.returncode == 2 and done.stderr and "Traceback" not in done.stderr


@pytest.fixture
def pair():
    a, b = socket.socketpair()
    with a, b:
        yield a, b


def test_select(pair):
    a, b = pair
    assert own_select.select([a], [], [], 0) == ([], [], [])
    assert own_select.select([a], [b], []) == ([], [b], [])
    assert own_select.select([a], [], [], 0.01) == ([], [], [])
    fiber = fiberrt.spawn(own_select.select, iter([a.fileno()]), [], [a])
    fiberrt.yield_()
    assert not fiber.done
    b.send(b"x")
    assert fiber.result(PATIENCE) == ([a.fileno()], [], [])
    with pytest.raises(ValueError):
        own_select.select([a], [], [], -1)
    with pytest.raises((TypeError, ValueError)):
        own_select.select(["x"], [], [])
    with pytest.raises(TypeError):
        own_select.select([], [], [], "x")
    with fiberrt.move_on_after(0.01) as scope:
        own_select.select([], [], [])
    assert scope.expired


def test_poll(pair):
    a, b = pair
    poll = own_select.poll()
    poll.register(a, select.POLLIN)
    assert poll.poll(0) == [] and poll.poll(5) == []
    fiber = fiberrt.spawn(poll.poll, -1)
    fiberrt.yield_()
    b.send(b"x")
    assert fiber.result(PATIENCE) == [(a.fileno(), select.POLLIN)]
    poll.modify(a, select.POLLOUT)
    assert poll.poll() == [(a.fileno(), select.POLLOUT)]
    poll.unregister(a)
    with pytest.raises(KeyError):
        poll.unregister(a)
    with pytest.raises(OSError):
        poll.modify(a, select.POLLIN)
    with pytest.raises(TypeError):
        poll.register("x")
    r, w = os.pipe()
    os.close(w)
    poll.register(r, 0)  # a hang-up is told though nobody asks for it
    assert poll.poll() == [(r, select.POLLHUP)]
    os.close(r)
