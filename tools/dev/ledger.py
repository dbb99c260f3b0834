# SPDX-License-Identifier: MIT OR Apache-2.0
"""The record of a run: each step with its time and verdict, the tests left out and why, failed and unsteady tests."""

import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

_printing = threading.Lock()
_used = threading.local()


def say(text: str) -> None:
    with _printing:
        print(f"== {text}", flush=True)


def note(text: str) -> None:
    with _printing:
        print(f"   {text}", flush=True)


def show(text: str) -> None:
    """Prints the output of a program."""
    with _printing:
        print(text.rstrip("\n"), flush=True)


def die(text: str) -> NoReturn:
    sys.stdout.flush()
    print(f"./dev: {text}", file=sys.stderr)
    sys.exit(1)


def add_processor_seconds(seconds: float) -> None:
    _used.seconds = processor_seconds() + seconds


def processor_seconds() -> float:
    """Returns the processors' time of the programs that this thread has run, with the programs that they have run and
    waited for. Other work of the machine makes a step longer, but hardly changes this time."""
    return getattr(_used, "seconds", 0.0)


class Ledger:
    """The steps write to it, and some steps run in parallel."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.left_out: list[str] = []
        self.failures: list[str] = []  # each: a failed test, and its last output
        self.unsteady: list[str] = []
        self.failed_steps: list[str] = []

    def leave_out(self, what: str, why: str) -> None:
        self.left_out.append(f"did not run: {what}, because {why}")

    def step(self, name: str, run: Callable[[], bool]) -> bool:
        """Runs one step of the tests. If it fails, the other steps run all the same."""
        say(name)
        begun, before = time.monotonic(), processor_seconds()
        try:
            passed = run()
        except Exception as error:  # a bug in dev must not hide the results of the other steps
            self.failures.append(f"-- {name}: {type(error).__name__}: {error}")
            passed = False
        seconds, used = int(time.monotonic() - begun), int(processor_seconds() - before)
        verdict = "passed" if passed else "FAILED"
        note(f"{verdict} after {seconds} s, {used} s of processors: {name}")
        self.ran.append(f"{seconds:4d} s, {used:4d} s of processors  {verdict}  {name}")
        if not passed:
            self.failed_steps.append(name)
        return passed

    def conclude(self) -> None:
        say("what ran")
        for line in self.ran:
            note(line)
        if self.left_out:
            say("what did not")
            for line in self.left_out:
                note(line)
        if self.failures:
            say("failed tests, with their last output")
            for text in self.failures:
                show(text)
        if self.unsteady:
            say("failed at first, and passed twice when run again alone")
            for line in self.unsteady:
                note(line)
        if self.failed_steps:
            tests = [text.split("\n")[0].removeprefix("-- ") for text in self.failures]
            die("failed: " + ", ".join(self.failed_steps) + "".join(f"\n./dev: failed: {test}" for test in tests))
        say("all of it passed")
