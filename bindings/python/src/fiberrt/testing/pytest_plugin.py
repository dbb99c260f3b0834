# SPDX-License-Identifier: MIT OR Apache-2.0
"""The pytest plugin. It simulates the tests that are decorated by simulate() or marked by fiberrt_sim(...) and, with
--fiberrt-sim, all tests. Their fixtures are set up and torn down in each run."""

from __future__ import annotations

import functools
import gc
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._plan import Plan
    from ._run import Outcome


_SEEDS = "100"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fiberrt", "tests with threads, in the simulation of fiberrt")
    add = group.addoption
    add("--fiberrt-sim", nargs="?", const=_SEEDS, metavar="N", help=f"simulate each test, with N seeds ({_SEEDS})")
    add("--fiberrt-switches", choices=("waits", "lines", "instructions"), help="where threads may lose the processor")
    add("--fiberrt-replay", metavar="CHOICES", help="make one run of each test, with these choices; -: the ordinary run")
    add("--fiberrt-shard", metavar="I/N", help="try each N-th seed, beginning with the I-th")
    add("--fiberrt-seconds", type=float, metavar="S", help="try no new seed of a test after S seconds")
    add("--fiberrt-json", metavar="FILE", help="append the results to FILE, a line of JSON for each test")


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> Generator[None, None, None]:
    """As a wrapper, this is called before pytest captures output."""
    _give_back_argument(early_config.known_args_namespace, args)
    _start_again_if_sets_vary(early_config.known_args_namespace)
    yield


def _give_back_argument(known: Any, args: list[str]) -> None:
    """The parser of arguments takes the word after --fiberrt-sim for N. It is N only after an equals sign."""
    for i, argument in enumerate(args):
        if argument == "--fiberrt-sim":
            args[i] = f"--fiberrt-sim={_SEEDS}"
            if known.fiberrt_sim == "".join(args[i + 1 : i + 2]) != "":
                known.fiberrt_sim, known.file_or_dir = _SEEDS, [known.fiberrt_sim, *known.file_or_dir]


