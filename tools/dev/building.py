# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds by a preset of CMake, runs its tests by CTest, and reads what they say: failed, skipped, unsteady."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import machine
from ledger import Ledger, note, say, show
from processes import ROOT, SCRATCH, lines_of, run

BUILD = ROOT / "build"


def on_terminal() -> bool:
    return sys.stdout.isatty()


wait_for_other_steps: "Callable[[], None]" = lambda: None  # those that run beside the one of the main thread


def configure_and_build(preset: str, targets: list[str], *options: str, ahead: bool = False) -> bool:
    """Of the configuration only what CMake wants noticed is shown, which it writes to standard error; of the build
    Ninja's running line, where there is a terminal for it, or else what was said if it fails."""
    configured, warnings, built = (BUILD / f"{preset}.{what}.log" for what in ("configure", "warnings", "build"))
    for log in (configured, warnings, built):
        log.parent.mkdir(exist_ok=True)
        log.write_text("")
    status = run(["cmake", "--preset", preset, *options], log=configured, errors=warnings, ahead=ahead)
    if status != 0:
        show(configured.read_text(errors="replace"))
    if warnings.stat().st_size:
        show(warnings.read_text(errors="replace"))
    if status != 0:
        return False
    command = ["cmake", "--build", "--preset", preset, "--target", *targets]
    if on_terminal() and not ahead:
        return run(command) == 0
    if run(command, log=built, ahead=ahead) != 0:
        show(built.read_text(errors="replace"))
        return False
    return True


def tests_if_possible() -> str:
    """So that the one tree under build/release serves all commands, and changes between them rebuild nothing."""
    return "-DFIBERRT_TESTS=" + ("ON" if machine.header("gtest/gtest.h") else "OFF")


# --- CTest -----------------------------------------------------------------------------------------------------------


# Tests that are left out where a tool is missing: machine.provide() has told of it. All others say so themselves.
NEEDED_BY = {"tool:valgrind": r"valgrind\.", "clang_runtime": r"sanitized_consumer\.clang"}


@dataclass
class Test:
    name: str
    status: str  # run, fail, notrun, disabled
    lines: list[str]  # those of its output that are not blank


def read_tests(junit: Path) -> list[Test]:
    if not junit.exists():
        return []
    return [
        Test(
            case.get("name", ""),
            case.get("status", ""),
            [l for l in (case.findtext("system-out") or "").split("\n") if l.strip()],
        )
        for case in ElementTree.parse(junit).iter("testcase")
    ]


def skipped(test: Test) -> Iterator[tuple[str, str]]:
    """(name, reason) of a skipped test, or of each that a program of many has skipped: the reason is what follows
    GoogleTest's "Skipped", or else the last line that the test printed."""
    reason = last = ""
    for line in test.lines:
        if last.endswith(": Skipped"):
            reason = line
        ended = re.match(r"\[  SKIPPED \] (\S+) \(", line)
        if ended and reason and test.status != "notrun":
            yield re.sub(r"\.\d+$", "", test.name) + "." + ended[1], reason
            reason = ""
        last = line
    if test.status == "notrun":
        yield test.name, reason or last or "it does not say"


def by_reason(found: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """One for each reason: with the names, or, of many, their number and their programs."""
    names: dict[str, list[str]] = {}
    for name, reason in found:
        names.setdefault(reason, []).append(name)
    for reason, those in names.items():
        if len(those) <= 3:
            yield ", ".join(those), reason
        else:
            programs = dict.fromkeys(name.split(".")[0] for name in those)
            yield f"{len(those)} tests of " + ", ".join(programs), reason


def told_of(test: Test, preset: str) -> str:
    """The name of a failed test, what GoogleTest said of the first failures, and the end of what it printed."""
    head, end = test.lines[:-30], test.lines[-30:]
    told = [f"-- {test.name} ({preset})"]
    at = [i for i, line in enumerate(head) if line.endswith(": Failure")]
    for i in at[:3]:
        told += head[i : i + 8]
    return "\n".join(told + end)


def run_ctest(ledger: Ledger, preset: str, *options: str, env: "Mapping[str, object] | None" = None) -> bool:
    """Runs the tests of a preset, and notes those that skipped themselves with the reason that they printed."""
    junit, log = SCRATCH / f"{preset}.xml", SCRATCH / f"{preset}.log"
    # The outputs are whole, for what is looked for below.
    command = ["ctest", "--preset", preset, "--output-junit", junit, "--output-log", log,
               "--test-output-size-failed", "100000000", "--test-output-size-passed", "10000000", *options]  # fmt: skip
    absent = [tests for probe, tests in NEEDED_BY.items() if not machine.found(probe)]
    if absent and preset != "coverage":  # which has none of these, and a filter that this one would replace
        command += ["--exclude-regex", f"^({'|'.join(absent)})"]
    if not on_terminal():
        command.append("--quiet")  # a log must be short: what failed is told once, at its end
    passed = run(command, env) == 0
    if not on_terminal():
        for line in lines_of(log):
            if re.match(r"\d+% tests passed", line):
                note(line)
    tests = read_tests(junit)
    if not passed:
        ledger.failures += [told_of(test, preset) for test in tests if test.status == "fail"]
        passed = second_chance(ledger, preset, tests, log, env)
    for name, reason in by_reason([found for test in tests for found in skipped(test)]):
        ledger.leave_out(f"{name} ({preset})", reason)
    return passed


def second_chance(
    ledger: Ledger, preset: str, tests: list[Test], log: Path, env: "Mapping[str, object] | None"
) -> bool:
    """Many tests have to do with time, and other programs take it from them. A test that failed passes after all if it
    does twice in a row alone, and the end tells of it; a test that did not run because of it runs then. Hangs, crashes
    and what a sanitizer reports count at once, which ctest --repeat until-pass could not tell apart."""
    text = log.read_text(errors="replace") if log.exists() else ""
    _, _, list_of_failed = text.rpartition("The following tests FAILED:")
    failed = re.findall(r"^\s*\d+ - (.*) \(([^()]*)\)", list_of_failed, re.M)  # newer ones put labels behind
    failed = [(name, how) for name, how in failed if how != "Not Run"]
    if not failed or any(how != "Failed" for _, how in failed):
        return False
    told = [line for test in tests if test.status == "fail" for line in test.lines]
    if any(re.search(r"SUMMARY: [A-Za-z]*Sanitizer|: runtime error: ", line) for line in told):
        return False
    wait_for_other_steps()  # else it would not be alone; builds that are made ahead run on an idle processor only
    say("again, alone and twice, what failed")
    if run(["ctest", "--preset", preset, "--rerun-failed", "--parallel", "1", "--repeat", "until-fail:2"], env) != 0:
        return False
    ledger.unsteady += [f"{name} ({preset})" for name, _ in failed]
    return True


def has_tests(preset: str) -> bool:
    """Whether any test of the release build is in a preset. A test whose label is misspelt is not lost: it runs
    always."""
    return bool(re.search(r"^Total Tests: [1-9]", machine.output("ctest", "--preset", preset, "--show-only"), re.M))
