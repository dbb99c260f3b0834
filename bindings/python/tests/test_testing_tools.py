# SPDX-License-Identifier: MIT OR Apache-2.0
"""fiberrt.testing with other tools for tests: hypothesis, pytest-xdist and GNU parallel."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections import Counter

import pytest
from servers import did_not_run, needs_installed
from test_testing import BANK, run, run_pytest

GIVEN = (
    BANK
    + """
    import os, sys, time, unittest
    from hypothesis import HealthCheck, Phase, assume, example, given, seed, settings, strategies as st
"""
)


@pytest.fixture
def hypothesis():
    needs_installed("the tests of fiberrt.testing with hypothesis", "hypothesis")


def run_with_hypothesis(folder, code, *arguments, **environment):
    return run_pytest(folder, code, *arguments, plugins=("fiberrt", "hypothesispytest"), **environment)


def examples_by_run(path):
    """Return the examples that each run has written, by its seed and list of choices, in their order."""
    runs = {}
    for line in path.read_text().splitlines():
        run, example = line.split(" ", 1)
        runs.setdefault(run, []).append(example)
    return runs


# A run's variables are in the environment of the C library, and not in os.environ.
GETENV = """
    import ctypes

    def getenv(name):
        function = ctypes.CDLL(None).getenv
        function.restype = ctypes.c_char_p
        value = function(name.encode())
        return None if value is None else value.decode()
"""

WRITES_EXAMPLES = GETENV + """
    def note(*values):
        run = f"{getenv('FIBERRT_SEED')}:{getenv('FIBERRT_SIM_REPLAY')}"
        with open("examples", "a") as file:
            file.write(f"{run}/{os.getpid()} {values}\\n")
