# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a run makes of the results of a unittest.TestCase: subtests, skips and expected failures."""

from __future__ import annotations

import unittest
from typing import Any

from . import _run
from ._run import Outcome


class ExpectedFailure(Exception):
    """A test that expects a failure has failed."""


class Results(unittest.TestResult):
    """Keeps the first exception of a test, and the first skip and expected failure."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None
        self.skip: BaseException | None = None

    def addError(self, test: Any, err: Any) -> None:
        self.error = self.error or err[1]

    addFailure = addError

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test: Any, reason: str) -> None:
        self.skip = self.skip or unittest.SkipTest(reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.skip = ExpectedFailure(str(err[1]))

    def addUnexpectedSuccess(self, test: Any) -> None:
        """The run has passed. Another one may fail as expected; if none does, the caller of the runs says so."""

    def check(self) -> None:
        """Raise what the test has raised. Errors go before skips."""
        error = self.error or self.skip
        if error is not None:
            raise error


class Subtests:
    """For a method of a TestCase that is called within a run: collects the results of the subtests, which unittest would
    give to the process that has started the run."""

    def __init__(self, case: unittest.TestCase) -> None:
        self._results = Results()
        case._outcome = unittest.case._Outcome(self._results)  # type: ignore[attr-defined]

    def check(self) -> None:
        self._results.check()


def excuse(error: BaseException) -> Outcome | None:
    """Return the outcome of a run that was skipped or has failed as expected; None: it has failed."""
    if isinstance(error, unittest.SkipTest):
        return _run.skipped(str(error))
    return _run.skipped(str(error), expected=True) if isinstance(error, ExpectedFailure) else None
