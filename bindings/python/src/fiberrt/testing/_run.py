# SPDX-License-Identifier: MIT OR Apache-2.0
"""One simulated run of a test, in a child that is forked for it."""

from __future__ import annotations

import _signal
import errno
import faulthandler
import io
import mmap
import os
import pickle
import posix
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from .. import _fiberrt, monkey
from . import _hypothesis, _locks, _outside, _record, _values
from ._outside import leave
from ._program import Program

PASSED, FAILED, SKIPPED, LEFT = 0, 1, 4, 3  # statuses of an Outcome
_ROOM = 16 << 20  # of an Outcome, in bytes
_EXPECTED = (2, 1, 4, 8, 16)  # preemptions at points, and before lines, if there were no limit; the run chooses
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

inside = False  # whether this process is a run
folder = ""  # for the files of this run, in which an earlier run may have left some; no other run uses it now
usual = 0  # the number of choices of an ordinary run


@dataclass
class Settings:
    """What is simulated, and for how long. docs: simulate()."""

    switches: str = "waits"  # or lines, instructions
    preemptions: int = 4
    faults: int = 0
    modules: tuple[str, ...] = ()
    timeout_s: int = 10
    steps: int = 1_000_000


@dataclass
class Outcome:
    """How a run ended."""

    status: int  # PASSED, FAILED, SKIPPED or LEFT
    kind: str = ""  # equal for runs with the same failure: the exception's type and place
    text: str = ""  # the failure, for people
    output: str = ""
    output_before: int = 0  # lines, which are left out
    tale: list[str] = field(default_factory=list)
    deadlock: list[str] = field(default_factory=list)
    skip: str = ""  # the reason, if the run was skipped or failed as expected
    expected: bool = False  # whether a skipped run failed as expected
    cause: list[str] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return self.status in (FAILED, LEFT)


_PASSED = pickle.dumps(Outcome(PASSED))


