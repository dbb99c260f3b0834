# SPDX-License-Identifier: MIT OR Apache-2.0
"""fiberrt.testing: simulated runs of tests with threads, by the decorator, by pytest and by unittest."""

import importlib.util
import json
import os
import re
import select
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress

import pytest
import servers


def run(folder, code, *arguments, name="test_it.py", **environment):
    """Write a program and run it. Return (exit status, output)."""
    (folder / name).write_text(textwrap.dedent(code))
    command = [sys.executable, *(arguments or (name,))]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def run_pytest(folder, code, *arguments, plugins=("fiberrt",), **environment):
    """As run(), by pytest with these plugins; others that are installed need seconds to be imported."""
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"-p{name}" for name in plugins), *arguments, "test_it.py"]
    return run(folder, code, *command, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", **environment)


BANK = """
    import threading

    import pytest
    from fiberrt.testing import simulate


    class Account:
        def __init__(self):
            self.balance = 100

        def deposit(self, amount):
            old = self.balance
            self.balance = old + amount


    def use(account):
        tellers = [threading.Thread(target=account.deposit, args=(n,), name=f"teller {n}") for n in (10, 20)]
        for teller in tellers:
            teller.start()
        for teller in tellers:
            teller.join()
"""


def test_a_lost_update_is_found_shrunk_and_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "3")
    code = BANK + """
    @simulate(switches="lines")
    def test_balance():
        account = Account()
        use(account)
        assert account.balance == 130

    test_balance()
    """
    status, told = run(tmp_path, code)
    assert status == 1, told
    assert re.search(r"^fiberrt\.testing\._plan\.SimulationFailed: seed \d+: the test fails$", told, re.M), told
    assert int(re.search(r"^(\d+) decisions? of \d+ makes? the difference", told, re.M)[1]) <= 2, told
    tale = told.partition("What the threads did:\n")[2]
    stopped = re.search(r"\n  teller 10\n(.*)\n +-- teller 10 is preempted before test_it\.py:\d+   <== decision 1\n", tale, re.S)
    assert stopped[1].splitlines()[-1].endswith("old = self.balance"), told
    other = re.search(r"\n  teller 20\n.*\n +-- teller 20 ends\n", tale[stopped.end() :], re.S)
    assert "self.balance = old + amount" in other[0], told
    again = re.search(r"^To repeat it: (PYTHONHASHSEED=3) (\S+)$", told, re.M)
    repeated, tale = run(tmp_path, code, **dict(setting.split("=") for setting in again.groups()))
    assert repeated == 1 and " is preempted before " in tale, tale
    other, tale = run(tmp_path, code, FIBERRT_TEST_REPLAY="-")
    assert other == 0, tale


def test_a_deadlock_is_told_as_a_circle_with_both_stacks(tmp_path):
    code = """
    import threading
    from fiberrt.testing import simulate

    a, b = threading.Lock(), threading.Lock()

    def take(first, second):
        with first:
            with second:
                pass

    @simulate
    def test_it():
        threads = [threading.Thread(target=take, args=locks, name=name) for name, locks in (("x", (a, b)), ("y", (b, a)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1, told
    circle = told.partition("A deadlock:\n")[2].partition("\n\n")[0]
    assert re.search(r"x waits for second \(Lock \d\), which y has held since test_it.py:\d+", circle), told
    assert re.search(r"y waits for second \(Lock \d\), which x has held since test_it.py:\d+", circle), told
    assert circle.count("with second:") == 2, told


def test_a_wait_that_nothing_ends_is_told(tmp_path):
    code = """
    import threading
    from fiberrt.testing import simulate

    @simulate(seeds=1)
    def test_it():
        ready = threading.Condition()
        def wait():
            with ready:
                ready.wait()
        thread = threading.Thread(target=wait, name="waiter")
        thread.start()
        thread.join()

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and "waiter waits for ready (Condition 1)" in told, told


