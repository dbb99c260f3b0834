# SPDX-License-Identifier: MIT OR Apache-2.0
"""fiberrt.testing never reports a failing test as passed, nor a run's own end as that of another process."""

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest
from test_testing import run, run_pytest

HEAD = """
    import multiprocessing, os, posix, random, signal, socket, threading, time, unittest, warnings
    import pytest
    from fiberrt.testing import simulate
"""

# Tests that fail.
FAILING = """
    # Seed 0.
    @simulate(seeds=range(1000))
    def test_seed_0():
        assert False

    # The ordinary run takes all of the time.
    @simulate(seeds=3, seconds=0)
    def test_no_seconds():
        assert False

    # Only the first seed's first run fails.
    ran = multiprocessing.get_context("fork").RawValue("i")
    @simulate(seeds=1)
    def test_first_run_of_first_seed():
        ran.value += 1
        assert ran.value != 2

    # os._exit(0).
    @simulate(seeds=3)
    def test_exit_0():
        os._exit(0)

    # os._exit(4), the status of a skipped run.
    @simulate(seeds=3)
    def test_exit_4():
        os._exit(4)

    # A subtest of pytest.
    @simulate(seeds=3)
    def test_subtest(subtests):
        with subtests.test("one"):
            assert False

    # A subtest of a TestCase.
    class Test_subtest_of_test_case(unittest.TestCase):
        @simulate(seeds=3)
        def test_subtest_of_test_case(self):
            with self.subTest("one"):
                self.assertTrue(False)

    # A skipped subtest before one that fails.
    class Test_skipped_subtest(unittest.TestCase):
        @simulate(seeds=3)
        def test_skipped_subtest(self):
            with self.subTest("one"):
                self.skipTest("a reason")
            self.assertTrue(False)

    # Some runs are skipped before one fails.
    @simulate(seeds=50)
    def test_skipped_runs():
        order = []
        threads = [threading.Thread(target=order.append, args=(i,)) for i in range(2)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        if order == [0, 1]:
            pytest.skip("a reason")
        assert False

    # A thread before a skip.
    @simulate(seeds=3)
    def test_thread_before_skip():
        thread = threading.Thread(target=lambda: [][0])
        thread.start()
        thread.join()
        pytest.skip("a reason")

    # A process of multiprocessing.
    @simulate(seeds=3)
    def test_multiprocessing():
        try:
            multiprocessing.get_context("spawn").Process(target=print).start()
        except Exception:
            pass

    # A process of posix.fork.
    @simulate(seeds=3)
    def test_posix_fork():
        try:
            if posix.fork() == 0:
                os._exit(0)
        except Exception:
            pass

    # A warning of an error.
    @pytest.mark.filterwarnings("error::DeprecationWarning")
    @simulate(seeds=3)
    def test_warning():
        warnings.warn("old", DeprecationWarning)

    # Another exception than the expected one.
    @pytest.mark.xfail(raises=AssertionError)
    @simulate(seeds=3)
    def test_other_exception():
        raise ValueError

    # An unexpected success.
    class Test_unexpected_success(unittest.TestCase):
        @unittest.expectedFailure
        @simulate(seeds=3)
        def test_unexpected_success(self):
            pass

    # A very long text.
    @simulate(seeds=3)
    def test_long_text():
        raise ValueError("x" * 1_000_000)

    # The test stops the alarm.
    @simulate(seeds=3, timeout_s=1)
    def test_own_alarm():
        signal.alarm(0)
        while True:
            pass

    # A coroutine.
    async def look():
        assert False
    @simulate(seeds=3)
    def test_coroutine():
        return look()
"""


@pytest.fixture(scope="module")
def reports_of_failing(tmp_path_factory):
    code = FAILING if hasattr(pytest, "Subtests") else FAILING.replace("(subtests)", "()").replace('with subtests.test("one"):', "if 1:")
    return run_pytest(tmp_path_factory.mktemp("failing"), HEAD + code, "-rA")[1]


@pytest.mark.parametrize("name", re.findall(r"def test_(\w+)", FAILING))
def test_a_failing_test_fails(reports_of_failing, name):
    assert re.search(rf"^FAILED test_it.py::(\w+::)?test_{name}\b", reports_of_failing, re.M), reports_of_failing


def test_a_very_long_failure_is_told_in_part(reports_of_failing):
    assert "RuntimeError" not in reports_of_failing and "x" * 100 in reports_of_failing


def test_the_json_of_a_test_that_ends_its_process_says_failed(tmp_path):
    code = HEAD + """
    @simulate(seeds=3)
    def test_it():
        os._exit(0)
    """
    _, told = run_pytest(tmp_path, code, "--fiberrt-json=results")
    assert '"outcome": "failed"' in (tmp_path / "results").read_text(), told
    assert "the process ended, with status 0, before the test did" in told