class Slot:
    """The place of one of the runs that are made at the same time: a folder, and memory that it shares with its parent,
    for the Outcome."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        posix.mkdir(folder)
        self.temporary = folder + "-tempfile"  # which the run makes if its program uses tempfile
        self._memory = mmap.mmap(-1, _ROOM)

    def put(self, outcome: Outcome) -> None:
        data = _PASSED if outcome == Outcome(PASSED) else pickle.dumps(outcome)
        for most in (1_000_000, 500):  # characters of each part
            if len(data) <= _ROOM - 8:
                break
            data = pickle.dumps(_trimmed(outcome, most))
        self._put(data)

    def request(self, run: Run) -> None:
        """Say which run is made next."""
        self._put(pickle.dumps(run))

    def requested(self) -> Run:
        run: Run = pickle.loads(self._get())
        self._memory[:8] = bytes(8)
        return run

    def _put(self, data: bytes) -> None:
        self._memory[8 : 8 + len(data)] = data
        self._memory[:8] = len(data).to_bytes(8, "little")

    def _get(self) -> bytes:
        return self._memory[8 : 8 + int.from_bytes(self._memory[:8], "little")]

    def take(self, status: int) -> Outcome:
        """Return the Outcome of a run whose process has ended with this exit status."""
        data = self._get()
        if not data:
            return Outcome(FAILED, f"exit {status}", f"the process ended, with status {status}, before the test did")
        outcome: Outcome = pickle.loads(data)
        return outcome


def _trimmed(outcome: Outcome, most: int) -> Outcome:
    """Return a smaller Outcome: at most so many characters of each text, and a line for each 100 of them. It says what it
    leaves out."""

    def short(line: str) -> str:
        return line if len(line) <= 200 else line[:200] + " ..."

    def first(all_: list[str]) -> list[str]:
        kept = [short(line) for line in all_[: most // 100]]
        return kept + _left_out(len(all_) - len(kept))

    def last(all_: list[str]) -> list[str]:
        kept = [short(line) for line in all_[-(most // 100) :]]
        return _left_out(len(all_) - len(kept)) + kept

    def end(text: str) -> str:
        cut = len(text) - most
        return text if cut <= 0 else f"({cut} characters are left out)\n{text[cut:]}"

    return Outcome(
        outcome.status, outcome.kind[:most], end(outcome.text), outcome.output, outcome.output_before,
        last(outcome.tale), first(outcome.deadlock), short(outcome.skip), outcome.expected, first(outcome.cause),
        first(outcome.decisions),
    )  # fmt: skip


def _left_out(count: int) -> list[str]:
    return [f"({count} lines are left out)"] if count else []


@dataclass
class Test:
    """A test, how its exceptions are told, and which exceptions do not fail it."""

    call: Callable[[], object]
    tell: Callable[[BaseException], str] | None = None
    excuse: Callable[[BaseException], Outcome | None] | None = None  # of a skip, or of an expected failure

    def excused(self, error: BaseException | None) -> Outcome | None:
        return None if self.excuse is None or error is None else self.excuse(error)


class Run(NamedTuple):
    """The choices of a run, and which of its results are kept."""

    seed: int
    choices: str | None = None  # a list, instead of those of the seed
    trace: str = ""  # the file for the trace
    recorded: bool = False
    kept: bool = False  # whether standard output and error are kept
    tale_always: bool = False  # whether it tells its tale even if it passes
    usual: int = 0  # the number of choices of the ordinary run


def configure(settings: Settings) -> None:
    """Set the environment variables that all runs of this process have in common. The simulation reads them at its first
    choice."""
    os.environ["FIBERRT_BACKEND"] = "sim"
    os.environ["FIBERRT_SIM_FAULTS"] = str(settings.faults)
    os.environ["FIBERRT_SIM_STEPS"] = str(settings.steps)
    for name in ("FIBERRT_SIM_REPLAY", "FIBERRT_SIM_TRACE"):
        os.environ.pop(name, None)


def _choose(run: Run) -> None:
    """Set the environment variables of one run, in its own process: the C library never frees a value."""
    posix.putenv("FIBERRT_SEED", str(run.seed))
    if run.choices is not None:
        posix.putenv("FIBERRT_SIM_REPLAY", run.choices)
    if run.trace:
        posix.putenv("FIBERRT_SIM_TRACE", run.trace)


def _files() -> None:
    """Replace standard input, output and error by nothing."""
    nothing = posix.open("/dev/null", posix.O_RDWR)
    for number in range(3):
        posix.dup2(nothing, number)
    posix.close(nothing)
    for name in ("stdout", "stderr"):
        raw = io.FileIO(1 if name == "stdout" else 2, "w", closefd=False)
        setattr(sys, name, io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True))


class _ThreadErrors:
    """threading.excepthook: keeps the first exception that ends a thread."""

    def __init__(self) -> None:
        self.first: BaseException | None = None
        self.name = ""

    def __call__(self, arguments: Any) -> None:
        if self.first is None and arguments.exc_value is not None and arguments.exc_type is not SystemExit:
            self.first = arguments.exc_value
            self.name = arguments.thread.name if arguments.thread is not None else "a thread"


def _kind_of(error: BaseException, program: Program) -> str:
    at, place = error.__traceback__, ""
    while at is not None:
        if program.contains(at.tb_frame.f_code):
            place = f" at {at.tb_frame.f_code.co_filename}:{at.tb_lineno}"
        at = at.tb_next
    return type(error).__qualname__ + place


def _without_own_frames(error: BaseException) -> BaseException:
    """Remove the frames of fiberrt from the traceback."""
    frames = []
    at = error.__traceback__
    while at is not None:
        if not at.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            frames.append(at)
        at = at.tb_next
    if not frames:
        return error
    for one, following in zip(frames, [*frames[1:], None]):
        one.tb_next = following
    return error.with_traceback(frames[0])


def _tell(error: BaseException) -> str:
    return "".join(traceback.format_exception(_without_own_frames(error)))


def skipped(reason: str, expected: bool = False) -> Outcome:
    """Return the outcome of a skipped run, or of one that failed as expected."""
    return Outcome(SKIPPED, skip=reason, expected=expected)


def _call(test: Test, errors: _ThreadErrors) -> BaseException | None:
    try:
        test.call()
        if errors.first is None:
            threading._shutdown()  # type: ignore[attr-defined]
    except BaseException as error:  # also SystemExit and KeyboardInterrupt
        return errors.first if errors.first is not None and test.excused(error) is not None else error
    return errors.first


def prepare(replay: bool) -> None:
    """Make this process ready to fork runs."""
    _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
    if not replay:
        _files()
    real = _fiberrt.virtualize()
    if real:
        raise RuntimeError(f"this interpreter has unknown implementations of {', '.join(real)}")
    _fiberrt.replace_sleep(monkey._originals["time", "sleep"])
    _values.prepare()
    _hypothesis.prepare()


def _one_in() -> int:
    """Choose how often threads are preempted."""
    return max(2, usual // _EXPECTED[_fiberrt.sim_pick(len(_EXPECTED))])


def begin(settings: Settings, program: Program) -> None:
    """Make this process a simulation, and choose how often threads are preempted."""
    _fiberrt.virtualize()  # the time and random bytes begin anew
    _signal.alarm(settings.timeout_s)
    _fiberrt.on_refused(lambda: _outside.refused(program))
    try:
        points, lines = _one_in(), 0
    except RuntimeError:
        leave("this process has used fibers before: a simulation begins in a process that has not")
    if settings.switches != "waits":
        lines = _one_in()
    if lines or _record.current is not None:
        recorder = _record.current
        before, raised = (None, None) if recorder is None else (recorder.before_line, recorder.raised)
        _fiberrt.on_preemption(None if recorder is None else recorder.preempted)
        _fiberrt.trace_lines(program.contains, before, raised, settings.switches == "instructions")
        sys.settrace = _fiberrt.debug
    _fiberrt.preempt(points, settings.preemptions, lines, settings.preemptions)


def be(test: Test, settings: Settings, program: Program, slot: Slot, output: int) -> NoReturn:
    """Make the run that the slot requests, put the outcome into it, and end the process. output: a descriptor for
    standard output and error."""
    global inside, folder, usual
    inside, folder = True, slot.folder
    try:
        run = slot.requested()
        usual = run.usual
        _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
        _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
        errors = threading.excepthook = _ThreadErrors()
        if run.recorded:
            _record.current = _record.Recorder(program, _call.__code__, run.trace)
            _locks.record_joins()
            faulthandler.enable(2)
            if settings.timeout_s:
                faulthandler.register(_signal.SIGALRM, file=2, chain=True)
        if run.kept:
            posix.dup2(output, 1)
            posix.dup2(output, 2)
        _choose(run)
        begin(settings, program)
        _values.begin(slot.temporary)
        error = _call(test, errors)
        _fiberrt.stop_preempting()
        slot.put(_outcome(test, program, error, errors, run.tale_always))
    except BaseException as error:
        slot.put(Outcome(LEFT, "fiberrt.testing", _outside.left or _tell(error)))
    finally:
        posix._exit(0)


def _outcome(
    test: Test, program: Program, error: BaseException | None, errors: _ThreadErrors, tale_always: bool
) -> Outcome:
    recorder, _record.current = _record.current, None
    why = _outside.left or _why_left(error, program)
    if why:
        return Outcome(LEFT, why, why + "\n" + ("" if error is None else _tell(error)))
    if error is None:
        return Outcome(PASSED, tale=recorder.tell() if recorder is not None and tale_always else [])
    excused = None if error is errors.first else test.excused(error)
    if excused is not None:
        return excused
    outcome = Outcome(FAILED, _kind_of(error, program))
    tell = test.tell if test.tell is not None and error is not errors.first else _tell
    outcome.text = (f"in {errors.name}:\n" if error is errors.first else "") + tell(_without_own_frames(error))
    if recorder is not None:
        outcome.deadlock = recorder.stuck
        outcome.cause = recorder.cause(error)
        outcome.decisions = recorder.decisions(error)
        outcome.tale = recorder.tell(error)
    return outcome


def _why_left(error: BaseException | None, program: Program) -> str:
    """Return what the run has done that the simulation cannot repeat, or nothing."""
    if thread_count() > 1:
        return "a module that is not written in Python has started a thread, which the simulation cannot repeat"
    if isinstance(error, OSError) and error.errno == errno.ENOTSUP:
        place = _kind_of(error, program).partition(" at ")[2]
        return f"{place or 'a library'} uses a file or a connection that other processes may use: {error}"
    return ""


def thread_count() -> int:
    return posix.stat("/proc/self/task").st_nlink - 2  # a folder of each thread, besides . and ..


def as_list(choices: Sequence[tuple[int, int]]) -> str:
    """Return choices as FIBERRT_SIM_REPLAY takes them."""
    return ",".join(f"{position}:{chosen}" for position, chosen in choices)
