# SPDX-License-Identifier: MIT OR Apache-2.0
"""fiberrt.open(), which returns files that wait as fibers do."""

import errno
import fcntl
import io
import itertools
import os
import pickle
import time
import warnings

import pytest

import fiberrt
from fiberrt import _fiberrt, _files

MODES = ["".join(some) for size in range(1, 5) for some in itertools.product("rwaxbt+U", repeat=size)]


def outcome(function, *args, **options):
    try:
        with function(*args, **options) as file:
            buffer = getattr(file, "buffer", file)
            raw = getattr(buffer, "raw", buffer)
            kinds = [type(part).__name__ for part in (file, buffer, raw)]
            return kinds, file.mode, raw.mode, file.readable(), file.writable(), file.seekable(), file.name
    except (OSError, TypeError, ValueError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("exists", [True, False])
def test_each_mode_behaves_as_with_the_builtin_open(tmp_path, exists):
    path = tmp_path / "file"
    seen = {}
    for function in open, fiberrt.open:
        seen[function] = []
        for mode in MODES:
            path.unlink(missing_ok=True)
            if exists:
                path.write_bytes(b"some text")
            seen[function].append((mode, outcome(function, path, mode), path.exists() and path.read_bytes()))
    assert seen[open] == seen[fiberrt.open]


def test_other_arguments(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\xe4\r\nb")
    calls = [
        ((path, "r"), {"encoding": "latin-1"}),
        ((path, "r"), {"encoding": "latin-1", "newline": ""}),
        ((path, "r"), {"encoding": "ascii", "errors": "replace"}),
        ((path, "rb"), {"encoding": "ascii"}),
        ((path, "rb"), {"errors": "strict"}),
        ((path, "rb"), {"newline": ""}),
        ((path, "rb", 0), {}),
        ((path, "rb", 5), {}),
        ((path, "r", 0), {}),
        ((path, "r", -5), {"encoding": "latin-1"}),
        ((path, "r", "x"), {}),
        ((path, 3), {}),
        ((path,), {"closefd": False}),
        ((path,), {"opener": lambda name, flags: os.open(os.devnull, flags)}),
        ((path,), {"opener": lambda name, flags: -1}),
        ((path,), {"opener": 1 .__add__}),
        ((path, "r"), {"encoding": "no such encoding"}),
        ((path, "r"), {"newline": "x"}),
        ((str(path),), {"encoding": "latin-1"}),
        ((os.fsencode(path),), {"encoding": "latin-1"}),
        ((os.fsencode(path) + b"\0",), {}),
        ((tmp_path,), {}),
        ((tmp_path / "none",), {}),
        ((tmp_path / "none" / "none", "w"), {}),
        ((1.5,), {}),
        ((None,), {}),
        ((-1,), {}),
        ((99_999,), {}),
    ]

    def read(function, *args, **options):
        with function(*args, **options) as file:
            return file.read(), type(file).__name__, file.name

    for args, options in calls:
        told = []
        for function in open, fiberrt.open:
            try:
                told.append(read(function, *args, **options))
            except (OSError, TypeError, ValueError, LookupError) as error:
                told.append((type(error), getattr(error, "errno", None), getattr(error, "filename", None)))
        assert told[0] == told[1], (args, options)


def test_warnings_name_the_caller(tmp_path):
    for mode, size, kind in ("wb", 1, RuntimeWarning), ("wb", -1, ResourceWarning):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            file = fiberrt.open(tmp_path / "file", mode, size)
            if kind is RuntimeWarning:
                file.close()
            del file
        assert [(each.category, each.filename) for each in caught] == [(kind, __file__)]


def test_types_and_names(tmp_path):
    assert issubclass(_files.FileIO, io.FileIO) and issubclass(_files.TextIOWrapper, io.TextIOWrapper)
    assert pickle.loads(pickle.dumps(fiberrt.open)) is fiberrt.open and fiberrt.open.__name__ == "open"
    kept = type("Kept", (), {"open": fiberrt.open})()
    with kept.open(tmp_path / "file", "w") as file:  # no method, as the builtin is none
        assert file.write("x") == 1
    with pytest.raises(TypeError):
        pickle.dumps(file)


def test_contents_are_the_same_as_with_the_builtin_open(tmp_path):
    path = tmp_path / "file"
    text = "".join(f"line {i} \u20ac\n" for i in range(20_000))
    with fiberrt.open(path, "w", encoding="utf-8") as file:
        for line in text.splitlines(True):
            file.write(line)
    assert path.read_text("utf-8") == text
    with fiberrt.open(path, encoding="utf-8") as file:
        assert list(file) == text.splitlines(True)
        file.seek(0)
        assert file.readline() == "line 0 \u20ac\n"
        at = file.tell()
        assert file.read() == text[len("line 0 x\n") :]
        file.seek(at)
        assert file.readline() == "line 1 \u20ac\n"
    raw = path.read_bytes()
    with fiberrt.open(path, "rb", 0) as file:
        assert (file.read(10), file.read(0), file.readall(), file.read(10)) == (raw[:10], b"", raw[10:], b"")
        file.seek(5)
        buffer = bytearray(20)
        assert (file.readinto(buffer), bytes(buffer)) == (20, raw[5:25])
        file.seek(-3, os.SEEK_END)
        assert file.read(100) == raw[-3:]
    with fiberrt.open(path, "r+b") as file:
        assert file.read(5) == raw[:5]
        file.write(b"!")
        assert file.peek(1)[:1] == raw[6:7]
        file.truncate(8)
        file.seek(0)
        assert file.read() == raw[:5] + b"!" + raw[6:8]


def test_files_of_proc_which_have_no_size_and_return_less(tmp_path):
    for path in "/proc/self/limits", "/proc/self/status", "/proc/self/maps", "/proc/cpuinfo":
        with open(path, "rb") as plain, fiberrt.open(path, "rb") as file:
            assert file.read().count(b"\n") in range(plain.read().count(b"\n") - 2, 10_000)


def test_errors_of_descriptors(tmp_path):
    with fiberrt.open(tmp_path / "file", "wb", 0) as file:
        for call in file.read, lambda: file.read(1), lambda: file.readinto(bytearray(1)):
            with pytest.raises(io.UnsupportedOperation):
                call()
        for wrong in "text", None, 3:
            with pytest.raises(TypeError):
                file.write(wrong)
    for call in file.read, file.readall, lambda: file.write(b"x"), file.fileno, lambda: file.seek(0):
        with pytest.raises(ValueError):
            call()
    fiberrt.offload(int)  # the runtime has its descriptors by now
    file = fiberrt.open(tmp_path / "file", "r+b", 0)
    os.close(file.fileno())
    for call in file.read, lambda: file.read(1), lambda: file.readinto(bytearray(1)), lambda: file.write(b"x"), file.close:
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.EBADF
    with fiberrt.open("/dev/full", "wb", 0) as file:
        with pytest.raises(OSError) as caught:
            file.write(b"x")
        assert caught.value.errno == errno.ENOSPC


def test_an_open_of_a_fifo_waits_as_a_fiber(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)

    def read():
        with fiberrt.open(path, "rb") as file:
            opened.set()
            return file.read()

    opened = fiberrt.Event()
    reader = fiberrt.spawn(read)
    fiberrt.reschedule()
    assert not opened.is_set()
    with fiberrt.fail_after(60), fiberrt.open(path, "wb", 0) as file:
        opened.wait()
        assert file.write(b"one ") == 4
        fiberrt.reschedule()
        assert not reader.done
        assert file.write(b"x" * 1_000_000) == 1_000_000  # more than a pipe holds
    assert reader.result() == b"one " + b"x" * 1_000_000


def test_a_cancel_and_a_time_limit_end_the_waits_for_a_fifo(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(TimeoutError), fiberrt.fail_after(0.01):
        fiberrt.open(path)
    fiber = fiberrt.spawn(fiberrt.open, path, "w")
    fiberrt.reschedule()
    fiber.cancel()
    with pytest.raises(fiberrt.CancelledError):
        fiber.result()
    before = len(os.listdir("/proc/self/fd"))
    with fiberrt.open(path, "r+b", 0) as file:  # both ends
        for call in (lambda: file.read(1)), file.readall, (lambda: file.readinto(bytearray(1))):
            with pytest.raises(TimeoutError), fiberrt.fail_after(0.01):
                call()
        reader = fiberrt.spawn(file.read, 1)
        fiberrt.reschedule()
        file.close()
        with pytest.raises(OSError) as caught:
            reader.result()
        assert caught.value.errno == errno.EBADF
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_with_o_nonblock_returns_none():
    r, w = os.pipe2(os.O_NONBLOCK)
    with fiberrt.open(r, "rb", 0) as reader, fiberrt.open(w, "wb", 0) as writer:
        assert (reader.read(1), reader.readall(), reader.readinto(bytearray(1))) == (None, None, None)
        assert writer.write(b"x" * 1_000_000) < 1_000_000
        assert writer.write(b"x") is None
        assert reader.read(3) == b"xxx"


def test_a_cancelled_fiber_writes_its_file(tmp_path):
    path = tmp_path / "file"

    def work():
        with fiberrt.open(path, "w") as file:
            file.write("kept")
            fiberrt.park()

    fiber = fiberrt.spawn(work)
    fiberrt.reschedule()
    assert path.read_text() == ""
    fiber.cancel()
    with pytest.raises(fiberrt.CancelledError):
        fiber.result()
    assert path.read_text() == "kept"


def test_a_write_to_a_pipe_that_an_exception_ends_returns_the_bytes_written():
    r, w = os.pipe()
    size = fcntl.fcntl(w, fcntl.F_GETPIPE_SZ)
    data = os.urandom(3 * size)

    def write():
        with fiberrt.open(w, "wb", len(data) * 2) as file:
            file.write(data)
            try:
                file.flush()
            except KeyError:
                thrown.append(True)
            # The rest is written at the end.

    thrown = []
    with fiberrt.open(r, "rb", 0) as reader:
        writer = fiberrt.spawn(write)
        while writer.waits_for != "write":
            fiberrt.reschedule()
        writer.throw(KeyError())
        while not thrown:
            fiberrt.reschedule()
        got = reader.readall()
        writer.result()
    assert got == data


def test_a_loop_of_reads_lets_others_run(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 4096)
    ran = fiberrt.spawn(int)
    with fiberrt.open(path, "rb", 0) as file:
        too_late = time.monotonic() + 60
        while not ran.done:
            assert time.monotonic() < too_late
            file.seek(0)
            assert len(file.read(4096)) == 4096


def test_a_failing_write_is_not_lost_at_close(tmp_path):
    file = fiberrt.open("/dev/full", "w")
    file.write("x")
    with pytest.raises(OSError) as caught:
        file.close()
    assert caught.value.errno == errno.ENOSPC and file.closed


def test_positions_of_fibers_that_share_a_file(tmp_path):
    """Reads that wait for the disk and reads of cached data get each block once."""
    path = tmp_path / "file"
    blocks = [bytes([i]) * 4096 for i in range(200)]
    path.write_bytes(b"".join(blocks))
    with open(path, "rb") as plain:
        os.fsync(plain.fileno())
        for at in range(0, 200, 3):  # some blocks are not cached any more
            os.posix_fadvise(plain.fileno(), at * 4096, 4096, os.POSIX_FADV_DONTNEED)

    def read():
        got = []
        while block := file.read(4096):
            got.append(block)
        return got

    with fiberrt.open(path, "rb", 0) as file:
        readers = [fiberrt.spawn(read) for _ in range(5)]
        got = [block for reader in readers for block in reader.result()]
    assert sorted(got) == blocks


def test_writers_of_a_file_on_disk_lose_nothing(tmp_path):
    path = tmp_path / "file"

    def write(letter):
        for _ in range(300):
            file.write(letter * 49 + b"\n")
            file.flush()

    with fiberrt.open(path, "wb") as file:
        for fiber in [fiberrt.spawn(write, letter) for letter in (b"a", b"b", b"c")]:
            fiber.result()
    lines = path.read_bytes().splitlines()
    assert sorted(lines) == [letter * 49 for letter in (b"a", b"b", b"c") for _ in range(300)]


def test_in_a_finalizer_during_a_switch_files_block_the_thread(tmp_path, lines):
    assert lines("""
        import fiberrt, os, sys
        from fiberrt import _fiberrt
        import greenlet
        path = sys.argv[1]
        fiberrt.sleep(0)
        other = fiberrt.spawn(fiberrt.park)
        def inside():
            with fiberrt.open(path, "w") as file:
                file.write("by a greenlet")
            with fiberrt.open(path) as file:
                print(file.read(), _fiberrt.may_wait())
        def fiber():
            greenlet.greenlet(inside).switch()
        fiberrt.spawn(fiber).result()
        other.cancel()
    """, str(tmp_path / "file")) == ["by a greenlet False"]  # fmt: skip


@pytest.mark.parametrize("mode", ["r+b", "r+"])
def test_other_methods_take_turns_too(tmp_path, mode):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with fiberrt.open(os.open(fifo, os.O_RDWR), "rb") as file, fiberrt.fail_after(60):
        if "b" not in mode:
            file = _files.TextIOWrapper(file)
        reader = fiberrt.spawn(file.readline)
        others = [fiberrt.spawn(next, file), fiberrt.spawn(file.readline)]
        fiberrt.reschedule()
        fifo.write_bytes(b"1\n2\n3\n")
        assert sorted(int(fiber.result()) for fiber in (reader, *others)) == [1, 2, 3]
        reader = fiberrt.spawn(file.readline)
        fiberrt.reschedule()
        closer = fiberrt.spawn(file.close)
        fiberrt.reschedule()
        assert not closer.done
        fifo.write_bytes(b"4\n")
        assert int(reader.result()) == 4
        closer.result()
        assert file.closed


@pytest.mark.parametrize("kind", [_files.BufferedReader, _files.TextIOWrapper])
def test_a_cancelled_fiber_closes_a_pipe_that_another_fiber_reads(tmp_path, kind):
    def work():
        with fiberrt.open(os.open(fifo, os.O_RDWR), "rb") as file:
            with file if kind is _files.BufferedReader else kind(file) as file:
                readers.append(fiberrt.spawn(file.readline))
                readers[0].join()

    os.mkfifo(fifo := tmp_path / "fifo")
    readers = []
    closer = fiberrt.spawn(work)
    while not (readers and readers[0].waits_for == "read"):
        fiberrt.reschedule()
    before = len(os.listdir("/proc/self/fd"))
    closer.cancel()
    with fiberrt.fail_after(60):
        with pytest.raises(fiberrt.CancelledError):
            closer.result()
        with pytest.raises((OSError, ValueError)):
            readers[0].result()
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_a_signals_handler_inside_the_files_own_call_is_refused(lines):
    assert lines("""
        import _thread, fiberrt, os, signal, time
        from fiberrt import signal as fiber_signal
        r, w = os.pipe()
        main = fiberrt.current()
        def kill():
            while main.waits_for != "read": time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGUSR1)
        file = fiberrt.open(r, "rb")
        def handler(number, frame):
            try:
                file.read(1)
            except RuntimeError as error:
                print("refused")
            os.write(w, b"x")
        fiber_signal.signal(signal.SIGUSR1, handler)
        _thread.start_new_thread(kill, ())
        print(file.read(1))
    """) == ["refused", "b'x'"]  # fmt: skip


def test_wrong_arguments_of_the_types():
    for kind in _files.FileIO, _files.BufferedReader, _files.TextIOWrapper, _files.BufferedRWPair:
        with pytest.raises(TypeError):
            kind()
    uninitialized = _files.BufferedReader.__new__(_files.BufferedReader)
    for call in uninitialized.read, uninitialized.close, uninitialized.readline:
        with pytest.raises(ValueError):
            call()
    uninitialized = _files.FileIO.__new__(_files.FileIO)
    for call in uninitialized.read, uninitialized.readall, lambda: uninitialized.write(b""):
        with pytest.raises(ValueError):
            call()
    with fiberrt.open(os.devnull, "rb", 0) as file:
        for args in ("x",), (1.5,), (1, 2), (1 << 70,):
            with pytest.raises((TypeError, OverflowError)):
                file.read(*args)
        with pytest.raises(TypeError):
            file.readinto(b"constant")
        with pytest.raises(TypeError):
            file.seek(1, 2, 3, 4)
    with pytest.raises(TypeError):
        _fiberrt.FileCall(1)
    with pytest.raises(TypeError):
        _fiberrt.FileCall(open, None, x=1)
