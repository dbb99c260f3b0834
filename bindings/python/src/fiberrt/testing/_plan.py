# SPDX-License-Identifier: MIT OR Apache-2.0
"""What to simulate of a test: its settings and seeds. And the text of a failure."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from . import _run
from ._explore import Report, explore
from ._program import Program
from ._run import LEFT, SKIPPED, Settings, Test

_MOST_SEEDS = 1_000_000  # taken from an iterable
_MOST_OUTPUT_LINES = 40  # in the text of a failure: the last
SWITCHES = ("waits", "lines", "instructions")


class SimulationFailed(AssertionError):
    """A simulated run of a test has failed, or has left the simulation. `report` has the details."""

    def __init__(self, text: str, report: Report) -> None:
        super().__init__(text)
        self.report = report

    def __reduce__(self) -> Any:
        return type(self), (self.args[0], self.report)


def _seeds(seeds: int | Iterable[int]) -> Sequence[int]:
    if isinstance(seeds, int):
        if seeds < 1:
            raise ValueError(f"seeds is {seeds}, and must be 1 or more")
        return range(1, seeds + 1)
    if not isinstance(seeds, range):
        seeds = tuple(islice(seeds, _MOST_SEEDS))
    if not seeds:
        raise ValueError("seeds is empty, so no run would be made")
    for seed in (seeds[0], seeds[-1]) if isinstance(seeds, range) else seeds:
        if not isinstance(seed, int) or not 0 <= seed < 1 << 64:
            raise ValueError(f"a seed is {seed!r}, and must be an integer from 0 to 2**64 - 1")
    return seeds


@dataclass
class Plan:
    """How to simulate a test."""

    settings: Settings = field(default_factory=Settings)
    seeds: Sequence[int] = range(1, 1001)
    jobs: int = 0  # runs at a time; 0: one for each processor
    seconds: float = 1e9
    choices: str | None = None  # one run with these choices, instead of the seeds

    @classmethod
    def of(
        cls, *, seeds: int | Iterable[int] = 1000, switches: str = "waits", preemptions: int = 4, faults: int = 0,
        modules: Iterable[str] = (), timeout_s: int = 10, steps: int = 1_000_000, jobs: int = 0, seconds: float = 1e9,
    ) -> Plan:  # fmt: skip
        if switches not in SWITCHES:
            raise ValueError(f"switches is {switches!r}, and must be one of {', '.join(SWITCHES)}")
        if not 0 <= faults <= 3:
            raise ValueError(f"faults is {faults}, and must be a number from 0 to 3")
        if preemptions < 0 or timeout_s < 1 or jobs < 0 or steps < 0:
            raise ValueError("preemptions, steps and jobs must not be negative, and timeout_s must be 1 or more")
        names = (modules,) if isinstance(modules, str) else tuple(modules)
        Program(names)  # ImportError: one of them does not exist
        return cls(Settings(switches, preemptions, faults, names, timeout_s, steps), _seeds(seeds), jobs, seconds)

    def shard(self, which: str) -> Plan:
        """Return the plan of one of several machines: I/N is each N-th seed, beginning with the I-th."""
        first, _, count = which.partition("/")
        if not (first.isdigit() and count.isdigit() and 1 <= int(first) <= int(count)):
            raise ValueError(f"a shard is I/N, with I from 1 to N, not {which!r}")
        return replace(self, seeds=self.seeds[int(first) - 1 :: int(count)])

    def run(self, test: Test) -> Report:
        return explore(test, self.settings, self.seeds, self.jobs, self.seconds, self.choices)


def check(report: Report, how_to_repeat: Callable[[str], str]) -> None:
    """Raise SimulationFailed if the report is one of a failure."""
    if report.failed:
        raise SimulationFailed(explain(report, how_to_repeat), report)


def explain(report: Report, how_to_repeat: Callable[[str], str]) -> str:
    """Return the text of a failure."""
    outcome = report.outcome
    how = "leaves the simulation" if outcome.status == LEFT else "fails"
    text = [f"{'the ordinary run' if report.seed is None else f'seed {report.seed}'}: the test {how}"]
    if report.replay:
        text = [f"the test {how}"]
    text += [f"  {line}" for line in outcome.cause]
    if outcome.deadlock:
        text += ["A deadlock:", *(f"  {line}" for line in outcome.deadlock)]
    if outcome.cause or outcome.deadlock:
        text.append("")
    if not report.repeats:
        text.append("The same choices do not make it fail again: it depends on something that is not simulated.")
    elif outcome.status != LEFT:
        text += _decisions(report)
        text.append(f"To repeat it: {how_to_repeat(report.choices or '-')}")
        if os.environ.get("PYTHONHASHSEED", "random") == "random":
            text.append("PYTHONHASHSEED was not set: if sets of strings matter, set it for the runs and for the replay.")
    if outcome.tale:
        text += ["", "What the threads did:", *(f"  {line}" for line in outcome.tale)]
    text += ["", outcome.text.rstrip()]
    if outcome.output:
        lines = outcome.output.splitlines()
        shown = lines[-_MOST_OUTPUT_LINES:]
        left_out = outcome.output_before + len(lines) - len(shown)
        text += ["", "The output:", *([f"  ({left_out} lines are left out)"] if left_out else [])]
        text += [f"  | {line}" for line in shown]
    return "\n".join(text)


def _decisions(report: Report) -> list[str]:
    """Tell what the run's schedule needs to make the test fail."""
    shown, count = report.outcome.decisions, report.chosen
    if report.replay:
        return ["The decisions of the schedule:", *(f"  {line}" for line in shown)] if shown else []
    if report.seed is None:
        return []
    if count == 0:
        return ["The ordinary run fails, too, and has passed before: the test depends on something that is not simulated."]
    what = f"{count} decision{'s' * (count != 1)} of {report.possible} make{'s' * (count == 1)}"
    text = [f"{what} the difference to the ordinary run, in which no thread is preempted:"]
    text += [f"  {line}" for line in shown]
    if len(shown) < count:
        text.append(f"  ({count - len(shown)} of them are not in the story)")
    return text


def append_json(path: str, name: str, report: Report) -> None:
    """Append a line with the results of a test to a file."""
    outcome = {_run.PASSED: "passed", SKIPPED: "skipped", LEFT: "left the simulation"}.get(report.outcome.status, "failed")
    line = {
        "test": name, "outcome": outcome, "runs": report.runs, "seconds": round(report.seconds, 3), "seed": report.seed,
        "choices": report.choices, "kind": report.outcome.kind,
    }  # fmt: skip
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")


def with_hash_seed(command: str) -> str:
    """Return a command with the PYTHONHASHSEED of this process, if it has one."""
    value = os.environ.get("PYTHONHASHSEED", "random")
    return command if value == "random" else f"PYTHONHASHSEED={value} {command}"


def choices_of_environment() -> str | None:
    """Return the choices of FIBERRT_TEST_REPLAY."""
    text = os.environ.get("FIBERRT_TEST_REPLAY")
    return "" if text == "-" else text
