#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks the text of fiber_metrics_write, as the agent of a process sends it, by the rules of OpenMetrics 1.0: with a
strict reader here; with prometheus_client's reader if this Python has it; and with promtool if it is installed or
unpacked under build/servers. usage: metrics.py SUBJECT"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from checks import check, report

MOST = 60  # seconds for an event; the wait ends with it
ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"], "summary": ["_count", "_sum", ""]}
NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(\{{{LABEL}(?:,{LABEL})*\}})? ([0-9]+(?:\.[0-9]+)?)")


class Family:
    def __init__(self, name):
        self.name, self.type, self.unit, self.help, self.samples = name, None, None, None, []


def read(text):
    """The families of the text by their names. Raises ValueError at the first mistake."""
    families, family = {}, None
    lines = text.split("\n")
    if lines[-2:] != ["# EOF", ""] or lines.count("# EOF") != 1:
        raise ValueError("the end")
    for number, line in enumerate(lines[:-2], 1):
        if line.startswith("# "):
            about = re.fullmatch(rf"# (TYPE|UNIT|HELP) ({NAME}) (.+)", line)
            if not about:
                raise ValueError(f"{number}: {line}")
            what, name, value = about.groups()
            if what == "TYPE":
                if name in families or value not in SUFFIXES:
                    raise ValueError(f"{number}: a second family, or an unknown type: {line}")
                family = families[name] = Family(name)
            if family is None or family.name != name or family.samples or getattr(family, what.lower()) is not None:
                raise ValueError(f"{number}: not in its place: {line}")
            setattr(family, what.lower(), value)
            if what == "UNIT" and not name.endswith("_" + value):
                raise ValueError(f"{number}: the name must end with the unit: {line}")
            continue
        sample = SAMPLE.fullmatch(line)
        if not sample or family is None:
            raise ValueError(f"{number}: no sample: {line}")
        name, labels, value = sample.groups()
        suffix = name.removeprefix(family.name)
        if not name.startswith(family.name) or suffix not in SUFFIXES[family.type]:
            raise ValueError(f"{number}: not of {family.name}, a {family.type}: {line}")
        pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
        if len(dict(pairs)) != len(pairs):
            raise ValueError(f"{number}: a label twice: {line}")
        key = (suffix, tuple(sorted(pairs)))
        if key in [sample[0] for sample in family.samples]:
            raise ValueError(f"{number}: a sample twice: {line}")
        family.samples.append((key, float(value)))
    for family in families.values():
        if not family.help:
            raise ValueError(f"{family.name} has no help")
        if family.type == "histogram":
            check_histogram(family)
    return families


def check_histogram(family):
    """The buckets grow, the last one is +Inf and has as many as the count says."""
    series = defaultdict(lambda: {"_bucket": [], "_count": None, "_sum": None})
    for (suffix, labels), value in family.samples:
        le = dict(labels).get("le")
        rest = tuple(pair for pair in labels if pair[0] != "le")
        if (suffix == "_bucket") != (le is not None):
            raise ValueError(f"{family.name}: le belongs to buckets")
        if suffix == "_bucket":
            series[rest][suffix].append((float(le), value))
        else:
            series[rest][suffix] = value
    for parts in series.values():
        bounds, counts = zip(*parts["_bucket"], strict=True)
        if list(bounds) != sorted(set(bounds)) or bounds[-1] != float("inf") or list(counts) != sorted(counts):
            raise ValueError(f"{family.name}: buckets that do not grow")
        # Both or none: without a sum there must be no count.
        if parts["_count"] not in (None, counts[-1]) or (parts["_count"] is None) != (parts["_sum"] is None):
            raise ValueError(f"{family.name}: the count is not that of the last bucket")


def check_reader():
    """The reader finds mistakes."""
    good = '# TYPE a counter\n# HELP a b\na_total{x="y\\\\"} 1\n# EOF\n'
    read(good)
    for old, new in (("# EOF\n", ""), ("# EOF\n", "# EOF"), ("_total", ""), ('\\\\"', '\\"'), (" 1", " -1"), (" 1", " 1 "),
                     ("# HELP a b\n", ""), ("counter", "gauge"), ("# TYPE", "#TYPE"), ("a_total", "b_total"), ("\n", "\n\n"),
                     ("# HELP", "# UNIT a s\n# HELP"), ('"y', '"y",x="z')):  # fmt: skip
        bad = good.replace(old, new, 1)
        try:
            read(bad)
        except ValueError:
            continue
        check(f"the mistake {new!r} for {old!r} is found", False, bad)
    check("the reader finds mistakes", True)


