# SPDX-License-Identifier: MIT OR Apache-2.0
"""Simulated tests for unittest:

    class TestPool(fiberrt.testing.unittest.Simulated, unittest.TestCase):
        simulation = {"seeds": 1000, "switches": "lines"}  # the options of simulate()

Each test method runs under these seeds. setUp() and tearDown() are called in each run.
"""

from __future__ import annotations

from typing import Any, ClassVar

from . import _run
from ._plan import Plan, SimulationFailed, check, choices_of_environment, with_hash_seed
from ._run import SKIPPED, Test
from ._unittest_results import Results, excuse

__all__ = ["Simulated"]


class Simulated:
    """A mixin, before unittest.TestCase: the test methods run in the simulation. `simulation` has the options."""

    simulation: ClassVar[dict[str, Any]] = {}

    def _run_once(self) -> None:
        results = Results()
        super().run(results)  # type: ignore[misc]
        results.check()

    def _expects_failure(self) -> bool:
        method = getattr(self, self._testMethodName)  # type: ignore[attr-defined]
        return any(getattr(thing, "__unittest_expecting_failure__", False) for thing in (self, method))

    def run(self, result: Any = None) -> Any:
        if _run.inside:
            return super().run(result)  # type: ignore[misc]
        result = result if result is not None else self.defaultTestResult()  # type: ignore[attr-defined]
        result.startTest(self)
        try:
            plan, choices = Plan.of(**self.simulation), choices_of_environment()
            if choices is not None:
                plan.choices = choices
            report = plan.run(Test(self._run_once, excuse=excuse))
            if report.outcome.status == SKIPPED and report.outcome.expected:
                failure = AssertionError(report.outcome.skip)
                result.addExpectedFailure(self, (AssertionError, failure, None))
                return result
            if report.outcome.status == SKIPPED:
                result.addSkip(self, report.outcome.skip)
                return result
            name = self.id()  # type: ignore[attr-defined]
            check(report, lambda list_: with_hash_seed(f"FIBERRT_TEST_REPLAY={list_} python -m unittest {name}"))
            if self._expects_failure():
                result.addUnexpectedSuccess(self)
            else:
                result.addSuccess(self)
        except SimulationFailed as error:
            result.addFailure(self, (type(error), error, error.__traceback__))
        except Exception as error:
            result.addError(self, (type(error), error, error.__traceback__))
        finally:
            result.stopTest(self)
        return result
