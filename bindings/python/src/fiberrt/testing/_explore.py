# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs a test under many seeds, each run in a child forked from a process that has imported and patched everything.
When a run fails, looks for the fewest choices that make it fail, and records that run."""

from __future__ import annotations

import _signal
import gc
import os
import pickle
import posix
import re
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from .. import _blocking, _fiberrt
from . import _locks, _outside, _run
from ._existing import replace_existing
from ._program import Program
from ._run import FAILED, LEFT, PASSED, SKIPPED, Outcome, Run, Settings, Slot, Test
from ._shrink import Choice, fewest, shrink

_MOST_SHRINK_RUNS = 2000
_MOST_FEW_RUNS = 1500
_SHRINK_S = 3.0  # of each of the three parts of shrinking
_MOST_OUTPUT = 100_000  # bytes of a run's output that are read
_LONG_LIST = 4000  # bytes; longer lists are put into a file
_CHOICES_OF_BEGIN = 2  # at most so many are made before the test begins
_fork = posix.fork  # refuse() replaces it
_writer = -1  # to the process that has asked for the runs


@dataclass
class Report:
    """What an exploration has found."""

    runs: int = 0
    seconds: float = 0.0
    seed: int | None = None  # of the first failing run; None: the ordinary run fails, or a replay
    outcome: Outcome = field(default_factory=lambda: Outcome(PASSED))
    choices: str = ""  # the shrunk list, for a replay
    chosen: int = 0  # the number of its choices
    possible: int = 0  # the number of choices that the first failing run made
    replay: bool = False  # whether it is the report of one run with a list of choices
    repeats: bool = True  # whether the failing run repeats itself

    @property
    def failed(self) -> bool:
        return self.outcome.failed


def _verdict(status: int, settings: Settings) -> Outcome:
    """Return the outcome of a run that a signal has ended."""
    if status == -signal.SIGALRM:
        text = f"the run took longer than {settings.timeout_s} s"
        return Outcome(LEFT, "hang", f"{text}: a thread computes or blocks, or there are very many switches")
    if status == -signal.SIGABRT:
        why = f"either more than {settings.steps} switches (steps), or a C library called abort()"
        return Outcome(FAILED, "abort", f"the process was aborted: {why}")
    return Outcome(FAILED, f"signal {-status}", f"the process was killed by signal {-status}")


def _place_in(dump: str, program: Program) -> str:
    """Return the program's innermost line in a dump of faulthandler."""
    _, begin, stack = dump.rpartition("(most recent call first)")
    for name, line in re.findall(r'File "(.*)", line (\d+)', stack) if begin else ():
        if program.contains_file(name):
            return f"{os.path.basename(name)}:{line}"
    return ""


