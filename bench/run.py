#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the benchmark subjects interleaved and compares them: a table, JSON, and bars as SVG. See README.md here."""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

YARDSTICK = "bare"
OURS = ("fiberrt", "bare")  # what is missing or fails here makes the run fail; a peer's failure is only reported
SUBJECTS = ("bare", "fiberrt", "cxx20", "boost_context", "boost_fiber", "state_threads")
RUN_TIMEOUT_S = 120


@dataclass(frozen=True)
class Bench:
    """What a benchmark's figure means. `field` names the figure in Google Benchmark's JSON: cpu_time or real_time in
    ns, or a user counter. CPU time is right for a loop that never sleeps: other programs on the CPU do not enter it."""

    unit: str
    field: str = "cpu_time"
    cpus: int = 1  # how many CPUs a subject is pinned to; 0: not pinned


BENCHES = {
    "yield": Bench("ns per switch"),
    "parkwake": Bench("ns per round trip"),
    "spawn": Bench("ns per fiber"),
}


class Failure(Exception):
    """One run of a subject gave no figure."""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="benchmarks to run, as bench or bench/shape; all if none is given. "
                             "Known: " + ", ".join(BENCHES))
    parser.add_argument("--build-dir", required=True, type=Path, metavar="DIR",
                        help="the build tree; the subjects are in its directory bench")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as JSON")
    parser.add_argument("--svg-dir", type=Path, metavar="DIR",
                        default=Path(__file__).resolve().parent.parent / "build" / "bench",
                        help="where the charts go (default: %(default)s)")
    parser.add_argument("--repetitions", type=int, default=7, metavar="N", help="5 or more (default: %(default)s)")
    parser.add_argument("--subjects", metavar="A,B",
                        help="run these subjects only. Known: " + ", ".join(SUBJECTS))
    parser.add_argument("--min-time", type=float, default=0.05, metavar="SECONDS",
                        help="the least time that each run measures (default: %(default)s)")
    arguments = parser.parse_intermixed_args()
    if arguments.repetitions < 5:
        parser.error("--repetitions: 5 is the least that gives a median worth its name")
    if not 0 < arguments.min_time <= 60:
        parser.error("--min-time: more than 0 and at most 60 seconds")
    arguments.subjects = arguments.subjects.split(",") if arguments.subjects else list(SUBJECTS)
    for subject in arguments.subjects:
        if subject not in SUBJECTS:
            parser.error(f"unknown subject '{subject}'; known: {', '.join(SUBJECTS)}")
    return parser, arguments


def pin_to(count):
    """The CPUs to pin a subject to: the last ones that are allowed, as the first has more interrupts. None: do not."""
    try:
        allowed = sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return None
    return set(allowed[-count:]) if 0 < count <= len(allowed) else None


