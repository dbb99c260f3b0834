# SPDX-License-Identifier: MIT OR Apache-2.0
"""The figures in rows: medians, ratios, bounds, and the table of them."""

import statistics

from runner.benches import BENCHES, OURS


def unit_of(bench, shape):
    for suffix, unit, _ in BENCHES[bench].also:
        if shape.endswith(suffix):
            return unit
    return BENCHES[bench].unit


def summarize(figures):
    """The objects of the JSON file."""
    rows = []
    for (bench, shape, subject), values in figures.items():
        median = statistics.median(values)
        yardstick = BENCHES[bench].yardstick
        reference = figures.get((bench, shape, yardstick))
        rows.append({
            "bench": bench, "subject": subject, "shape": shape, "unit": unit_of(bench, shape),
            "median": median, "min": min(values), "max": max(values), "runs": len(values),
            "ratio_to": yardstick if reference else None,
            "ratio": median / statistics.median(reference) if reference else None,
        })
    return rows


def beyond_bounds(rows):
    """A line for each of our figures that is above its limit. Times are not judged: they depend on the machine."""
    for row in rows:
        for suffix, most in BENCHES[row["bench"]].bounds:
            if row["shape"].endswith(suffix) and row["subject"].partition("_")[0] in OURS and row["max"] > most:
                yield (f"{row['subject']} {row['bench']}/{row['shape']}: {number(row['max'])} {row['unit']}, "
                       f"which may be {most} at most")


def number(value):
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"


def print_table(rows, failures, stretch):
    for bench, shape in dict.fromkeys([(row["bench"], row["shape"]) for row in rows] + [key[:2] for key in failures]):
        print(f"\n{bench}/{shape}, {unit_of(bench, shape)}")
        versus = f"x {BENCHES[bench].yardstick}" if BENCHES[bench].yardstick else ""
        print(f"  {'subject':<16}{'median':>10}   {'min - max':^19}{versus:>14}")
        for row in rows:
            if (row["bench"], row["shape"]) == (bench, shape):
                span = f"{number(row['min']):>8} - {number(row['max']):<8}"
                ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
                print(f"  {row['subject']:<16}{number(row['median']):>10}   {span:^19}{ratio:>14}")
        for key, reason in failures.items():
            if key[:2] == (bench, shape):
                print(f"  {key[2]:<16}    FAILED: {reason}")
    print("\nTimes drift with the machine and with what else it does; compare the ratios within this run only.")
    if stretch > 1.2:
        print(f"The machine was busy: {stretch:.1f} s passed for each second of CPU time. "
              "Caches were shared with others; do not trust small differences.")