@pytest.mark.parametrize("switches, found", [("lines", False), ("instructions", True)])
def test_an_increment_is_lost_only_between_instructions(tmp_path, switches, found):
    code = f"""
    import threading
    from fiberrt.testing import simulate

    class Counter:
        n = 0

    def count():
        Counter.n += 1

    @simulate(switches={switches!r}, seeds=300)
    def test_it():
        threads = [threading.Thread(target=count) for _ in range(2)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert Counter.n == 2

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == found, told


def test_time_passes_at_once_and_is_the_same_in_each_run(tmp_path):
    code = """
    import datetime, os, random, secrets, threading, time, uuid
    from time import monotonic
    from fiberrt.testing import simulate

    seen = set()

    @simulate(seeds=5)
    def test_it():
        begun, day, date = monotonic(), time.time(), datetime.datetime.now()
        fired = threading.Event()
        threading.Timer(1800, fired.set).start()
        assert not fired.wait(1799)
        assert fired.wait(2)
        time.sleep(86400)
        for passed in (monotonic() - begun, time.time() - day, (datetime.datetime.now() - date).total_seconds()):
            assert 88200 <= passed < 88201, passed
        assert time.gmtime().tm_year == datetime.datetime.now().year == 2033
        raise ValueError(uuid.uuid4(), os.urandom(4), secrets.token_hex(4), random.random(), time.time(), time.ctime())

    try:
        test_it()
    except AssertionError as error:
        print(str(error).splitlines()[-1])
    """
    outputs = {run(tmp_path, code, TZ="UTC")[1] for _ in range(2)}
    assert len(outputs) == 1 and "ValueError: (UUID(" in outputs.copy().pop(), outputs


LEAVING = {
    "subprocess.run(['true'])": r"subprocess\.Popen\(\['true'\]\) starts a process",
    "os.fork()": r"os\.fork\(\) starts a process",
    "_thread.start_new_thread(print, ())": r"_thread\.start_new_thread\(\) starts a thread of the system",
    "os.read(outside, 1)": r"test_it\.py:\d+: the run took longer than 1 s: a thread computes or blocks, ",
    "socket.create_connection(('192.0.2.1', 80))": r"a connection to \('192\.0\.2\.1', 80\) leaves this process",
    "socket.create_connection(('example.com', 80))": r"the name 'example\.com' is looked up outside",
    "any(0 for _ in itertools.count())": r"test_it\.py:\d+: the run took longer than 1 s: a thread computes or blocks, ",
    "libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.pause, None)": r"not written in Python has started a th",
    "values.append(int(_fiberrt.real_now() * 1e9))": r"two runs of seed 1 differ, so something is not simulated: ",
}


@pytest.mark.parametrize("call", LEAVING)
def test_a_run_that_leaves_the_simulation_never_passes(tmp_path, call):
    code = f"""
    import _thread, ctypes, itertools, os, random, socket, subprocess, sys, threading
    from fiberrt import _fiberrt
    from fiberrt.testing import simulate

    libc = ctypes.CDLL(None)
    values = []
    if "outside" in {call!r}:
        outside, _keep = os.openpty()

    @simulate(seeds=3, timeout_s={1 if "than 1 s" in LEAVING[call] else 60})
    def test_it():
        try:
            {call}
        except Exception as error:
            raise
        for _ in range(values.pop() // 1000 % 1000 if values else 0):
            threading.Event().wait(0.1)

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and re.search(LEAVING[call], told), told
    assert re.search(r"SimulationFailed: (seed 1|the ordinary run): the test leaves the simulation", told), told


def test_the_plugin_runs_fixtures_in_each_run_and_reports_as_pytest_does(tmp_path):
    code = BANK + """
    set_up = []

    @pytest.fixture
    def account(request, tmp_path):
        set_up.append(request.node.name)
        account = Account()
        account.lock = threading.Lock()
        yield account
        assert account.balance == 130, "seen by the fixture"

    @pytest.mark.fiberrt_sim(seeds=200, switches="lines")
    @pytest.mark.parametrize("locked", [False, True])
    def test_account(account, locked, monkeypatch):
        if locked:
            first = account.deposit
            def deposit(amount):
                with account.lock:
                    first(amount)
            monkeypatch.setattr(account, "deposit", deposit)
        use(account)
        assert set_up == [f"test_account[{locked}]"]

    def test_plain():
        assert set_up == [] and type(threading.Lock()).__module__ == "_thread"

    @pytest.mark.xfail(strict=True, raises=AssertionError)
    @simulate(seeds=3)
    def test_expected():
        assert False

    @simulate(seeds=3)
    def test_skipped():
        pytest.skip("a reason")

    class TestInClass:
        @simulate(seeds=3)
        def test_method(self, capsys):
            assert self.__class__.__name__ == "TestInClass"
    """
    status, told = run_pytest(tmp_path, code, "-rs", "--fiberrt-json=results.jsonl")
    assert status == 1 and "1 failed, 3 passed, 1 skipped, 1 xfailed" in told, told
    assert "seen by the fixture" in told and " is preempted before " in told and ": a reason" in told, told
    choices = re.search(r"^To repeat it: pytest 'test_it\.py::test_account\[False\]' --fiberrt-replay=(\S+)$", told, re.M)
    results = {(line := json.loads(text))["test"]: line for text in (tmp_path / "results.jsonl").read_text().splitlines()}
    failed = results["test_it.py::test_account[False]"]
    assert failed["outcome"] == "failed" and failed["choices"] == choices[1] and failed["seed"] > 0, results
    assert results["test_it.py::test_account[True]"]["outcome"] == "passed"
    status, told = run_pytest(tmp_path, code, f"--fiberrt-replay={choices[1]}", "-k", "account and False")
    assert status == 1 and " is preempted before " in told, told


def test_each_run_has_an_own_tmp_path_of_the_same_name(tmp_path):
    code = """
    import shutil

    import pytest

    @pytest.mark.fiberrt_sim(seeds=3, jobs=1)
    @pytest.mark.parametrize("removes", [False, True])
    def test_it(tmp_path, removes):
        assert (tmp_path.name, list(tmp_path.iterdir())) == (f"test_it_{removes}_0", [])
        (tmp_path / "file").write_text("left")
        if removes:
            shutil.rmtree(tmp_path.parent)
    """
    status, told = run_pytest(tmp_path, code)
    assert status == 0, told


def test_the_plugin_simulates_all_tests_when_asked_to(tmp_path):
    code = BANK + """
    import unittest

    def test_balance():
        account = Account()
        use(account)
        assert account.balance == 130

    def test_order():
        assert {"one", "two", "three"} == {"three", "two", "one"}

    class TestOld(unittest.TestCase):
        def setUp(self):
            self.account = Account()
        def test_it(self):
            use(self.account)
            self.assertEqual(self.account.balance, 130)
    """
    status, told = run_pytest(tmp_path, code)
    assert status == 0, told
    status, told = run_pytest(tmp_path, code, "--fiberrt-sim=150", "--fiberrt-switches=lines")
    assert status == 1 and "2 failed, 1 passed" in told and told.count(" is preempted before ") >= 2, told
    seeds = re.findall(r"^seed (\d+): the test fails$", told, re.M)
    shard = f"--fiberrt-shard={(int(seeds[0]) - 1) % 3 + 1}/3"
    status, told = run_pytest(tmp_path, code, "--fiberrt-sim=150", "--fiberrt-switches=lines", shard, "-k", "balance")
    assert status == 1 and f"seed {seeds[0]}: the test fails" in told, told
    status, told = run_pytest(tmp_path, code, "--fiberrt-sim=1000000", "--fiberrt-seconds=0.5", "-k", "order",
                              "--fiberrt-json=results.jsonl")  # fmt: skip
    result = json.loads((tmp_path / "results.jsonl").read_text())
    assert status == 0 and result["outcome"] == "passed" and 1 <= result["runs"] < 1_000_000, (told, result)


def test_unittest_s_mixin(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "3")
    code = """
    import threading, unittest
    from fiberrt.testing.unittest import Simulated

    class TestCount(Simulated, unittest.TestCase):
        simulation = {"seeds": 200, "switches": "lines"}

        def setUp(self):
            self.count = 0

        def work(self):
            old = self.count
            self.count = old + 1

        def test_count(self):
            threads = [threading.Thread(target=self.work) for _ in range(2)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            self.assertEqual(self.count, 2)

        def test_passes(self):
            with self.subTest("one"):
                self.assertEqual(self.count, 0)

        def test_skipped(self):
            self.skipTest("a reason")
    """
    status, told = run(tmp_path, code, "-m", "unittest", "-v", "test_it")
    assert status == 1, told
    assert re.search(r"test_passes .*ok$", told, re.M) and "skipped 'a reason'" in told, told
    assert "FAILED (failures=1, skipped=1)" in told and "AssertionError: 1 != 2" in told, told
    settings = re.search(r"^To repeat it: (.*) python -m unittest test_it\.TestCount\.test_count$", told, re.M)[1]
    environment = dict(setting.split("=") for setting in settings.split())
    status, told = run(tmp_path, code, "-m", "unittest", "test_it.TestCount.test_count", **environment)
    assert status == 1 and "AssertionError: 1 != 2" in told, told


@pytest.mark.parametrize("how", ["pytest", "plain"])
def test_a_replay_stops_in_the_debugger_at_the_same_places(tmp_path, how):
    code = BANK + """
    def deposit(self, amount):
        old = self.balance
        breakpoint()
        self.balance = old + amount

    Account.deposit = deposit

    @simulate(switches="lines")
    def test_balance():
        account = Account()
        use(account)
        assert account.balance == 130

    if __name__ == "__main__":
        test_balance()
    """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(code).replace("breakpoint()", "pass"))
    status, told = run_pytest(tmp_path, code.replace("breakpoint()", "pass"))
    choices = re.search(r"--fiberrt-replay=(\S+)$", told, re.M)[1]
    (tmp_path / "test_it.py").write_text(textwrap.dedent(code))
    command = ["-m", "pytest", "-q", "test_it.py", f"--fiberrt-replay={choices}"] if how == "pytest" else ["test_it.py"]
    commands = "p 'amount', amount, old\nc\n" * 2
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    if how == "plain":
        environment["FIBERRT_TEST_REPLAY"] = choices
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, input=commands, env=environment, capture_output=True,
                          text=True)  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == 1, told
    # Each has read the balance before the other has written it.
    assert sorted(re.findall(r"\('amount', (\d+), (\d+)\)", told)) == [("10", "100"), ("20", "100")], told
    assert " is preempted before " in told, told


