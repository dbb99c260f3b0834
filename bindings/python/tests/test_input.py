# SPDX-License-Identifier: MIT OR Apache-2.0
"""sys.stdin and input() after patch(): a pipe's or a terminal's other side lets other fibers run while it thinks."""

import os
import pty
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
import servers

BEGIN = """
import os, sys
import fiberrt.monkey
fiberrt.monkey.patch()
import fiberrt

def meanwhile(function, *args):
    "Calls a function in a fiber. Tells the other side to go on when the fiber waits, and returns the result."
    fiber = fiberrt.spawn(function, *args)
    with fiberrt.fail_after(60):
        while fiber.waits_for is None: fiberrt.sleep(0.001)
        os.write(2, b"now\\n")
        return fiber.result()
"""


def run(source: str, answers: list[bytes], terminal: bool = False):
    """Runs a program whose standard input is a pipe, or a terminal together with its standard output. Writes an answer
    each time it is told to. Returns what the program has written."""
    theirs = []
    if terminal:
        ours, there = pty.openpty()
        theirs = [there, there]
    else:
        read, write = os.pipe()
        ours_out, there_out = os.pipe()
        theirs = [read, there_out]
    environment = {**os.environ, "TERM": "dumb", "INPUTRC": "/dev/null"}
    program = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", BEGIN + textwrap.dedent(source)],
        stdin=theirs[0], stdout=theirs[1], stderr=subprocess.PIPE, env=environment, start_new_session=True,
        # A background job of a shell ignores SIGINT, and the program would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    for fd in set(theirs):
        os.close(fd)
    too_late = threading.Timer(60, program.kill)
    too_late.start()
    try:
        told = b""
        for answer in answers:
            told = program.stderr.readline()
            if told != b"now\n":
                break
            os.write(ours if terminal else write, answer)
        if not terminal:
            os.close(write)
        rest = b"" if told == b"now\n" else told
        out = b""
        try:
            while part := os.read(ours if terminal else ours_out, 65536):
                out += part
        except OSError:  # the terminal's other side is closed
            pass
        errors = rest + program.stderr.read()
        assert program.wait(60) == 0, errors.decode()
        assert errors == b""
        return out.decode().replace("\r\n", "\n")
    finally:
        too_late.cancel()
        program.kill()
        program.wait()
        program.stderr.close()
        os.close(ours if terminal else ours_out)


def test_sys_stdin_of_a_pipe():
    assert run(
        """
        print(repr(meanwhile(sys.stdin.readline)))
        print(repr(meanwhile(next, sys.stdin)))
        print(repr(meanwhile(sys.stdin.buffer.readline)))
        print(repr(meanwhile(sys.stdin.buffer.raw.read, 100)))
        print(sys.stdin.fileno(), sys.stdin.name, sys.stdin.mode, sys.stdin.read())
        """,
        [b"one\n", b"two\n", b"three\n", b"four"],
    ).splitlines() == ["'one\\n'", "'two\\n'", "b'three\\n'", "b'four'", "0 <stdin> r "]


def test_input_of_a_pipe():
    assert run(
        """
        print(repr(meanwhile(input, "name? ")))
        print(repr(meanwhile(input)))
        try: input("last? ")
        except EOFError: print("the end")
        """,
        [b"Ann\n", b"Bob\n"],
    ) == "name? 'Ann'\n'Bob'\nlast? the end\n"  # fmt: skip


def test_input_of_a_terminal():
    out = run(
        """
        events = []
        sys.addaudithook(lambda event, args: events.append((event, *args)) if event.startswith("builtins.input") else None)
        print(repr(meanwhile(input, "name? ")))
        print(repr(meanwhile(input)))
        print(events[:2])
        try: meanwhile(input)
        except EOFError: print("the end")
        """,
        [b"Ann\n", b"Bob\n", b"\x04"],
        terminal=True,
    )
    lines = [line for line in out.splitlines() if line not in ("Ann", "Bob")]  # which the terminal echoes
    assert lines[0].startswith("name? ") and lines[0].endswith(("Ann", "'Ann'")), out
    assert lines[-3:] == ["'Bob'", "[('builtins.input', 'name? '), ('builtins.input/result', 'Ann')]", "the end"], out


