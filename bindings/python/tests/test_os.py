# SPDX-License-Identifier: MIT OR Apache-2.0
"""After patch(), os waits for children, pipes, terminals, sockets and eventfds as fibers do; and select.epoll does."""

import textwrap

import pytest

PATCHED = """
import fiberrt.monkey
fiberrt.monkey.patch()
import multiprocessing, os, pty, select, selectors, signal, socket, subprocess, sys, threading, time, tty
import fiberrt

def meanwhile(function, *args, then=lambda: None):
    "Returns the result of a call that waits until then() has been called; other fibers run meanwhile."
    fiber = fiberrt.spawn(function, *args)
    with fiberrt.fail_after(60):
        for _ in range(10): fiberrt.sleep(0.001)
        assert not fiber.done, fiber
        then()
        return fiber.result()
def child(code=7):
    "The number of a child that ends when it is told to, and how to tell it."
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(w)
        os.read(r, 1)
        os._exit(code)
    os.close(r)
    return pid, lambda: os.close(w)
"""


@pytest.fixture
def patched(lines):
    """Returns the lines that a program writes after patch()."""

    def run(source: str) -> list[str]:
        return lines(PATCHED + textwrap.dedent(source))

    return run


def test_waiting_for_children(patched):
    assert patched("""
        code = os.waitstatus_to_exitcode
        pid, end = child()
        found = meanwhile(os.waitpid, pid, 0, then=end)
        print(found[0] == pid, code(found[1]))
        pid, end = child()
        found = meanwhile(os.wait4, pid, 0, then=end)
        print(found[0] == pid, code(found[1]), found[2].ru_maxrss > 0)
        for function, args in (os.wait, ()), (os.wait3, (0,)), (os.waitpid, (-1, 0)), (os.waitpid, (0, 0)), (os.wait4, (-1, 0)):
            pid, end = child(3)
            found = meanwhile(function, *args, then=end)
            print(found[0] == pid, code(found[1]))
        for kind in "pid", "pidfd", "all", "group":
            pid, end = child(5)
            fd = os.pidfd_open(pid)
            which = {"pid": (os.P_PID, pid), "pidfd": (os.P_PIDFD, fd), "all": (os.P_ALL, 0), "group": (os.P_PGID, 0)}[kind]
            found = meanwhile(os.waitid, *which, os.WEXITED | os.WNOWAIT, then=end)
            print(found.si_pid == pid, found.si_status, os.waitid(*which, os.WEXITED | os.WNOHANG).si_status)
            os.close(fd)
        pid, end = child()
        found = meanwhile(os.waitpid, pid, os.WUNTRACED, then=lambda: os.kill(pid, signal.SIGSTOP))
        print(found[0] == pid, os.WIFSTOPPED(found[1]))
        found = meanwhile(os.waitpid, pid, os.WCONTINUED, then=lambda: os.kill(pid, signal.SIGCONT))
        print(found[0] == pid, os.WIFCONTINUED(found[1]), os.waitpid(pid, os.WNOHANG))
        end()
        print(os.waitpid(pid, 0)[0] == pid)
        for wrong in (os.waitpid, pid, 0), (os.wait,), (os.wait3, 0), (os.wait4, pid, 0), (os.waitid, os.P_PID, pid, os.WEXITED):
            try: wrong[0](*wrong[1:])
            except ChildProcessError as error: print("none", end=" ")
        try: os.waitpid("x", 0)
        except TypeError: print("TypeError")
    """) == [
        "True 7", "True 7 True", *["True 3"] * 5, *["True 5 5"] * 4,
        "True True", "True True (0, 0)", "True", "none none none none none TypeError",
    ]  # fmt: skip