@pytest.mark.parametrize("method", ["connect", "connect_ex", "recv"])
def test_a_connection_to_a_server_outside_is_noted_even_if_the_test_catches_the_error(tmp_path, method):
    code = HEAD + """
    @simulate(seeds=3)
    def test_it():
        connection = socket.socket()
        try:
            METHOD
        except OSError:
            pass
        connection.close()
    test_it()
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        call = f"connection.connect({address}); connection.recv(1)" if method == "recv" else f"connection.{method}({address})"
        status, told = run(tmp_path, code.replace("METHOD", call))
    assert status == 1 and "the test leaves the simulation" in told, told
    assert re.search(r"test_it\.py:\d+ uses a file or a connection that other processes may use", told), told


def test_each_place_of_a_lock_in_a_class_gets_the_new_lock(tmp_path):
    code = HEAD + """
    class Pool:
        lock = threading.Lock()
        def take(self):
            with self.lock:
                return type(self.lock).__module__

    pool = Pool()
    for _ in range(10_000):  # the interpreter caches the attribute
        pool.take()

    @simulate(seeds=3)
    def test_it():
        assert pool.take().startswith("fiberrt"), pool.take()
        assert Pool.lock is pool.lock is Pool.__dict__["lock"]
    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 0, told


def test_unittest_s_mixin_keeps_errors_after_skips_and_knows_expected_failures(tmp_path):
    code = """
    import unittest
    from fiberrt.testing import simulate
    from fiberrt.testing.unittest import Simulated

    class TestIt(Simulated, unittest.TestCase):
        simulation = {"seeds": 3}

        def test_error_after_skip(self):
            with self.subTest("one"):
                self.skipTest("a reason")
            self.fail()

        @unittest.expectedFailure
        def test_expected(self):
            self.fail()

        @unittest.expectedFailure
        def test_unexpected(self):
            pass

    class TestDecorated(unittest.TestCase):
        @simulate(seeds=3)
        def test_subtest(self):
            with self.subTest("one"):
                self.fail()

        @simulate(seeds=3)
        def test_skip(self):
            self.skipTest("a reason")
    """
    status, told = run(tmp_path, code, "-m", "unittest", "-v", "test_it")
    assert status == 1, told
    for name, how in {"error_after_skip": "FAIL", "expected": "expected failure", "unexpected": "unexpected success",
                      "subtest": "FAIL", "skip": "skipped 'a reason'"}.items():  # fmt: skip
        assert re.search(rf"^test_{name} .*\.\.\. {how}$", told, re.M), told


def test_pytest_s_skips_and_expected_failures(tmp_path):
    code = HEAD + """
    @simulate(seeds=3)
    def test_skip():
        raise unittest.SkipTest("a reason")

    @simulate(seeds=3)
    def test_xfail():
        pytest.xfail("a reason")

    @pytest.mark.xfail(raises=ValueError, strict=True)
    @simulate(seeds=3)
    def test_raises():
        raise ValueError

    class TestIt(unittest.TestCase):
        @unittest.expectedFailure
        def test_it(self):
            self.fail()
    """
    status, told = run_pytest(tmp_path, code, "--fiberrt-sim=3")
    assert status == 0 and "1 skipped, 3 xfailed in" in told, told
    status, told = run_pytest(tmp_path, code, "--fiberrt-sim=3", "--runxfail", "-k", "raises")
    assert status == 1 and "1 failed" in told, told


def test_only_the_process_that_has_set_up_a_fixture_tears_it_down(tmp_path):
    code = HEAD + """
    @pytest.fixture(scope="session")
    def service():
        with open("log", "a") as file: print("up", os.getpid(), file=file)
        yield os.getpid()
        with open("log", "a") as file: print("down", os.getpid(), file=file)

    def test_plain(service):
        pass

    @simulate(seeds=3)
    def test_simulated(service):
        assert service == os.getpid()

    def test_plain_again(service):
        assert service == os.getpid()
    """
    status, told = run_pytest(tmp_path, code)
    assert status == 0, told
    log = [tuple(line.split()) for line in (tmp_path / "log").read_text().splitlines()]
    up, down = (sorted(pid for what, pid in log if what == wanted) for wanted in ("up", "down"))
    assert up == down and len(set(up)) == len(up) > 3, log


def test_the_teardown_of_an_item_is_called_in_each_run(tmp_path):
    (tmp_path / "conftest.py").write_text(textwrap.dedent("""
    import pytest

    class Item(pytest.Function):
        def teardown(self):
            super().teardown()
            with open("log", "a") as file: print("down", file=file)

    def pytest_pycollect_makeitem(collector, name, obj):
        return Item.from_parent(collector, name=name) if name == "test_it" else None
    """))
    status, told = run_pytest(tmp_path, "def test_it(): pass\n", "--fiberrt-sim=3")
    assert status == 0 and (tmp_path / "log").read_text().count("down") == 3, told