def test_an_exception_that_ends_a_thread_fails_the_test(tmp_path):
    code = """
    import threading
    from fiberrt.testing import simulate

    @simulate(seeds=2)
    def test_it():
        threading.Thread(target=lambda: [][0], name="reader").start()

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and "in reader:" in told and "IndexError" in told, told


def test_the_search_for_fewer_choices_ends_with_its_time(tmp_path):
    code = BANK + """
    import sys
    from fiberrt.testing import SimulationFailed, _explore

    @simulate(switches="lines", jobs=1, preemptions=20)
    def test_balance():
        account = Account()
        use(account)
        assert account.balance == 130

    if len(sys.argv) > 1:
        _explore._SHRINK_S = 0
    try:
        test_balance()
    except SimulationFailed as error:
        report = error.report
        print(report.repeats, report.runs - report.seed, report.chosen)
    """
    status, told = run(tmp_path, code)
    repeats, _, fewest = told.split()
    assert repeats == "True" and int(fewest) <= 2, told
    status, told = run(tmp_path, code, "test_it.py", "no time")
    # Besides the runs of the seeds: the ordinary run, two that are compared, the trace, a run by its list, the record.
    repeats, more_runs, chosen = told.split()
    assert repeats == "True" and more_runs == "6" and int(chosen) > int(fewest), told


def test_of_runs_at_the_same_time_the_first_seed_is_reported(tmp_path):
    code = """
    import ctypes, multiprocessing, threading
    from fiberrt.testing import simulate

    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    failed = multiprocessing.get_context("fork").RawValue("i")

    @simulate(seeds=8, jobs=4)
    def test_it():
        thread = threading.Thread(target=int)  # so that the seeds have something to choose
        thread.start()
        thread.join()
        if getenv(b"FIBERRT_SEED") == b"4":
            failed.value = 1
            assert False
        if getenv(b"FIBERRT_SEED") == b"3":
            while not failed.value:  # seed 4 has the time to fail before
                pass
            assert False

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and "seed 3: the test fails" in told, told


