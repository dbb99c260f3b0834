# SPDX-License-Identifier: MIT OR Apache-2.0
"""The report of a failing simulated test: its names, the lines that it leaves out, and that it calls no code."""

import re
import shlex

import pytest
from test_testing import run, run_pytest

from fiberrt.testing._explore import Report, _place_in
from fiberrt.testing._plan import explain
from fiberrt.testing._program import Program
from fiberrt.testing._run import Outcome, _trimmed


def test_a_long_stretch_keeps_the_lines_that_change_shared_variables(tmp_path):
    code = """
    import threading
    from fiberrt.testing import simulate

    total = 0

    class Counts:
        n = 0

    def work(counts, table):
        global total
        a = 1
        a = 2
        a = 3
        a = 4
        counts.n = a
        a = 5
        table["key"] = a
        a = 6
        total = a
        a = 7
        del table["key"]
        a = 8
        for i in range(50):
            a = i
            counts.n = a
        return a

    @simulate(seeds=1)
    def test_it():
        counts = Counts()
        thread = threading.Thread(target=work, args=(counts, {}), name="worker")
        thread.start()
        thread.join()
        assert counts.n == 3

    test_it()
    """
    status, told = run(tmp_path, code)
    stretch = told.partition("\n  worker\n")[2].partition("\n      -- worker ends\n")[0]
    assert status == 1 and stretch, told
    lines = [line.strip().partition("  ")[2].strip() for line in stretch.splitlines()]
    for kept in ("counts.n = a", 'table["key"] = a', "total = a", 'del table["key"]', "return a"):
        assert kept in lines, told
    assert "a = 5" not in lines and lines.count("counts.n = a") < 5 and re.search(r"\.\.\. \d+ lines", stretch), told


def test_values_are_shown_without_a_call_of_the_program(tmp_path):
    code = """
    import threading
    from fiberrt.testing import simulate

    class Counts:
        n = 2
        table = {"key": [1, 2]}

        @property
        def asked(self):
            calls.append("asked")
            return 1

        def __repr__(self):
            raise SystemExit

    calls = []

    @simulate(seeds=1)
    def test_it():
        counts = Counts()
        assert counts.n + counts.table["key"][1] == counts.asked == 3 or counts is None or len(calls) != 1

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and "main gets AssertionError (counts.n is 2, counts.table['key'][1] is 2, calls is ['asked'])\n" in told, told


def test_lines_after_the_failure_are_left_out(tmp_path):
    code = """
    import threading
    from fiberrt.testing import simulate

    def fail():
        try:
            raise ValueError("one")
        except ValueError:
            pass
        raise ValueError("two")

    @simulate(seeds=1)
    def test_it():
        thread = threading.Thread(target=fail, name="failing")
        thread.start()
        thread.join()
        after = 1
        after = 2

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and "\n  failing gets ValueError: two\n      test_it.py:10 " in told, told
    assert "-- failing gets ValueError: one\n" in told and "after = 1" not in told, told
    assert re.search(r"-- failing gets ValueError: two\n  \.\.\. [2-9] lines after the failure\n", told), told


def test_a_decision_about_timers_is_told(tmp_path):
    code = """
    import threading, time
    from fiberrt.testing import simulate

    @simulate(seeds=200, preemptions=0)
    def test_it():
        order = []
        until = time.monotonic() + 5
        def work(name, delay_s):
            time.sleep(delay_s)  # no preemption is long enough to let b sleep first
            time.sleep(until - time.monotonic())
            order.append(name)
        threads = [threading.Thread(target=work, args=("ab"[i], i), name="ab"[i]) for i in range(2)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert order == ["a", "b"]

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1, told
    reason = "runs now, because another one of the waits whose time ends now ends first"
    assert re.search(rf"^  1\. b {reason}   \[\d+:1\]$", told, re.M), told
    assert re.search(rf"^      -- b {reason}   <== decision 1$", told, re.M) and "-- the time is 5.000 s\n" in told, told


def test_a_cancelled_timer_is_not_called_started(tmp_path):
    code = """
    import threading
    from fiberrt.testing import simulate

    @simulate(seeds=300)
    def test_it():
        fired = []
        timer = threading.Timer(1, lambda: fired.append(1))
        timer.start()
        threading.Event().wait(1)
        timer.cancel()
        timer.join()
        assert fired

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and "-- main starts Thread-" in told and told.count(" starts ") == 1, told


