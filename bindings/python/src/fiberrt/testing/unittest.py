# SPDX-License-Identifier: MIT OR Apache-2.0
"""Simulated tests for unittest:

    class TestPool(fiberrt.testing.unittest.Simulated, unittest.TestCase):
        simulation = {"seeds": 1000, "switches": "lines"}  # the options of simulate()

Each test method runs under these seeds. setUp() and tearDown() are called in each run.
"""

from __future__ import annotations

import unittest
from typing import Any, ClassVar

from . import _run
from ._plan import Plan, SimulationFailed, check, choices_of_environment
from ._run import SKIPPED, Test

__all__ = ["Simulated"]


class _First(unittest.TestResult):
    """Keeps the first exception of a test."""

    error: BaseException | None = None

    def addError(self, test: Any, err: Any) -> None:
        self.error = self.error or err[1]

    addFailure = addError

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test: Any, reason: str) -> None:
        self.error = self.error or unittest.SkipTest(reason)


class Simulated:
    """A mixin, before unittest.TestCase: the test methods run in the simulation. `simulation` has the options."""

    simulation: ClassVar[dict[str, Any]] = {}

    def _run_once(self) -> None:
        result = _First()
        super().run(result)  # type: ignore[misc]
        if result.error is not None:
            raise result.error

    def run(self, result: Any = None) -> Any:
        if _run.inside:
            return super().run(result)  # type: ignore[misc]
        result = result if result is not None else self.defaultTestResult()  # type: ignore[attr-defined]
        result.startTest(self)
        try:
            plan, choices = Plan.of(**self.simulation), choices_of_environment()
            if choices is not None:
                plan.choices = choices
            report = plan.run(Test(self._run_once, skips=(unittest.SkipTest,)))
            if report.outcome.status == SKIPPED:
                result.addSkip(self, report.outcome.skip)
                return result
            name = self.id()  # type: ignore[attr-defined]
            check(report, lambda choices: f"FIBERRT_TEST_REPLAY={choices} PYTHONHASHSEED=0 python -m unittest {name}")
            result.addSuccess(self)
        except SimulationFailed as error:
            result.addFailure(self, (type(error), error, error.__traceback__))
        except Exception as error:
            result.addError(self, (type(error), error, error.__traceback__))
        finally:
            result.stopTest(self)
        return result
