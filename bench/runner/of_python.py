# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runtimes for Python."""

import math
import re
import shutil
from pathlib import Path

from runner.benches import ROOT, Failure, LeftOut
from runner.processes import Server, call, pin_to, server_and_load_cpus


# The workers of gunicorn.
WORKERS = {"fiberrt": "fiberrt.gunicorn.Worker", "gevent": "gevent"}


class Python:
    """A runtime for Python, all of them in one interpreter. Each figure is measured in its own process."""

    def __init__(self, subject, arguments):
        self.python, self.subject = arguments.python, subject
        self.scripts = ROOT / "bench" / "python"
        self.load = arguments.build_dir / "bench" / "echo_load"
        self.min_time_s = arguments.min_time
        if not self.python.is_file():
            raise LeftOut(f"no {self.python}, which ./dev bench python makes")
        try:
            call([self.python, "-c", f"import {subject.partition('_')[0]}"])
        except Failure:
            raise LeftOut("not installed there") from None
        self.names = ["python-yield/pair", "python-spawn/warm", "python-memory/30000", "python-import/fresh"]
        if subject.endswith("_protocol"):
            self.names = []
        if subject == "fiberrt":
            self.names.append("python-memory/30000-1MiB")
            self.names += [f"python-file/{what}-{by}" for what in ("read", "open", "text") for by in ("plain", "fiber")]
            self.names += [f"python-sim/{shape}" for shape in ("waits", "lines", "fork", "threads")] + ["python-shrink/1000"]
        if subject != "greenlet":
            self.names.append("python-echo/64x50")
        if subject in WORKERS and self.can_serve():
            self.names.append("python-gunicorn/hello")

    def can_serve(self):
        self.wrk = shutil.which("wrk")
        try:
            call([self.python, "-c", "import gunicorn"])
        except Failure:
            return False
        return bool(self.wrk)

    def measure(self, bench, shape):
        if bench == "python-echo":
            return self.measure_echo(shape), None
        if bench == "python-gunicorn":
            return self.measure_gunicorn(shape), None
        if bench in ("python-sim", "python-shrink"):
            return self.measure_simulation(bench, shape), None
        about = bench.partition("-")[2]
        if bench == "python-file" or shape == "30000-1MiB":
            about += f"-{shape}"
        output = call([self.python, self.scripts / "measure.py", self.subject, about, str(self.min_time_s)], pin_to(1))
        return {shape: float(output)}, None

    def measure_echo(self, shape):
        server_cpu, load_cpu = server_and_load_cpus()
        with Server([self.python, self.scripts / "echo.py", self.subject], r"port (\d+)\n", server_cpu) as server:
            stat = Path(f"/proc/{server.process.pid}/stat")
            before = self.ticks(stat)
            output = call([self.load, str(server.port), str(server.process.pid), "50",
                           str(max(0.2, 30 * self.min_time_s))], load_cpu)
            user, system = (after - before for after, before in zip(self.ticks(stat), before))
        requests, cpu_ns, elapsed_ns = map(int, output.split())
        total_us = cpu_ns / requests / 1000
        # The kernel counts user and system time in ticks, or samples them: their ratio is over the whole run. In a short
        # one there may be no tick of either, which means less than one.
        user, system = max(user, 0.5), max(system, 0.5)
        return {shape: total_us * user / (user + system), shape + "-total": total_us,
                shape + "-rate": requests * 1e9 / elapsed_ns}

    def measure_simulation(self, bench, shape):
        what = "shrink" if bench == "python-shrink" else shape
        output = call([self.python, self.scripts / "simulate.py", what, str(max(0.2, 20 * self.min_time_s))])
        return dict(zip((shape, shape + "-cpu"), map(float, output.split())))

    def measure_gunicorn(self, shape):
        server_cpu, load_cpu = server_and_load_cpus()
        command = [self.python, "-m", "gunicorn", "-k", WORKERS[self.subject], "-b", "127.0.0.1:0", "--keep-alive", "60",
                   "--chdir", self.scripts, "hello:app"]
        with Server(command, r"Listening at: http://[\d.]+:(\d+)", server_cpu) as server:
            load = [self.wrk, "-t1", "-c50", "--latency", f"http://127.0.0.1:{server.port}/"]
            call([*load, "-d1"], load_cpu)  # the worker starts, and imports
            before = server.cpu_ns()
            output = call([*load, f"-d{max(1, math.ceil(60 * self.min_time_s))}"], load_cpu)
            cpu_ns = server.cpu_ns() - before
        requests, rate = re.search(r"(\d+) requests in", output), re.search(r"Requests/sec: +([\d.]+)", output)
        p99 = re.search(r"99% +([\d.]+)(us|ms|s)", output)
        if not (requests and rate and p99) or "Non-2xx" in output or "Socket errors" in output:
            raise Failure("wrk saw errors: " + " ".join(re.findall("Non-2xx.*|Socket errors.*", output)))
        return {shape: cpu_ns / int(requests[1]) / 1000, shape + "-rate": float(rate[1]),
                shape + "-p99": float(p99[1]) * {"us": 0.001, "ms": 1, "s": 1000}[p99[2]]}

    @staticmethod
    def ticks(stat):
        return [int(field) for field in stat.read_text().rpartition(")")[2].split()[11:13]]