class Explorer:
    """Decides which runs of a test are made. The runs are children of another process, whose memory does not change, so
    that each begins with the same memory."""

    def __init__(self, test: Test, settings: Settings, jobs: int, folder: str) -> None:
        self.settings, self.jobs, self.folder = settings, jobs, folder
        self.program = Program(settings.modules)
        self.program.look_at_modules()
        _run.configure(settings)
        self.slots = [Slot(f"{folder}/run{i}") for i in range(jobs + 1)]
        self.runs = 0
        self.usual = 0  # the number of choices of the ordinary run
        self.parent = posix.getppid()
        self._output = posix.memfd_create("output")
        requests, self._requests = posix.pipe()
        self._answers, answers = posix.pipe()
        self._server = _fork()
        if self._server == 0:
            try:
                for own in (self._requests, self._answers, _writer):
                    posix.close(own)
                slot = _fiberrt.serve_forks(requests, answers, len(self.slots))
                _run.be(test, settings, self.program, self.slots[slot], self._output)
            finally:
                posix._exit(0)
        posix.close(requests)
        posix.close(answers)

    def close(self) -> None:
        posix.close(self._requests)
        posix.waitpid(self._server, 0)

    def _ask(self, number: int) -> int:
        posix.write(self._requests, number.to_bytes(8, sys.byteorder, signed=True))
        answer = posix.read(self._answers, 8)
        if not answer:
            raise RuntimeError("the process that forks the simulated runs has died")
        return int.from_bytes(answer, sys.byteorder, signed=True)

    def _start(self, slot: Slot, run: Run) -> int:
        if run.choices is not None and len(run.choices) > _LONG_LIST:
            path = f"{self.folder}/list"
            with open(path, "w") as file:
                file.write(run.choices)
            run = run._replace(choices="@" + path)
        slot.request(run)
        self.runs += 1
        pid = self._ask(self.slots.index(slot))
        if pid < 0:
            raise OSError(-pid, f"a simulated run cannot be forked: {os.strerror(-pid)}")
        return pid

    def _end(self, pid: int, slot: Slot) -> Outcome:
        late = False

        def stop(*_: object) -> None:
            nonlocal late
            late = True
            posix.kill(pid, 9)

        _signal.signal(_signal.SIGALRM, stop)  # the run's own alarm is earlier, unless the test uses that signal
        if self.settings.timeout_s:
            _signal.alarm(2 * self.settings.timeout_s + 1)
        try:
            ended = self._ask(-1 - self.slots.index(slot))
        except BaseException:  # the server waits for the run, so it would not notice the end of this process
            posix.kill(pid, 9)
            raise
        finally:
            _signal.alarm(0)
        if os.path.exists(slot.temporary):
            shutil.rmtree(slot.temporary, ignore_errors=True)
        if ended < 0:
            raise OSError(-ended, f"the end of a simulated run is not known: {os.strerror(-ended)}")
        status = os.waitstatus_to_exitcode(ended) if not late else -signal.SIGALRM
        return slot.take(status) if status >= 0 else _verdict(status, self.settings)

    def run(self, seed: int, choices: str | None = None, trace: str = "", recorded: bool = False,
            tale_always: bool = False, kept: bool = True) -> Outcome:  # fmt: skip
        kept = kept and recorded
        if kept:
            posix.ftruncate(self._output, 0)
            posix.lseek(self._output, 0, 0)
        slot = self.slots[-1]
        if recorded and not trace:
            trace = f"{self.folder}/recorded"  # in which the recorder reads the choices
        run = Run(seed, choices, trace, recorded, kept, tale_always, self.usual)
        outcome = self._end(self._start(slot, run), slot)
        if kept:
            outcome.output_before, outcome.output = self._end_of_output()
            place = _place_in(outcome.output, self.program) if outcome.kind == "hang" else ""
            outcome.text = f"{place}: {outcome.text}" if place else outcome.text
        return outcome

    def _end_of_output(self) -> tuple[int, str]:
        """Return the end of the output of a run, and the number of the lines before it."""
        begin = max(0, posix.fstat(self._output).st_size - _MOST_OUTPUT)
        lines = 0
        for at in range(0, begin, _MOST_OUTPUT):
            lines += posix.pread(self._output, min(_MOST_OUTPUT, begin - at), at).count(b"\n")
        return lines, posix.pread(self._output, _MOST_OUTPUT, begin).decode(errors="replace")

    def first_failing(self, runs: Iterable[tuple[int, str | None]], until: float, kind: str = ""
                      ) -> tuple[int, str | None, Outcome] | None:  # fmt: skip
        """Make the runs, each of a seed or a list of choices, until one fails (with this kind of failure, if given) or
        the time is over. Return its seed, its list and its outcome. If no run fails, return the first skipped one."""
        running: deque[tuple[int, int, str | None, Slot]] = deque()
        free = self.slots[:-1]
        left = iter(runs)
        more = True
        skipped: tuple[int, str | None, Outcome] | None = None
        try:
            while True:
                while more and free:
                    entry = next(left, None) if _fiberrt.real_now() < until else None
                    if entry is None:
                        more = False
                        break
                    seed, choices = entry
                    slot = free.pop()
                    running.append((self._start(slot, Run(seed, choices, usual=self.usual)), seed, choices, slot))
                if not running:
                    return skipped
                if posix.getppid() != self.parent:
                    raise SystemExit("the process that has asked for the runs has died")
                pid, seed, choices, slot = running.popleft()
                outcome = self._end(pid, slot)
                free.append(slot)
                if outcome.failed and kind in ("", outcome.kind):
                    return seed, choices, outcome
                if outcome.status == SKIPPED and not kind:
                    skipped = skipped or (seed, choices, outcome)
        finally:
            for pid, _, _, slot in running:
                posix.kill(pid, 9)
                self._ask(-1 - self.slots.index(slot))

    def choices_of(self, seed: int, list_: str | None = None) -> tuple[list[Choice], int, Outcome]:
        """Run a seed, or a list, with a trace. Return its choices that are not 0, and the number of all."""
        trace = f"{self.folder}/trace"
        if os.path.exists(trace):
            os.unlink(trace)
        outcome = self.run(seed, list_, trace)
        choices: list[Choice] = []
        position = 0
        if not os.path.exists(trace):  # it has failed before the simulation began
            return choices, 0, outcome
        with open(trace, errors="replace") as file:
            for line in file:
                words = line.split()
                if len(words) > 3 and words[1] == "pick":
                    chosen, possible = map(int, words[2].split("/"))
                    if chosen:
                        choices.append(Choice(position, chosen, possible, words[3]))
                    position += 1
        return choices, position, outcome

    def difference(self, seed: int) -> Outcome:
        """Run a seed twice. Return the outcome of the first run that did not pass; if both did, of how they differ."""
        traces = [f"{self.folder}/{name}" for name in ("first", "second")]
        for trace in traces:
            outcome = self.run(seed, trace=trace)
            if outcome.status != PASSED:
                return outcome
        text = self._how_they_differ(seed, traces)
        if text:
            return Outcome(LEFT, "differs", f"two runs of seed {seed} differ, so something is not simulated: {text}")
        return Outcome(PASSED)

    def _how_they_differ(self, seed: int, traces: list[str]) -> str:
        first, second = (_contents(trace) for trace in traces)
        if first == second:
            return ""
        records = [self.run(seed, recorded=True, tale_always=True).tale for _ in range(2)]
        for one, other in zip(*records):
            if one != other:
                return f"once {one.strip()}; once {other.strip()}"
        return "the choices differ, but no line of the program does"

    def look_closer(self, seed: int | None, first: Outcome, report: Report) -> None:
        """Shrink the failing run, and record it. seed: None is the ordinary run."""
        if first.kind == "differs":
            return
        if first.status == LEFT or seed is None:
            report.outcome = self.run(0, "", recorded=True) if seed is None else self.run(seed, recorded=True)
            report.repeats = (report.outcome.status, report.outcome.kind) == (first.status, first.kind)
            if not report.outcome.failed:
                report.outcome = first
            return
        choices, report.possible, outcome = self.choices_of(seed)

        def fails(candidate: list[Choice]) -> bool:
            return self.run(0, as_text(candidate)).kind == first.kind

        if outcome.kind != first.kind or not fails(choices):
            report.repeats = False
            report.outcome = self.run(seed, recorded=True)
            if not report.outcome.failed:
                report.outcome = first
            return
        until = _fiberrt.real_now() + _SHRINK_S
        least = shrink(choices, lambda candidate: _fiberrt.real_now() < until and fails(candidate), _MOST_SHRINK_RUNS)
        if len(least) > 1:
            least = self._fewest(report.possible, first.kind, len(least) - 1) or least
        report.choices, report.chosen = as_text(least), len(least)
        report.outcome = self.run(0, report.choices, recorded=True)
        report.repeats = report.outcome.kind == first.kind
        if not report.outcome.failed:
            report.outcome = first

    def explore(self, seeds: Iterable[int], until: float) -> tuple[int | None, Outcome]:
        """Make the ordinary run, then those of the seeds, until one fails. Return its seed and its outcome. If none
        fails, return the outcome of one that was skipped, or that all have passed."""
        _, self.usual, outcome = self.choices_of(0, "")
        first = next(iter(seeds), None)
        no_choice = self.usual <= _CHOICES_OF_BEGIN  # so all runs are equal
        if outcome.failed or first is None or (outcome.status == SKIPPED and no_choice):
            return None, outcome
        other = self.difference(first)
        if other.failed:
            return first, other
        found = None if no_choice else self.first_failing(((seed, None) for seed in seeds), until)
        if found is not None:
            return found[0], found[2]
        return None, outcome if outcome.status != PASSED else other

    def _fewest(self, positions: int, kind: str, most: int) -> list[Choice] | None:
        def first_failing(lists: list[list[Choice]]) -> list[Choice] | None:
            texts = {as_text(choices): choices for choices in lists}
            found = self.first_failing(((0, text) for text in texts), _fiberrt.real_now() + _SHRINK_S, kind)
            return None if found is None or found[1] is None else texts[found[1]]

        return fewest(positions, first_failing, most, _MOST_FEW_RUNS)