"""


@pytest.mark.parametrize("how", ["option", "mark", "decorator"])
def test_each_run_tries_the_same_examples_of_hypothesis(tmp_path, hypothesis, how):
    head = {"option": "", "mark": "@pytest.mark.fiberrt_sim(seeds=6)", "decorator": "@simulate(seeds=6)"}[how]
    code = GIVEN + WRITES_EXAMPLES + f"""
    {head}
    @settings(max_examples=5)
    @given(st.integers(), st.lists(st.integers(0, 9)))
    def test_it(number, digits):
        assume(number % 7)
        note(number, digits)
        threading.Thread(target=time.sleep, args=(1,)).start()  # longer than the deadline
        time.sleep(2)
    """
    arguments = ["--fiberrt-sim=6"] * (how == "option")
    status, told = run_with_hypothesis(tmp_path, code, *arguments)
    assert status == 0 and "1 passed" in told, told
    runs = examples_by_run(tmp_path / "examples")
    assert {name.partition(":")[0] for name in runs} >= {str(seed) for seed in range(1, 7)}, runs
    examples = set(map(tuple, runs.values()))
    assert len(examples) == 1 and len(set(examples.copy().pop())) == 5, runs
    assert not list(tmp_path.glob(".hypothesis/examples")), "a run has written to the database"
    (tmp_path / "examples").unlink()
    run_with_hypothesis(tmp_path, code, *arguments, PYTHONHASHSEED="5")
    assert set(map(tuple, examples_by_run(tmp_path / "examples").values())) == examples
    (tmp_path / "examples").unlink()
    run_with_hypothesis(tmp_path, code, *arguments, "--hypothesis-seed=1")
    others = set(map(tuple, examples_by_run(tmp_path / "examples").values()))
    assert len(others) == 1 and others != examples


def test_the_first_failing_example_ends_the_run_and_repeats(tmp_path, hypothesis):
    code = GIVEN + """
    @pytest.mark.fiberrt_sim(seeds=300, switches="lines", preemptions=30)
    @settings(max_examples=10)
    @given(st.integers(1, 99), st.integers(1, 99))
    def test_race(first, second):
        account = Account()
        tellers = [threading.Thread(target=account.deposit, args=(n,)) for n in (first, second)]
        for teller in tellers: teller.start()
        for teller in tellers: teller.join()
        assert account.balance == 100 + first + second
    """
    status, told = run_with_hypothesis(tmp_path, code, PYTHONHASHSEED="0")
    assert status == 1 and "Flaky" not in told, told
    example = re.search(r"^E +hypothesis's example: first=\d+, second=\d+$", told, re.M)[0]
    tale = told.partition("What the threads did:\n")[2].partition("\n\n")[0]
    assert tale.count("account = Account()") == 1, "the tale tells of earlier examples, too"
    choices = re.search(r"--fiberrt-replay=(\S+)$", told, re.M)[1]
    status, told = run_with_hypothesis(tmp_path, code, f"--fiberrt-replay={choices}", PYTHONHASHSEED="0")
    assert status == 1 and example in told and " is preempted before " in told, told


def test_hypothesis_s_own_outcomes(tmp_path, hypothesis):
    code = GIVEN + """
    from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

    settings.register_profile("few", max_examples=10, stateful_step_count=5)
    settings.load_profile("few")

    @given(st.integers())
    def test_skip(number):
        pytest.skip("a reason")

    @given(st.integers(0, 3))
    @example(number=9).xfail(raises=ZeroDivisionError)
    def test_explicit_xfail(number):
        if number == 9:
            1 / 0

    @example(number=9)
    @given(st.integers(0, 3))
    def test_explicit(number):
        assert number < 9

    @given(st.integers(0, 1000))
    def test_exit(number):
        if number:
            sys.exit(5)

    @given(st.integers(0, 3))
    def test_unsatisfiable(number):
        assume(False)

    @settings(phases=[Phase.explicit])
    @given(st.integers())
    def test_no_examples(number):
        assert False

    @seed(3)
    @given(st.integers(0, 1000))
    def test_seeded(number):
        assert number < 5

    class Machine(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.account = Account()
        @rule(amount=st.integers(1, 9))
        def deposit(self, amount):
            use(self.account)
        @invariant()
        def right(self):
            assert self.account.balance < 150

    TestMachine = Machine.TestCase

    class TestCase(unittest.TestCase):
        @given(st.integers())
        def test_method(self, number):
            self.assertLess(number, 5)
    """
    status, told = run_with_hypothesis(tmp_path, code, "--fiberrt-sim=3", "-rA")
    assert status == 1 and "Flaky" not in told, told
    for name, how in {
        "test_skip": "SKIPPED", "test_explicit_xfail": "PASSED", "test_explicit": "FAILED", "test_exit": "FAILED",
        "test_unsatisfiable": "FAILED", "test_no_examples": "SKIPPED", "test_seeded": "FAILED",
        "TestMachine::runTest": "FAILED", "TestCase::test_method": "FAILED",
    }.items():  # fmt: skip
        if how != "SKIPPED":  # pytest shows the places of these
            assert re.search(rf"^{how} test_it\.py::{name}\b", told, re.M), (name, told)
    assert "2 skipped" in told and "6 failed" in told.splitlines()[-1], told
    assert "SystemExit: 5" in told and "assert 9 < 9" in told and "Unsatisfiable" in told, told


def test_given_above_simulate_is_refused(tmp_path, hypothesis):
    code = GIVEN + """
    @given(st.integers())
    @simulate(seeds=3)
    def test_it(number):
        pass
    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and "TypeError: write @simulate above @given" in told, told


def test_a_simulated_test_does_not_change_hypothesis_for_the_others(tmp_path, hypothesis):
    code = GIVEN + """
    settings.register_profile("own", deadline=10**6, derandomize=False, database=None)
    settings.load_profile("own")

    @simulate(seeds=3)
    @settings(max_examples=5)
    @given(st.integers())
    def test_a(number):
        pass

    def test_b():
        @given(st.integers())
        def inner(number):
            assert number < 100
        with pytest.raises(AssertionError) as info:
            inner()
        assert "100" in "".join(info.value.__notes__)  # the smallest example
        assert settings().deadline is not None and settings().derandomize is False
    """
    status, told = run_with_hypothesis(tmp_path, code)
    assert status == 0 and "2 passed" in told, told


# --- pytest-xdist


def test_the_tales_of_two_workers_reach_the_report(tmp_path):
    needs_installed("the test of fiberrt.testing with pytest-xdist", "xdist")
    code = BANK + """
    @pytest.mark.parametrize("number", range(12))
    def test_balance(number):
        if number % 4:
            pytest.skip("a reason")
        account = Account()
        use(account)
        assert account.balance == 130

    def test_order():
        assert {"one", "two", "three"} == {"three", "two", "one"}
    """
    # The bare option, before a file: workers read the same words.
    status, told = run_pytest(tmp_path, code, "-n", "2", "-rs", "--fiberrt-switches=lines", "--fiberrt-json=results.jsonl",
                              "--fiberrt-sim", plugins=("fiberrt", "xdist"), PYTHONHASHSEED="random")  # fmt: skip
    assert status == 1 and "3 failed, 1 passed, 9 skipped" in told, told
    assert told.count("What the threads did:") == told.count("<== decision 1") == 3, told
    command = r"^To repeat it: PYTHONHASHSEED=0 pytest '(\S+)' --fiberrt-replay=(\S+) --fiberrt-switches=lines$"
    commands = re.findall(command, told, re.M)
    assert sorted(name for name, _ in commands) == [f"test_it.py::test_balance[{n}]" for n in (0, 4, 8)], told
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert Counter(line["outcome"] for line in lines) == {"failed": 3, "passed": 1, "skipped": 9}, lines
    assert {line["test"]: line["choices"] for line in lines if line["outcome"] == "failed"} == dict(commands)
    replay = ["-k", "balance and 4", f"--fiberrt-replay={commands[0][1]}", "--fiberrt-switches=lines"]
    status, told = run_pytest(tmp_path, code, *replay, PYTHONHASHSEED="0")
    assert status == 1 and " is preempted before " in told, told


def test_lines_of_json_are_whole_if_processes_write_at_once(tmp_path):
    code = """
    import sys
    from fiberrt.testing._explore import Report
    from fiberrt.testing._plan import append_json
    for size in range(0, 100_000, 500):
        append_json("results", sys.argv[1], Report(choices="1" * size))
    """
    (tmp_path / "write.py").write_text(textwrap.dedent(code))
    writers = [subprocess.Popen([sys.executable, "write.py", name], cwd=tmp_path) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    lines = [json.loads(line) for line in (tmp_path / "results").read_text().splitlines()]
    assert Counter(line["test"] for line in lines) == {"a": 200, "b": 200, "c": 200}


# --- Shards


def test_gnu_parallel_shares_the_seeds_among_shards(tmp_path):
    if shutil.which("parallel") is None:
        did_not_run("the test of fiberrt.testing's shards under GNU parallel", "there is no program parallel")
    code = GETENV + """
    import os, threading, time

    def wait():  # so that the seeds have something to choose
        thread = threading.Thread(target=time.sleep, args=(1,))
        thread.start()
        thread.join()

    def test_seeds():
        wait()
        if getenv("FIBERRT_SIM_REPLAY") is None:
            with open(f"seeds.{os.environ['SHARD']}", "a") as file:
                file.write(getenv("FIBERRT_SEED") + "\\n")

    def test_fails():
        wait()
        assert getenv("FIBERRT_SEED") != "8" or getenv("FIBERRT_SIM_REPLAY") is not None
    """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(code))
    command = (
        f"parallel --will-cite --jobs 2 --joblog jobs SHARD={{}} '{sys.executable}' -m pytest -q -p no:cacheprovider "
        "-p fiberrt --fiberrt-sim=10 --fiberrt-shard={}/3 --fiberrt-json=results.jsonl test_it.py ::: 1 2 3"
    )
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
    told = done.stdout + done.stderr
    assert done.returncode == 1, told  # the number of jobs that have failed
    jobs = [line.split("\t") for line in (tmp_path / "jobs").read_text().splitlines()[1:]]
    statuses = {job[8].partition(" ")[0]: job[6] for job in jobs}
    assert statuses == {"SHARD=1": "0", "SHARD=2": "1", "SHARD=3": "0"}
    seeds = {shard: {int(line) for line in (tmp_path / f"seeds.{shard}").read_text().split()} for shard in (1, 2, 3)}
    assert seeds == {1: {1, 4, 7, 10}, 2: {2, 5, 8}, 3: {3, 6, 9}}
    results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    names = Counter((result["test"].rpartition(":")[2], result["outcome"], result["seed"]) for result in results)
    assert names == {("test_seeds", "passed", None): 3, ("test_fails", "passed", None): 2, ("test_fails", "failed", 8): 1}
    assert "seed 8: the test fails" in told, told


def test_a_test_without_choices_makes_three_runs(tmp_path):
    status, told = run_pytest(tmp_path, "def test_it(): pass\n", "--fiberrt-sim=1000", "--fiberrt-json=results.jsonl")
    assert status == 0 and json.loads((tmp_path / "results.jsonl").read_text())["runs"] == 3, told


def test_shards_of_many_seeds_cost_no_memory():
    from fiberrt.testing._plan import Plan

    shards = [Plan.of(seeds=10**12).shard(f"{i}/7").seeds for i in range(1, 8)]
    assert sum(map(len, shards)) == 10**12 and [shard[0] for shard in shards] == list(range(1, 8))
    assert list(Plan.of(seeds=[5, 3, 9]).shard("2/2").seeds) == [3]


def test_an_example_whose_repr_fails_is_told(tmp_path, hypothesis):
    code = GIVEN + """
    class Silent:
        def __repr__(self):
            raise ValueError("no text")

    @simulate(seeds=1)
    @settings(max_examples=20)
    @given(st.builds(Silent), st.integers(0, 100))
    def test_it(silent, number):
        assume(number > 1)
        assert number < 3
    """
    status, told = run_with_hypothesis(tmp_path, code)
    assert status == 1 and "hypothesis's example: silent=<Silent whose repr() raises ValueError>, number=" in told, told
    assert "AssertionError" in told and "UnsatisfiedAssumption" not in told, told
