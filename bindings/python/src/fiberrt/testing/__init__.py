# SPDX-License-Identifier: MIT OR Apache-2.0
"""Deterministic tests of programs with threads.

    from fiberrt.testing import simulate

    @simulate(seeds=1000)
    def test_transfer():
        ...  # starts threads, joins them, asserts

A call of the test makes many runs, each in a new process. In a run, threads are fibers, time is simulated, and a seed
chooses which thread runs next. If a run fails, the fewest choices with which it fails are looked for, and the message
tells what the threads did. docs: bindings/python/docs/testing.md.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, TypeVar, overload

from . import _run
from ._outside import LeftSimulation
from ._plan import Plan, SimulationFailed, check, choices_of_environment, with_hash_seed
from ._run import SKIPPED, Outcome, Test

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["LeftSimulation", "SimulationFailed", "simulate"]


def _excuse(error: BaseException) -> Outcome | None:
    unittest = sys.modules.get("unittest")
    return None if unittest is None or not isinstance(error, unittest.SkipTest) else _run.skipped(str(error))


def _once(test: Callable[..., object], args: tuple[Any, ...], names: dict[str, Any]) -> None:
    """Call a test in a run. A method of a TestCase may have subtests."""
    unittest = sys.modules.get("unittest")
    if unittest is not None and args and isinstance(args[0], unittest.TestCase):
        from ._unittest_results import Subtests

        subtests = Subtests(args[0])
        result = test(*args, **names)
        subtests.check()
    else:
        result = test(*args, **names)
    if inspect.iscoroutine(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(f"the test returns a {type(result).__name__}, which nothing runs")


@overload
def simulate(function: F, /) -> F: ...
@overload
def simulate(
    *, seeds: int | Iterable[int] = ..., switches: str = ..., preemptions: int = ..., faults: int = ...,
    modules: Iterable[str] = ..., timeout_s: int = ..., steps: int = ..., jobs: int = ..., seconds: float = ...,
) -> Callable[[F], F]: ...  # fmt: skip
def simulate(function: Any = None, /, **options: Any) -> Any:
    """Make a test run in the simulation: a function, which is called without arguments or, by pytest, with fixtures.

    seeds: how many seeds are tried, or the seeds. switches: where a thread may lose the processor: at its waits and its
    calls of locks, events and queues ("waits"); also before each line of the program ("lines"); or before each bytecode
    instruction ("instructions"). preemptions: at most so many times in a run, apart from waits. faults: 0 to 3, as
    FIBERRT_SIM_FAULTS. modules: names of installed modules that count as the program. timeout_s: a run that takes
    longer in real time fails. steps: so does one with more switches. jobs: how many runs at a time; 0: one for each
    processor. seconds: no new seed is tried after that time.

    The test raises SimulationFailed if a run fails, or does something that the simulation cannot repeat.
    ValueError: an option has a value that makes no sense. ImportError: one of the modules does not exist. TypeError: it is
    not a function, or one that returns a coroutine or a generator.
    """
    plan = Plan.of(**options)

    def decorate(test: F) -> F:
        if not callable(test):
            raise TypeError(f"simulate() takes a function, not {type(test).__name__}")
        if inspect.iscoroutinefunction(test) or inspect.isgeneratorfunction(test) or inspect.isasyncgenfunction(test):
            raise TypeError(f"simulate() takes a function that runs the test, and {test.__qualname__}() would not")

        @functools.wraps(test)
        def run(*args: Any, **names: Any) -> Any:
            if _run.inside:
                return test(*args, **names)
            hypothesis = sys.modules.get("hypothesis")
            if hypothesis is not None and hypothesis.currently_in_test_context():
                raise TypeError("write @simulate above @given: each run then tries all examples")
            choices = choices_of_environment()
            own = plan if choices is None else Plan(plan.settings, choices=choices)
            report = own.run(Test(functools.partial(_once, test, args, names), excuse=_excuse))
            if report.outcome.status == SKIPPED:
                raise import_module("unittest").SkipTest(report.outcome.skip)
            check(report, lambda list_: with_hash_seed(f"FIBERRT_TEST_REPLAY={list_}"))

        run._fiberrt_plan = plan  # type: ignore[attr-defined]
        return run  # type: ignore[return-value]

    return decorate if function is None else decorate(function)
