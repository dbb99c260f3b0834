#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether each tool that looks inside names each of the four faults of examples/troubled.c: dumps, metrics, traces and
fiberrt-top. FIBERRT_BACKEND names the backend. Usage: troubled.py TROUBLED TRACE_CHECK [TOP]"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks import check, report

TROUBLED, TRACE_CHECK = (Path(argument).resolve() for argument in sys.argv[1:3])
TOP = Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
SIMULATED = os.environ.get("FIBERRT_BACKEND") == "sim"
MOST = 60  # seconds for an event; each wait ends with its event
ITEMS = 20  # the demo ends when the consumer has had so many, and each takes 20 ms
ROUNDS = 5  # and the hog has computed for 20 ms so many times
MS = 1_000_000
DEBIT_AND_CREDIT = {"debit": "credit", "credit": "debit"}  # which fiber waits for which


def run(*command, **variables):
    """The output of a program that must succeed."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
                          timeout=5 * MOST, env={**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "120", **variables})  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"FAILED: {command[0]} ends with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def test_dump(dump):
    waits = re.findall(r'^ +fiber (0x\w+) "(\w+)" waits for a lock at 0x\w+, held by fiber (0x\w+)$', dump, re.M)
    names = {fiber: name for fiber, name, _ in waits}
    check("the dump names the deadlock", "\ndeadlock: " in dump
          and {name: names.get(holder) for _, name, holder in waits} == DEBIT_AND_CREDIT, dump)  # fmt: skip
    check("the dump has the stacks of the producer and of the slow consumer",
          all(re.search(rf"^1 fiber: .*← {name}$", dump, re.M) for name in ("produce", "consume")), dump)  # fmt: skip
    leaked = re.search(r"^(\d+) fibers: .*← forget$", dump, re.M)
    check("the dump counts the leak", leaked and int(leaked[1]) >= ITEMS, dump)


def test_metrics(metrics):
    values = {}
    for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", metrics, re.M):
        values[(name, *re.findall(r'\w+="([^"]*)"', labels))] = float(value)

    def of(*key):
        return values.get(key, 0.0)

    check("the metrics have the deadlock", of("fiberrt_deadlocks") == 1 and all(
        of("fiberrt_named_deadlocked_fibers", name) == 1 for name in DEBIT_AND_CREDIT), metrics)  # fmt: skip
    others = sum(value for key, value in values.items() if key[0] == "fiberrt_named_run_seconds_total" and key[1:] not in
                 [(), ("hog",)])  # fmt: skip
    check("the metrics have the hog: it has run for longer than all other fibers with names",
          of("fiberrt_named_run_seconds_total", "hog") > max(ROUNDS * 0.019, others), metrics)  # fmt: skip
    waited = of("fiberrt_named_wait_seconds_total", "produce", "channel")
    check("the metrics have the slow consumer: the producer has waited at a channel for longer than it ran",
          waited > max(ITEMS * 0.010, of("fiberrt_named_run_seconds_total", "produce")), metrics)  # fmt: skip
    check("the metrics count the leak", of("fiberrt_named_fibers", "forgotten") >= ITEMS, metrics)


def test_trace(slices):
    shown = "\n".join(map(str, slices))

    def of(fiber, name):
        return [each for each in slices if each["of"].startswith(fiber + " #") and each["name"] == name]

    # The main flow's last run writes the dump, which may take longer than all before it.
    end = max(each["begin"] for each in of("main flow", "runs"))

    def length(each):
        return max(min(each["end"] or end, end) - each["begin"], 0)

    open_waits = {each["track"]: each for each in slices if each["name"] == "waits for a lock" and each["end"] is None}
    circle = {each["of"].split()[0]: open_waits.get(each["notes"]["holder"], {"of": "none"})["of"].split()[0]
              for each in open_waits.values()}  # fmt: skip
    check("the trace has the deadlock: two waits without an end, of fibers that hold each other's lock",
          circle == DEBIT_AND_CREDIT, shown)  # fmt: skip
    run_times = {}
    for each in slices:
        if each["name"] == "runs":
            run_times[each["of"]] = run_times.get(each["of"], 0) + length(each)
    check("the trace has the hog: long runs, more than those of all other fibers together",
          sum(length(each) > 19 * MS for each in of("hog", "runs")) >= ROUNDS
          and 2 * run_times[of("hog", "runs")[0]["of"]] > sum(run_times.values()), shown)  # fmt: skip
    waits = of("produce", "waits at a channel")
    begin = min(each["begin"] for each in slices)
    check("the trace has the slow consumer: the producer waits at a channel most of the time",
          len(waits) >= ITEMS and 2 * sum(map(length, waits)) > end - begin, shown)  # fmt: skip
    leaked = [each for each in of("forgotten", "waits for an event") if each["end"] is None]
    check("the trace has the leak: waits without an end", len(leaked) >= ITEMS, shown)


def until(condition):
    """Waits for a condition; returns its last value."""
    end = time.monotonic() + MOST
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return value


@contextlib.contextmanager
def troubled_process(folder):
    """The demo with an agent, from when all faults show until the end of the block."""
    with subprocess.Popen([TROUBLED, "stay"], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, "FIBERRT_TOP": str(folder)}) as process:  # fmt: skip
        try:
            while (line := process.stdout.readline()) != "# EOF\n":  # the last one of the metrics
                assert line, "troubled ends too early"
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=MOST)
    check("the demo ends at the signal", process.returncode == 0)


def test_top(folder):
    if not TOP:
        print("left out: fiberrt-top, which is not built (FIBERRT_TOOLS)")
        return
    if SIMULATED:
        print("left out: the agent, because a simulation has no threads; fiberrt-top reads the demo's dump instead.\n"
              "left out: the hog and the slow consumer in fiberrt-top: it shows them by rates, for which it must look twice")  # fmt: skip
        file = folder / "dump"
        file.write_text(run(TROUBLED, "json"))
        text = run(TOP, "--once", file)
        check("top has the deadlock", "\nDEADLOCK: " in text, text)
        check("top has the leak", len(re.findall(r" forgotten .* an event$", text, re.M)) >= ITEMS, text)
        return
    with troubled_process(folder) as process:
        last = []

        def shows(*options, pattern):
            """Whether fiberrt-top shows this some time: while the machine is busy, the demo's threads may stand still."""
            last[:] = [run(TOP, *options, process.pid)]
            return re.search(pattern, last[0], re.M)

        found = until(lambda: shows("--once", pattern=r"^DEADLOCK: (debit -> credit -> debit|credit -> debit -> credit)$"))
        check("top names the deadlock", found, last[0])
        # The first fiber of the list is the one with the most CPU time.
        found = until(lambda: shows("--once", pattern=r" FIBER NAME .*\n +\d+ hog +\d+ +\w+ +(?!0\.0)[\d.]+ "))
        check("top names the hog", found, last[0])
        found = until(lambda: shows(
            "--once", pattern=r"^ +\d+ produce +\d+ +waiting +\d\.\d +[\d.]+K +([6-9]\d|100)\.\d +\d+ a channel$"))  # fmt: skip
        check("top names the slow consumer: its producer waits at a channel most of the time", found, last[0])
        by_stacks = r"\A(?:.*\n)*?(\d+) fibers: .*← forget\n"
        check("top counts the leak", until(lambda: shows("--stacks", pattern=by_stacks)), last[0])
        before = int(re.search(by_stacks, last[0])[1])
        grown = until(lambda: shows("--stacks", pattern=by_stacks) and int(re.search(by_stacks, last[0])[1]) > before)
        check("and shows that it grows", grown, last[0])
        check("top has the deadlock in JSON", len(json.loads(run(TOP, "--json", process.pid))["deadlocks"]) == 1)


def main():
    scratch = Path(tempfile.mkdtemp(prefix="fiberrt-troubled-", dir="/tmp"))  # short: the path of a socket is limited
    try:
        trace = scratch / "trace"
        output = run(TROUBLED, FIBERRT_TRACE=str(trace))
        dump, _, metrics = output.partition("# TYPE")
        test_dump(dump)
        test_metrics(metrics)
        test_trace([json.loads(line) for line in run(TRACE_CHECK, trace, "slices").splitlines()])
        # If the hog's thread does not get a processor, it does not answer the dump. In a simulation, some seeds stop the hog
        # while it runs, and the dump has no frames of it then.
        dumps = []

        def has_hog():
            dumps.append(run(TROUBLED, FIBERRT_SEED=str(len(dumps) + 1)).partition("# TYPE")[0])
            return re.search(r"^1 fiber: .*← hog$", dumps[-1], re.M)

        check("the dump has the stack of the hog", until(has_hog), dumps[-1])
        test_top(scratch)
    finally:
        shutil.rmtree(scratch)
    return report()


sys.exit(main())
