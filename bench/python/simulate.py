# SPDX-License-Identifier: MIT OR Apache-2.0
"""The speed of fiberrt.testing. run.py calls it for each figure.

Usage: python simulate.py SHAPE SECONDS

Prints, for SECONDS of runs, the runs per second on all processors, and the microseconds of CPU time per run. The test
makes 50 switches: two threads pass a turn to each other. SHAPE is waits or lines (the option `switches` of simulate()),
fork (a fork of the process that makes the runs, and a wait for the child's end, without a run) or threads (the test on
the system's threads, all in one process). If SHAPE is shrink, prints the seconds in which a failure with 1,000 switches is
reduced to few choices and recorded.
"""

import os
import pickle
import resource
import sys
import threading
import time
from collections import deque

from fiberrt.testing import _explore
from fiberrt.testing._plan import Plan
from fiberrt.testing._run import Test


def pass_turns(rounds, turns=1, work=lambda: None):
    """Let two threads pass a turn to each other, each so often. With two turns, both may work at the same time."""
    one, other = threading.Semaphore(turns), threading.Semaphore(0)

    def play(take, give):
        for _ in range(rounds):
            take.acquire()
            work()
            give.release()

    threads = [threading.Thread(target=play, args=pair) for pair in ((one, other), (other, one))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def fifty_switches():
    pass_turns(25)


def a_thousand_switches():
    """Fails if two of the additions are lost."""
    total = [0]

    def add():
        before = total[0]
        total[0] = before + 1

    pass_turns(500, 2, add)
    assert total[0] > 998


def now_s():
    return time.clock_gettime(time.CLOCK_MONOTONIC)  # time.perf_counter() is simulated in a process that makes runs


def cpu_s():
    """Return the CPU time of this process and of the children that it has waited for."""
    usages = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def of_runs(switches, seconds):
    def make(**limits):
        before = cpu_s()
        report = Plan.of(switches=switches, **limits).run(Test(fifty_switches))
        if report.failed:
            sys.exit(report.outcome.text)
        return report, cpu_s() - before

    few, few_cpu_s = make(seeds=1)  # its CPU time is mostly that of the preparation, which all runs have in common
    many, many_cpu_s = make(seeds=range(1, 1_000_000), seconds=seconds)
    return many.runs / many.seconds, (many_cpu_s - few_cpu_s) / (many.runs - few.runs) * 1e6


def of_calls(call, seconds):
    cpu_before, begun, count = cpu_s(), now_s(), 0
    while now_s() < begun + seconds or count < 5:
        call()
        count += 1
    return count / (now_s() - begun), (cpu_s() - cpu_before) / count * 1e6


def of_forks(seconds):
    reader, writer = os.pipe()
    wait, end, write = os.waitpid, os._exit, os.write  # the preparation replaces them in os
    jobs = len(os.sched_getaffinity(0))
    children = deque()

    def fork_and_wait():
        children.append(_explore._fork())
        if not children[-1]:
            end(0)
        if len(children) == jobs:
            wait(children.popleft(), 0)

    prepared = os.fork()
    if not prepared:
        _explore._prepare(replay=False)
        write(writer, pickle.dumps(of_calls(fork_and_wait, seconds)))
        end(0)
    os.close(writer)
    with open(reader, "rb") as file:
        figures = pickle.load(file)
    os.waitpid(prepared, 0)
    return figures


def shrink_s():
    failed = Plan.of(switches="lines").run(Test(a_thousand_switches))
    if not failed.failed:
        sys.exit("no seed makes the test fail")
    return Plan.of(switches="lines", seeds=[failed.seed]).run(Test(a_thousand_switches)).seconds


def main():
    shape, seconds = sys.argv[1], float(sys.argv[2])
    if shape == "shrink":
        print(shrink_s())
    elif shape == "fork":
        print(*of_forks(seconds))
    elif shape == "threads":
        print(*of_calls(fifty_switches, seconds))
    else:
        print(*of_runs(shape, seconds))


if __name__ == "__main__":
    main()
