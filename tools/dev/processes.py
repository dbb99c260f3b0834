# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that dev starts, and the builds that it makes ahead while tests wait. Each program has its own session, by
which dev finds its children: they all end with dev, however cmake, ninja and ctest group them."""

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

from ledger import show

ROOT = Path(__file__).resolve().parents[2]
SCRATCH = Path(tempfile.mkdtemp(prefix="fiberrt-dev-"))
_ending = False
_sessions: set[int] = set()  # of the programs that dev has started, until nothing of them is left
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM)


def set_up() -> None:
    """A signal ends dev with the status that a shell would give it; what it started ends, and the scratch goes."""
    for number in SIGNALS:
        # One that dev was started to ignore, as by nohup, stays so; but Python itself ignores SIGPIPE.
        if number == signal.SIGPIPE or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda signal_number, _frame: sys.exit(128 + signal_number))
    try:
        os.fstat(0)
    except OSError:  # closed: the next file that is opened must not become the standard input of what dev starts
        os.open(os.devnull, os.O_RDONLY)


def _processes() -> "Iterator[tuple[int, str, int, int]]":
    """Number, state, parent and session of every process."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):  # it has ended meanwhile
            state, parent, _group, session = path.read_text(errors="replace").rpartition(") ")[2].split()[:4]
            yield int(path.parent.name), state, int(parent), int(session)


def _end() -> None:
    """Sends SIGTERM once to each process that dev started; after ten seconds SIGKILL to those still there. The web
    server finishes the requests in flight."""
    global _ending
    _ending = True
    for number in SIGNALS:  # a second one must not leave the rest running
        signal.signal(number, signal.SIG_IGN)
    told: set[int] = set()
    begun = time.monotonic()
    while time.monotonic() < begun + 15:
        processes = list(_processes())
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
    """What a command begins with that is to run only while the others leave a processor idle."""
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
    """Its exit status, as a shell has it."""
    status = process.wait()
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
    """Runs a program and returns its exit status. Its output goes to the log; without a log to the terminal, in one
    piece at its end if other steps run beside this one."""
    options: dict[str, object] = {"env": environment(env), "cwd": cwd}
    if ahead:
        command = [*idle(), *command]
    if log is None and threading.current_thread() is not threading.main_thread():
        with tempfile.TemporaryFile(dir=SCRATCH) as file:  # no pipe, which a server left behind would hold open
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
    """Nothing if there is no such file."""
    return path.read_text(errors="replace").splitlines() if path.exists() else []


class Lane:
    """Work that a thread does in order, beside the main one; or, where that is not wanted, the main thread by itself:
    at once (wait) or when the result is asked for."""

    def __init__(self, beside: bool) -> None:
        self._beside = beside
        self._work: dict[str, Callable[[], object]] = {}
        self._results: dict[str, bool] = {}
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
        result = False
        try:
            result = bool(self._work[name]())
        except Exception as error:
            show(f"{name}: {type(error).__name__}: {error}")
        finally:
            with self._changed:
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