def ask(path, request):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(request.encode() + b"\n")
        parts = []
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts).decode()


def value(families, family, **labels):
    return sum(number for (_, pairs), number in families[family].samples if labels.items() <= dict(pairs).items())


def check_values(families, told):
    """The figures are those of a dump."""
    for cord in told["cords"]:
        label = f"{int(cord['id']):#018x}"
        of_cord = [fiber for fiber in told["fibers"] if fiber["cord"] == cord["id"]]
        for state in ("new", "runnable", "running", "waiting", "dead"):
            expected = len([fiber for fiber in of_cord if fiber["state"] == state])
            found = value(families, "fiberrt_fibers", cord=label, state=state)
            check(f"{expected} fibers are {state} on the cord {cord['name']!r}", found == expected, str(found))
    check("one deadlock", value(families, "fiberrt_deadlocks") == 1 and value(families, "fiberrt_deadlocked_fibers") == 2)
    for name in ("left", "right"):
        check(f"{name} is in the deadlock", value(families, "fiberrt_named_deadlocked_fibers", name=name) == 1)
    check("fibers by name", value(families, "fiberrt_named_fibers", name="sleeper") == 200)
    check("all fibers have a name's place", value(families, "fiberrt_named_fibers") == len(told["fibers"]))
    check("a pool with its workers", value(families, "fiberrt_pool_workers") >= 1)
    names = {dict(pairs).get("name") for (_, pairs), _ in families["fiberrt_cord_switches"].samples}
    check("names with odd characters", {"other", "hogs", '\\"o\\\\d\\\\x0ad\\\\xffä'} <= names, str(names))


def check_by_prometheus_client(text):
    try:
        from prometheus_client.openmetrics.parser import text_string_to_metric_families
    except ImportError:
        print("left out: the reader of prometheus_client, which this Python lacks (package python3-prometheus-client)")
        return
    found = {family.name: family for family in text_string_to_metric_families(text)}
    check("prometheus_client reads it", found["fiberrt_cord_switches"].type == "counter", text)


def check_by_promtool(text):
    tool = shutil.which("promtool") or shutil.which("promtool", path=ROOT / "build/servers/usr/bin")
    if not tool:
        print("left out: promtool, which is not installed (package prometheus)")
        return
    done = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    # It reads an older text format, to which "# HELP a" does not belong to a_total. All else must be fine.
    complaints = [line for line in done.stderr.splitlines() if not re.fullmatch(r"\w+_total no help text", line)]
    check("promtool reads it", done.returncode in (0, 3) and not complaints, done.stderr)


def has_times(families):
    with_samples = ("fiberrt_cord_run_seconds", "fiberrt_cord_lag_seconds")
    return "fiberrt_named_run_seconds" in families and all(families[name].samples for name in with_samples)


def main():
    check_reader()
    with tempfile.TemporaryDirectory(prefix="fiberrt-metrics-") as folder, subprocess.Popen(
        [sys.argv[1], "200"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "FIBERRT_TOP": folder}
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n", "the process does not start"
            path = Path(folder) / f"{process.pid}.sock"
            text = ask(path, "metrics")
            try:
                families = read(text)
            except ValueError as error:
                check(f"the text follows the rules: {error}", False, text)
            else:
                check(f"the text of {len(families)} families follows the rules", len(families) > 15)
                check_values(families, json.loads(ask(path, "list")))
            check_by_prometheus_client(text)
            check_by_promtool(text)
            check("without accounting there are no times", "fiberrt_cord_run_seconds" not in families)
            check("times can be turned on", ask(path, "times on") == "ok\n" and ask(path, "times on") == "already\n")
            # A cord follows at its next poll.
            end = time.monotonic() + MOST
            while not has_times(again := read(ask(path, "metrics"))) and time.monotonic() < end:
                time.sleep(0.02)
            check("then there are times", has_times(again), str(sorted(again)))
            check_by_prometheus_client(ask(path, "metrics"))
            check_by_promtool(ask(path, "metrics"))
            check("times can be turned off", ask(path, "times off") == "ok\n" and ask(path, "times off") == "already\n")
            check("then there are none", "fiberrt_cord_run_seconds" not in read(ask(path, "metrics")))
            for name in [name for name, family in families.items() if family.type == "counter"]:
                check(f"{name} does not fall", value(again, name) >= value(families, name))
        finally:
            process.stdin.close()
            process.wait()
    return report()


sys.exit(main())
