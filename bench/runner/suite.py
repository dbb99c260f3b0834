# SPDX-License-Identifier: MIT OR Apache-2.0
"""Subjects that are executables of Google Benchmark."""

import json
import re
from pathlib import Path

from runner.benches import BENCHES, MILLION_GIB, Failure, LeftOut
from runner.processes import call, pin_to


class Suite:
    """An executable of Google Benchmark."""

    def __init__(self, subject, arguments):
        self.executable = arguments.build_dir / "bench" / ("bench_" + subject)
        self.min_time_s = arguments.min_time
        if not self.executable.is_file():
            raise LeftOut(f"not built (no {self.executable})")
        # Benchmarks that run once have "/iterations:1" behind their names.
        self.names = {re.sub("/iterations:.*", "", name): name
                      for name in call([self.executable, "--benchmark_list_tests=true"]).split()}

    def measure(self, bench, shape):
        if shape.startswith("1000000"):
            self.check_memory()
        about = BENCHES[bench]
        output = call([self.executable, f"--benchmark_filter=^{self.names[f'{bench}/{shape}']}$",
                       "--benchmark_format=json", f"--benchmark_min_time={self.min_time_s}"], pin_to(about.cpus))
        try:
            result, = json.loads(output)["benchmarks"]
            if result.get("error_occurred"):
                raise Failure(result["error_message"])
            figures = {shape: float(result[about.field])}
            for suffix, _, field in about.also:
                figures[shape + suffix] = float(result[field])
            busy = about.field == "cpu_time" and result["cpu_time"] > 0
            return figures, result["real_time"] / result["cpu_time"] if busy else None
        except (ValueError, KeyError, TypeError):
            raise Failure("its output is not understood") from None

    def check_memory(self):
        available = re.search(r"MemAvailable: *(\d+)", Path("/proc/meminfo").read_text())
        if available and int(available[1]) < MILLION_GIB << 20:
            raise LeftOut(f"needs {MILLION_GIB} GiB of memory; {int(available[1]) >> 20} are free")