def test_a_cancelled_wait_takes_no_childs_end(patched):
    assert patched("""
        for wait in (lambda: os.waitpid(pid, 0)), os.wait:
            pid, end = child(4)
            fiber = fiberrt.spawn(wait)
            fiberrt.sleep(0.005)
            fiber.cancel()
            print(fiber.join(60), fiber.cancelled)
            end()
            print(os.waitstatus_to_exitcode(meanwhile_or_now(os.waitpid, pid, 0)[1]))
    """.replace("meanwhile_or_now(os.waitpid, pid, 0)", "os.waitpid(pid, 0)")) == ["True True", "4"] * 2


def test_asyncio_waits_for_children(patched):
    # Until CPython 3.11 its default watcher waits in os.waitpid() on a Thread.
    assert patched("""
        import asyncio
        async def main():
            p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
            ended = asyncio.ensure_future(p.wait())
            for _ in range(20): await asyncio.sleep(0.001)
            print(ended.done())
            print((await asyncio.wait_for(p.communicate(b"hello"), 60))[0], await ended)
        asyncio.run(main())
    """) == ["False", "b'hello' 0"]


def test_multiprocessing_joins(lines, tmp_path):
    # In a separate module: children that are spawned import it.
    (tmp_path / "work.py").write_text(
        "import sys\ndef work(connection):\n    sys.exit(connection.recv())\n"
    )
    assert lines(PATCHED + textwrap.dedent("""
        sys.path.insert(0, sys.argv[1])
        import multiprocessing.connection, work
        for how in "fork", "spawn":
            context = multiprocessing.get_context(how)
            ours, theirs = context.Pipe()
            process = context.Process(target=work.work, args=(theirs,), daemon=True)
            process.start()
            print(process.join(0.01), process.is_alive(), end=" ")
            meanwhile(process.join, then=lambda: ours.send(9))
            print(process.exitcode)
        print(meanwhile(ours.recv, then=lambda: theirs.send("x")), ours.poll(0.01))
    """), str(tmp_path)) == ["None True 9", "None True 9", "x False"]  # fmt: skip


def test_pipes_terminals_sockets_and_eventfds(patched):
    assert patched("""
        def both(read_end, write_end):
            got = meanwhile(os.read, read_end, 100, then=lambda: os.write(write_end, b"abc\\n"))
            parts = [bytearray(2), bytearray(5)]
            n = meanwhile(os.readv, read_end, parts, then=lambda: os.writev(write_end, [b"de", b"", b"f\\n"]))
            print(got, n, bytes(parts[0]), bytes(parts[1][:n - 2]))
        r, w = os.pipe()
        both(r, w)
        drains = []
        big = meanwhile(os.write, w, b"x" * 300000, then=lambda: drains.append(fiberrt.spawn(drain, r, 300000)))
        print(big, drains[0].join(60))
        print(meanwhile(os.read, r, 1, then=lambda: os.close(w)))
    """.replace("def both", "def drain(fd, n):\n            while n: n -= len(os.read(fd, 65536))\n        def both", 1) + """
        a, b = socket.socketpair()
        both(a.fileno(), b.fileno())
        master, slave = pty.openpty()
        tty.setraw(slave)
        both(slave, master)
        number = os.eventfd(0)
        print(meanwhile(os.eventfd_read, number, then=lambda: os.eventfd_write(number, 5)))
        print(meanwhile(os.read, number, 8, then=lambda: os.eventfd_write(number, 1)) == (1).to_bytes(8, sys.byteorder))
        with open("/dev/zero", "rb", 0) as zero: print(os.read(zero.fileno(), 2))
        os.set_blocking(r, False)
        x, y = os.pipe()
        os.set_blocking(x, False)
        for wrong, error in ((x, 1), BlockingIOError), ((-1, 1), OSError), (("x", 1), TypeError), ((x, -1), OSError), ((x,), TypeError):
            try: print(os.read(*wrong))
            except error: pass
        for wrong, error in ((y, 1), TypeError), ((10**9, b""), OSError):
            try: print(os.write(*wrong))
            except error: pass
        try: os.readv(y, 5)
        except TypeError: print("ok")
        class Uses: read = os.read  # a C function does not become a method
        os.write(y, b"q")
        print(Uses().read(x, 1))
    """) == [
        "b'abc\\n' 4 b'de' b'f\\n'", "300000 True", "b''", "b'abc\\n' 4 b'de' b'f\\n'", "b'abc\\n' 4 b'de' b'f\\n'",
        "5", "True", "b'\\x00\\x00'", "ok", "b'q'",
    ]  # fmt: skip


