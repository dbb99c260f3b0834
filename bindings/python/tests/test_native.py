# SPDX-License-Identifier: MIT OR Apache-2.0
"""fiberrt.native: C code that blocks waits as a fiber. The C code is native_waits.c, which this file compiles."""

import contextvars
import errno
import gc
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import textwrap
import threading
from pathlib import Path

import pytest
import servers

import fiberrt
import fiberrt.native
from fiberrt import _fiberrt

SOURCE = Path(__file__).parent / "native_waits.c"
COUNT = 100


def build(folder, name):
    compiler = shlex.split(os.environ.get("CC", "") or sysconfig.get_config_var("CC") or "cc")
    include = sysconfig.get_path("include")
    if not shutil.which(compiler[0]) or not os.path.exists(f"{include}/Python.h"):
        servers.did_not_run("the tests of fiberrt.native in C", "there is no C compiler or no Python.h")
    target = folder / (name + sysconfig.get_config_var("EXT_SUFFIX"))
    done = subprocess.run(
        [*compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror=implicit-function-declaration",
         f"-DMODULE={name}", f"-I{include}", str(SOURCE), "-o", str(target)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The folder of the compiled module, and of a second one whose code keeps the GIL in fibers."""
    folder = tmp_path_factory.mktemp("native")
    build(folder, "native_waits")
    build(folder, "native_waits_kept")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(params=["native_waits", "native_waits_kept"], ids=["released", "kept"])
def waits(folder, request):
    """The module, adopted."""
    if not fiberrt.native.is_adopted(request.param):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fiberrt.native, "KNOWN", (*fiberrt.native.KNOWN, "native_waits_kept"))
            [path] = fiberrt.native.adopt(request.param)
            assert os.path.basename(path).startswith(request.param + ".")
    return sys.modules[request.param]


@pytest.fixture(params=["native_waits", "native_waits_kept"], ids=["released", "kept"])
def adopted_lines(lines, folder, request):
    """The lines that a program writes that has adopted the module, which it knows as native_waits."""
    start = f"import sys; sys.path.insert(0, {str(folder)!r})\nimport fiberrt, fiberrt.native\n"
    start += "fiberrt.native.KNOWN += 'native_waits_kept',\n"
    start += f"fiberrt.native.adopt({request.param!r})\nimport {request.param} as native_waits\n"

    return lambda source, *args: lines(start + textwrap.dedent(source), *args)


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def spawned(function, *args):
    """A fiber that has begun."""
    fiber = fiberrt.spawn(function, *args)
    fiberrt.sleep(0)
    return fiber


# --- Adopting ------------------------------------------------------------------------------------------------------


def test_adopted_calls_are_listed(waits):
    functions = {os.path.basename(path): names for path, names in fiberrt.native.adopted().items()}
    [mine] = [names for file, names in functions.items() if file.startswith(waits.__name__ + ".")]
    assert mine == ["nanosleep", "poll", "read"]
    assert fiberrt.native.is_adopted(waits.__name__) and not fiberrt.native.is_adopted("native_wait")


def test_an_unknown_module_raises():
    with pytest.raises(ModuleNotFoundError):
        fiberrt.native.adopt("there_is_none_of_this_name")
    with pytest.raises(LookupError, match="libnone.so"):
        fiberrt.native.adopt("libnone.so")
    with pytest.raises(ValueError, match="'json.tool' has no extension module"):
        fiberrt.native.adopt("json.tool")
    with pytest.raises(ValueError, match="'builtins' has no extension module"):
        fiberrt.native.adopt("builtins")
    with pytest.raises(ValueError):
        fiberrt.native.adopt("")
    with pytest.raises(TypeError):
        fiberrt.native.adopt(os)
    with pytest.raises(ValueError, match="'nothing' is not adopted"):
        fiberrt.native.release("nothing")
    with pytest.raises(OSError):
        _fiberrt.native_adopt("/there/is/none.so")
    assert fiberrt.native.adopt() == []


@pytest.mark.parametrize(
    "file, name, same",
    [
        ("libpq.so.5", "libpq.so", True),
        ("libpq.so", "libpq.so", True),
        ("libpq-1a2b3c4d.so.5.16", "libpq.so", True),
        ("libpq-1a2b3c4d.so.5.16", "libpq.so.5", True),
        ("libpq-1a2b3c4d.so.6", "libpq.so.5", False),
        ("libpq.so.50", "libpq.so.5", False),
        ("libpqtypes.so.0", "libpq.so", False),
        ("libpq-events.so.0", "libpq.so", False),
        ("/usr/lib/libpq.so.5", "libpq.so", True),
        ("/usr/lib/libpq.so.5", "/usr/lib/libpq.so.5", True),
        ("/usr/lib/libpq.so.5", "/opt/lib/libpq.so.5", False),
    ],
)
def test_names_of_libraries(file, name, same):
    assert fiberrt.native._is_named(file, name) is same


def test_a_library_by_its_name(adopted_lines, folder, tmp_path):
    # ctypes loads it, so no module needs it.
    library = tmp_path / "libwaits-0123abcd.so.7"
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    source = tmp_path / "library.c"
    source.write_text("#include <unistd.h>\nint first(int fd) { char b; return read(fd, &b, 1) == 1 ? b : -1; }\n")
    subprocess.run([*compiler, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    assert adopted_lines("""
        import ctypes, os
        library = ctypes.CDLL(sys.argv[1])
        print([path == sys.argv[1] for path in fiberrt.native.adopt("libwaits.so")])
        print(fiberrt.native.is_adopted("libwaits.so"), fiberrt.native.adopted()[sys.argv[1]])
        r, w = os.pipe()
        fiber = fiberrt.spawn(library.first, r)
        fiberrt.sleep(0)
        print(fiber.done, os.write(w, b"x"), fiber.result() == ord("x"))
        fiberrt.native.release("libwaits.so")
        print(sys.argv[1] in fiberrt.native.adopted())
    """, str(library)) == ["[True]", "True ['read']", "False 1 True", "False"]  # fmt: skip


def test_release(adopted_lines):
    # The released call blocks the thread: the other fiber runs only when a child has written.
    assert adopted_lines("""
        import os, subprocess
        r, w = os.pipe()
        order = []
        def read(i): order.append((i, native_waits.read(r)))
        both = [fiberrt.spawn(read, i) for i in range(2)]
        fiberrt.sleep(0)
        print(order)
        fiberrt.native.release(native_waits.__name__)
        print(fiberrt.native.adopted(), fiberrt.native.is_adopted(native_waits.__name__))
        os.write(w, b"xy")
        for fiber in both: fiber.result()
        print(order)
        fiber = fiberrt.spawn(order.append, "another")
        child = subprocess.Popen(["sh", "-c", "sleep 0.1; printf z"], stdout=w)
        order.append(native_waits.read(r))
        fiber.result(); child.wait()
        print(order[2:])
        print(len(fiberrt.native.adopt(native_waits.__name__)))
        fiberrt.native.release()
        print(fiberrt.native.adopted())
    """) == ["[]", "{} False", "[(0, b'x'), (1, b'y')]", "[b'z', 'another']", "1", "{}"]  # fmt: skip


def test_a_module_of_the_package_that_is_imported_later(lines, folder, tmp_path):
    package = tmp_path / "withparts"
    package.mkdir()
    (package / "__init__.py").touch()
    [module] = folder.glob("native_waits.*")
    shutil.copy(module, package)
    shutil.copy(module, package / module.name.replace("native_waits", "native_waits2"))
    assert lines("""
        import sys; sys.path.insert(0, sys.argv[1])
        import fiberrt, fiberrt.native
        try: fiberrt.native.adopt("withparts")
        except ValueError: print("none yet")
        import withparts.native_waits
        print(len(fiberrt.native.adopt("withparts")))
        try: import withparts.native_waits2
        except ImportError: pass # its name is another one, but it is loaded
        print(type(withparts.native_waits.__spec__.loader).__name__)
        import importlib
        print(len(fiberrt.native.adopted()))
    """, str(tmp_path))[:3] == ["none yet", "1", "ExtensionFileLoader"]  # fmt: skip


# --- Waits ---------------------------------------------------------------------------------------------------------


def test_reads_of_many_fibers_overlap(waits):
    # All are in the call before a byte is written: a call that blocked the thread would never end.
    ends = [os.pipe() for _ in range(COUNT)]
    begun = []

    def read(i):
        begun.append(i)
        return waits.read(ends[i][0])

    fibers = [fiberrt.spawn(read, i) for i in range(COUNT)]
    while len(begun) < COUNT:
        fiberrt.sleep(0)
    assert not any(fiber.done for fiber in fibers)
    assert "native code" in repr(fibers[0])
    for i in reversed(range(COUNT)):
        os.write(ends[i][1], bytes([i]))
    assert [fiber.result() for fiber in fibers] == [bytes([i]) for i in range(COUNT)]
    for pair in ends:
        for end in pair:
            os.close(end)


def test_sleeps_of_many_fibers_overlap(waits):
    order = []

    def sleep(i):
        order.append("begin")
        assert waits.sleep(0.01) == 0
        order.append("end")

    for fiber in [fiberrt.spawn(sleep, i) for i in range(20)]:
        fiber.result()
    assert order == ["begin"] * 20 + ["end"] * 20


def test_poll(waits, pipe):
    import select

    fiber = spawned(waits.poll, pipe[0], select.POLLIN, -1)
    assert not fiber.done
    os.write(pipe[1], b"x")
    assert fiber.result() == (1, 0, select.POLLIN)
    os.read(pipe[0], 1)
    assert fiberrt.spawn(waits.poll, pipe[0], select.POLLIN, 5).result() == (0, 0, 0)


def test_the_main_flow_waits_as_a_fiber(waits, pipe):
    fiberrt.spawn(os.write, pipe[1], b"m")
    assert waits.read(pipe[0]) == b"m"


def test_a_thread_without_fibers_blocks(waits, pipe):
    got = []
    thread = threading.Thread(target=lambda: got.append(waits.read(pipe[0])))
    thread.start()
    os.write(pipe[1], b"t")
    thread.join()
    assert got == [b"t"]


def test_threads_with_fibers(waits):
    def work(failures):
        try:
            with fiberrt.fail_after(280):
                ends = [os.pipe() for _ in range(10)]
                fibers = [spawned(waits.read, r) for r, _ in ends]
                for round in range(20):
                    for _, w in ends:
                        os.write(w, b"a")
                    for fiber in fibers:
                        assert fiber.result() == b"a"
                    fibers = [spawned(waits.read, r) for r, _ in ends]
                for _, w in ends:
                    os.write(w, b"b")
                assert [fiber.result() for fiber in fibers] == [b"b"] * 10
                for pair in ends:
                    for end in pair:
                        os.close(end)
        except BaseException as error:
            failures.append(error)
            raise

    failures: list = []
    threads = [threading.Thread(target=work, args=(failures,)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# --- The state of the interpreter ----------------------------------------------------------------------------------


def test_exceptions_belong_to_their_fibers(waits, pipe):
    def handle():
        try:
            raise LookupError("mine")
        except LookupError as error:
            waits.read(pipe[0])
            return sys.exc_info()[1] is error

    fiber = spawned(handle)
    assert sys.exc_info() == (None, None, None)
    os.write(pipe[1], b"x")
    assert fiber.result()


def test_an_exception_set_in_c_stays_with_the_fiber(waits, pipe):
    fiber = spawned(waits.read_and_raise, pipe[0])
    assert not fiber.done
    os.write(pipe[1], b"x")
    with pytest.raises(KeyError, match="set before the read"):
        fiber.result()


def test_a_finalizer_waits_while_an_exception_is_raised(waits, pipe):
    def raise_with_temporary():  # the interpreter drops the reader with the exception set
        return print(waits.Reader(pipe[0]), {}["none"])

    def raise_with_local():
        reader = waits.Reader(pipe[0])
        try:
            raise LookupError("mine")
        finally:
            del reader

    for function, error in ((raise_with_temporary, KeyError), (raise_with_local, LookupError)):
        fiber = spawned(function)
        others = []
        fiberrt.spawn(others.append, 1).result()
        assert not fiber.done and others == [1]
        os.write(pipe[1], b"x")
        try:
            fiber.result()
        except error as raised:
            raised.__traceback__ = None
        else:
            pytest.fail("no exception")
        del fiber
        gc.collect()


def test_context_variables_and_recursion(waits, pipe):
    variable = contextvars.ContextVar("variable")

    def deep(n):
        if n:
            return deep(n - 1)
        variable.set(id(fiberrt.current()))
        byte = waits.read(pipe[0])
        assert variable.get() == id(fiberrt.current())
        return byte

    fibers = [spawned(deep, 100 * i) for i in range(5)]
    os.write(pipe[1], b"abcde")
    assert sorted(fiber.result() for fiber in fibers) == [b"a", b"b", b"c", b"d", b"e"]

    def too_deep():
        waits.read(pipe[0])
        return too_deep()

    fiber = spawned(too_deep)
    os.write(pipe[1], b"x" * 60_000)
    with pytest.raises(RecursionError):
        fiber.result()
    os.set_blocking(pipe[0], False)
    with pytest.raises(BlockingIOError):
        while os.read(pipe[0], 60_000):
            pass


def test_trace_functions(waits, pipe):
    lines = []

    def trace(frame, event, arg):
        if frame.f_code.co_name == "traced":
            lines.append((event, frame.f_lineno - frame.f_code.co_firstlineno))
        return trace

    def traced():
        byte = waits.read(pipe[0])
        return byte

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        fiber = spawned(traced)
        os.write(pipe[1], b"x")
        assert fiber.result() == b"x"
    finally:
        sys.settrace(before)
    assert lines == [("call", 0), ("line", 1), ("line", 2), ("return", 2)]


def test_collections_of_garbage(waits, pipe):
    class Cycle:
        def __init__(self):
            self.me = self

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        fibers = [fiberrt.spawn(lambda: (Cycle(), waits.read(pipe[0]), Cycle())[1]) for _ in range(20)]
        fiberrt.sleep(0)
        gc.collect()
        os.write(pipe[1], b"x" * 20)
        assert [fiber.result() for fiber in fibers] == [b"x"] * 20
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("by_thread_state", [False, True], ids=["PyGILState_Ensure", "PyEval_AcquireThread"])
def test_a_callback_waits(waits, by_thread_state):
    ends = [os.pipe() for _ in range(10)]
    turns = fiberrt.Queue()

    def call(i):
        return waits.callback(lambda: (turns.get(), waits.read(ends[i][0])), ends[i][0], by_thread_state)

    fibers = [spawned(call, i) for i in range(10)]
    for i in range(10):
        os.write(ends[i][1], b"a")
        fiberrt.sleep(0)
        turns.put(i)
        fiberrt.sleep(0)
        os.write(ends[i][1], b"b")
        fiberrt.sleep(0)
        assert not fibers[i].done
    for i in range(10):
        os.write(ends[i][1], b"c")
    results = [fiber.result() for fiber in fibers]
    assert sorted(turn for (turn, _), _ in results) == list(range(10))
    assert {(byte, bytes) for (_, byte), bytes in results} == {(b"b", b"ac")}
    for pair in ends:
        for end in pair:
            os.close(end)


def test_a_callback_that_holds_the_gil_blocks(adopted_lines):
    # The C code around the callback waits as a fiber; the one in the callback has the GIL, and relies on it.
    assert adopted_lines("""
        import os, subprocess
        r, w = os.pipe()
        order = []
        def callback():
            fiberrt.spawn(order.append, "yet another")
            child = subprocess.Popen(["sh", "-c", "sleep 0.1; printf b"], stdout=w)
            order.append(native_waits.read_with_gil(r))
            child.wait()
        fiber = fiberrt.spawn(native_waits.callback, callback, r, sys.argv[1:] == ["by state"])
        fiberrt.sleep(0)
        another = fiberrt.spawn(order.append, "another")
        os.write(w, b"a")
        another.result()
        while len(order) < 3: fiberrt.sleep(0.001)
        os.write(w, b"c")
        print(order, fiber.result())
    """) == ["['another', b'b', 'yet another'] (None, b'ac')"]  # fmt: skip


# --- Ends of waits -------------------------------------------------------------------------------------------------


def test_a_cancel_ends_the_wait(waits, pipe):
    def work():
        with pytest.raises(OSError) as error:
            waits.read(pipe[0])
        assert error.value.errno == errno.ECANCELED
        fiberrt.sleep(0)
        pytest.fail("the wait in Python ends, too")

    fiber = spawned(work)
    fiber.cancel()
    with pytest.raises(fiberrt.CancelledError):
        fiber.result()


def test_a_cancel_closes_the_connection(waits):
    import socket

    one, other = socket.socketpair()
    with one, other:
        fiber = spawned(waits.read, one.fileno())
        fiber.cancel()
        with pytest.raises(OSError):
            fiber.result()
        assert other.recv(1) == b""


def test_a_time_limit_ends_the_wait(waits, pipe):
    with fiberrt.move_on_after(0.01) as scope:
        with pytest.raises(TimeoutError):  # ETIMEDOUT
            waits.read(pipe[0])
    os.write(pipe[1], b"x")
    assert waits.read(pipe[0]) == b"x"


def test_an_exception_is_raised_after_the_call(waits, pipe):
    def work():
        assert waits.read(pipe[0]) == b"x"
        fiberrt.sleep(0)

    fiber = spawned(work)
    fiber.throw(KeyError("thrown"))
    fiberrt.sleep(0)
    os.write(pipe[1], b"x")
    with pytest.raises((KeyError, OSError)):
        fiber.result()


# --- Calls that block as before ------------------------------------------------------------------------------------

HELD = """
    import os, subprocess
    r, w = os.pipe()
    order = []
    def read():
        child = subprocess.Popen(["sh", "-c", "sleep 0.1; printf x"], stdout=w)
        order.append(native_waits.read_with_gil(r))
        child.wait()
    fibers = [fiberrt.spawn(read), fiberrt.spawn(order.append, "another")]
    for fiber in fibers: fiber.result()
    print(order)
"""


def test_a_caller_that_holds_the_gil_blocks(adopted_lines):
    assert adopted_lines(HELD) == ["[b'x', 'another']"]


def test_a_caller_that_holds_the_gil_is_reported(program, folder):
    source = f"import sys; sys.path.insert(0, {str(folder)!r})\nimport fiberrt, fiberrt.native\n"
    source += "fiberrt.report_blocking(100)\nfiberrt.native.adopt('native_waits')\nimport native_waits\n"
    done = program(source + textwrap.dedent(HELD))
    assert done.out == "[b'x', 'another']\n"
    [report] = done.err.splitlines()
    assert report.startswith("fiberrt: read() blocks the thread, because its caller holds the GIL: ")
    assert "native_waits." in report and ", called at <string>:" in report


def test_a_greenlet_in_a_fiber_blocks(adopted_lines):
    pytest.importorskip("greenlet")
    assert adopted_lines("""
        import os, subprocess, greenlet
        r, w = os.pipe()
        order = []
        def read():
            child = subprocess.Popen(["sh", "-c", "sleep 0.1; printf x"], stdout=w)
            order.append(greenlet.greenlet(native_waits.read).switch(r))
            child.wait()
        fibers = [fiberrt.spawn(read), fiberrt.spawn(order.append, "another")]
        for fiber in fibers: fiber.result()
        print(order)
    """) == ["[b'x', 'another']"]  # fmt: skip


def test_other_interpreters_block(adopted_lines):
    assert adopted_lines("""
        import os, subprocess
        try: import _interpreters as interpreters
        except ImportError: import _xxsubinterpreters as interpreters
        r, w = os.pipe()
        order = []
        def run():
            child = subprocess.Popen(["sh", "-c", "sleep 0.1; printf x"], stdout=w)
            order.append(native_waits.read(r))
            child.wait()
        other = interpreters.create()
        fibers = [fiberrt.spawn(run), fiberrt.spawn(order.append, "another")]
        for fiber in fibers: fiber.result()
        print(order)
        interpreters.destroy(other)
        fiber = fiberrt.spawn(native_waits.read, r)
        fiberrt.sleep(0)
        os.write(w, b"y")
        print(fiber.result())
    """) == ["[b'x', 'another']", "b'y'"]  # fmt: skip


# --- Signals, forks, ends -------------------------------------------------------------------------------------------


def test_a_signal_handler_runs_during_the_wait(adopted_lines):
    assert adopted_lines("""
        import os, signal
        r, w = os.pipe()
        def handle(*args):
            signal.setitimer(signal.ITIMER_REAL, 0)
            print("handler")
            os.write(w, b"x")
        signal.signal(signal.SIGALRM, handle)
        fiber = fiberrt.spawn(native_waits.read, r)
        fiberrt.sleep(0)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 5) # again and again: one just before the poll would come late
        print(fiber.result())
    """) == ["handler", "b'x'"]  # fmt: skip


def test_a_call_by_a_signal_handler_blocks(adopted_lines):
    # The handler runs in a poll of the core, where nothing can switch.
    assert adopted_lines("""
        import os, signal, subprocess
        r, w = os.pipe()
        r2, w2 = os.pipe()
        def handle(*args):
            signal.setitimer(signal.ITIMER_REAL, 0)
            child = subprocess.Popen(["sh", "-c", "sleep 0.1; printf x"], stdout=w2)
            print("handler", native_waits.read(r2))
            os.write(w, b"y")
        signal.signal(signal.SIGALRM, handle)
        fiber = fiberrt.spawn(native_waits.read, r)
        fiberrt.sleep(0)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 5)
        print(fiber.result())
    """) == ["handler b'x'", "b'y'"]  # fmt: skip


CTRL_C = """
    import os, signal, threading
    r, w = os.pipe()
    fiberrt.spawn(fiberrt.sleep, 100)
    fiberrt.sleep(0)
    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)
    def handle(*args):
        os.write(w, b"x") # so that the call ends
        signal.default_int_handler(*args)
    signal.signal(signal.SIGINT, handle)
    timer = threading.Timer(0.05, interrupt) # started where the exception is expected