def test_a_lock_has_the_holder_that_has_taken_it(tmp_path):
    code = """
    import threading, time
    from fiberrt.testing import simulate

    @simulate(seeds=1)
    def test_it():
        lock = threading.RLock()
        changed = threading.Condition(lock)
        def wait():
            with lock:
                with changed:
                    changed.wait()
                time.sleep(10)
        def hold():
            time.sleep(1)
            with lock: time.sleep(3)
        def want(at_s):
            time.sleep(at_s)
            with lock: pass
        def release():
            time.sleep(3)
            try:
                lock.release()
            except RuntimeError:
                with changed: changed.notify()
        todo = [(wait,), (hold,), (release,), (want, 2), (want, 3.5), (want, 5)]
        threads = [threading.Thread(target=work, args=args, name=f"{work.__name__}{args or ''}") for work, *args in todo]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert False

    test_it()
    """
    status, told = run(tmp_path, code)
    waits = re.findall(r"-- (want\S+ waits for the lock of .*)", told)
    holder = "waits for the lock of Condition 1, which"
    expected = [f"want[2] {holder} hold has held since test_it.py:16", f"want[3.5] {holder} hold has held since test_it.py:16"]
    assert status == 1 and waits == [*expected, f"want[5] {holder} wait has held since test_it.py:12"], told


def test_a_semaphore_has_no_holders(tmp_path):
    code = """
    import threading
    from fiberrt.testing import simulate

    @simulate(seeds=1)
    def test_it():
        ready = threading.Semaphore(0)
        def consume():
            ready.acquire()
            ready.acquire()
            last.join()
        consumer = threading.Thread(target=consume, name="consumer")
        last = threading.Thread(target=ready.acquire, name="last")
        consumer.start(); last.start()
        ready.release()
        ready.release()
        consumer.join()

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and " held " not in told, told
    assert "\n  consumer waits for ready (Semaphore 1), which has no permit left\n" in told, told


def test_each_thread_has_a_name_of_its_own(tmp_path):
    code = """
    import threading
    from fiberrt.testing import simulate

    @simulate(seeds=500)
    def test_it():
        done = []
        threads = [threading.Thread(target=done.append, args=(i,), name="worker") for i in range(2)]
        for thread in threads: thread.start()
        assert 0 in done or 1 not in done
        for thread in threads: thread.join()

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and re.search(r"^  1\. worker is preempted before its first line; main ", told, re.M), told
    assert "\n  worker (2)\n" in told and "-- main starts worker (2)\n" in told, told


@pytest.mark.parametrize("statement, between", [
    ("mine.n = other.n", False),
    ("g['n'] = h['n']", False),
    ("mine.n = mine.n + other.n", True),
    ("mine.n += other.n", True),
])  # fmt: skip
def test_only_a_variable_that_is_read_and_written_is_half_changed(tmp_path, statement, between):
    code = f"""
    import threading
    from fiberrt.testing import simulate

    class Number:
        n = 0

    @simulate(seeds=2000, switches="instructions", preemptions=1)
    def test_it():
        mine, other, g, h = Number(), Number(), {{"n": 0}}, {{"n": 0}}
        def work():
            {statement}
        thread = threading.Thread(target=work, name="A")
        thread.start()
        other.n = h["n"] = 5
        mine.n = g["n"] = 7
        thread.join()
        assert mine.n in (5, 7, 12) and g["n"] in (5, 7)

    test_it()
    """
    status, told = run(tmp_path, code)
    decision = re.search(r"^  1\. A is preempted (.*)", told, re.M)
    assert status == 1 and decision, told
    assert decision[1].startswith("between reading and writing mine.n in " if between else "in the middle of "), told


def test_values_that_a_search_cannot_know_are_left_out(tmp_path):
    code = """
    import threading
    from fiberrt.testing import simulate

    class Asks(type):
        def __getattr__(kind, name):
            calls.append(name)
            raise AttributeError(name)

    class Asked(metaclass=Asks):
        pass

    class Own:
        n = 1
        asked = Asked()
        def __getattribute__(self, name):
            return 5 if name == "n" else object.__getattribute__(self, name)

    class Key:
        def __hash__(self):
            return hash("key")
        def __eq__(self, other):
            calls.append("==")
            return False

    class Holds:
        asked = Asked()

    def change(numbers):
        numbers.append(3)
        return True

    calls, late = [], 1
    keys = {Key(): 1}

    def fail(name):
        number, own, holds, local, numbers = 10**5000, Own(), Holds(), threading.local(), []
        local.n = 1
        if name == "number":
            assert number == 3
        if name == "own":
            assert own.n == 3 or numbers
        if name == "local":
            assert local.n == 3 or numbers
        if name == "metaclass":
            assert holds.asked is None
        if name == "keys":
            assert name in numbers or (None and keys["key"])
        if name == "call":
            assert numbers or not change(numbers)
        if name == "builtin":
            assert len(numbers) == 1
        if name == "unset":
            assert numbers or (name is None and late)
        late = 2

    @simulate(seeds=1)
    def test_it():
        for name in ("number", "own", "local", "metaclass", "keys", "call", "builtin", "unset"):
            try:
                fail(name)
            except AssertionError:
                pass
        print("calls:", calls)
        assert False

    test_it()
    """
    status, told = run(tmp_path, code)
    values = re.findall(r"-- main gets AssertionError(.*)", told)
    expected = ["", " (numbers is [])", " (numbers is [])", "", " (name is 'keys', numbers is [])", "", " (numbers is [])", " (numbers is [], name is 'unset')", ""]
    assert status == 1 and values == expected, told
    assert "\n  | calls: []\n" in told + "\n", told


