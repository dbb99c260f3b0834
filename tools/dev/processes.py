# SPDX-License-Identifier: MIT OR Apache-2.0
"""Starts the programs of dev, and the builds that it makes ahead while tests wait. Each program runs in a new session,
by which its children are found: they all end with dev, however cmake, ninja and ctest group them."""

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ledger import add_processor_seconds, processor_seconds, show

ROOT = Path(__file__).resolve().parents[2]
SCRATCH = Path(tempfile.mkdtemp(prefix="fiberrt-dev-"))
_ending = False
_sessions: set[int] = set()  # of the programs that dev has started, until nothing of them is left
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM)


def set_up() -> None:
    """Lets a signal end dev with the usual status of a shell. Then all its programs end, and its scratch is removed."""
    for number in SIGNALS:
        # A signal that was ignored when dev started, as under nohup, stays ignored; Python itself ignores SIGPIPE.
        if number == signal.SIGPIPE or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda signal_number, _frame: sys.exit(128 + signal_number))
    try:
        os.fstat(0)
    except OSError:  # closed: the next opened file must not become the standard input of dev's programs
        os.open(os.devnull, os.O_RDONLY)


def _processes() -> "Iterator[tuple[int, str, int, int]]":
    """Yields (number, state, parent, session) of all processes."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):  # it has ended meanwhile
            state, parent, _group, session = path.read_text(errors="replace").rpartition(") ")[2].split()[:4]
            yield int(path.parent.name), state, int(parent), int(session)


def _end() -> None:
    """Ends dev's processes: sends SIGTERM to each once, and SIGKILL to those still running after ten seconds. On
    SIGTERM the web server finishes the requests in flight."""
    global _ending
    _ending = True
    for number in SIGNALS:  # a second one must not leave the rest running
        signal.signal(number, signal.SIG_IGN)
    told: set[int] = set()
    begun = time.monotonic()
    while time.monotonic() < begun + 15:
        processes = list(_processes())
        # Also a program that start() has not noted yet, as the signal came just then.
        sessions = set(_sessions) | {pid for pid, _, parent, s in processes if parent == os.getpid() and s == pid}
        members = {pid for pid, state, _, session in processes if session in sessions and state not in "ZX"}
        if not members:
            break
        late = time.monotonic() > begun + 10
        for pid in members if late else members - told:
            with contextlib.suppress(OSError):  # it has ended meanwhile, or is another user's
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        told |= members
        time.sleep(0.02)
    shutil.rmtree(SCRATCH, ignore_errors=True)


atexit.register(_end)


def idle() -> list[str]:
    """Returns a prefix for a command that must run only while the others leave a processor idle."""
    words = ["chrt", "--idle", "0"]
    try:
        works = subprocess.run([*words, "true"], capture_output=True, stdin=subprocess.DEVNULL).returncode == 0
    except OSError:
        works = False
    return ["nice", "-n", "19", *(words if works else [])]


def start(command: list, **options) -> "subprocess.Popen[bytes]":
    if _ending:
        sys.exit(1)
    words = [str(word) for word in command]
    process = subprocess.Popen(words, cwd=options.pop("cwd", ROOT), start_new_session=True, **options)
    _sessions.add(process.pid)
    return process


def finish(process: "subprocess.Popen[bytes]") -> int:
    """Waits for the process and returns its exit status, as a shell would. Counts the processors' time."""
    if process.returncode is None:
        _, ended, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(ended)
        add_processor_seconds(usage.ru_utime + usage.ru_stime)
    status = process.returncode
    if not any(session == process.pid for _, _, _, session in _processes()):
        _sessions.discard(process.pid)  # the kernel may give this number to another program
    return status if status >= 0 else 128 - status


def environment(changes: "Mapping[str, object] | None") -> "dict[str, str] | None":
    if changes is None:
        return None
    return {**os.environ, **{name: str(value) for name, value in changes.items()}}


def run(
    command: list,  # its words, which may also be paths and numbers
    env: "Mapping[str, object] | None" = None,
    log: "Path | None" = None,
    errors: "Path | None" = None,
    ahead: bool = False,
    cwd: "Path | str" = ROOT,
) -> int:
    """Runs a program and returns its exit status. Its output goes to the log. Without a log it goes to the terminal, in
    one piece at the end if other steps run in parallel."""
    options: dict[str, object] = {"env": environment(env), "cwd": cwd}
    if ahead:
        command = [*idle(), *command]
    if log is None and threading.current_thread() is not threading.main_thread():
        with tempfile.TemporaryFile(dir=SCRATCH) as file:  # not a pipe, which a server left running would keep open
            status = finish(start(command, **options, stdout=file, stderr=file, stdin=subprocess.DEVNULL))
            file.seek(0)
            text = file.read().decode(errors="replace")
        if text.strip():
            show(text)
        return status
    if log is None:
        return finish(start(command, **options))
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file, (errors or log).open("ab") as error_file:
        return finish(start(command, stdout=file, stderr=error_file, stdin=subprocess.DEVNULL, **options))


def lines_of(path: Path) -> list[str]:
    """Returns the lines of a file; none if there is no such file."""
    return path.read_text(errors="replace").splitlines() if path.exists() else []


class Lane:
    """A list of jobs that a second thread runs in order. Without a second thread, the main thread runs them: at once
    (wait) or when their results are asked for."""

    def __init__(self, beside: bool) -> None:
        self._beside = beside
        self._work: dict[str, Callable[[], object]] = {}
        self._results: dict[str, bool] = {}
        self.used: dict[str, int] = {}  # seconds of the processors, of each job that the second thread has run
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def add(self, name: str, work: Callable[[], object]) -> None:
        self._work[name] = work

    def begin(self) -> None:
        if self._beside:
            self._thread.start()

    def _loop(self) -> None:
        for name in self._work:
            self._do(name)

    def _do(self, name: str) -> None:
        result, before = False, processor_seconds()
        try:
            result = bool(self._work[name]())
        except Exception as error:
            show(f"{name}: {type(error).__name__}: {error}")
        finally:
            with self._changed:
                if self._beside:
                    self.used[name] = round(processor_seconds() - before)
                self._results[name] = result
                self._changed.notify_all()

    def result(self, name: str) -> bool:
        if not self._beside:
            self._do(name)
        with self._changed:
            self._changed.wait_for(lambda: name in self._results)
            return self._results[name]

    def wait(self) -> None:
        if self._beside:
            self._thread.join()
        else:
            self._loop()
