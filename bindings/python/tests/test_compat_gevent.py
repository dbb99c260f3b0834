# SPDX-License-Identifier: MIT OR Apache-2.0
"""fiberrt.compat.gevent: small programs give the same output with gevent; calls that gevent lacks or that differ."""

import contextlib
import errno
import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import servers

import fiberrt
from fiberrt import _fiberrt
from fiberrt.compat import gevent
from fiberrt.compat.gevent import backdoor, event, hub, lock, monkey, pool, queue, server, socket, thread
from fiberrt.compat.gevent._timers import Timer
from fiberrt.compat.gevent.fileobject import FileObject
from fiberrt.compat.gevent.threadpool import ThreadPool

HERE = Path(__file__).parent
PATIENCE_S = 120
NEVER_S = 1000


def test_the_same_output_as_gevent():
    servers.needs_installed("the comparison with gevent", "gevent")
    started = [
        subprocess.Popen([sys.executable, HERE / "gevent_snippets.py", which], stdout=subprocess.PIPE, text=True)
        for which in ("gevent", "own")
    ]
    outputs = [process.communicate(timeout=PATIENCE_S)[0].splitlines() for process in started]
    assert outputs[1] == outputs[0]
    assert len(outputs[0]) > 100
    assert [process.returncode for process in started] == [0, 0]


def turns(number):
    for _ in range(number):
        gevent.sleep(0)


# --- Timeout


def test_a_closed_timeout_is_not_raised_later():
    # The timer throws while the fiber is runnable, because an event has ended its wait.
    it = event.Event()
    timeout = gevent.Timeout(NEVER_S)
    timeout.start()
    gevent.spawn(it.set)
    gevent.spawn(timeout._expire)
    with contextlib.suppress(gevent.Timeout):  # either may win
        it.wait()
    timeout.close()
    gevent.sleep(0)
    fiberrt.sleep(0.001)


def test_withdraw_takes_back_one_exception():
    caught = []

    def run():
        for _ in range(2):
            try:
                fiberrt.sleep(NEVER_S if not caught else 0)
            except ValueError as error:
                caught.append(str(error))

    fiber = fiberrt.spawn(run)
    fiberrt.reschedule()
    first, second = ValueError("first"), ValueError("second")
    fiber.throw(first)
    fiber.throw(second)
    assert _fiberrt.withdraw(fiber, first) is True
    assert _fiberrt.withdraw(fiber, first) is False
    fiber.join()
    assert caught == ["second"]
    with pytest.raises(TypeError):
        _fiberrt.withdraw(1, first)
    with pytest.raises(TypeError):
        _fiberrt.withdraw(fiber)
    with pytest.raises(TypeError):
        _fiberrt.abandon(1)


def test_a_withdrawn_exception_ends_no_wait():
    it = fiberrt.Event()
    fiber = fiberrt.spawn(it.wait)
    fiberrt.reschedule()
    error = ValueError()
    fiber.throw(error)
    _fiberrt.withdraw(fiber, error)
    fiberrt.reschedule()
    assert not fiber.done
    it.set()
    assert fiber.result() is True


def test_many_timeouts_that_are_cancelled_leave_nothing():
    for _ in range(10_000):
        with gevent.Timeout(NEVER_S):
            pass
    with gevent.Timeout(NEVER_S) as timeout:
        assert len(timeout._timer.keeper._timers) < 300
    with pytest.raises(ValueError, match="not a number"):
        gevent.Timeout(float("nan")).start()
    with pytest.raises(AssertionError, match="already started"), gevent.Timeout(NEVER_S) as timeout:
        timeout.start()


# --- Greenlets and the hub


def test_a_plain_fiber_has_a_greenlet():
    fiber = fiberrt.spawn(gevent.getcurrent)
    greenlet = fiber.result()
    assert greenlet.dead and greenlet.ready() and not greenlet
    assert gevent.wait([greenlet]) == [greenlet]
    main = gevent.getcurrent()
    assert main and main.parent is None and main.gr_frame is not None
    with pytest.raises(RuntimeError, match="cannot be switched to"):
        main.switch()
    raw = gevent.spawn_raw(gevent.sleep, NEVER_S)
    gevent.sleep(0)
    assert raw.gr_frame is not None
    raw.kill()
    assert raw.dead


