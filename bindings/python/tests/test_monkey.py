# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs not written for fibers, with fiberrt.monkey and by python -m fiberrt; and their select."""

import copy
import os
import pickle
import py_compile
import select
import socket
import subprocess
import sys
import zipapp

import pytest

import fiberrt
import fiberrt.monkey
from fiberrt import _select as own_select

PATIENCE = 60


def test_requests_overlap(lines):
    # A server that answers only after all clients have asked: a client that blocked its thread would hang.
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


def test_replaced_functions(lines):
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
        "'nothing' is none of fcntl, io, os, queue, select, selectors, signal, socket, ssl, subprocess, threading, time",
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
    fiberrt.reschedule()
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
    fiberrt.reschedule()
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
    poll.register(r, 0)  # a hang-up is reported without being requested
    assert poll.poll() == [(r, select.POLLHUP)]
    os.close(r)


SELECTS = pytest.mark.parametrize("module", [select, own_select], ids=["stdlib", "fiberrt"])
OVER = 1 << 31  # more milliseconds than poll() takes


@SELECTS
@pytest.mark.parametrize("ready", [True, False])
def test_select_of_a_list_that_fileno_changes(module, pair, ready):
    a, b = pair

    class File:
        calls = 0

        def __init__(self, change):
            self.change = change

        def fileno(self):
            File.calls += 1
            self.change()
            return a.fileno()

    if not ready:
        a.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                a.send(bytes(65536))
    files = []
    files[:] = [File(files.pop) for _ in range(10)]
    first = list(files)
    found = module.select([], files, [], 0 if ready else 0.01)
    assert found == ([], first[:5] if ready else [], [])
    assert File.calls == 5 and files == first[:5]
    files[:] = [File(lambda: files.append(a))]
    assert module.select([], files, [], 0.01) == ([], list(files) if ready else [], [])
    files[:] = [File(lambda: files.append(files[0]))]
    with pytest.raises(ValueError, match="too many file descriptors"):
        module.select([], files, [], 0)


@SELECTS
def test_timeouts_that_select_and_poll_refuse(module, pair):
    # Also if something is ready, and together with other invalid arguments.
    poll = module.poll()
    epoll = module.epoll()
    for each in poll, epoll:
        each.register(pair[0], select.POLLOUT)
    for timeout, error, message in [
        (OVER, OverflowError, "timeout is too large"),
        (float(OVER), OverflowError, "timeout is too large"),
        (-OVER - 1, OverflowError, "timeout is too large"),
        (1 << 64, OverflowError, "."),
        (float("inf"), OverflowError, "."),
        (float("nan"), ValueError, "Invalid value NaN"),
        ("x", TypeError, "timeout must be an integer or None"),
        (1j, TypeError, "timeout must be an integer or None"),
    ]:
        with pytest.raises(error, match=message):
            poll.poll(timeout)
        with pytest.raises(error, match=message):
            epoll.poll(timeout / 1000 if type(timeout) is float else timeout)
        if abs(timeout) > OVER + 1 if isinstance(timeout, (int, float)) else True:
            with pytest.raises(error, match=message.replace("an integer", "a float")):
                module.select([], pair, [None], timeout)
    for timeout in -1, -1e-100, 0.0, 1, OVER - 1, None:
        assert poll.poll(timeout) == epoll.poll(timeout and timeout / 1000) == [(pair[0].fileno(), select.POLLOUT)]
    for timeout in -1, -1e-100:
        with pytest.raises(ValueError, match="non-negative"):
            module.select([], pair, [], timeout)
    epoll.close()


@SELECTS
def test_a_regular_file_is_never_exceptional(module, tmp_path):
    with open(tmp_path / "file", "w") as file:
        assert module.select([], [], [file], 0.01) == ([], [], [])
        assert module.select([file], [file], [file]) == ([file], [file], [])
        poll = module.poll()
        poll.register(file, select.POLLPRI)
        assert poll.poll(10) == []
        poll.modify(file, select.POLLIN)
        assert poll.poll() == [(file.fileno(), select.POLLIN)]


