# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds by a preset of CMake, runs its tests by CTest, and reads the results: failed, skipped, unsteady."""

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


wait_for_other_steps: "Callable[[], None]" = lambda: None  # the steps that run in parallel to the main thread


def configure_and_build(preset: str, targets: list[str], *options: str, ahead: bool = False) -> bool:
    """Configures and builds; returns whether both passed. Shows CMake's standard error, and CMake's whole output if it
    fails. Shows Ninja's progress line on a terminal; otherwise the output of the build, and only if it fails."""
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
    """Returns one setting for all commands, so that they share the tree under build/release without rebuilding it."""
    return "-DFIBERRT_TESTS=" + ("ON" if machine.header("gtest/gtest.h") else "OFF")


# --- CTest -----------------------------------------------------------------------------------------------------------


# Tests to leave out if a tool is missing, as machine.provide() has reported. All other tests report it themselves.
NEEDED_BY = {"tool:valgrind": r"valgrind\.", "clang_runtime": r"sanitized_consumer\.clang"}


@dataclass
class Test:
    name: str
    status: str  # run, fail, notrun, disabled
    lines: list[str]  # the output, without blank lines


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
    """Yields (name, reason) of a skipped test, or of each test that a GoogleTest program skipped. The reason is the
    text after GoogleTest's "Skipped", or else the last line that the test printed. With --gtest_brief=1, GoogleTest does
    not name the skipped tests; then the name is the program's."""
    reason = last = ""
    nameless = []
    for line in test.lines:
        if last.endswith(": Skipped"):
            nameless += [reason] if reason else []
            reason = line
        ended = re.match(r"\[  SKIPPED \] (\S+) \(", line)
        if ended and reason and test.status != "notrun":
            yield re.sub(r"\.\d+$", "", test.name) + "." + ended[1], reason
            reason = ""
        last = line
    if test.status != "notrun":
        nameless += [reason] if reason else []
        yield from ((test.name, one) for one in dict.fromkeys(nameless))
    if test.status == "notrun":
        reason = re.sub(r"^(NOT CHECKED|NO LOAD|SKIPPED|LEFT OUT|left out): ", "", reason or last)
        yield test.name, reason or "it gives no reason"


def by_reason(found: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yields one entry for each reason: with the names or, if there are many, with their number and their programs."""
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
    """Returns the name of a failed test, GoogleTest's messages on the first failures, and the end of the test's
    output."""
    head, end = test.lines[:-30], test.lines[-30:]
    told = [f"-- {test.name} ({preset})"]
    at = [i for i, line in enumerate(head) if line.endswith(": Failure")]
    for i in at[:3]:
        told += head[i : i + 8]
    return "\n".join(told + end)


def run_ctest(ledger: Ledger, preset: str, *options: str, env: "Mapping[str, object] | None" = None) -> bool:
    """Runs the tests of a preset, and notes each skipped test with the reason that it printed."""
    junit, log = SCRATCH / f"{preset}.xml", SCRATCH / f"{preset}.log"
    # The outputs are not cut, because the code below searches them.
    command = ["ctest", "--preset", preset, "--output-junit", junit, "--output-log", log,
               "--test-output-size-failed", "100000000", "--test-output-size-passed", "10000000", *options]  # fmt: skip
    absent = [tests for probe, tests in NEEDED_BY.items() if not machine.found(probe)]
    if absent and preset != "coverage":  # coverage has none of these, and its filter must not be replaced
        command += ["--exclude-regex", f"^({'|'.join(absent)})"]
    if not on_terminal():
        command.append("--quiet")  # keeps the log short: its end names each failed test once
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
    """Many tests measure time, which other programs may take from them. So a failed test passes after all if it then
    passes twice in a row alone, and the summary reports it as unsteady; tests that depend on it run then too. Hangs,
    crashes and reports of a sanitizer count at once; ctest --repeat until-pass could not tell them apart."""
    text = log.read_text(errors="replace") if log.exists() else ""
    _, _, list_of_failed = text.rpartition("The following tests FAILED:")
    failed = re.findall(r"^\s*\d+ - (.*) \(([^()]*)\)", list_of_failed, re.M)  # newer CTests append labels
    failed = [(name, how) for name, how in failed if how != "Not Run"]
    if not failed or any(how != "Failed" for _, how in failed):
        return False
    told = [line for test in tests if test.status == "fail" for line in test.lines]
    if any(re.search(r"SUMMARY: [A-Za-z]*Sanitizer|: runtime error: ", line) for line in told):
        return False
    wait_for_other_steps()  # so that the test is alone; builds made ahead use only an idle processor
    say("running the failed tests again, each alone and twice")
    if run(["ctest", "--preset", preset, "--rerun-failed", "--parallel", "1", "--repeat", "until-fail:2"], env) != 0:
        return False
    ledger.unsteady += [f"{name} ({preset})" for name, _ in failed]
    return True


def has_tests(preset: str) -> bool:
    """Whether any test of the release build is in a preset. A test with a misspelt label is not lost: it runs
    always."""
    return bool(re.search(r"^Total Tests: [1-9]", machine.output("ctest", "--preset", preset, "--show-only"), re.M))
