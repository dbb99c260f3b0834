# SPDX-License-Identifier: MIT OR Apache-2.0
"""suites.py, which compares CPython's own tests with and without fibers, can fail: here the tests are a few small ones."""

import subprocess
import sys
from pathlib import Path

import pytest
import servers

SCRIPT = Path(__file__).parent.parent / "suites.py"

BEGIN = """
import os, sys, time, unittest
patched = "fiberrt" in sys.modules
class Tests(unittest.TestCase):
"""
SMALL = BEGIN + """
    def test_differs(self):
        self.assertFalse(patched)
    def test_fails_in_both(self):
        self.fail()
    def test_same(self):
        pass
    def test_skipped(self):
        if patched: self.skipTest("a difference, too")
"""
BAD = BEGIN + """
    def test_1_ends_the_process(self):
        if patched: os._exit(3)
    def test_2_hangs(self):
        while patched: time.sleep(1)
    def test_3_runs_nevertheless(self):
        pass
"""
NAMES_NO_TEST = "def test(:"
DIFFER = "a reason\n    test.test_small.Tests.test_differs\nanother\n    test.test_small.Tests.test_skipped\n"
SAME = "a third reason\n    test.test_small.Tests.test_same"


@pytest.fixture
def suites(tmp_path):
    """Runs suites.py for one of the small files with a list; returns its status and its lines."""
    if not SCRIPT.exists():
        servers.did_not_run("the test of suites.py", "the tests are not next to the sources")
    support = tmp_path / "test" / "support"
    support.mkdir(parents=True)
    (support / "__init__.py").touch()
    for name, text in (("__init__", ""), ("test_small", SMALL), ("test_bad", BAD), ("test_none", NAMES_NO_TEST)):
        (tmp_path / "test" / f"{name}.py").write_text(text)
    (tmp_path / "venv").symlink_to(sys.prefix)

    def run(file: str, known: str, patience_s: int = 60):
        (tmp_path / "list").write_text(known)
        command = [sys.executable, SCRIPT, tmp_path, file, "--tests", tmp_path, "--list", tmp_path / "list"]
        done = subprocess.run([*command, "--patience", str(patience_s)], capture_output=True, text=True, timeout=300)
        assert done.stderr == ""
        return done.returncode, [line.removeprefix("suites.py: ") for line in done.stdout.splitlines()]

    return run


def test_listed_and_unlisted_differences(suites):
    status, told = suites("test_small", "")
    assert status == 1
    assert told[-2:] == [
        "test.test_small.Tests.test_differs fails: NOT KNOWN",
        "test.test_small.Tests.test_skipped skips: NOT KNOWN",
    ]
    status, told = suites("test_small", DIFFER)
    assert status == 0
    assert told[-2:] == [
        "test.test_small.Tests.test_differs fails: a reason",
        "test.test_small.Tests.test_skipped skips: another",
    ]


def test_listed_tests_must_differ_unless_they_vary(suites):
    status, told = suites("test_small", DIFFER + SAME)
    assert status == 1
    assert told[-1] == "test.test_small.Tests.test_same does not differ here: IT IS LISTED, AND MUST NOT BE"
    status, told = suites("test_small", DIFFER + SAME + " varies")
    assert status == 0
    assert told[-1] == "test.test_small.Tests.test_same does not differ here: it varies"


def test_a_list_that_is_too_long(suites):
    status, told = suites("test_small", DIFFER + "".join(f"    test.test_other.Tests.test_{i}\n" for i in range(29)))
    assert status == 1
    assert told[-1] == "the list names 31 tests, MORE THAN 30"


def test_tests_that_end_the_process_or_hang(suites):
    names = [f"test.test_bad.Tests.test_{name}" for name in ("1_ends_the_process", "2_hangs")]
    status, told = suites("test_bad", "a reason\n" + "".join(f"    {name}\n" for name in names), 30)
    assert status == 0
    assert told[-3:] == [
        "3 tests, 2 differ", f"{names[0]} ends the process with 3: a reason", f"{names[1]} hangs: a reason",
    ]  # fmt: skip


def test_a_file_that_cannot_be_imported_does_not_count_as_passed(suites):
    status, told = suites("test_none", "")
    assert status == 1, told