def test_a_program_that_calls_pytest_is_not_started_again(tmp_path):
    code = """
    import sys, pytest
    print("begun", flush=True)
    if __name__ == "__main__":
        sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--fiberrt-sim=3", "cases.py"]))
    """
    (tmp_path / "cases.py").write_text("def test_it(): pass\n")
    environment = {"PYTHONHASHSEED": "random"}
    status, told = run(tmp_path, code, "program.py", name="program.py", **environment)
    assert status == 0 and told.count("begun") == 1, told


def test_the_command_that_repeats_a_run_has_its_hash_seed(tmp_path):
    code = HEAD + """
    @simulate(seeds=3)
    def test_it():
        assert False
    if __name__ == "__main__":
        test_it()
    """
    _, told = run(tmp_path, code, PYTHONHASHSEED="7")
    assert "To repeat it: PYTHONHASHSEED=7 FIBERRT_TEST_REPLAY=-\n" in told, told
    _, told = run(tmp_path, code, PYTHONHASHSEED="random")
    assert "To repeat it: FIBERRT_TEST_REPLAY=-\n" in told and "PYTHONHASHSEED was not set" in told, told
    _, told = run_pytest(tmp_path, code, PYTHONHASHSEED="7")
    assert "To repeat it: PYTHONHASHSEED=7 pytest test_it.py::test_it " in told, told


def test_an_interrupted_test_leaves_no_process_and_no_file(tmp_path):
    code = HEAD + """
    @simulate(seeds=3, timeout_s=1000)
    def test_it():
        with open("writing", "w") as file: print(os.getpid(), file=file)
        os.rename("writing", "run")
        while True: pass
    test_it()
    """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(code))
    (tmp_path / "files").mkdir()
    process = subprocess.Popen([sys.executable, "test_it.py"], cwd=tmp_path, stderr=subprocess.PIPE,
                               env={**os.environ, "TMPDIR": str(tmp_path / "files")})  # fmt: skip
    while not (tmp_path / "run").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)  # to this process only, unlike a terminal's
    process.communicate()
    assert process.returncode != 0
    assert list((tmp_path / "files").iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "run").read_text()), 0)


def test_times_as_text_and_seeds_of_random_are_simulated(tmp_path):
    code = HEAD + """
    from random import seed
    @simulate(seeds=3)
    def test_it():
        random.seed()
        values = [random.random(), random.Random().random()]
        seed()
        values.append(random.random())
        assert "2033" in time.asctime() and time.strftime("%Y") == "2033"
        assert time.asctime(time.gmtime(0)).endswith("1970") and time.strftime("%Y", time.gmtime(0)) == "1970"
        raise ValueError(time.asctime(), time.strftime("%c"), values)
    test_it()
    """
    told = [run(tmp_path, code)[1].splitlines()[-1] for _ in range(2)]
    assert told[0] == told[1] and told[0].startswith("ValueError: ("), told


@pytest.mark.parametrize(
    "options, error, why",
    [
        ({"seeds": []}, ValueError, "seeds is empty"),
        ({"seeds": [1, -1]}, ValueError, "a seed is -1"),
        ({"seeds": range(-3, 3)}, ValueError, "a seed is -3"),
        ({"seeds": ["1"]}, ValueError, "a seed is '1'"),
        ({"modules": "no_such_module"}, ImportError, "there is no module 'no_such_module'"),
    ],
)
def test_seeds_and_modules_that_do_not_exist_are_refused(options, error, why):
    from fiberrt.testing import simulate

    with pytest.raises(error, match=re.escape(why)):
        simulate(**options)


def test_a_function_that_would_not_run_the_test_is_refused():
    from fiberrt.testing import simulate

    async def coroutine(): ...

    def generator():
        yield

    for function in (coroutine, generator):
        with pytest.raises(TypeError, match="would not"):
            simulate(function)


def test_a_run_of_a_program_after_python_c_repeats_although_it_is_recorded():
    code = textwrap.dedent(HEAD) + textwrap.dedent("""
    from dataclasses import dataclass

    @dataclass
    class Account:
        balance: int = 100
        def deposit(self, amount):
            old = self.balance
            self.balance = old + amount

    @simulate(switches="lines")
    def test_it():
        account = Account()
        tellers = [threading.Thread(target=account.deposit, args=(n,), name=f"teller {n}") for n in (10, 20)]
        for teller in tellers: teller.start()
        for teller in tellers: teller.join()
        assert account.balance == 130
    test_it()
    """)
    done = subprocess.run([sys.executable, "-Bc", code], capture_output=True, text=True)
    assert done.returncode == 1 and "teller 10 is preempted before <string>:" in done.stderr, done.stderr
    assert "To repeat it:" in done.stderr and "__create_fn__" not in done.stderr, done.stderr


def test_a_bounded_semaphore_is_a_semaphore(tmp_path):
    code = HEAD + """
    made = threading.BoundedSemaphore(2)

    @simulate(seeds=3)
    def test_it():
        for semaphore in (made, threading.BoundedSemaphore(2)):
            assert isinstance(semaphore, threading.Semaphore)
            with semaphore:
                pass
            try:
                semaphore.release()
            except ValueError:
                continue
            assert False
    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 0, told
