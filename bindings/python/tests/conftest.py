# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures that the tests share: separate programs, for tests that may crash, and a check that no fiber is left."""

import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import pytest

import fiberrt
from fiberrt import _fiberrt


@dataclass
class Outcome:
    code: int
    out: str
    err: str


def run_program(source: str, *args: str, timeout: float = 400) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(source), *args],
        capture_output=True,
        text=True,
        timeout=timeout,
        # A background job of a shell ignores SIGINT, and the program would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def program():
    """Runs a separate program, for tests that may crash or concern the end of the interpreter."""
    return run_program


@pytest.fixture
def lines(program):
    """Returns the lines that a program writes; it must exit with 0 and write no error."""

    def run(source: str, *args: str) -> list[str]:
        done = program(source, *args)
        assert done.code == 0, done.err
        assert done.err == ""
        return done.out.splitlines()

    return run


@pytest.fixture(autouse=True)
def no_fiber_is_left():
    others = set(_fiberrt.fibers())  # left by an earlier test, which alone must fail
    yield
    with fiberrt.move_on_after(60):
        while any(fiber.name != "main" and fiber is not fiberrt.current() for fiber in set(_fiberrt.fibers()) - others):
            fiberrt.sleep(0.001)
    assert [fiber for fiber in set(_fiberrt.fibers()) - others if fiber.name != "main"] == []


@pytest.fixture
def unraisable(monkeypatch):
    """The arguments of the calls of sys.unraisablehook."""
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: seen.append((args.exc_type, str(args.exc_value))))
    return seen