def test_input_with_readline():
    servers.needs("the test of input() with readline", "readline")
    out = run(
        """
        import readline
        readline.parse_and_bind("tab: complete")
        readline.set_completer(lambda text, state: [text + "tasia"][state] if state == 0 else None)
        print(repr(meanwhile(input, "name? ")))
        second = fiberrt.spawn(input, "second? ")       # waits for the first
        print(repr(meanwhile(input, "third? ")), repr(second.result()))
        """,
        [b"Anas\t\n", b"Bob\nEve\n"],
        terminal=True,
    )
    assert "'Anastasia" in out and "'Eve' 'Bob'" in out, out


@pytest.mark.parametrize("editor", ["", "import readline"])
def test_ctrl_c_at_a_terminal(editor):
    out = run(
        f"""
        {editor}
        def tell():
            while main.waits_for is None: fiberrt.sleep(0.001)
            os.write(2, b"now\\n")
        main = fiberrt.current()
        import fcntl, termios
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)            # so that Ctrl-C is a signal
        fiberrt.spawn(tell)
        try: input("name? ")
        except KeyboardInterrupt: print("interrupted")
        fiberrt.spawn(tell)
        print(repr(input("again? ")))
        """,
        [b"\x03", b"Ann\n"],
        terminal=True,
    )
    assert "interrupted" in out and "'Ann'" in out, out


def test_input_in_a_signal_handler_within_input_is_refused():
    out = run(
        """
        import _thread, signal
        main = fiberrt.current()
        def handler(number, frame):
            try: input("inner? ")
            except RuntimeError as error: print(error)
            os.write(2, b"now\\n")
        def kill():
            while main.waits_for is None: fiberrt.sleep(0.001)
            os.kill(os.getpid(), signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, handler)
        _thread.start_new_thread(kill, ())
        print(repr(input("name? ")))
        """,
        [b"Ann\n"],
        terminal=True,
    )
    assert "can't re-enter readline" in out and "'Ann'" in out, out


def test_the_replaced_names(lines):
    assert lines("""
        import io, sys
        sys.stdin = io.StringIO("a line\\n")
        import fiberrt.monkey
        fiberrt.monkey.patch("io")
        print(type(sys.stdin).__name__, input())
        print(input.__name__, fiberrt.monkey.is_patched("io"))
        sys.stdin = None
        fiberrt.sleep(0)
        try: input()
        except RuntimeError as error: print(error)
    """) == ["StringIO a line", "input True", "input(): lost sys.stdin"]  # fmt: skip


def test_another_file_in_the_place_of_stdin():
    assert run(
        """
        r, w = os.pipe()
        os.dup2(os.open("/etc/passwd", os.O_RDONLY), 0)
        print(len(sys.stdin.buffer.raw.read(10)))
        os.dup2(r, 0)
        os.write(w, b"short\\n")
        print(sys.stdin.buffer.raw.read(100))
        reader = fiberrt.spawn(sys.stdin.readline)
        fiberrt.reschedule()
        print(reader.done, os.write(w, b"line\\n"), repr(reader.result()))
        """,
        [],
    ).splitlines() == ["10", "b'short\\n'", "False 5 'line\\n'"]


def test_another_file_in_the_place_of_a_file_that_is_written(lines, tmp_path):
    assert lines("""
        import os, sys, fiberrt
        from fiberrt import _files
        os.dup2(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), 0)
        out = _files.FileIO(0, "r+", closefd=False)
        r, w = os.pipe()
        os.dup2(w, 0)
        os.set_blocking(w, False)
        try:
            while True: os.write(w, b"x" * 4096)
        except BlockingIOError: os.set_blocking(w, True)
        other = fiberrt.spawn(lambda: (fiberrt.sleep(5), os.read(r, 1 << 20)))
        try:
            with fiberrt.fail_after(0.01): out.write(b"x")
        except TimeoutError: print("ended")
        other.cancel()
    """, str(tmp_path / "file")) == ["ended"]  # fmt: skip