def _contents(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:  # the run has ended before its first choice
        return b""


def as_text(choices: list[Choice]) -> str:
    return _run.as_list([(choice.position, choice.chosen) for choice in choices])


def _prepare(replay: bool) -> None:
    """Patch this process for all runs. A replay keeps the terminal."""
    import builtins
    import datetime  # noqa: F401 - so that the runs do not import it
    import queue

    from .. import _condition, _queue, _threading, monkey

    replace_existing()  # first: the garbage collector does not know patch()'s locks
    standard_input = sys.stdin, builtins.input
    monkey.patch()
    sys.stdin, builtins.input = standard_input  # a debugger's: a run waits for no terminal
    instead = {id(getattr(_fiberrt, name)): value for name, value in _locks.REPLACED.items() if hasattr(_fiberrt, name)}
    instead[id(_condition.Condition)] = _locks.Condition
    instead[id(_queue.SimpleQueue)] = _locks.SimpleQueue
    for name, value in _locks.REPLACED.items():
        if hasattr(threading, name):
            setattr(threading, name, value)
    queue.SimpleQueue = _locks.SimpleQueue  # type: ignore[misc,assignment]
    _threading.Lock, _threading.RLock = _locks.Lock, _locks.RLock  # type: ignore[misc]
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if names is None or getattr(module, "__name__", "").split(".")[0] == "fiberrt":
            continue
        for key, value in list(names.items()):
            if id(value) in instead:
                names[key] = instead[id(value)]
            elif type(value) is _fiberrt.Lock and not value._is_owned():
                names[key] = _locks.Lock()
            elif type(value) is _fiberrt.RLock and not value._is_owned():
                names[key] = _locks.RLock()
    _outside.refuse()
    _run.prepare(replay)
    gc.collect()
    gc.freeze()


def explore_here(test: Test, settings: Settings, seeds: Iterable[int], jobs: int, seconds: float, choices: str | None
                 ) -> Report:  # fmt: skip
    _prepare(choices is not None)
    begun = _fiberrt.real_now()
    report = Report()
    if _run.thread_count() > 1:
        why = "a function of os.register_at_fork() has started a thread of the system, which the simulation cannot repeat"
        report.outcome = Outcome(LEFT, "thread", why)
        return report
    if choices is not None:
        settings.timeout_s = 0  # there may be a debugger
    with (
        tempfile.TemporaryDirectory(prefix="fiberrt-testing-") as folder,
        closing(Explorer(test, settings, jobs, folder)) as explorer,
    ):
        if choices is not None:
            report.outcome = explorer.run(0, choices, recorded=True, kept=False)
            report.choices, report.replay = choices, True
        else:
            seed, report.outcome = explorer.explore(seeds, begun + seconds)
            if report.outcome.failed:
                report.seed = seed
                explorer.look_closer(seed, report.outcome, report)
        report.runs = explorer.runs
    report.seconds = _fiberrt.real_now() - begun
    return report


def _fork_without_watch() -> int:
    """Fork; report_blocking() does not go on in the child, where its thread could not be repeated."""
    watch, _blocking._watch = _blocking._watch, None
    pid = -1
    try:
        with warnings.catch_warnings():
            # Python 3.12 and later warn of a fork while the watch's thread runs.
            warnings.filterwarnings("ignore", "This process .* multi-threaded", DeprecationWarning)
            pid = _fork()
    finally:
        if pid:
            _blocking._watch = watch
    return pid


@contextmanager
def _children_are_waited_for() -> Iterator[None]:
    """Let SIGCHLD have its default effect: if a process ignores it, the kernel forgets how its children end."""
    before: Any = _signal.getsignal(_signal.SIGCHLD)
    if before in (None, _signal.SIG_DFL) or threading.current_thread() is not threading.main_thread():
        yield  # Python can neither restore a handler of C nor change one in another thread
        return
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    try:
        yield
    finally:
        _signal.signal(_signal.SIGCHLD, before)


def explore(test: Test, settings: Settings, seeds: Iterable[int], jobs: int = 0, seconds: float = 1e9,
            choices: str | None = None) -> Report:  # fmt: skip
    """Fork the process that makes the runs, and return its report."""
    jobs = jobs or len(os.sched_getaffinity(0))
    reader, writer = posix.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with _children_are_waited_for():
        pid = _fork_without_watch()
        if pid == 0:
            posix.close(reader)
            global _writer
            _writer = writer
            _answer(writer, lambda: explore_here(test, settings, seeds, jobs, seconds, choices))
        posix.close(writer)
        data = b""
        try:
            while part := posix.read(reader, 1 << 20):
                data += part
        finally:
            posix.close(reader)
            if not data:
                posix.kill(pid, 15)
            with suppress(ChildProcessError):  # another thread of the program has waited for it
                posix.waitpid(pid, 0)
    if not data:
        raise RuntimeError("the process that makes the simulated runs has died")
    answer = pickle.loads(data)
    if isinstance(answer, BaseException):
        raise answer
    return answer  # type: ignore[no-any-return]


def _end_on_request(*_: object) -> NoReturn:
    raise SystemExit("the process that has asked for the runs does not want them any more")


def _answer(writer: int, work: object) -> NoReturn:
    try:
        _signal.signal(_signal.SIGTERM, _end_on_request)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)  # in each child, too
        try:
            answer: object = work()  # type: ignore[operator]
        except Exception as error:
            import traceback

            answer = RuntimeError(f"fiberrt.testing: {''.join(traceback.format_exception(error))}")
        data = memoryview(pickle.dumps(answer))
        while data:
            data = data[posix.write(writer, data) :]
    finally:
        posix._exit(0)


__all__ = ["FAILED", "LEFT", "PASSED", "SKIPPED", "Report", "explore"]