def test_signals(patched):
    assert patched("""
        def later(number): return lambda: os.kill(os.getpid(), number)
        seen = []
        signal.signal(signal.SIGUSR1, lambda *args: seen.append(1))
        print(meanwhile(signal.pause, then=later(signal.SIGUSR1)), seen)
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        # An exception of a handler is raised in the main flow, which pauses; also if the handler was set before
        # patch().
        fiber = fiberrt.spawn(lambda: (fiberrt.sleep(0.01), os.kill(os.getpid(), signal.SIGINT)))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try: signal.pause()
        except KeyboardInterrupt: print("interrupted")
        two = [fiberrt.spawn(signal.pause) for _ in range(2)]
        signal.signal(signal.SIGUSR1, lambda *args: seen.append(2))
        fiberrt.reschedule()
        two[0].cancel(); print(two[0].join(60), two[1].done)
        os.kill(os.getpid(), signal.SIGUSR1); print(two[1].join(60), seen)
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        fiber.join()
        with fiberrt.fail_after(60):
            while len(fiberrt._fiberrt.fibers()) > 1: fiberrt.sleep(0.001)
        print(fiberrt.signal._bell)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
        print(meanwhile(signal.sigwait, [signal.SIGUSR2], then=later(signal.SIGUSR2)).name)
        print(meanwhile(signal.sigwaitinfo, [signal.SIGUSR2], then=later(signal.SIGUSR2)).si_pid == os.getpid())
        print(meanwhile(signal.sigtimedwait, [signal.SIGUSR2], 60, then=later(signal.SIGUSR2)).si_signo == signal.SIGUSR2)
        print(signal.sigtimedwait([signal.SIGUSR2], 0.01))
    """) == [
        "None [1]", "interrupted", "True False", "True [1, 2]", "None", "SIGUSR2", "True", "True", "None",
    ]  # fmt: skip