@pytest.mark.parametrize("options, environment", [(["-X", "dev"], {}), ([], {"FIBERRT_DEBUG": "1"})])
def test_the_reports_of_blocking_fibers_do_not_disturb(tmp_path, options, environment):
    code = """
    import threading
    import fiberrt
    from fiberrt import _blocking
    from fiberrt.testing import simulate

    @simulate(seeds=3)
    def test_it():
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

    assert _blocking._watch
    test_it()
    assert _blocking._watch
    """
    assert run(tmp_path, code, *options, "test_it.py", **environment) == (0, "")


def test_functions_of_register_at_fork_are_not_called_in_each_run(tmp_path):
    code = """
    import os
    from fiberrt.testing import simulate

    calls = []
    os.register_at_fork(before=lambda: calls.append("before"), after_in_child=lambda: calls.append("child"))

    @simulate(seeds=3)
    def test_it():
        assert calls == ["before", "child"] * 2  # of the process that decides about runs, and of the one that forks them

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 0, told


def test_objects_have_the_same_addresses_in_each_run(tmp_path):
    code = """
    import multiprocessing, threading
    from fiberrt.testing import simulate

    class Thing:
        def __init__(self, number):
            self.number = number

    orders = multiprocessing.get_context("fork").RawArray("q", 60)
    ran = multiprocessing.get_context("fork").RawValue("i")

    @simulate(seeds=50, jobs=2)
    def test_it():
        things = {Thing(number) for number in range(1000)}
        orders[ran.value] = hash(tuple(thing.number for thing in things))
        ran.value += 1
        thread = threading.Thread(target=int)  # so that the seeds have something to choose
        thread.start()
        thread.join()

    test_it()
    assert ran.value > 10 and len(set(orders[: ran.value])) == 1, list(orders)
    """
    status, told = run(tmp_path, code)
    assert status == 0, told


def test_a_thread_that_starts_after_each_fork_leaves_the_simulation(tmp_path):
    code = """
    import _thread, os
    from fiberrt.testing import simulate

    wait = _thread.allocate_lock()
    wait.acquire()
    os.register_at_fork(after_in_child=lambda: _thread.start_new_thread(wait.acquire, ()))

    @simulate(seeds=3)
    def test_it():
        pass

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and "a function of os.register_at_fork() has started a thread of the system" in told, told