def test_the_second_poll_of_an_object_is_refused(pair):
    poll = own_select.poll()
    poll.register(pair[0], select.POLLIN)
    fiber = fiberrt.spawn(poll.poll)
    fiberrt.reschedule()
    poll.register(pair[1], select.POLLOUT)
    with pytest.raises(OverflowError):
        poll.poll(OVER)
    with pytest.raises(RuntimeError, match="concurrent"):
        poll.poll(0)
    pair[1].send(b"x")
    assert sorted(fiber.result(PATIENCE)) == sorted([(pair[0].fileno(), 1), (pair[1].fileno(), 4)])
    assert len(poll.poll(0)) == 2
    poll.unregister(pair[1])
    pair[0].recv(1)
    cancelled = fiberrt.spawn(poll.poll)
    fiberrt.reschedule()
    cancelled.cancel()
    cancelled.join()
    assert poll.poll(0) == []


@SELECTS
def test_only_poll_makes_poll_objects(module):
    kind = type(module.poll())
    with pytest.raises(TypeError, match=f"cannot create '{kind.__module__}.{kind.__name__}' instances"):
        kind()
    for make in module.poll, module.epoll:
        for how in copy.copy, copy.deepcopy, pickle.dumps:
            with pytest.raises(TypeError):
                how(make())

    class Selector:  # like the classes of the module selectors
        poll = module.poll

    assert isinstance(Selector().poll(), kind)


def run(*args, **options):
    return subprocess.run(
        [sys.executable, "-m", "fiberrt", *args], capture_output=True, text=True, timeout=PATIENCE, **options
    )


def test_main_is_the_scripts_also_when_that_has_ended(tmp_path):
    source = """
import atexit, pickle, sys, threading, time
def f(): return 1
X = 5
def look(when):
    main = sys.modules["__main__"]
    same = pickle.loads(pickle.dumps(f)) is f and main.X == 5 and vars(main) is globals()
    print(when, same, main.__file__ == __file__, __name__, __package__ or None, sorted(set(vars(main)) & {"main", "runpy", "os"}))
def late():
    threading.main_thread().join()
    time.sleep(0.01)
    look("late")
threading.Thread(target=late).start()
atexit.register(look, "atexit")
look("now")
"""
    told = [f"{when} True True __main__ None []" for when in ("now", "late", "atexit")]
    script = tmp_path / "script.py"
    script.write_text(source)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "__main__.py").write_text(source)
    package = tmp_path / "package"
    package.mkdir()
    (package / "__main__.py").write_text(source.replace("__package__ or None", "None"))
    compiled = py_compile.compile(str(script), str(tmp_path / "compiled.pyc"))
    zipapp.create_archive(folder, tmp_path / "archive.pyz")
    for args in (script,), (folder,), (tmp_path / "archive.pyz",), (compiled,), ("-m", "script"), ("-m", "package"):
        done = run(*map(str, args), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), args
        if args == (compiled,):
            continue  # its __file__ is not in it
        assert done.stdout.splitlines() == told, args


def test_an_exception_of_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("def f(): raise KeyError('x')\nf()\n")
    done = run(str(script))
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == "KeyError: 'x'"
    assert f'File "{script}", line 2, in <module>' in done.stderr
    script.write_text("f(\n")
    done = run(str(script))
    assert done.returncode == 1 and "SyntaxError" in done.stderr
    done = run("-m", "there.is.none")
    assert done.returncode == 1 and "No module named" in done.stderr