def test_epoll(patched):
    assert patched("""
        import asyncio
        a, b = socket.socketpair()
        epoll = select.epoll(sizehint=5, flags=select.EPOLL_CLOEXEC)
        with epoll as it: assert it is epoll and not epoll.closed
        assert epoll.closed
        epoll = select.epoll()
        epoll.register(a, select.EPOLLIN)
        print(epoll.poll(0), epoll.poll(timeout=0.001), epoll.poll(0.01))
        print(meanwhile(epoll.poll, then=lambda: b.send(b"x")) == [(a.fileno(), select.EPOLLIN)])
        epoll.modify(a, eventmask=select.EPOLLOUT)
        print(epoll.poll(-1) == [(a.fileno(), select.EPOLLOUT)])
        # A descriptor registered during the wait counts, and each of two waiting fibers gets an event.
        epoll.modify(a, 0)
        print(meanwhile(epoll.poll, -5, 1, then=lambda: epoll.register(b, select.EPOLLOUT)) == [(b.fileno(), select.EPOLLOUT)])
        epoll.modify(b, select.EPOLLIN | select.EPOLLONESHOT)
        def again():
            found = epoll.poll()
            b.recv(1)
            epoll.modify(b, select.EPOLLIN | select.EPOLLONESHOT)
            return len(found)
        two = [fiberrt.spawn(again) for _ in range(2)]
        fiberrt.sleep(0.005)
        a.send(b"xy")
        print([fiber.result(60) for fiber in two])
        epoll.unregister(a)
        epoll.register(a.fileno())
        print(sorted(fd for fd, _ in epoll.poll(maxevents=5)) == [a.fileno()])
        epoll.unregister(a)
        same = select.epoll.fromfd(os.dup(epoll.fileno()))
        print(meanwhile(same.poll, then=lambda: a.send(b"z")) == [(b.fileno(), select.EPOLLIN)], same.fileno() != epoll.fileno())
        same.close(); same.close()
        b.recv(1)
        # Wrong values have the same effect as in the standard library.
        for wrong, error in (
            (lambda: epoll.poll("x"), TypeError), (lambda: epoll.poll(float("nan")), ValueError),
            (lambda: epoll.poll(1e9), OverflowError), (lambda: epoll.poll(1, 0), ValueError),
            (lambda: epoll.poll(0, -2), ValueError), (lambda: epoll.register(b), FileExistsError),
            (lambda: epoll.unregister(a), FileNotFoundError), (lambda: epoll.modify(a, 1), FileNotFoundError),
            (lambda: epoll.register("x"), TypeError), (lambda: select.epoll(0), ValueError),
            (lambda: select.epoll(-1, 1), OSError), (same.fileno, ValueError), (lambda: same.poll(0), ValueError),
            (lambda: same.register(a), ValueError),
        ):
            try: print(wrong())
            except error: pass
        # Another fiber closes it, or the waiting fiber is cancelled.
        fiber = fiberrt.spawn(epoll.poll)
        fiberrt.sleep(0.005)
        epoll.close()
        try: fiber.result(60)
        except OSError as error: print(error.errno)
        epoll = select.epoll()
        with fiberrt.move_on_after(0.01) as scope: epoll.poll()
        before = len(os.listdir("/proc/self/fd"))
        del epoll
        print(scope.expired, before - len(os.listdir("/proc/self/fd")))
        selector = selectors.EpollSelector()
        key = selector.register(b, selectors.EVENT_READ, "data")
        print(meanwhile(selector.select, then=lambda: a.send(b"1")) == [(key, selectors.EVENT_READ)], selector.select(0) != [])
        selector.close()
        # asyncio waits as a fiber, too.
        async def main():
            reader, writer = await asyncio.open_connection(sock=b)
            print(await reader.read(1))
            fiberrt.spawn(lambda: (fiberrt.sleep(0.005), a.send(b"2")))
            print(await reader.read(1))
            writer.close()
        asyncio.run(main())
    """) == [
        "[] [] []", "True", "True", "True", "[1, 1]", "True", "True True", "9", "True 2", "True True", "b'1'", "b'2'",
    ]  # fmt: skip


def test_a_handler_that_runs_during_a_switch_writes_to_a_pipe(patched):
    # In this place a call cannot wait as a fiber, and does not have to.
    assert patched("""
        r, w = os.pipe()
        signal.signal(signal.SIGALRM, lambda *args: os.write(w, b"x"))
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        print(os.read(r, 1))
    """) == ["b'x'"]


def test_a_throw_ends_a_read_and_a_write(patched):
    assert patched("""
        r, w = os.pipe()
        for call in (lambda: os.read(r, 1)), (lambda: os.write(w, b"x" * 1000000)):
            for _ in range(2):  # before it waits, and while it does
                fiber = fiberrt.spawn(lambda: (fiberrt.reschedule(), call()) if _ else call())
                fiberrt.reschedule()
                fiber.throw(KeyError("thrown"))
                fiber.join(60)
                print(repr(fiber.exception), end=" ")
        print()
    """) == ["KeyError('thrown') " * 4]