def test_the_process_that_makes_the_runs_does_not_grow(tmp_path):
    code = """
    import ctypes, posix, sys, threading
    from dataclasses import replace
    from fiberrt.testing._plan import Plan
    from fiberrt.testing._run import Test

    class Allocations(ctypes.Structure):
        _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks".split()]
        _fields_ += [("fordblks", ctypes.c_size_t), ("keepcost", ctypes.c_size_t)]

    allocations = ctypes.CDLL(None).mallinfo2
    allocations.restype = Allocations
    measured = []

    class Seeds:  # asked for each seed in the process that makes the runs
        def __iter__(self):
            for seed in range(1, 1601):
                if seed in (200, 1600):
                    with_own = posix.listdir("/proc/self/fd")
                    children = posix.open(f"/proc/self/task/{posix.getpid()}/children", posix.O_RDONLY)
                    running = len(posix.read(children, 1000).split())
                    posix.close(children)
                    measured.append((len(with_own), sys.getallocatedblocks(), allocations().uordblks, running))
                yield seed
            posix.write(output, repr(measured).encode())

    def with_choices():
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

    output = posix.dup(1)
    report = replace(Plan.of(jobs=2), seeds=Seeds()).run(Test(with_choices))
    assert not report.failed and report.runs >= 1600, report
    """
    status, told = run(tmp_path, code)
    assert status == 0, told
    (files, blocks, heap, _), (files_later, blocks_later, heap_later, children) = eval(told)
    assert files_later == files
    assert blocks_later - blocks < 200, told
    assert heap_later - heap < 20_000, told
    assert children <= 2, told


