# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures that the tests share: separate programs, for tests that may crash, and a check that no fiber is left."""

import re
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
        # Since 3.12, the interpreter warns of a fork if there are several threads, and the package's offload has some.
        [sys.executable, "-X", "faulthandler", "-W", "ignore:This process:DeprecationWarning",
         "-c", textwrap.dedent(source), *args],
        capture_output=True,
        text=True,
        timeout=timeout,
        # A background job of a shell ignores SIGINT, and the program would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def without_the_interpreters_own(err: str) -> str:
    """CPython 3.13.0 to 3.13.2 write this at their end if a thread that they had not started is left over."""
    pattern = r"Exception ignored in: <function _DeleteDummyThreadOnDel\.__del__ .*\nTraceback .*\n  File .*\n(?:    .*\n)*TypeError: .*\n"
    return re.sub(pattern, "", err) if (3, 13) <= sys.version_info < (3, 13, 3) else err


def pytest_collection_modifyitems(config, items):
    """The tests of signals come first: packages that other tests use leave threads, which would take the signals. Tests
    that start programs leave the simulation."""
    items.sort(key=lambda item: item.path.name != "test_signal.py")
    if config.getoption("--fiberrt-sim", None) is not None:
        left_out = [item for item in items if {"program", "lines"} & set(item.fixturenames)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


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
        assert without_the_interpreters_own(done.err) == ""
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