def test_numbers_are_objects_with_an_index(patched):
    assert patched("""
        class Number:
            def __init__(self, value): self.value = value
            def __index__(self): return self.value
        class Wrong:
            def __index__(self): raise ArithmeticError
        pid, end = child()
        found = meanwhile(os.waitpid, Number(pid), Number(0), then=end)
        print(found[0] == pid)
        pid, end = child()
        found = meanwhile(os.wait4, Number(pid), Number(0), then=end)
        print(found[0] == pid)
        pid, end = child()
        found = meanwhile(os.waitid, Number(os.P_PID), Number(pid), Number(os.WEXITED), then=end)
        print(found.si_pid == pid)
        event = os.eventfd(0)
        os.eventfd_write(event, Number(5))
        print(os.eventfd_read(event), threading.stack_size(Number(1 << 20)), threading.stack_size(Number(0)) >> 20)
        for function, args in (
            (os.waitpid, (1, Wrong())), (os.waitpid, (Wrong(), 0)), (os.wait3, (Wrong(),)), (os.wait4, (1, Wrong())),
            (os.waitid, (os.P_ALL, 0, Wrong())), (os.waitpid, (1, 1.5)), (os.wait4, (1, "x")), (os.waitid, (1.5, 0, 4)),
            (os.eventfd_write, (event, Wrong())), (os.eventfd_write, (event, 1.5)),
            (threading.stack_size, (Wrong(),)), (threading.stack_size, (65536.0,)),
        ):
            try: function(*args)
            except (ArithmeticError, TypeError) as error: print(type(error).__name__[0], end=" ")
        print()
    """) == ["True", "True", "True", "5 0 1", "A A A A A T T T A T A T "]


def test_a_command_a_fifo_and_the_locks_of_files(patched):
    assert patched("""
        import fcntl, tempfile
        folder = tempfile.mkdtemp()
        fifo = os.path.join(folder, "fifo")
        os.mkfifo(fifo)
        # Each call waits for something that another fiber does.
        r, w = os.pipe()
        os.set_inheritable(r, True)
        print(os.waitstatus_to_exitcode(meanwhile(os.system, f"read it <&{r}; exit 3", then=lambda: os.write(w, b"x\\n"))))
        for mine, other in (os.O_RDONLY, os.O_WRONLY), (os.O_WRONLY, os.O_RDONLY):
            ends = []
            ends.append(meanwhile(os.open, fifo, mine, then=lambda: ends.append(os.open(fifo, other))))
            print([(os.get_blocking(fd), os.get_inheritable(fd)) for fd in ends])
            for fd in ends: os.close(fd)
        fiber = fiberrt.spawn(os.open, fifo, os.O_WRONLY)
        fiberrt.sleep(0.001)
        fiber.cancel()
        print(fiber.join(60), fiber.cancelled)
        name = os.path.join(folder, "file")
        one, two = (os.open(name, os.O_RDWR | os.O_CREAT) for _ in range(2))
        fcntl.flock(one, fcntl.LOCK_EX)
        try: fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError: print("locked")
        fiber = fiberrt.spawn(fcntl.flock, two, fcntl.LOCK_EX)
        fiberrt.sleep(0.001)
        fiber.cancel()
        print(fiber.join(60), fiber.cancelled)
        print(meanwhile(fcntl.flock, two, fcntl.LOCK_EX, then=lambda: fcntl.flock(one, fcntl.LOCK_UN)))
        # A process has its own locks of lockf(): a child holds this one.
        r, w = os.pipe()
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(w)
            fcntl.lockf(one, fcntl.LOCK_EX)
            os.write(tell, b"x")
            os.read(r, 1)
            os._exit(0)
        os.read(told, 1)
        print(os.open in os.supports_dir_fd, meanwhile(fcntl.lockf, two, fcntl.LOCK_EX, then=lambda: os.close(w)))
        os.waitpid(pid, 0)
        for function, *wrong in (fcntl.flock, -1, fcntl.LOCK_EX), (fcntl.flock, one, "x"), (os.open, name, "x"), (os.open, folder + "/no", 0):
            try: print(function(*wrong))
            except (OSError, TypeError, ValueError) as error: print(type(error).__name__, end=" ")
        print()
    """) == [
        "3", "[(True, False), (True, False)]", "[(True, False), (True, False)]", "True True", "locked", "True True",
        "None", "True None", "ValueError TypeError TypeError FileNotFoundError ",
    ]  # fmt: skip