def call(executable, flags, cpus=None):
    """Runs a subject once and returns what it printed."""

    def pin():
        try:
            os.sched_setaffinity(0, cpus)
        except OSError:
            pass  # a container may forbid it; the figures are noisier then

    try:
        done = subprocess.run([executable, *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=RUN_TIMEOUT_S, preexec_fn=pin if cpus else None)
    except subprocess.TimeoutExpired:
        raise Failure(f"no end after {RUN_TIMEOUT_S} s") from None
    except OSError as error:
        raise Failure(str(error)) from None
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()
        how = f"killed by signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise Failure(how + (f": {words[-1]}" if words else ""))
    return done.stdout


def measure(executable, bench, shape, min_time_s):
    """One run of one shape: the figure, and how much wall-clock time passed for each second of CPU time."""
    output = call(executable, [f"--benchmark_filter=^{re.escape(bench + '/' + shape)}$", "--benchmark_format=json",
                               f"--benchmark_min_time={min_time_s}"], pin_to(BENCHES[bench].cpus))
    try:
        result, = json.loads(output)["benchmarks"]
        if result.get("error_occurred"):
            raise Failure(result["error_message"])
        figure = float(result[BENCHES[bench].field])
        stretch = result["real_time"] / result["cpu_time"] if result["cpu_time"] > 0 else math.inf
    except (ValueError, KeyError, TypeError):
        raise Failure("its output is not understood") from None
    if not (math.isfinite(figure) and figure > 0):
        raise Failure(f"a figure of {figure}")
    return figure, stretch


def find_subjects(build_dir, names):
    """What each subject that is built can measure: {subject: (executable, ["bench/shape", ...])}; and why the others
    cannot: {subject: reason}."""
    found, missing = {}, {}
    for subject in names:
        executable = build_dir / "bench" / ("bench_" + subject)
        if not executable.is_file():
            missing[subject] = f"not built (no {executable})"
            continue
        try:
            found[subject] = (executable, call(executable, ["--benchmark_list_tests=true"]).split())
        except Failure as failure:
            missing[subject] = f"does not run: {failure}"
    return found, missing


def select(parser, names, known):
    """The shapes to run, as (bench, shape), in the order of BENCHES. An unknown name ends the program."""
    for name in names:
        if name not in BENCHES and name not in known:
            parser.error(f"unknown benchmark '{name}'; known: {', '.join([*BENCHES, *known])}")
    wanted = [name for name in known if not names or name in names or name.split("/")[0] in names]
    order = list(BENCHES)
    return sorted((tuple(name.split("/", 1)) for name in wanted), key=lambda pair: order.index(pair[0]))


class Progress:
    """One line on stderr that says what runs; on a terminal it is overwritten."""

    def __init__(self, total):
        self.total, self.done = total, 0
        self.terminal = sys.stderr.isatty()

    def step(self, repetition, what):
        self.done += 1
        text = f"[{self.done}/{self.total}] repetition {repetition}: {what}"
        if self.terminal:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        elif self.done % max(1, self.total // 20) == 0:
            print(text, file=sys.stderr, flush=True)

    def end(self):
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def run_all(subjects, shapes, repetitions, min_time_s):
    """Runs everything, interleaved: a disturbance of some seconds meets all subjects of a shape, not one."""
    figures, stretches, failures = {}, [], {}
    runs = [(bench, shape, subject) for bench, shape in shapes
            for subject, (_, names) in subjects.items() if f"{bench}/{shape}" in names]
    progress = Progress(len(runs) * repetitions)
    for repetition in range(1, repetitions + 1):
        for key in runs:
            bench, shape, subject = key
            progress.step(repetition, f"{bench}/{shape} {subject}")
            if key in failures:
                continue
            try:
                figure, stretch = measure(subjects[subject][0], bench, shape, min_time_s)
                figures.setdefault(key, []).append(figure)
                stretches.append(stretch)
            except Failure as failure:
                failures[key] = str(failure)
    progress.end()
    for key in failures:
        figures.pop(key, None)  # a subject that fails now and then has no figure
    return figures, failures, statistics.median(stretches) if stretches else 1.0


def summarize(figures):
    """The objects of the JSON file."""
    rows = []
    for (bench, shape, subject), values in figures.items():
        median = statistics.median(values)
        yardstick = figures.get((bench, shape, YARDSTICK))
        rows.append({
            "bench": bench, "subject": subject, "shape": shape, "unit": BENCHES[bench].unit,
            "median": median, "min": min(values), "max": max(values), "runs": len(values),
            "ratio_to": YARDSTICK if yardstick else None,
            "ratio": median / statistics.median(yardstick) if yardstick else None,
        })
    return rows


def number(value):
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"


def print_table(rows, failures, shapes, stretch):
    for bench, shape in shapes:
        print(f"\n{bench}/{shape}, {BENCHES[bench].unit}")
        print(f"  {'subject':<16}{'median':>10}   {'min - max':^19}{'x ' + YARDSTICK:>9}")
        for row in rows:
            if (row["bench"], row["shape"]) == (bench, shape):
                span = f"{number(row['min']):>8} - {number(row['max']):<8}"
                ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
                print(f"  {row['subject']:<16}{number(row['median']):>10}   {span:^19}{ratio:>9}")
        for key, reason in failures.items():
            if key[:2] == (bench, shape):
                print(f"  {key[2]:<16}    FAILED: {reason}")
    print("\nTimes drift with the machine and with what else it does; compare the ratios within this run only.")
    if stretch > 1.2:
        print(f"The machine was busy: {stretch:.1f} s passed for each second of CPU time. "
              "Caches were shared with others; do not trust small differences.")


# The charts. Bars lie on a logarithmic scale, as the figures span three orders of magnitude; whiskers are min and max.

BAR_HEIGHT, GROUP_GAP, LABEL_WIDTH, PLOT_WIDTH, VALUE_WIDTH, TOP = 16, 30, 120, 520, 150, 64
COLOURS = {"bare": "#7f7f7f", "fiberrt": "#d1495b"}
PEER_COLOUR = "#66a3c2"


def draw(bench, rows, path):
    groups = {}
    for row in rows:
        groups.setdefault(row["shape"], []).append(row)
    low = 10 ** math.floor(math.log10(min(row["min"] for row in rows) * 0.999))
    high = 10 ** math.ceil(math.log10(max(row["max"] for row in rows) * 1.001))

    def x_of(value):
        return LABEL_WIDTH + PLOT_WIDTH * math.log(value / low) / math.log(high / low)

    parts = []
    y = TOP
    for shape, group in groups.items():
        parts.append(f'<text x="8" y="{y + 13}" font-weight="bold">{escape(shape)}</text>')
        y += 20
        for row in group:
            middle, x = y + BAR_HEIGHT / 2, x_of(row["median"])
            label = number(row["median"]) + ("" if row["ratio"] is None else f'  ({row["ratio"]:.2f}\u00d7)')
            parts.append(
                f'<text x="{LABEL_WIDTH - 6}" y="{middle + 4}" text-anchor="end">{escape(row["subject"])}</text>'
                f'<rect x="{LABEL_WIDTH}" y="{y + 2}" width="{max(x - LABEL_WIDTH, 1):.1f}" height="{BAR_HEIGHT - 4}"'
                f' fill="{COLOURS.get(row["subject"], PEER_COLOUR)}"/>'
                f'<path d="M{x_of(row["min"]):.1f} {middle}H{x_of(row["max"]):.1f}" stroke="#222"/>'
                f'<text x="{max(x, x_of(row["max"])) + 6:.1f}" y="{middle + 4}">{label}</text>')
            y += BAR_HEIGHT
        y += GROUP_GAP - 20
    grid = []
    value = low
    while value <= high * 1.001:
        grid.append(f'<path d="M{x_of(value):.1f} {TOP - 6}V{y}" stroke="#ddd"/>'
                    f'<text x="{x_of(value):.1f}" y="{TOP - 10}" text-anchor="middle" fill="#666">{value:g}</text>')
        value *= 10
    width, height = LABEL_WIDTH + PLOT_WIDTH + VALUE_WIDTH, y + 8
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' font-family="sans-serif" font-size="12">\n<rect width="{width}" height="{height}" fill="#fff"/>\n'
        f'<text x="8" y="22" font-size="16" font-weight="bold">{escape(bench)}: {escape(BENCHES[bench].unit)}</text>\n'
        f'<text x="8" y="40" fill="#666">medians of one run, lines from min to max; logarithmic scale; '
        f'(\u00d7 {YARDSTICK} of the same shape)</text>\n' + "\n".join(grid + parts) + "\n</svg>\n", encoding="utf-8")


def main():
    parser, arguments = parse_arguments()
    if not arguments.build_dir.is_dir():
        parser.error(f"--build-dir: {arguments.build_dir} is not a directory")
    if arguments.json and not arguments.json.resolve().parent.is_dir():
        parser.error(f"--json: {arguments.json.parent} is not a directory")
    for name in arguments.names:  # before anything is looked for: a misspelt name is the caller's error
        if name.split("/")[0] not in BENCHES:
            parser.error(f"unknown benchmark '{name}'; known: {', '.join(BENCHES)}")
    subjects, missing = find_subjects(arguments.build_dir, arguments.subjects)
    for subject, reason in missing.items():
        print(f"LEFT OUT: {subject}: {reason}", file=sys.stderr)
    if not subjects:
        print(f"run.py: no subject is built in {arguments.build_dir / 'bench'}", file=sys.stderr)
        return 1
    known = list(dict.fromkeys(name for _, names in subjects.values() for name in names))
    shapes = select(parser, arguments.names, known)

    figures, failures, stretch = run_all(subjects, shapes, arguments.repetitions, arguments.min_time)
    rows = summarize(figures)
    print_table(rows, failures, shapes, stretch)

    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(f"JSON: {arguments.json}")
    arguments.svg_dir.mkdir(parents=True, exist_ok=True)
    for bench in dict.fromkeys(row["bench"] for row in rows):
        path = arguments.svg_dir / f"{bench}.svg"
        draw(bench, [row for row in rows if row["bench"] == bench], path)
        print(f"Chart: {path}")
    for subject, reason in missing.items():
        print(f"LEFT OUT: {subject}: {reason}")
    for (bench, shape, subject), reason in failures.items():
        print(f"FAILED: {subject} {bench}/{shape}: {reason}")
    lacking = {*missing, *(subject for _, _, subject in failures)}
    return 1 if lacking.intersection(OURS) else 0


if __name__ == "__main__":
    sys.exit(main())