def test_a_cancelled_greenlet_is_successful():
    greenlet = gevent.spawn(gevent.sleep, NEVER_S)
    gevent.sleep(0)
    greenlet._fiber.cancel()
    greenlet.join()
    assert greenlet.successful() and isinstance(greenlet.value, gevent.GreenletExit)


def test_errors_are_reported(capsys):
    def fail():
        raise ValueError("of the greenlet")

    greenlet = gevent.spawn(fail)
    greenlet.join()
    greenlet = gevent.spawn(int)
    greenlet.rawlink(lambda _: fail())
    greenlet.join()
    raw = gevent.spawn_raw(fail)
    gevent.wait([raw])
    err = capsys.readouterr().err
    assert err.count("ValueError: of the greenlet") == err.count("failed with ValueError") == 3


def test_watchers():
    loop, log = gevent.get_hub().loop, []
    ours, theirs = socket.socketpair()
    told = event.Event()

    def readable():
        log.append(ours.recv(100))
        told.set()

    with loop.io(ours.fileno(), 1) as watcher:
        watcher.start(readable)
        for data in b"one", b"two":
            theirs.sendall(data)
            assert told.wait(PATIENCE_S)
            told.clear()
        with pytest.raises(ValueError, match="has been started"):
            watcher.start(readable)
    theirs.sendall(b"three")
    ours.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            ours.send(bytes(1 << 16))
    watcher = loop.io(ours.fileno(), 2)
    gevent.spawn(socket.cancel_wait, watcher, OSError("closed"))
    with pytest.raises(OSError, match="closed"):
        gevent.get_hub().wait(watcher)
    assert log == [b"one", b"two"]
    timer = loop.timer(0.001, 0.001)
    ticks = event.Event()
    timer.start(lambda: (log.append(1), len(log) > 4 and ticks.set()))
    assert ticks.wait(PATIENCE_S)
    timer.stop()
    caught = event.Event()
    handler = gevent.signal_handler(signal.SIGUSR1, caught.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert caught.wait(PATIENCE_S)
    handler.cancel()
    stopped = loop.run_callback(log.append, "never")
    assert stopped.pending
    stopped.stop()
    gevent.sleep(0)
    assert "never" not in log
    ours.close()
    theirs.close()


def test_wait_for_everything():
    gevent.spawn(gevent.sleep, 0.001)
    gevent.spawn_later(0.002, int)
    timeout = gevent.Timeout(NEVER_S, ref=False)
    timeout.start()
    assert gevent.wait() is True
    timeout.close()
    endless = gevent.spawn(gevent.sleep, NEVER_S)
    assert gevent.wait(timeout=0.001) is False
    endless.kill()


def test_a_timer_that_fails_ends_no_other(capsys):
    def fail():
        raise ValueError("of the timer")

    it = event.Event()
    Timer(0, fail)
    Timer(0, it.set)
    assert it.wait(PATIENCE_S)
    assert "of the timer" in capsys.readouterr().err


def test_a_fork(lines):
    assert lines("""
        import os, sys
        from fiberrt.compat import gevent
        from fiberrt.compat.gevent import event, pool
        gevent.get_hub()
        group = pool.Pool(2)
        lost = group.spawn(gevent.sleep, 1000)
        told = event.Event()
        later = gevent.spawn_later(0.3, told.set)
        gevent.sleep(0)
        def in_child():
            lost.join()
            print(lost.successful(), repr(lost.value), group.join(), gevent.wait([lost]) == [lost])
            told.wait()
            print(gevent.wait())
            with gevent.Timeout(0.001, False):
                gevent.sleep(1000)
            sys.exit(3)
        def run():
            if os.fork() == 0:
                in_child()
            print(os.waitstatus_to_exitcode(os.wait()[1]))
        gevent.spawn(run).join()
        if os.fork() == 0:
            in_child()
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        lost.kill()
    """) == ["True GreenletExit() True True", "True", "3"] * 2


def test_a_counter_below_zero():
    it = lock.Semaphore(1)
    it.counter -= 2  # as celery shrinks a pool
    assert (it.counter, it.locked()) == (-1, True)
    assert [it.release(), it.release()] == [0, 1]
    it.counter = 3
    assert [it.acquire(False) for _ in range(4)] == [True, True, True, False]


def test_a_link_is_called_once():
    it, other = event.Event(), event.Event()
    it.set()
    waiting = gevent.spawn(gevent.wait, [it, other])
    turns(5)
    assert gevent.wait([it]) == [it]
    turns(5)
    other.set()
    assert waiting.get() == [it, other]
    places = lock.Semaphore(1)
    assert gevent.wait([places]) == [places] and places.linkcount() == 0


def test_a_link_of_an_event_that_is_cleared_at_once():
    it = event.Event()
    waiting = gevent.spawn(gevent.wait, [it])
    gevent.sleep(0)
    it.set()
    it.clear()
    assert waiting.get() == [it]


def test_an_object_that_another_thread_makes_ready():
    threads = gevent.get_hub().threadpool
    for it, ready in (
        (bell := event.Event(), bell.set), (result := event.AsyncResult(), result.set),
        (places := lock.Semaphore(0), places.release),
    ):  # fmt: skip
        waiting = gevent.spawn(gevent.wait, [it])
        gevent.sleep(0)
        threads.spawn(ready).get()
        assert waiting.get() == [it]
        thread = fiberrt.spawn(gevent.wait, [it])  # it is ready
        assert thread.result() == [it]


def test_threads_share_the_objects():
    threads = gevent.get_hub().threadpool
    items, result, bell = queue.Queue(1), event.AsyncResult(), event.Event()
    calls = [threads.spawn(items.get), threads.spawn(result.get), threads.spawn(bell.wait)]
    items.put("item")
    result.set("result")
    bell.set()
    assert [each.get() for each in calls] == ["item", "result", True]
    assert list(pool.Pool(2).imap(threads.apply, [len], [("abc",)])) == [3]
    workers = threads.map(abs, [-1, -2])
    assert workers == [1, 2]
    with threads_executor() as executor:
        assert executor.submit(abs, -3).result() == 3


def test_calls_on_threads_that_end_oddly():
    def exit():
        raise gevent.GreenletExit

    def cancel():
        raise fiberrt.CancelledError

    threads = ThreadPool(1)
    for function, error in ((exit, gevent.GreenletExit), (cancel, (fiberrt.CancelledError, gevent.GreenletExit))):
        with pytest.raises(error):
            threads.apply(function)
    killed = threads.spawn(abs, -1)
    threads._calls.kill()
    with pytest.raises(gevent.GreenletExit):
        killed.get()
    results = event.AsyncResult()
    threads.apply_async(abs, (-2,), callback=results.set)
    assert results.get() == 2
    assert threads.apply(abs, (-3,)) == 3
    with pytest.raises(TypeError, match="'x'"):
        ThreadPool("x")


def open_files():
    """Return the descriptors of this process, except the one that the package keeps to notice new mounts."""
    return [fd for fd in os.listdir("/proc/self/fd") if "mountinfo" not in os.path.realpath(f"/proc/self/fd/{fd}")]


def test_file_objects(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"text\n")
    with FileObject(path, "rb", 1024) as file:
        assert file.read() == b"text\n"
    before = len(open_files())
    with open(path) as file:
        for mode in "rx", "+":
            with pytest.raises(ValueError):
                FileObject(file, mode)
        with FileObject(file, "r", 1, encoding="ascii") as other:
            assert other.readline() == "text\n" and other.line_buffering
    assert len(open_files()) == before


def test_imap_without_a_limit():
    assert list(pool.Pool(2).imap(abs, [-1, -2, -3], maxsize=0)) == [1, 2, 3]


def test_watchers_that_nothing_waits_for():
    loop = gevent.get_hub().loop
    ours, theirs = socket.socketpair()
    with ours, theirs, loop.io(ours.fileno(), 1, ref=False) as one, loop.async_(ref=False) as two:
        one.start(print)
        two.start(print)
        assert gevent.wait(timeout=PATIENCE_S) is True


def test_a_thread_is_known_by_its_identifier():
    known = queue.Queue()
    number = thread.start_new_thread(lambda: known.put(thread.get_ident()))
    assert known.get() == number != thread.get_ident()


def test_a_server_without_greenlets_stops_itself():
    def handle(connection, address):
        it.stop()
        gevent.sleep(0.001)
        connection.sendall(b"stopped")

    it = server.StreamServer(("127.0.0.1", 0), handle, spawn=None)
    it.start()
    with socket.create_connection(it.address) as client:
        assert client.recv(10) == b"stopped"


def test_nonblocking_descriptors():
    reader, writer = os.pipe()
    gevent.os.make_nonblocking(reader)
    gevent.os.make_nonblocking(writer)
    much = bytes(1 << 20)

    def read():
        found = 0
        while found < len(much):
            found += len(gevent.os.nb_read(reader, 1 << 16))

    reading = gevent.spawn(read)
    turns(3)
    written = 0
    while written < len(much):
        written += gevent.os.nb_write(writer, much[written:])
    reading.get()
    with FileObject(reader, "rb") as file, FileObject(writer, "wb", 0) as other:
        lines = gevent.spawn(file.readline)
        turns(3)
        other.write(b"line\n")
        assert lines.get() == b"line\n"


def test_a_timeout_ends_tp_read():
    reader, writer = os.pipe()
    with pytest.raises(gevent.Timeout), gevent.Timeout(0.01):
        gevent.os.tp_read(reader, 1)
    gevent.os.tp_write(writer, b"xy")  # ends the thread's read
    assert gevent.os.tp_read(reader, 1) == b"y"
    os.close(reader)
    os.close(writer)


def test_a_put_that_fails_counts_for_nothing():
    it = queue.Queue(1)
    it.put("item")
    putting = gevent.spawn(it.put, "late")
    joining = gevent.spawn(it.join)
    turns(3)
    assert it.unfinished_tasks == 1
    it.task_done()
    putting.kill()
    joining.get()


def test_waits_for_descriptors_that_fail():
    ours, theirs = socket.socketpair()
    caught = []
    for _ in range(2):
        with pytest.raises(TimeoutError) as info:
            socket.wait_read(ours.fileno(), 0.001)
        caught.append(info.value)
    assert caught[0] is not caught[1]
    with pytest.raises(ValueError, match="own"):
        socket.wait_read(ours.fileno(), 0.001, ValueError("own"))
    number = ours.fileno()
    ours.close()
    theirs.close()
    loop = gevent.get_hub().loop
    with pytest.raises(OSError) as info:
        gevent.get_hub().wait(loop.io(number, 1))
    assert info.value.errno == errno.EBADF


def test_a_timer_that_is_stopped_before_its_call():
    log = []
    timer = gevent.get_hub().loop.timer(NEVER_S, 0)
    timer.start(log.append, "never")
    timer._expire()  # as its time comes
    timer.stop()
    turns(3)
    timer.start(log.append, "called")
    timer._expire()
    turns(3)
    timer._timer.cancel()
    assert log == ["called"] and not timer.active


def threads_executor():
    from fiberrt.compat.gevent.threadpool import ThreadPoolExecutor

    return ThreadPoolExecutor(2)


def test_the_end_of_the_program(lines):
    # As with gevent, a greenlet does not learn of it: one that catches everything would not end.
    assert lines("""
        from fiberrt.compat import gevent
        def stubborn():
            while True:
                try: gevent.sleep(0.001)
                except: print("caught")
        gevent.spawn(stubborn)
        gevent.spawn_raw(stubborn)
        gevent.spawn_later(1000, stubborn)
        gevent.sleep(0.001)
        print("end")
    """) == ["end"]


# --- Servers


def test_stream_server_with_a_pool():
    gate = event.Event()

    def handle(connection, address):
        connection.sendall(connection.recv(10))
        gate.wait()

    with server.StreamServer("127.0.0.1:0", handle, spawn=1) as it:
        first = socket.create_connection(it.address)
        first.sendall(b"first")
        assert first.recv(10) == b"first"
        assert it.pool.full() and it.full() and it.started and it.server_port == it.address[1]
        second = socket.create_connection(it.address)
        second.sendall(b"second")
        gate.set()
        gate.clear()  # wakes the first only
        assert second.recv(10) == b"second"
        assert first.recv(10) == b""
        assert len(it.pool) == 1
        it.stop(timeout=0)  # kills the second
        assert not gate.is_set()
        assert second.recv(10) == b"" and it.closed
        first.close()
        second.close()


def test_servers_refuse_bad_input(tmp_path):
    for bad in "no port", 1.5, None:
        with pytest.raises(ValueError, match="parse address"):
            server.StreamServer(bad, print)
    with pytest.raises(TypeError, match="handle"):
        server.StreamServer(("127.0.0.1", 0), 5)
    with pytest.raises(TypeError, match="certfile"):
        server.StreamServer(("127.0.0.1", 0), print, keyfile="x")
    with pytest.raises(TypeError, match="patch_all"):
        server.StreamServer(("127.0.0.1", 0), print, ssl_context=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


def test_datagram_server():
    with server.DatagramServer(("127.0.0.1", 0), lambda data, address: it.sendto(data * 2, address)) as it:
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.sendto(b"ab", it.address)
        assert client.recv(10) == b"abab"
        client.close()


def test_backdoor():
    with backdoor.BackdoorServer(("127.0.0.1", 0), {"answer": 42}) as it:
        client = socket.create_connection(it.address)
        with client, client.makefile("rw") as file:
            file.write("print(answer + 1)\nexit()\n")
            file.flush()
            assert "43" in file.read()


@pytest.fixture
def pywsgi():
    servers.needs_installed("the tests of gevent.pywsgi", "h11")
    from fiberrt.compat.gevent import pywsgi

    return pywsgi


class Log:
    def __init__(self):
        self.lines = []

    def write(self, line):
        self.lines.append(line)


def test_pywsgi(pywsgi, capsys):
    def application(environ, start_response):
        if environ["PATH_INFO"] == "/fail":
            raise ValueError("of the application")
        body = environ["wsgi.input"].read()
        start_response("200 OK", [("X-Method", environ["REQUEST_METHOD"])])
        if environ["PATH_INFO"] == "/parts":
            return iter([b"a", b"", b"b"])
        return [body or environ["added"]]

    log = Log()
    it = pywsgi.WSGIServer(("127.0.0.1", 0), application, log=log, environ={"added": b"added"})
    it.start()
    client = socket.create_connection(it.address)
    file = client.makefile("rb")

    def ask(head, body=b""):
        client.sendall(head + b"\r\nHost: x\r\n\r\n" + body)
        status = file.readline()
        headers = dict(line.rstrip().split(b": ") for line in iter(file.readline, b"\r\n"))
        if headers.get(b"Transfer-Encoding") == b"chunked":
            parts = []
            while size := int(file.readline(), 16):
                parts.append(file.read(size + 2)[:-2])
            file.readline()
            return status, parts
        return status, file.read(int(headers[b"Content-Length"]))

    assert ask(b"GET / HTTP/1.1") == (b"HTTP/1.1 200 OK\r\n", b"added")
    assert ask(b"POST / HTTP/1.1\r\nContent-Length: 3", b"abc")[1] == b"abc"
    assert ask(b"GET /parts HTTP/1.1")[1] == [b"a", b"b"]
    assert ask(b"GET /fail HTTP/1.1")[0] == b"HTTP/1.1 500 Internal Server Error\r\n"
    it.stop()
    client.close()
    gevent.wait()
    assert [line.split('"')[1:] for line in log.lines][0][0] == "GET / HTTP/1.1"
    assert [line.split('" ')[1].split()[0] for line in log.lines] == ["200", "200", "200", "500"]
    err = capsys.readouterr().err
    assert "of the application" in err and "hidden keys" in err


def test_a_handler_of_pywsgi_that_changes_the_headers(pywsgi):
    class Handler(pywsgi.WSGIHandler):
        def finalize_headers(self):
            self.response_headers.append(("X-Added", "late"))

    sent = []

    def application(environ, start_response):
        write = start_response("200 OK", [])
        write(b"")
        sent.append(handlers[0].headers_sent)
        return [b"body"]

    handlers = []
    serve = Handler.run_application
    Handler.run_application = lambda self: (handlers.append(self), serve(self))
    with pywsgi.WSGIServer(("127.0.0.1", 0), application, log=None, handler_class=Handler) as it:
        with socket.create_connection(it.address) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = client.makefile("rb").read()
    assert b"\r\nX-Added: late\r\n" in answer and answer.endswith(b"\r\n\r\n4\r\nbody\r\n0\r\n\r\n")
    assert sent == [True]


@pytest.mark.parametrize("body", [[], [b"first"]])
def test_a_switch_of_the_protocol_by_pywsgi(pywsgi, body):
    def application(environ, start_response):
        start_response("101 Switching Protocols", [("Upgrade", "echo"), ("Connection", "Upgrade")])
        return body

    with pywsgi.WSGIServer(("127.0.0.1", 0), application, log=None) as it, socket.create_connection(it.address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        assert client.makefile("rb").read() == (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n" + b"".join(body)
        )


# --- Programs that import gevent


def test_install(lines):
    assert lines("""
        import fiberrt.compat.gevent.as_gevent
        import gevent.pool, sys
        from gevent import monkey, queue
        import fiberrt.compat.gevent as own
        print(gevent is own, gevent.pool is own.pool, queue.__name__, own.installed())
        print("concurrent.futures" in sys.modules)
        own.install()
        print(sum(type(each).__module__ == "fiberrt.compat.gevent._install" for each in sys.meta_path))
        try: import gevent.nothing
        except ModuleNotFoundError as error: print(error.name)
        monkey.patch_all()
        print(monkey.is_module_patched("socket"), monkey.get_original("time", "sleep").__module__)
        print(monkey.is_object_patched("threading", "local"), monkey.get_original("os", "getpid").__module__)
    """) == [
        "True True fiberrt.compat.gevent.queue True", "False", "1", "gevent.nothing", "True time", "True posix",
    ]  # fmt: skip


def test_install_after_gevent(lines):
    assert lines("""
        import sys, types
        sys.modules["gevent"] = types.ModuleType("gevent")
        from fiberrt.compat import gevent
        try: gevent.install()
        except RuntimeError as error: print(error)
    """) == ["gevent has been imported already: install() must come first"]


def test_patch_with_an_odd_module(lines):
    assert lines("""
        import sys
        class Odd:
            __dict__ = None
        sys.modules["odd"] = Odd()
        import fiberrt.monkey
        fiberrt.monkey.patch()
        print("patched")
    """) == ["patched"]


def test_some_modules_are_patched(lines):
    assert lines("""
        from fiberrt.compat.gevent import monkey
        print(monkey.is_anything_patched())
        monkey.patch_all(socket=False, thread=False, subprocess=False)
        print(*[name for name in ("socket", "ssl", "thread", "time", "select", "os") if monkey.is_module_patched(name)])
    """) == ["False", "time select os"]
    assert hub.get_hub() is gevent.get_hub()
    assert monkey.get_original("os", ["getpid"]) == [os.getpid]