def test_sendfile_and_splice_wait(patched):
    assert patched("""
        import tempfile
        data = os.urandom(1 << 20) * 4
        file = tempfile.TemporaryFile()
        file.write(data)
        file.flush()
        def all_of(fd):
            got = b""
            while len(got) < len(data) - 5: got += os.read(fd, 1 << 20)
            return got
        a, b = socket.socketpair()
        got = []
        print(meanwhile(os.sendfile, a.fileno(), file.fileno(), 5, len(data), then=lambda: got.append(all_of(b.fileno()))) == len(data) - 5)
        print(got == [data[5:]], os.get_blocking(a.fileno()))
        if hasattr(os, "splice"):
            r, w = os.pipe()
            x, y = os.pipe()
            print(meanwhile(os.splice, r, y, 100, then=lambda: os.write(w, b"abc")), os.read(x, 10))
            try: os.splice(r, y, 100, flags=os.SPLICE_F_NONBLOCK)
            except BlockingIOError: print("empty")
        else: print("3 b'abc'"); print("empty")
    """) == ["True", "True True", "3 b'abc'", "empty"]


def test_a_command_has_the_signals_of_its_caller(patched):
    assert patched("""
        print(os.system("kill -INT $$; exit 3"), fiberrt.spawn(os.system, "kill -USR1 $$; exit 3").result())
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        print(os.system("kill -USR1 $$; exit 3"))
    """) == ["2 10", "768"]


def test_a_cancel_ends_waits_for_a_command_a_fifo_and_a_splice(patched):
    assert patched("""
        import errno, tempfile
        def cancelled(fiber):
            fiber.cancel()
            return fiber.join(60), fiber.cancelled
        r, w = os.pipe()
        told, tell = os.pipe()
        os.set_inheritable(r, True)
        os.set_inheritable(tell, True)
        fiber = fiberrt.spawn(os.system, f"exec <&{r} >&{tell}; echo begun; read it; echo $it")
        print(os.read(told, 100), cancelled(fiber))
        os.write(w, b"over\\n")
        print(os.read(told, 100))
        fifo = os.path.join(tempfile.mkdtemp(), "fifo")
        os.mkfifo(fifo)
        fiber = fiberrt.spawn(os.open, fifo, os.O_RDONLY)
        fiberrt.sleep(0.001)
        print(cancelled(fiber))
        try: os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error: print(error.errno == errno.ENXIO)
        try: os.open(fifo, os.O_RDONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError as error: print(error.filename == fifo)
        folder = os.open(os.path.dirname(fifo), os.O_RDONLY)
        ends = []
        ends.append(meanwhile(lambda: os.open("fifo", os.O_RDONLY, dir_fd=folder), then=lambda: ends.append(os.open(fifo, os.O_WRONLY))))
        os.write(ends[0], b"abc")
        if hasattr(os, "splice"):
            fiber = fiberrt.spawn(os.splice, told, w, 10)
            fiberrt.sleep(0.001)
            print(cancelled(fiber))
            print(os.splice(ends[1], tell, 10), os.read(told, 10))
            # A descriptor that would block, and one with O_NONBLOCK.
            os.set_blocking(ends[1], False)
            try: os.splice(ends[1], tell, 10)
            except BlockingIOError: print("empty")
        else: print("(True, True)"); print("3 b'abc'"); print("empty")
    """) == [
        "b'begun\\n' (True, True)", "b'over\\n'", "(True, True)", "True", "True", "(True, True)", "3 b'abc'", "empty",
    ]  # fmt: skip