def _start_again_if_sets_vary(known: Any) -> None:
    """With --fiberrt-sim or --fiberrt-replay, start pytest again with a known PYTHONHASHSEED, so that a set of strings
    has the same order in each process."""
    if os.path.basename(os.path.dirname(getattr(sys.modules["__main__"], "__file__", None) or "")) != "pytest" and (
        os.path.basename(sys.argv[0]) not in ("pytest", "py.test")
    ):
        return  # another program has called pytest.main(); that is not started again
    wanted = known.fiberrt_sim is not None or known.fiberrt_replay is not None
    if wanted and os.environ.get("PYTHONHASHSEED", "random") == "random" and "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ["PYTHONHASHSEED"] = "0"
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "fiberrt_sim(seeds=1000, switches='waits', ...): simulate the test, as fiberrt.testing.simulate does",
    )  # fmt: skip
    count, shard = config.getoption("--fiberrt-sim"), config.getoption("--fiberrt-shard")
    if count is None and shard is None:
        return
    from ._plan import Plan

    try:
        plan = Plan.of(seeds=1 if count is None else int(count))
        if shard is not None:
            plan.shard(shard)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def _plan(item: pytest.Item) -> Plan | None:
    """Return how to simulate a test; None: it is not simulated."""
    option = item.config.getoption
    mark, count, replay = item.get_closest_marker("fiberrt_sim"), option("--fiberrt-sim"), option("--fiberrt-replay")
    own = getattr(getattr(item, "function", None), "_fiberrt_plan", None)
    if not (own or mark or count is not None or replay is not None):
        return None
    from dataclasses import replace

    from ._plan import Plan

    if mark is not None and mark.args:
        raise pytest.UsageError(f"the mark fiberrt_sim takes named arguments only, not {mark.args!r}")
    try:
        plan: Plan = own if own is not None else Plan.of(**(mark.kwargs if mark is not None else {"seeds": int(count or _SEEDS)}))
        if count is not None:
            plan = replace(plan, seeds=range(1, int(count) + 1))
        if option("--fiberrt-switches"):
            plan = replace(plan, settings=replace(plan.settings, switches=option("--fiberrt-switches")))
        if option("--fiberrt-shard") is not None:
            plan = plan.shard(option("--fiberrt-shard"))
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None
    if option("--fiberrt-seconds") is not None:
        plan = replace(plan, seconds=option("--fiberrt-seconds"))
    workers = os.environ.get("PYTEST_XDIST_WORKER_COUNT")
    if workers is not None and plan.jobs == 0:  # xdist's workers share the processors
        plan = replace(plan, jobs=max(1, len(os.sched_getaffinity(0)) // int(workers)))
    if replay is not None:
        plan = replace(plan, choices="" if replay == "-" else replay)
    return plan


def _run_once(item: Any, set_up: list[Any], reports: _FailedReports) -> None:
    """Make one run of a test, with its fixtures. Called in the process of the run. set_up: the definitions of the fixtures
    that pytest has set up before. reports: is registered as a plugin."""
    from . import _run

    state = item.session._setupstate
    factory = getattr(item.config, "_tmp_path_factory", None)
    if factory is not None:  # of tmp_path: without a folder for this run, it would look for a free name each time
        if not os.path.isdir(_run.folder) or os.listdir(_run.folder):  # left by an earlier run
            shutil.rmtree(_run.folder, ignore_errors=True)
            os.mkdir(_run.folder)
        factory._basetemp = Path(_run.folder)
    _forget_what_is_set_up(item, set_up)
    try:
        type(item).setup(item)
        type(item).runtest(item)
        errors = [info.value for info in getattr(item, "_excinfo", None) or ()]  # a TestCase does not raise
        errors.sort(key=lambda error: isinstance(error, (*_skips(), pytest.xfail.Exception)))
        if errors and not isinstance(errors[0], (*_skips(), pytest.xfail.Exception)):
            raise errors[0]
        if reports.first is not None:
            raise _SubtestFailed(reports.first)
        if errors:
            raise errors[0]
    except BaseException as error:
        _why_expected(item, error)
        raise
    finally:
        state.teardown_exact(None)


class _SubtestFailed(AssertionError):
    """A subtest has failed, which pytest reports instead of raising the exception."""


class _FailedReports:
    """A plugin of pytest in a run: keeps the text of the first report of a failure, which is one of a subtest."""

    first: str | None = None

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.first is None:
            self.first = str(report.longreprtext)


def _forget_what_is_set_up(item: Any, set_up: list[Any]) -> None:
    """Set up the fixtures of wider scopes anew in this run: their teardown belongs to the process that has set them
    up. The teardown of the test is its own again."""
    stack = item.session._setupstate.stack
    for node, (_, error) in list(stack.items()):
        stack[node] = ([functools.partial(type(item).teardown, item)] if node is item else [], error)
    for definition in set_up:
        definition.cached_result = None
        getattr(definition, "_finalizers", []).clear()


def _set_up_fixtures() -> list[Any]:
    """Return the definitions of the fixtures that are set up in this process."""
    from _pytest.fixtures import FixtureDef

    found = [thing for thing in gc.get_objects() if type(thing) is FixtureDef]
    return [definition for definition in found if definition.cached_result is not None]


def _skips() -> tuple[type[BaseException], ...]:
    unittest = sys.modules.get("unittest")
    return (pytest.skip.Exception,) if unittest is None else (pytest.skip.Exception, unittest.SkipTest)


def _why_expected(item: Any, error: BaseException) -> None:
    """Note on the exception why pytest expects it, if it does."""
    if getattr(item.config.option, "runxfail", False) or isinstance(error, _skips()):
        return
    if isinstance(error, pytest.xfail.Exception):
        error._fiberrt_expected = error.msg or ""  # type: ignore[attr-defined]
        return
    from _pytest.skipping import evaluate_xfail_marks

    mark = evaluate_xfail_marks(item)
    if mark is not None and (mark.raises is None or isinstance(error, mark.raises)):
        error._fiberrt_expected = mark.reason  # type: ignore[attr-defined]


def _excuse(error: BaseException) -> Outcome | None:
    from ._run import skipped

    reason = getattr(error, "_fiberrt_expected", None)
    if reason is not None:
        return skipped(reason, expected=True)
    return skipped(str(error)) if isinstance(error, _skips()) else None


def _tell(item: Any, error: BaseException) -> str:
    info: Any = pytest.ExceptionInfo.from_exception(error)
    return str(type(item).repr_failure(item, info))


def _simulate(item: Any, plan: Plan) -> None:
    from ._plan import SimulationFailed, append_json, check, with_hash_seed
    from ._run import SKIPPED, Test

    reports = _FailedReports()
    test = Test(functools.partial(_run_once, item, _set_up_fixtures(), reports), functools.partial(_tell, item), _excuse)
    capture = item.config.pluginmanager.getplugin("capturemanager") if plan.choices is not None else None
    if capture is not None:  # a replay may ask for input, as a debugger does
        capture.suspend(in_=True)
    item.config.pluginmanager.register(reports)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This process .* multi-threaded", DeprecationWarning)  # of a fork
            report = plan.run(test)
    finally:
        item.config.pluginmanager.unregister(reports)
        if capture is not None:
            capture.resume()
    path = item.config.getoption("--fiberrt-json")
    if path:
        append_json(path, item.nodeid, report)
    if report.outcome.status == SKIPPED and report.outcome.expected:
        pytest.xfail(report.outcome.skip)
    if report.outcome.status == SKIPPED:
        pytest.skip(report.outcome.skip)
    try:
        check(report, lambda choices: with_hash_seed(_command(item, choices)))
    except SimulationFailed as error:
        raise _NotExpected(str(error)) from None


def _command(item: Any, choices: str) -> str:
    """Return the command that makes one run of the test, with the options on which its choices depend."""
    words = [f"pytest {shlex.quote(item.nodeid)} --fiberrt-replay={choices}"]
    for option in ("--fiberrt-switches", "--hypothesis-seed"):
        value = item.config.getoption(option, None)
        if value is not None:
            words.append(f"{option}={value}")
    return " ".join(words)


class _NotExpected(BaseException):
    """A simulated test has failed. Not an Exception: pytest would compare it with what a mark expects the test to raise,
    and the run has compared the test's own exception."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave setting up and tearing down to the runs."""
    plan = _plan(item)
    if plan is None:
        return

    def repr_failure(info: Any, style: Any = None) -> Any:
        if isinstance(info.value, _NotExpected):
            return str(info.value)
        return type(item).repr_failure(item, info)  # type: ignore[arg-type]

    item.setup = item.teardown = lambda: None  # type: ignore[method-assign]
    item.runtest = functools.partial(_simulate, item, plan)  # type: ignore[method-assign]
    item.repr_failure = repr_failure  # type: ignore[method-assign]