SETTINGS = """
import sys
sys.path.insert(0, sys.argv[1])
if sys.argv[2] == "before": import psycopg2.extensions, psycopg.waiting, multiprocessing.connection
import fiberrt.monkey
fiberrt.monkey.patch("select")
import fiberrt._select
print([name for name in ("psycopg2", "psycopg") if name in sys.modules])
fiberrt.monkey.patch()
import psycopg2.extensions, psycopg.waiting, multiprocessing.connection, selectors
print(psycopg2.extensions.callback.__module__, psycopg.waiting.wait, multiprocessing.connection._WaitSelector is selectors.PollSelector)
print(type(psycopg.waiting.__loader__).__name__, psycopg.waiting.__spec__.loader is psycopg.waiting.__loader__)
import importlib
importlib.reload(psycopg.waiting)
print(psycopg.waiting.wait)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_settings_in_other_modules_are_made_and_import_nothing(lines, tmp_path, when):
    for name, module, source in (
        (
            "psycopg2",
            "extensions",
            "callback = None\ndef get_wait_callback(): return callback\n"
            "def set_wait_callback(f):\n    global callback\n    callback = f\n",
        ),
        ("psycopg", "waiting", "wait, wait_poll, wait_selector = 'in C', 'poll', 'selector'\n"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / f"{module}.py").write_text(source)
    assert lines(SETTINGS, str(tmp_path), when) == [
        "['psycopg2', 'psycopg']" if when == "before" else "[]",
        "fiberrt._later poll True", "SourceFileLoader True", "poll",
    ]  # fmt: skip


def test_mocks_are_called_by_the_modules_own_functions(lines):
    assert lines("""
        import fiberrt.monkey
        fiberrt.monkey.patch()
        import socket, subprocess
        from unittest import mock
        with mock.patch("subprocess.Popen", side_effect=LookupError("Popen")):
            for function in (
                subprocess.call, subprocess.check_call, subprocess.check_output, subprocess.getoutput,
                subprocess.getstatusoutput, subprocess.run,
            ):
                try:
                    print(function("false"))
                except LookupError as error:
                    print(error)
        with mock.patch("socket.socket", side_effect=LookupError("socket")):
            for function in (
                lambda: socket.create_connection(("127.0.0.1", 1)), lambda: socket.create_server(("127.0.0.1", 0)),
                lambda: socket.fromfd(0, socket.AF_INET, socket.SOCK_STREAM), socket.socketpair,
            ):
                try:
                    print(function())
                except LookupError as error:
                    print(error)
        with mock.patch("socket.gethostbyaddr", side_effect=LookupError("gethostbyaddr")):
            try:
                print(socket.getfqdn("127.0.0.1"))
            except LookupError as error:
                print(error)
    """) == 6 * ["Popen"] + 4 * ["socket"] + ["gethostbyaddr"]  # fmt: skip


def test_functions_taken_by_name_before_patch_wait_as_fibers_too(lines):
    assert lines("""
        from socket import create_connection, socketpair
        from subprocess import check_output
        import fiberrt.monkey
        fiberrt.monkey.patch()
        import socket
        a, b = socketpair()
        echo = fiberrt.spawn(check_output, ["cat"], stdin=a)
        with socket.create_server(("127.0.0.1", 0)) as server:
            accepting = fiberrt.spawn(server.accept)
            fiberrt.reschedule()
            with create_connection(server.getsockname()) as client:
                print(type(client) is fiberrt.socket.socket, type(a) is fiberrt.socket.socket)
                accepting.result()[0].close()
        b.sendall(b"over"); b.shutdown(socket.SHUT_WR)
        print(echo.result())
    """) == ["True True", "b'over'"]  # fmt: skip


def test_a_queue_module_that_is_imported_once_more(lines):
    assert lines("""
        import fiberrt.monkey
        fiberrt.monkey.patch("queue")
        import queue, sys, threading
        first = queue
        for name in ("_queue", "queue"):
            del sys.modules[name]
        import queue
        items = queue.SimpleQueue()
        def take():
            print(items.get())
            try:
                items.get(timeout=0.001)
            except queue.Empty:
                print("empty")
        taker = threading.Thread(target=take)
        taker.start()
        fiberrt.reschedule()
        items.put("an item")
        taker.join()
        print(queue is not first, queue.Empty is first.Empty, queue.SimpleQueue is first.SimpleQueue)
    """) == ["an item", "empty", "True True True"]  # fmt: skip


@pytest.mark.parametrize("when", ["before patch", "after patch"])
def test_a_file_of_pyio_is_used_by_two_fibers(lines, when):
    begin = ["import _pyio", "import fiberrt.monkey; fiberrt.monkey.patch()"]
    assert lines("\n".join(begin if when == "before patch" else begin[::-1]) + """
class Raw(_pyio.RawIOBase):
    def writable(self): return True
    def write(self, data):
        entered.set()
        leave.wait()
        print(bytes(data))
        return len(data)
entered, leave = fiberrt.Event(), fiberrt.Event()
file = _pyio.BufferedWriter(Raw())
file.write(b"first")
flushing = fiberrt.spawn(file.flush)
entered.wait()
writing = fiberrt.spawn(file.write, b"second")
fiberrt.reschedule()
print(writing.done)
leave.set()
flushing.result(); writing.result(); file.close()
""") == ["False", "b'first'", "b'second'"]  # fmt: skip