"""


def test_ctrl_c_while_the_main_flow_waits_for_a_fiber(adopted_lines):
    assert adopted_lines(CTRL_C + """
    fiber = fiberrt.spawn(native_waits.read, r)
    try:
        timer.start()
        fiber.result()
    except KeyboardInterrupt: print("KeyboardInterrupt")
    print(fiber.result())
    """) == ["KeyboardInterrupt", "b'x'"]  # fmt: skip


def test_ctrl_c_while_the_main_flow_is_in_the_call(adopted_lines):
    # It is raised as soon as the call has returned to the interpreter, and not at the next wait only.
    assert adopted_lines(CTRL_C + """
    try:
        timer.start()
        while True:
            try: native_waits.read(r)
            except InterruptedError: print("EINTR")
            for i in range(1000): pass
            fiberrt.native.adopted()
            print("goes on")
    except KeyboardInterrupt: print("KeyboardInterrupt")
    """)[-1] == "KeyboardInterrupt"  # fmt: skip


def test_a_fork_during_a_wait(adopted_lines):
    assert adopted_lines("""
        import os
        r, w = os.pipe()
        fiber = fiberrt.spawn(native_waits.read, r)
        fiberrt.sleep(0)
        pid = os.fork()
        if pid == 0:
            r2, w2 = os.pipe()
            mine = fiberrt.spawn(native_waits.read, r2)
            fiberrt.sleep(0)
            os.write(w2, b"c")
            os._exit(0 if mine.result() == b"c" and fiber.done else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), fiber.done)
        os.write(w, b"p")
        print(fiber.result())
    """) == ["0 False", "b'p'"]  # fmt: skip


def test_the_end_of_the_program_ends_the_wait(program, folder):
    done = program(f"""
        import sys; sys.path.insert(0, {str(folder)!r})
        import os, fiberrt, fiberrt.native
        fiberrt.native.adopt("native_waits")
        import native_waits
        r, w = os.pipe()
        def work():
            try: native_waits.read(r)
            except OSError as error: print(os.strerror(error.errno))
        fiber = fiberrt.spawn(work)
        fiberrt.sleep(0)
        print("end")
    """)
    assert (done.code, done.out, done.err) == (0, "end\nOperation canceled\n", "")


def test_the_end_of_a_thread_ends_the_wait(waits, pipe):
    results = []

    def work():
        try:
            waits.read(pipe[0])
        except OSError as error:
            results.append(error.errno)

    thread = threading.Thread(target=lambda: spawned(work))
    thread.start()
    thread.join()
    assert results == [errno.ECANCELED]


# --- The command ---------------------------------------------------------------------------------------------------


def test_the_option_native(folder, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, os, fiberrt, fiberrt.native\n"
        "print('native_waits' in sys.modules, fiberrt.native.is_adopted('native_waits'), sys.argv[1:])\n"
    )

    def run(*args):
        done = subprocess.run([sys.executable, "-m", "fiberrt", *args], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(folder)})  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    assert run("--native", "native_waits", str(script), "--native") == (0, "True True ['--native']\n", "")
    assert run("--native=native_waits", "-m", "script") [0] == 1  # it is in no folder of sys.path
    assert run(str(script)) == (0, "False False []\n", "")
    assert run("--no-native", str(script)) == (0, "False False []\n", "")
    code, out, err = run("--native", "there_is_none", str(script))
    assert (code, out) == (2, "") and err == "python -m fiberrt: --native: No module named 'there_is_none'\n"
    for wrong in (["--native"], ["--native", "native_waits"], ["--what", str(script)], ["-m"]):
        code, out, err = run(*wrong)
        assert code == 2 and err.startswith("usage: ")
