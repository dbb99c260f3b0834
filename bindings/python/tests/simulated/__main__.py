# SPDX-License-Identifier: MIT OR Apache-2.0
"""Simulates the programs of this folder. Usage, in the folder above:

    python -m simulated bugs [NAME...]       tells of each planted bug how it fails
    python -m simulated correct [MODULE...]  runs the correct programs of each module one after the other
    python -m simulated each [SEEDS]         runs each correct program alone, by 1,000 seeds

With --json, writes a line of JSON for each. Exit status 1: a bug was not found, or a correct program fails.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import groupby

from fiberrt.testing._explore import Report
from fiberrt.testing._plan import Plan, explain
from fiberrt.testing._run import Test

from .bugs import all_bugs
from .correct import all_programs


def correct_programs() -> dict[str, list[Callable[[], None]]]:
    """Return the correct programs and the mended ones, by their modules."""

    def module(program: Callable[[], None]) -> str:
        return getattr(program, "func", program).__module__.partition(".")[2]

    programs = [*all_programs(), *(functools.partial(bug.program, bug.right) for bug in all_bugs())]
    return {name: list(group) for name, group in groupby(programs, key=module)}


def bugs(names: list[str]) -> Iterator[tuple[str, Report]]:
    for bug in all_bugs():
        if not names or bug.name in names:
            yield bug.name, Plan.of(switches=bug.switches).run(Test(functools.partial(bug.program, bug.wrong)))


def correct(names: list[str]) -> Iterator[tuple[str, Report]]:
    for name, programs in correct_programs().items():
        if not names or name in names:
            plan = Plan.of(seeds=30, switches="lines", preemptions=30)
            yield name, plan.run(Test(lambda programs=programs: [program() for program in programs]))


def each(arguments: list[str]) -> Iterator[tuple[str, Report]]:
    seeds = int(arguments[0]) if arguments else 1000
    for programs in correct_programs().values():
        for program in programs:
            name = getattr(program, "func", program).__name__
            yield name, Plan.of(seeds=seeds, switches="lines").run(Test(program))


def main() -> int:
    arguments = [argument for argument in sys.argv[1:] if argument != "--json"]
    what = {"bugs": bugs, "correct": correct, "each": each}[arguments[0]]
    status = 0
    for name, report in what(arguments[1:]):
        status |= report.failed != (what is bugs)
        outcome = report.outcome
        if "--json" in sys.argv:
            line = {
                "name": name, "failed": report.failed, "repeats": report.repeats, "seed": report.seed, "runs": report.runs,
                "chosen": report.chosen, "possible": report.possible, "seconds": report.seconds, "text": outcome.text,
                "tale": "\n".join([*outcome.deadlock, *outcome.tale]), "decisions": outcome.decisions,
                "report": explain(report, str) if report.failed else "",
            }  # fmt: skip
            print(json.dumps(line), flush=True)
        else:
            print(f"{name}: {report.runs} runs, {report.runs / report.seconds:.0f} a second", flush=True)
            if report.failed:
                print(explain(report, lambda choices: choices), flush=True)
    return status


if __name__ == "__main__":
    begun = time.perf_counter()
    status = main()
    print(f"{time.perf_counter() - begun:.1f} s", file=sys.stderr)
    raise SystemExit(status)
