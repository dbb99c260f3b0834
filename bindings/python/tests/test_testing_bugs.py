# SPDX-License-Identifier: MIT OR Apache-2.0
"""fiberrt.testing finds each planted bug of simulated.bugs, with few choices, and tells the lines that matter."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulated.bugs import all_bugs
from simulated.correct import all_programs

BUGS = all_bugs()
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


def test_no_correct_program_fails():
    results = simulated("correct")
    assert [(name, result["text"], result["tale"]) for name, result in results.items() if result["failed"]] == []
    assert all(result["runs"] >= 30 for result in results.values())
