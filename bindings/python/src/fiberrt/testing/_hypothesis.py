# SPDX-License-Identifier: MIT OR Apache-2.0
"""Settings for tests by hypothesis in the simulation: each run tries the same examples, and the first example that fails
ends the run."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from . import _record


def _same_in_each_run(hypothesis: Any, core: Any) -> None:
    """Override settings of all tests. Examples depend only on the test and on --hypothesis-seed, and no run reads the
    failures of another run. Simulated time says nothing about a test's speed. A failing example is neither repeated nor
    made smaller: that would be another run of the threads."""
    settings, phase = hypothesis.settings, hypothesis.Phase
    phases, suppressed = vars(settings)["phases"], vars(settings)["suppress_health_check"]
    kept = (phase.explicit, phase.generate, phase.target)
    for name, value in {
        "database": lambda self: None,
        "deadline": lambda self: None,
        "derandomize": lambda self: core.global_force_seed is None,
        "phases": lambda self: tuple(each for each in phases.__get__(self) if each in kept),
        "suppress_health_check": lambda self: (*suppressed.__get__(self), hypothesis.HealthCheck.too_slow),
    }.items():
        type.__setattr__(settings, name, property(value))  # the class of settings forbids setattr()


def _text(value: Any) -> str:
    try:
        return f"{value!r:.200}"
    except Exception as error:  # of the program's own __repr__()
        return f"<{type(value).__name__} whose repr() raises {type(error).__name__}>"


def _tells_its_example(test: Callable[..., Any], given: Any, unsatisfied: type[BaseException]) -> Callable[..., Any]:
    @functools.wraps(test)
    def call(*args: Any, **names: Any) -> Any:
        if _record.current is not None:
            _record.current.forget_steps()  # of earlier examples
        try:
            return test(*args, **names)
        except unsatisfied:  # assume() has refused the example
            raise
        except Exception as error:
            example = ", ".join(f"{name}={_text(value)}" for name, value in names.items() if name in given)
            error.add_note(f"hypothesis's example: {example}")
            raise

    return call


def prepare() -> None:
    """Change hypothesis in this process, if a test uses it."""
    hypothesis, core = sys.modules.get("hypothesis"), sys.modules.get("hypothesis.core")
    if hypothesis is None or core is None:
        return
    _same_in_each_run(hypothesis, core)
    state: Any = core.StateForActualGivenExecution
    before, caught = state.__init__, core.failure_exceptions_to_catch

    @functools.wraps(before)
    def init(self: Any, *args: Any, **names: Any) -> None:
        before(self, *args, **names)
        self.test = _tells_its_example(self.test, self.stuff.given_kwargs, hypothesis.errors.UnsatisfiedAssumption)

    def caught_outside_the_search() -> tuple[type[BaseException], ...]:
        return () if sys._getframe(1).f_code.co_name == "_execute_once_for_engine" else caught()

    state.__init__ = init
    core.failure_exceptions_to_catch = caught_outside_the_search