def test_a_process_that_has_used_fibers_says_why_it_cannot_simulate(tmp_path):
    code = """
    import fiberrt
    from fiberrt.testing import simulate

    fiberrt.spawn(int).result()

    @simulate(seeds=2)
    def test_it():
        pass

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and "this process has used fibers before" in told, told


@pytest.mark.parametrize(
    "options, why",
    [
        ({"switches": "often"}, "switches is 'often', and must be one of waits, lines, instructions"),
        ({"seeds": 0}, "seeds is 0, and must be 1 or more"),
        ({"faults": 4}, "faults is 4"),
        ({"timeout_s": 0}, "timeout_s must be 1 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, why):
    from fiberrt.testing import simulate

    with pytest.raises(ValueError, match=re.escape(why)):
        simulate(**options)
    with pytest.raises(TypeError, match="simulate\\(\\) takes a function, not int"):
        simulate(3)
    with pytest.raises(TypeError):
        simulate(seed=3)


@pytest.mark.parametrize("option", ["--fiberrt-shard=4/3", "--fiberrt-sim=0", "--fiberrt-switches=often"])
def test_options_of_the_plugin_that_make_no_sense_are_refused(tmp_path, option):
    status, told = run_pytest(tmp_path, "def test_it(): pass\n", "--fiberrt-sim=3", option)
    assert status not in (0, 1), told


@pytest.mark.parametrize("handler", ["signal.SIG_IGN", "reap"])
def test_a_program_may_ignore_the_end_of_its_children(tmp_path, handler):
    code = f"""
    import os, signal
    from fiberrt.testing import simulate

    def reap(*_):
        os.waitpid(-1, 0)

    signal.signal(signal.SIGCHLD, {handler})

    @simulate(seeds=3)
    def test_it():
        pass

    test_it()
    assert signal.getsignal(signal.SIGCHLD) is {handler}
    print("passed")
    """
    assert run(tmp_path, code) == (0, "passed\n")


@pytest.mark.parametrize("ends", ["the explorer", "the server"])
def test_a_run_ends_with_the_processes_that_make_it(tmp_path, ends):
    code = """
    import os
    from fiberrt.testing import simulate

    @simulate(seeds=3, timeout_s=1000)
    def test_it():
        with open("writing", "w") as file: print(os.getpid(), file=file)
        os.rename("writing", "run")
        while True: pass

    test_it()
    """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(code))
    process = subprocess.Popen([sys.executable, "test_it.py"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    while not (tmp_path / "run").exists() and process.poll() is None:
        time.sleep(0.01)
    in_run = int((tmp_path / "run").read_text())
    end = os.pidfd_open(in_run)
    try:
        server = parent_of(in_run)
        os.kill(server if ends == "the server" else parent_of(server), signal.SIGKILL)
        assert process.wait() == 1
        assert select.select([end], [], [], 60)[0], "the run has not ended"
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(end, signal.SIGKILL)
        os.close(end)


def parent_of(process):
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def test_a_test_chooses_its_folder_of_temporary_files(tmp_path):
    code = """
    import os, tempfile
    from fiberrt.testing import simulate

    os.mkdir("own")

    @simulate(seeds=3)
    def test_it():
        before = tempfile.gettempdir()
        tempfile.tempdir = None
        assert tempfile.gettempdir() == before
        os.environ["TMPDIR"] = os.path.abspath("own")
        tempfile.tempdir = None
        assert tempfile.gettempdir() == os.environ["TMPDIR"]

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 0, told


def test_simulated_suites_fail_if_pytest_cannot_run(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if importlib.util.find_spec("simulated_suites") is None:
        servers.did_not_run("the test of simulated_suites.py", "the tests run away from the sources")
    import simulated_suites

    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to("/bin/false")
    (tmp_path / "results").mkdir()
    suite = simulated_suites.Suite("own", "", ("tests/none.py",))
    assert simulated_suites.results_of(suite, tmp_path / "results", 1) == {}  # 1: tests fail
    (tmp_path / "venv/bin/python").unlink()
    (tmp_path / "venv/bin/python").write_text("#!/bin/sh\nexit 4\n")
    (tmp_path / "venv/bin/python").chmod(0o700)
    with pytest.raises(SystemExit) as ended:
        simulated_suites.results_of(suite, tmp_path / "results", 1)
    assert ended.value.code == 1
