# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs everything, interleaved."""

import math
import statistics
import sys

from runner.benches import BENCHES, Failure, LeftOut


class Progress:
    """One line on stderr that names the running benchmark; on a terminal it is overwritten."""

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


def run_all(found, runs, repetitions):
    """Runs everything, interleaved, so that a disturbance of some seconds affects all subjects of a shape, not just
    one."""
    figures, stretches, failures, left_out = {}, [], {}, {}
    times = {key: repetitions or BENCHES[key[0]].repetitions for key in runs}
    progress = Progress(sum(times.values()))
    for repetition in range(1, max(times.values()) + 1):
        for key in runs:
            if repetition > times[key]:
                continue
            bench, shape, subject = key
            progress.step(repetition, f"{bench}/{shape} {subject}")
            if key in failures or key in left_out:
                continue
            try:
                results, stretch = found[key].measure(bench, shape)
                for name, figure in results.items():
                    if not (math.isfinite(figure) and (figure > 0 or name != shape)):
                        raise Failure(f"a figure of {figure}")
                    figures.setdefault((bench, name, subject), []).append(figure)
                if stretch is not None:
                    stretches.append(stretch)
            except Failure as failure:
                failures[key] = str(failure)
            except LeftOut as reason:
                left_out[key] = str(reason)
    progress.end()
    for bench, shape, subject in [*failures, *left_out]:  # a subject that fails now and then has no figure
        for suffix in ["", *(suffix for suffix, _, _ in BENCHES[bench].also)]:
            figures.pop((bench, shape + suffix, subject), None)
    return figures, failures, left_out, statistics.median(stretches) if stretches else 1.0