def test_an_oserror_of_a_handler_ends_a_wait(patched):
    assert patched("""
        import tempfile
        def handler(number, frame): raise TimeoutError("late")
        signal.signal(signal.SIGUSR1, handler)
        def meanwhile_raised(function, *args, end):
            "What a call of the main flow raises. Later the end comes of what it waits for."
            def later():
                for _ in range(10): fiberrt.sleep(0.001)
                thread = threading.Thread(target=signal.raise_signal, args=(signal.SIGUSR1,))
                thread.start()
                thread.join()
                caught.wait(10)
                end()
            caught = fiberrt.Event()
            fiber = fiberrt.spawn(later)
            try: return function(*args)
            except TimeoutError as error:
                caught.set()
                return str(error)
            finally: fiber.join()
        pid, end = child()
        print(meanwhile_raised(os.waitpid, pid, 0, end=end), os.waitpid(pid, 0)[0] == pid)
        a, b = socket.socketpair()
        file = tempfile.TemporaryFile()
        file.truncate(1 << 26)
        print(meanwhile_raised(os.sendfile, a.fileno(), file.fileno(), 0, 1 << 26, end=b.close))
    """) == ["late True", "late"]


def test_sendfile_from_a_socket_does_not_spin(patched):
    assert patched("""
        import errno
        a, b = socket.socketpair()
        r, w = os.pipe()
        def into_pipe(then):
            try: return meanwhile(os.sendfile, w, a.fileno(), None, 10, then=then)
            except OSError as error:
                if error.errno != errno.EINVAL: raise  # older kernels cannot do this
                b.send(b"abc")
                return 3
        print(into_pipe(lambda: b.send(b"abc")))
        a.setblocking(False)
        try: os.sendfile(w, a.fileno(), None, 10) and os.sendfile(w, a.fileno(), None, 10)
        except OSError as error: print(error.errno in (errno.EAGAIN, errno.EINVAL))
    """) == ["3", "True"]


def test_sendfile_of_sockets_gives_no_turn_without_o_nonblock(patched):
    assert patched("""
        import posix, tempfile
        a, b = socket.socketpair()
        file = tempfile.TemporaryFile()
        file.write(b"x")
        file.flush()
        seen = set()
        def look():
            while True:
                seen.add(os.get_blocking(a.fileno()))
                fiberrt.reschedule()
        fiber = fiberrt.spawn(look)
        fiberrt.reschedule()
        for _ in range(20000):
            fiberrt.socket._sendfile(a, file.fileno(), 0, 1)
            posix.read(b.fileno(), 1)
        fiber.cancel()
        print(seen)
    """) == ["{True}"]


def test_in_a_greenlet_calls_of_os_block(patched):
    pytest.importorskip("greenlet", reason="greenlet is not installed")
    assert patched("""
        import fcntl, greenlet, tempfile
        def in_greenlet(function, *args): return greenlet.greenlet(lambda: function(*args)).switch()
        def all_of_them():
            print(in_greenlet(os.system, "exit 3"))
            fd = os.eventfd(1)
            print(in_greenlet(os.eventfd_read, fd))
            name = tempfile.mktemp()
            os.mkfifo(name)
            for mine, others in (os.O_RDONLY, "w"), (os.O_WRONLY, "r"):
                process = subprocess.Popen([sys.executable, "-c", f"open({name!r}, {others!r})"])
                os.close(in_greenlet(os.open, name, mine))
                process.wait()
            r, w = os.pipe()
            told, tell = os.pipe()
            pid = os.fork()
            file = tempfile.TemporaryFile()
            if pid == 0:
                fcntl.lockf(file, fcntl.LOCK_EX)
                os.write(tell, b"x")
                os.read(r, 1)
                time.sleep(0.01)
                os._exit(0)
            os.read(told, 1)
            os.write(w, b"x")
            print(in_greenlet(fcntl.lockf, file, fcntl.LOCK_EX))
            os.waitpid(pid, 0)
        fiberrt.spawn(all_of_them).result()
    """) == ["768", "1", "None"]