def test_a_decision_is_told_of_the_thread_that_it_preempts(tmp_path):
    code = """
    import threading, time
    from fiberrt.testing import simulate

    @simulate(seeds=1000, switches="lines")
    def test_it():
        took_s = []
        def first():
            begun_s = time.monotonic(); time.sleep(0.01)
            took_s.append(time.monotonic() - begun_s)
        def second():
            time.sleep(0.0105)
            x = 1
        threads = [threading.Thread(target=work, name=work.__name__) for work in (second, first)]
        for thread in threads: thread.start()
        time.sleep(0.05)
        for thread in threads: thread.join()
        assert took_s[0] < 0.012

    test_it()
    """
    status, told = run(tmp_path, code)
    position = re.search(r"^To repeat it: .*FIBERRT_TEST_REPLAY=(\d+):2$", told, re.M)
    assert status == 1 and position, told
    at = int(position[1])
    status, told = run(tmp_path, code, FIBERRT_TEST_REPLAY=f"{at}:2,{at + 1}:1")  # the second is preempted meanwhile
    decisions = re.findall(r"^  \d\. (first|second) (is preempted for 3 ms|has run later).*  (\[.*\])$", told, re.M)
    expected = [("first", "is preempted for 3 ms", f"[{at}:2]"), ("second", "has run later", f"[{at + 1}:1]")]
    assert status == 1 and decisions == expected, told


def test_the_place_of_a_hang_is_that_of_the_last_stack(tmp_path):
    code = """
    import traceback
    from fiberrt.testing import simulate

    def fail():
        raise ValueError("noted")

    @simulate(seeds=1, timeout_s=1)
    def test_it():
        try:
            fail()
        except ValueError:
            traceback.print_exc()
        for i in range(20_000):
            print("line", i)
        while True: pass

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and "\ntest_it.py:16: the run took longer than 1 s: " in told, told
    left_out = re.search(r"^The output:\n  \((\d+) lines are left out\)\n  \| line (\d+)\n", told, re.M)
    assert left_out and int(left_out[1]) - int(left_out[2]) in range(6, 10), told  # lines of the traceback


def test_a_hang_without_a_place_has_none(tmp_path):
    assert _place_in('  File "one.py", line 1 in work\n', Program(())) == ""


def test_a_small_outcome_counts_the_lines_left_out():
    lines = [f"line {i}" for i in range(30)]
    outcome = _trimmed(Outcome(1, "kind", "x" * 900 + "end", tale=lines, deadlock=lines, cause=lines, decisions=lines), 500)
    first = [*lines[:5], "(25 lines are left out)"]
    assert outcome.deadlock == outcome.cause == outcome.decisions == first
    assert outcome.tale == ["(25 lines are left out)", *lines[-5:]]
    assert outcome.text == "(403 characters are left out)\n" + "x" * 497 + "end"
    assert _trimmed(outcome, 5000) == outcome


def test_a_long_story_is_told_wholly(tmp_path):
    code = """
    import threading
    from fiberrt.testing import simulate

    @simulate(seeds=1)
    def test_it():
        one, two = threading.Semaphore(0), threading.Semaphore(0)
        def ping():
            for i in range(1500):
                one.acquire(); two.release()
        thread = threading.Thread(target=ping, name="ping")
        thread.start()
        for i in range(1500):
            one.release(); two.acquire()
        thread.join()
        assert False

    test_it()
    """
    status, told = run(tmp_path, code)
    story = told.partition("What the threads did:\n")[2]
    assert status == 1 and story.startswith("  main\n") and "left out" not in story, story[:2000]


def test_a_list_without_decisions_makes_no_difference():
    report = Report(seed=3, outcome=Outcome(1, "kind", "the failure"), possible=20)
    told = explain(report, str)
    assert "0 decisions" not in told and "\nThe ordinary run fails, too, and has passed before: " in told


def test_the_command_quotes_a_name_with_quotes(tmp_path):
    code = """
    import pytest
    from fiberrt.testing import simulate

    @pytest.mark.parametrize("name", ["it's"])
    @simulate(seeds=1)
    def test_it(name):
        assert False
    """
    status, told = run_pytest(tmp_path, code)
    command = re.search(r"To repeat it: (.*)$", told, re.M)
    assert status == 1 and shlex.split(command[1])[-2:] == ["test_it.py::test_it[it's]", "--fiberrt-replay=-"], told


def test_an_aborted_run_names_both_reasons(tmp_path):
    code = """
    import os, time
    from fiberrt.testing import simulate

    @simulate(seeds=1, steps=50)
    def test_it():
        for i in range(1000): time.sleep(1)

    test_it()
    """
    status, told = run(tmp_path, code)
    assert status == 1 and "either more than 50 switches (steps), or a C library called abort()" in told, told
