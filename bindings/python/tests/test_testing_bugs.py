# SPDX-License-Identifier: MIT OR Apache-2.0
"""fiberrt.testing finds each planted bug of simulated.bugs, with few choices, and tells the lines that matter."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from simulated.bugs import all_bugs
from simulated.correct import all_programs

BUGS = all_bugs()
# Parts of the reports, as regular expressions: the cause, the decisions and the names in them.
TOLD = {
    "account": [
        r"^  main gets AssertionError \(account\.balance is 1[12]0\)\n +values\.py:\d+ +assert account\.balance == 130$",
        r"self\.balance = old \+ amount \(old is 100, amount is [12]0\); main and (ann|bob) run before it goes on   \[\d+:1\]$",
    ],
    "counter": [r"is preempted between reading and writing self\.count in values\.py:\d+: self\.count \+= 1;", r"\(goes on in\) self\.count \+= 1"],
    "recent_pools": [r" bob\n(?:      .*\n)*      \S+ +self\.pool\.closed = True$", r"\(leaves\) with self\.lock:$"],
    "named_pools": [r"return pool\n.*\(goes on in\) together\(.*\n +-- \w+ gets AttributeError"],
    "bank": [r"^  ann waits for self\.locks\['blue'\] \(Lock \d\), which bob has held since ", r" -- ann waits for self\.locks\['blue'\]"],
    "connections": [r"^  ann waits for self\.free \(Semaphore 1\), which has no permit left$"],
    "jobs": [r"^  ann waits for self\.queue \(Queue 1\) in self\.queue\.get\(\)$", r"is preempted in self\.queue\.empty\(\), after"],
    "broker": [r"^  sender waits for broker\.send\(\)\.done \(Event 1\)$"],
    "buffer": [r"is preempted before it takes again the lock of self\.changed", r", which wakes consumer2, not producer2$"],
    "executor": [r"is preempted for 3 ms instead of 1 ms, while it starts worker", r"^  submitter, at 0\.003 s$"],
    "calls": [r" \(Event 1\) until its time limit$", r" -- the time is 1\.000 s$|^  \w+, at 1\.00\d s$"],
}  # fmt: skip
HERE = Path(__file__).parent


def simulated(*arguments):
    """Run simulated/__main__.py in its own process: this one has fibers already. Return its results by name."""
    done = subprocess.run(
        [sys.executable, "-m", "simulated", *arguments, "--json"], cwd=HERE, capture_output=True, text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )  # fmt: skip
    results = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert results, done.stderr
    return results


@pytest.fixture(scope="module")
def found():
    return simulated("bugs")


def test_there_are_25_bugs_10_of_them_reported_of_libraries_and_100_correct_programs():
    assert len(BUGS) == 25
    assert len(all_programs()) + len(BUGS) >= 100
    assert sum(bug.report.startswith("https://") for bug in BUGS) == 10


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_is_found_and_explained(found, bug):
    result = found[bug.name]
    assert result["failed"], "not found by 1,000 seeds"
    assert result["repeats"]
    assert result["text"]
    assert result["chosen"] <= 10
    assert [part for part in bug.shows if part not in result["tale"]] == [], result["tale"]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_report_tells_the_cause_first_and_marks_each_decision(found, bug):
    result = found[bug.name]
    report = result["report"]
    assert [part for part in TOLD.get(bug.name, []) if not re.search(part, report, re.M)] == [], report
    assert re.match(r"seed \d+: the test fails\n(A deadlock:\n|  \w+ gets \w+.*\n +\w+\.py:\d+ +\w)", report), report
    assert len(result["decisions"]) == result["chosen"] >= 1, report
    marks = re.findall(r"<== decision (\d+)$", result["tale"], re.M)
    assert marks == [str(i) for i in range(1, result["chosen"] + 1)], report
    assert re.search(r"\bRLock \d|Thread\.start\(\) for| pass$", result["tale"]) is None, report


def test_no_correct_program_fails():
    results = simulated("correct")
    assert [(name, result["text"], result["tale"]) for name, result in results.items() if result["failed"]] == []
    assert all(result["runs"] >= 30 for result in results.values())
