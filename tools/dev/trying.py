# SPDX-License-Identifier: MIT OR Apache-2.0
"""./dev try NAME: builds the library and two programs of tests, and runs the tests of one primitive or call."""

import re

import machine
from building import BUILD, configure_and_build
from ledger import die, note, say
from processes import ROOT, run
from steps import Steps

RELEASE = BUILD / "release"
SEEDS = "1-10"


def squeezed(text: str) -> str:
    """Maps the spellings of a name to one: `wait group`, `wait_group`, `WaitGroup`."""
    return re.sub(r"[ _-]", "", text).lower()


def names_of(word: str, header: str) -> set[str]:
    """Returns the word, and the name that fiberrt.h gives to its type: `semaphore` and `sem` are the same."""
    word = word.removeprefix("fiber_")
    names = {squeezed(word)}
    for short, long in re.findall(r"\} fiber_(\w+)_t; +/\* an? (.+?) \*/", header):
        if squeezed(word) in (squeezed(short), squeezed(long)):
            names |= {squeezed(short), squeezed(long)}
    return names


def has_one(text: str, names: set[str]) -> bool:
    """Whether one of the names begins with a word of the text: `read` is in ARead, and not in Threads."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", text)]
    return any("".join(words[at:]).startswith(name) for at in range(len(words)) for name in names)


def scenarios(listing: str, names: set[str], suites_of_files: set[str]) -> list[str]:
    """Returns the tests in the output of --gtest_list_tests that have one of the names, or belong to one of the
    suites."""
    chosen, suite = [], ""
    for line in listing.splitlines():
        text = line.split("#")[0].rstrip()
        if not line.startswith(" "):
            suite = text
        elif has_one(suite + text, names) or suite.split("/")[-1][:-1] in suites_of_files:
            chosen.append(suite + text.strip())  # the suite ends with a dot, and may begin with a prefix
    return chosen


def suites_in_files(names: set[str]) -> set[str]:
    """Returns the suites in those files of scenarios that have one of the names."""
    files = [path for path in (ROOT / "tests/conformance").glob("*.cc") if squeezed(path.stem) in names]
    return {suite for path in files for suite in re.findall(r"^TEST(?:_[FP])?\((\w+),", path.read_text(), re.M)}


def rows(table: str, names: set[str]) -> list[str]:
    """Returns the rows of the sweep, tests/sim_sweep.cc, that have one of the names."""
    every = re.findall(r'^    \{"(fiber_[\w/]+)",', table, re.M)
    return [row for row in every if has_one(row, names)]


def run_it(steps: Steps, word: str) -> None:
    ledger, header = steps.ledger, ROOT / "include/fiberrt.h"
    steps.look_for_io_uring()
    say("building the library, its scenarios and the sweep")
    if not configure_and_build("release", ["fiberrt", "conformance", "sim_sweep"], "-DFIBERRT_TESTS=ON"):
        die("that did not build")
    program, sweep = RELEASE / "tests/conformance", RELEASE / "tests/sim_sweep"
    names = names_of(word, header.read_text())
    chosen = scenarios(machine.output(str(program), "--gtest_list_tests"), names, suites_in_files(names))
    swept = rows((ROOT / "tests/sim_sweep.cc").read_text(), names)
    if not chosen and not swept:
        die(f"no scenario of tests/conformance and no row of tests/sim_sweep.cc has {word} in its name")
    if chosen:
        note(f"{len(chosen)} scenarios: {', '.join(dict.fromkeys(name.split('.')[0] for name in chosen))}")
        command = [program, "--gtest_brief=1", f"--gtest_filter={':'.join(chosen)}"]
        for backend in ("ev",) if steps.refusal else ("uring", "ev"):
            environment = {"FIBERRT_BACKEND": backend}
            ledger.step(f"scenarios on {backend}", lambda: run(command, environment) == 0)
        in_simulation = {"FIBERRT_BACKEND": "sim"}
        ledger.step(f"scenarios in simulation, seeds {SEEDS}",
                    lambda: run([*command, "--seeds", SEEDS], in_simulation) == 0)  # fmt: skip
    else:
        ledger.leave_out("scenarios", f"none has {word} in its name")
    if swept:
        environment = {"FIBERRT_BACKEND": "sim", "FIBERRT_SIM_REPLAY": ""}
        ledger.step(f"the sweep of {', '.join(swept)}", lambda: run([sweep, *swept], environment) == 0)
    else:
        ledger.leave_out("the sweep", f"no row of tests/sim_sweep.cc has {word} in its name")
    for what, check in (
        ("the sweep has all calls of the header", [sweep, "--header", header]),
        ("the tables of scenarios have all calls of the header", ["python3", "tests/conformance/tables.py", "."]),
        ("the fuzz target api calls all functions", ["sh", "fuzz/api_complete.sh", ".", "fuzz/api.cc"]),
        ("the header in every dialect", ["sh", "tests/abi/check_header.sh", RELEASE, ROOT]),
        ("the manual in the header", ["python3", "docs/manual/manual.py", "check", header]),
    ):
        ledger.step(what, lambda check=check: run(check) == 0)
    ledger.leave_out("all other tests", f"they are not about {word}: ./dev test runs them")
    ledger.conclude()
