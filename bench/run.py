#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the benchmark subjects interleaved and compares them: a table, JSON, and bars as SVG. See README.md here."""

import argparse
import json
import math
import os
import re
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
OURS = ("fiberrt", "bare", "epoll")  # what is missing or fails here makes the run fail; a peer is only reported
RUN_TIMEOUT_S = 120


@dataclass(frozen=True)
class Bench:
    """What a benchmark's figure means. `field` names the figure in Google Benchmark's JSON: cpu_time or real_time in
    ns, or a user counter. CPU time is right for a loop that never sleeps: other programs on the CPU do not enter it."""

    unit: str
    field: str = "cpu_time"
    cpus: int = 1  # how many CPUs a subject is pinned to; 0: not pinned
    yardstick: str | None = "bare"  # the subject that ratios are to
    repetitions: int = 7
    also: tuple = ()  # further figures of the same run: (what is added to the shape, unit, field)
    bounds: tuple = ()  # (what is added to the shape, the most that any run of ours may have there)
    curve: bool = False  # the shapes are numbers: draw the figure over them


BENCHES = {
    "yield": Bench("ns per switch"),
    "parkwake": Bench("ns per round trip"),
    "spawn": Bench("ns per fiber"),
    "lock": Bench("ns per lock and unlock"),
    "channel": Bench("ns per round trip", yardstick="boost_fiber"),
    "scope": Bench("ns per scope"),
    "task": Bench("ns per task", "ns_per_task", cpus=2),
    "hosted": Bench("ns per turn", yardstick="cxx20"),
    "hooks": Bench("ns per switch", yardstick=None),
    "select": Bench("ns per item", yardstick=None),
    "crosswake": Bench("ns per round trip", "ns_per_trip", cpus=2),
    "spawnbatch": Bench("ns per fiber", "ns_per_fiber"),
    "scale": Bench("ns per switch", repetitions=5, curve=True),
    "memory": Bench("bytes per fiber", "bytes", yardstick=None, repetitions=5,
                    also=(("-vmas", "mappings", "mappings"), ("-guards", "% of stacks guarded", "guards"))),
    "sleep": Bench("CPU seconds", "cpu_s", yardstick="boost_fiber", repetitions=5),
    "sim": Bench("million steps per CPU second", "million_steps_per_s", yardstick=None),
    "echo": Bench("us of server CPU per request", yardstick="epoll", repetitions=11),
    "http": Bench("us of server CPU per request", yardstick="nginx"),
    "copy": Bench("s of CPU per GiB", yardstick="tool", repetitions=5, also=(("-resident", "KiB at most", None),),
                  bounds=(("-resident", 4096),)),
    "python-yield": Bench("ns per switch", yardstick="gevent"),
    "python-spawn": Bench("ns per fiber", yardstick="gevent"),
    "python-memory": Bench("bytes per fiber", yardstick="gevent", repetitions=5),
    "python-import": Bench("ms", yardstick="gevent", repetitions=5),
    "python-echo": Bench("us of the server's user CPU per request", yardstick="uvloop",
                         also=(("-total", "us of the server's CPU per request", None),
                               ("-rate", "requests per second", None))),
}
GROUPS = {"python": [name for name in BENCHES if name.startswith("python-")]}  # what a name stands for

# What must be free for the shapes with a million fibers, lest the machine run out. They take up to 5.2 KiB each.
MILLION_GIB = 7


class Failure(Exception):
    """One run of a subject gave no figure."""


class LeftOut(Exception):
    """This machine lacks what the subject needs."""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="benchmarks to run, as bench or bench/shape; python: those of the Python package; all "
                             "but these if none is given. Known: " + ", ".join(BENCHES))
    parser.add_argument("--build-dir", required=True, type=Path, metavar="DIR",
                        help="the build tree; the subjects are in its directory bench")
    parser.add_argument("--peers-dir", type=Path, metavar="DIR", default=ROOT / "build" / "peers",
                        help="where nginx is unpacked, if it is not installed (default: %(default)s)")
    parser.add_argument("--python", type=Path, metavar="FILE", default=ROOT / "build" / "bench" / "python" / "venv/bin/python",
                        help="the interpreter that has the Python package and its peers (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as JSON")
    parser.add_argument("--svg-dir", type=Path, metavar="DIR", default=ROOT / "build" / "bench",
                        help="where the charts go (default: %(default)s)")
    parser.add_argument("--repetitions", type=int, metavar="N", help="5 or more (default: 7, of long benchmarks 5)")
    parser.add_argument("--subjects", metavar="A,B",
                        help="run these subjects only. Known: " + ", ".join(SUBJECTS))
    parser.add_argument("--min-time", type=float, default=0.05, metavar="SECONDS",
                        help="the least time that each run measures; servers are measured longer "
                             "(default: %(default)s)")
    arguments = parser.parse_intermixed_args()
    if arguments.repetitions is not None and arguments.repetitions < 5:
        parser.error("--repetitions: 5 is the least that gives a median worth its name")
    if not 0 < arguments.min_time <= 60:
        parser.error("--min-time: more than 0 and at most 60 seconds")
    arguments.names = [name for given in arguments.names for name in GROUPS.get(given, [given])]
    arguments.subjects = arguments.subjects.split(",") if arguments.subjects else list(SUBJECTS)
    for subject in arguments.subjects:
        if subject not in SUBJECTS:
            parser.error(f"unknown subject '{subject}'; known: {', '.join(SUBJECTS)}")
    return parser, arguments


# --- Processes -------------------------------------------------------------------------------------------------------

def allowed_cpus():
    """The last ones first, as the first has more interrupts."""
    try:
        return sorted(os.sched_getaffinity(0), reverse=True)
    except (AttributeError, OSError):
        return []


def pin_to(count):
    """The CPUs to pin a subject to. None: do not."""
    cpus = allowed_cpus()
    return set(cpus[:count]) if 0 < count <= len(cpus) else None


def server_and_load_cpus():
    """A CPU for the server and another one for the load."""
    cpus = allowed_cpus()
    if len(cpus) < 2:
        raise LeftOut("it takes two processors, one for the server and one for the load")
    return {cpus[0]}, {cpus[1]}


def pinned(cpus):
    def pin():
        try:
            os.sched_setaffinity(0, cpus)
        except OSError:
            pass  # a container may forbid it; the figures are noisier then

    return pin if cpus else None


def call(command, cpus=None):
    """Runs a program once and returns what it printed."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=RUN_TIMEOUT_S, preexec_fn=pinned(cpus))
    except subprocess.TimeoutExpired:
        raise Failure(f"no end after {RUN_TIMEOUT_S} s") from None
    except OSError as error:
        raise Failure(str(error)) from None
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()
        how = f"killed by signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise Failure(how + (f": {words[-1]}" if words else ""))
    return done.stdout


class Server:
    """A process that serves while the `with` lasts. It prints a line with its port, or is given one."""

    def __init__(self, command, port_pattern, cpus, port=None, environment=None):
        self.command, self.port_pattern, self.cpus = command, port_pattern, cpus
        self.port, self.environment = port, environment

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, preexec_fn=pinned(self.cpus), env=self.environment)
        try:
            self.await_port() if self.port else self.read_port()
        except BaseException:
            self.__exit__()
            raise
        return self

    def read_port(self):
        text, end = "", time.monotonic() + 10
        while time.monotonic() < end and select.select([self.process.stdout], [], [], end - time.monotonic())[0]:
            data = os.read(self.process.stdout.fileno(), 4096).decode()
            text += data
            found = re.search(self.port_pattern, text)
            if found:
                self.port = int(found[1])
                return
            if not data:
                break
        raise Failure(f"the server does not start: {text.strip()}")

    def await_port(self):
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
            if self.process.poll() is not None:
                break
        raise Failure("the server does not start")

    def cpu_ns(self):
        """The CPU time of the server's processes so far, user and system."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        # The number of a process's CPU clock, as clock_getcpuclockid(3) makes it.
        return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in [self.process.pid, *map(int, children)])

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


# --- The kinds of subjects: what each can measure (names), and how ---------------------------------------------------

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
            raise LeftOut(f"needs {MILLION_GIB} GiB of memory, of which {int(available[1]) >> 20} are free")


class Echo:
    """An echo server and the load for it."""

    names = ("echo/64x100",)

    def __init__(self, subject, arguments):
        program, *mode = subject.split("_")
        directory = arguments.build_dir / "bench"
        self.environment = None
        if program == "fiberrt":  # the mode is a backend
            self.environment = os.environ | {"FIBERRT_BACKEND": mode.pop() if mode else "uring"}
        self.command = [directory / ("echo_" + program), *mode]
        self.load = directory / "echo_load"
        self.seconds = max(0.2, 12 * arguments.min_time)
        for executable in self.command[0], self.load:
            if not executable.is_file():
                raise LeftOut(f"not built (no {executable})")

    def measure(self, _, shape):
        server_cpu, load_cpu = server_and_load_cpus()
        with Server(self.command, r"port (\d+)\n", server_cpu, environment=self.environment) as server:
            output = call([self.load, str(server.port), str(server.process.pid), "100", str(self.seconds)], load_cpu)
        requests, cpu_ns, _ = map(int, output.split())
        return {shape: cpu_ns / requests / 1000}, None


NGINX_CONF = """\
daemon off;
worker_processes {workers};
pid {directory}/nginx.pid;
error_log {directory}/error.log;
worker_rlimit_nofile 4096;
events {{ worker_connections 1024; }}
http {{
    default_type text/html;
    access_log off;
    sendfile {sendfile};
    tcp_nopush on;
    keepalive_requests 1000000000;
    open_file_cache off;
    client_body_temp_path {directory}/1;
    proxy_temp_path {directory}/2;
    fastcgi_temp_path {directory}/3;
    uwsgi_temp_path {directory}/4;
    scgi_temp_path {directory}/5;
    server {{ listen 127.0.0.1:{port} reuseport; root {directory}/root; }}
}}
"""


class Http:
    """A web server that serves a page of 1 KiB, opened anew at each request, and wrk."""

    names = ("http/1k", "http/1k_2threads")

    def __init__(self, subject, arguments):
        self.subject = subject
        self.seconds = max(1, math.ceil(20 * arguments.min_time))  # wrk takes no fractions
        self.peers = arguments.peers_dir
        self.wrk = shutil.which("wrk")
        if not self.wrk:
            raise LeftOut("no wrk to put load on it")
        if subject == "nginx":
            unpacked = self.peers / "usr" / "sbin" / "nginx"
            self.program = unpacked if unpacked.is_file() else shutil.which("nginx")
            if not self.program:
                raise LeftOut(f"neither {unpacked} nor an installed one")
        else:
            self.program = arguments.build_dir / "examples" / "httpd"
            if not self.program.is_file():
                raise LeftOut(f"not built (no {self.program})")

    def server(self, directory, cpus, threads):
        if self.subject != "nginx":
            command = [self.program, "--port", "0", "--root", directory / "root", "--threads", str(threads)]
            return Server(command, r"listening on .*:(\d+)/", cpus)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        config = directory / "nginx.conf"
        config.write_text(NGINX_CONF.format(directory=directory, port=port, workers=threads, sendfile=NGINX_SENDFILE))
        libraries = f"{self.peers}/usr/lib/x86_64-linux-gnu"
        return Server([self.program, "-p", directory, "-e", directory / "error.log", "-c", config], None, cpus, port,
                      {**os.environ, "LD_LIBRARY_PATH": libraries})

    def measure(self, _, shape):
        server_cpu, load_cpu = server_and_load_cpus()
        threads = 2 if shape == "1k_2threads" else 1
        if threads == 2:  # where there are but two processors, the second one has the load to do as well
            server_cpu |= set(allowed_cpus()[2:3]) or load_cpu
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            directory.chmod(0o755)  # nginx's worker may be another user
            (directory / "root").mkdir()
            (directory / "root" / "page.html").write_text("x" * 1023 + "\n")
            with self.server(directory, server_cpu, threads) as server:
                url = f"http://127.0.0.1:{server.port}/page.html"
                call([self.wrk, "-t1", "-c100", "-d1", url], load_cpu)  # what the first requests cost does not count
                before = server.cpu_ns()
                output = call([self.wrk, "-t1", "-c100", f"-d{self.seconds}", url], load_cpu)
                after = server.cpu_ns()
        done = re.search(r"(\d+) requests in", output)
        if not done or "Non-2xx" in output or "Socket errors" in output:
            raise Failure("wrk saw errors: " + " ".join(re.findall("Non-2xx.*|Socket errors.*", output)))
        return {shape: (after - before) / int(done[1]) / 1000}, None


class Copy:
    """What moves data: through a TCP connection each way, compared with socat; from a file to another, or into a pipe,
    with cp."""

    names = ("copy/tcp", "copy/file", "copy/pipe")
    sources = {}  # what files are copied from, by their MiB

    def __init__(self, subject, arguments):
        self.mib = 1024 if arguments.min_time >= 0.05 else 16
        self.environment = None
        self.programs = {"tcp": arguments.build_dir / "examples" / "copy"}
        self.programs["file"] = self.programs["tcp"]
        if subject == "tool":
            peers = arguments.peers_dir
            unpacked = peers / "usr" / "bin" / "socat"
            self.programs = {"tcp": unpacked if unpacked.is_file() else shutil.which("socat"), "file": shutil.which("cp")}
            libraries = f"{peers}/usr/lib/x86_64-linux-gnu:{peers}/lib/x86_64-linux-gnu"
            self.environment = os.environ | {"LD_LIBRARY_PATH": libraries}
            if not self.programs["tcp"]:
                raise LeftOut(f"neither {unpacked} nor an installed socat")
        else:  # the rest of the name is a backend
            self.environment = os.environ | {"FIBERRT_BACKEND": subject.partition("_")[2] or "uring"}
            if not self.programs["tcp"].is_file():
                raise LeftOut(f"not built (no {self.programs['tcp']})")
        self.is_tool = subject == "tool"

    def measure(self, _, shape):
        cpu_s, kib = {"tcp": self.through_tcp, "file": self.from_file, "pipe": self.into_pipe}[shape]()
        figures = {shape: cpu_s * 1024 / self.mib}
        if kib:
            figures[shape + "-resident"] = kib
        return figures, None

    def start(self, command, cpus):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=pinned(cpus), env=self.environment)

    @staticmethod
    def resident_kib(process):
        """The most that was resident so far; not from getrusage, which counts what the process was before exec, too."""
        found = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        return int(found[1]) if found else 0

    @staticmethod
    def end_of(process):
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        words = process.stderr.read().decode().strip().splitlines()
        process.stdout.close()
        process.stderr.close()
        if process.returncode != 0:
            raise Failure(f"exit code {process.returncode}" + (f": {words[-1]}" if words else ""))
        return usage.ru_utime + usage.ru_stime

    def through_tcp(self):
        server_cpu, load_cpu = server_and_load_cpus()
        with socket.create_server(("127.0.0.1", 0)) as sink:
            sink.settimeout(RUN_TIMEOUT_S)
            to = sink.getsockname()[1]
            port = 0
            if self.is_tool:
                with socket.create_server(("127.0.0.1", 0)) as free:
                    port = free.getsockname()[1]
                command = [self.programs["tcp"], f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr", f"TCP:127.0.0.1:{to}"]
            else:
                command = [self.programs["tcp"], "forward", "0", str(to), "once"]
            process = self.start(command, server_cpu)
            try:
                port = port or int(re.search(rb":(\d+)", process.stdout.readline())[1])
                kib = self.send_through(port, sink, process, load_cpu)
            except (OSError, TypeError) as error:
                process.kill()
                raise Failure(str(error)) from None
            return self.end_of(process), kib

    def send_through(self, port, sink, process, load_cpu):
        for attempt in range(200):
            try:
                client = socket.create_connection(("127.0.0.1", port), 1)
                break
            except OSError:
                if attempt == 199:
                    raise
                time.sleep(0.05)
        client.settimeout(RUN_TIMEOUT_S)
        source = ("import os, socket, sys\n"
                  "connection, block = socket.socket(fileno=int(sys.argv[1])), bytes(1 << 20)\n"
                  "for _ in range(int(sys.argv[2])): connection.sendall(block)\n"
                  "connection.shutdown(socket.SHUT_WR)\n")
        server, _ = sink.accept()
        server.settimeout(RUN_TIMEOUT_S)
        client.setblocking(True)
        with client, server:
            sender = subprocess.Popen([sys.executable, "-c", source, str(client.fileno()), str(self.mib)],
                                      pass_fds=[client.fileno()], preexec_fn=pinned(load_cpu))
            buffer, total = bytearray(1 << 20), 0
            while count := server.recv_into(buffer):
                total += count
            sender.wait()
            kib = self.resident_kib(process)  # it waits for the end of the other direction
            if total != self.mib << 20:
                raise OSError(f"{total} bytes came out of {self.mib << 20}")
        return kib

    @staticmethod
    def make_source(mib):
        """A file of random bytes, in memory, so that no disk disturbs, if there is enough. One for all runs: if it were
        written anew each would get other memory, which the host of a virtual machine may have to find first."""
        if mib not in Copy.sources:
            place = Path("/dev/shm")
            if not place.is_dir() or shutil.disk_usage(place).free < mib << 22:
                place = None
            folder = tempfile.TemporaryDirectory(dir=place)
            with (Path(folder.name) / "from").open("wb") as file:
                for _ in range(mib):
                    file.write(os.urandom(1 << 20))
            Copy.sources[mib] = folder  # removed when the program ends
        return Path(Copy.sources[mib].name) / "from"

    def from_file(self):
        source = self.make_source(self.mib)
        copy = source.with_name("to")
        try:
            process = self.start([self.programs["file"], source, copy], pin_to(1))
            kib = 0
            try:
                while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                    kib = max(kib, self.resident_kib(process))
                    time.sleep(0.005)
            except OSError:
                pass
            cpu_s = self.end_of(process)
            if copy.stat().st_size != self.mib << 20:
                raise Failure(f"the copy has {copy.stat().st_size} bytes, not {self.mib << 20}")
            return cpu_s, kib if self.mib == 1024 else 0  # of a short one it may not have been seen
        finally:
            copy.unlink(missing_ok=True)

    def into_pipe(self):
        """A file into a pipe of the system's usual size, by splice; cp reads and writes."""
        source = self.make_source(self.mib)
        server_cpu, load_cpu = server_and_load_cpus()
        process = self.start([self.programs["file"], source, "/dev/stdout" if self.is_tool else "-"], server_cpu)
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, load_cpu)
        buffer, total, kib = bytearray(1 << 20), 0, 0
        try:
            while count := os.readv(process.stdout.fileno(), [buffer]):
                if total >> 26 != (total + count) >> 26:  # each 64 MiB
                    kib = max(kib, self.resident_kib(process))
                total += count
            cpu_s = self.end_of(process)
        finally:
            os.sched_setaffinity(0, before)
        if total != self.mib << 20:
            raise Failure(f"{total} bytes came out of {self.mib << 20}")
        return cpu_s, kib


class Python:
    """A runtime for Python, all of them in one interpreter. A figure is measured in a process of its own."""

    def __init__(self, subject, arguments):
        self.python, self.subject = arguments.python, subject
        self.scripts = ROOT / "bench" / "python"
        self.load = arguments.build_dir / "bench" / "echo_load"
        self.min_time_s = arguments.min_time
        if not self.python.is_file():
            raise LeftOut(f"no {self.python}, which bench/python/install.sh makes")
        try:
            call([self.python, "-c", f"import {subject.partition('_')[0]}"])
        except Failure:
            raise LeftOut("not installed there") from None
        self.names = ["python-yield/pair", "python-spawn/warm", "python-memory/30000", "python-import/fresh"]
        if subject.endswith("_protocol"):
            self.names = []
        if subject != "greenlet":
            self.names.append("python-echo/64x50")

    def measure(self, bench, shape):
        if bench == "python-echo":
            return self.measure_echo(shape), None
        about = bench.partition("-")[2]
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

    @staticmethod
    def ticks(stat):
        return [int(field) for field in stat.read_text().rpartition(")")[2].split()[11:13]]


# nginx's faster way for a page of this size is to read it: by sendfile it takes some 15 % more.
NGINX_SENDFILE = "off"

SUBJECTS = {
    "bare": (Suite,), "fiberrt": (Suite, Echo, Http, Copy, Python), "cxx20": (Suite,), "boost_context": (Suite,),
    "boost_fiber": (Suite,), "state_threads": (Suite,), "epoll": (Echo,), "uring": (Echo,), "uring_multi": (Echo,),
    "fiberrt_ev": (Echo, Copy), "libev": (Echo,), "libuv": (Echo,), "nginx": (Http,), "tool": (Copy,),
    **dict.fromkeys(("gevent", "greenlet", "asyncio", "uvloop", "asyncio_protocol", "uvloop_protocol"), (Python,)),
}


KINDS = {"echo": Echo, "http": Http, "copy": Copy, **dict.fromkeys(GROUPS["python"], Python)}  # of all other benchmarks: Suite


def find_subjects(arguments, benches):
    """Who can measure what, {(bench, shape, subject): object}; and why others cannot, {(subject, kind): reason}. Of
    programs that none of the named benchmarks needs nothing is said."""
    found, missing = {}, {}
    for subject in arguments.subjects:
        for kind in SUBJECTS[subject]:
            if kind not in {KINDS.get(bench, Suite) for bench in benches}:
                continue
            try:
                instance = kind(subject, arguments)
            except (LeftOut, Failure) as reason:
                missing[subject, kind] = str(reason)
                continue
            for name in instance.names:
                bench, shape = name.split("/", 1)
                if bench in BENCHES:
                    found[bench, shape, subject] = instance
    return found, missing


def select_runs(parser, names, found):
    """The runs to make, keys of `found`, in the order of BENCHES. An unknown name ends the program."""
    known = list(dict.fromkeys(f"{bench}/{shape}" for bench, shape, _ in found))
    for name in names:
        if name not in BENCHES and name not in known:
            parser.error(f"unknown benchmark '{name}'; known: {', '.join([*BENCHES, *known])}")
    order = list(BENCHES)
    runs = [key for key in found if not names or key[0] in names or f"{key[0]}/{key[1]}" in names]
    shapes = list(dict.fromkeys((bench, shape) for bench, shape, _ in runs))
    return sorted(runs, key=lambda key: (order.index(key[0]), shapes.index(key[:2])))


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


def run_all(found, runs, repetitions):
    """Runs everything, interleaved: a disturbance of some seconds meets all subjects of a shape, not one."""
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
    """A line for each figure of ours that is above what it may be at most. Times are not judged: they depend on the
    machine."""
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


# The charts. Bars lie on a logarithmic scale, as the figures span three orders of magnitude; whiskers are min and max.

BAR_HEIGHT, GROUP_GAP, LABEL_WIDTH, PLOT_WIDTH, VALUE_WIDTH, TOP = 16, 30, 120, 520, 150, 64
COLOURS = {"bare": "#7f7f7f", "epoll": "#7f7f7f", "nginx": "#7f7f7f", "fiberrt": "#d1495b"}
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
    versus = BENCHES[bench].yardstick
    subtitle = "medians of one run, lines from min to max; logarithmic scale" + (
        f"; (\u00d7 {versus} of the same shape)" if versus else "")
    write_svg(path, bench, subtitle, width, height, grid + parts)


def write_svg(path, bench, subtitle, width, height, parts):
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' font-family="sans-serif" font-size="12">\n<rect width="{width}" height="{height}" fill="#fff"/>\n'
        f'<text x="8" y="22" font-size="16" font-weight="bold">{escape(bench)}: {escape(BENCHES[bench].unit)}</text>\n'
        f'<text x="8" y="40" fill="#666">{escape(subtitle)}</text>\n' + "\n".join(parts) + "\n</svg>\n",
        encoding="utf-8")


CURVE_WIDTH, CURVE_HEIGHT, CURVE_LEFT = 560, 340, 60
CURVE_COLOURS = ("#66a3c2", "#2a6f4e", "#e0a030", "#8a5fa8", "#3b3b9a")  # of the peers, in the order of the rows


def draw_curve(bench, rows, path):
    """A line per subject over the shapes, which are numbers; both scales logarithmic."""
    lines = {}
    for row in rows:
        lines.setdefault(row["subject"], []).append((int(row["shape"]), row["median"]))
    xs = [x for line in lines.values() for x, _ in line]
    ys = [y for line in lines.values() for _, y in line]
    left, right = math.floor(math.log10(min(xs))), max(math.ceil(math.log10(max(xs))), math.log10(min(xs)) + 1)
    low, high = math.floor(math.log10(min(ys) * 0.999)), math.ceil(math.log10(max(ys) * 1.001))

    def x_of(value):
        return CURVE_LEFT + CURVE_WIDTH * (math.log10(value) - left) / (right - left)

    def y_of(value):
        return TOP + CURVE_HEIGHT * (high - math.log10(value)) / (high - low)

    parts = []
    for power in range(low, high + 1):
        y = y_of(10 ** power)
        parts.append(f'<path d="M{CURVE_LEFT} {y:.1f}h{CURVE_WIDTH}" stroke="#ddd"/>'
                     f'<text x="{CURVE_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#666">{10 ** power:g}</text>')
    for power in range(left, math.floor(right) + 1):
        x = x_of(10 ** power)
        parts.append(f'<path d="M{x:.1f} {TOP}v{CURVE_HEIGHT}" stroke="#ddd"/><text x="{x:.1f}" '
                     f'y="{TOP + CURVE_HEIGHT + 16}" text-anchor="middle" fill="#666">{10 ** power:,}</text>')
    colours = iter(CURVE_COLOURS * len(lines))
    label_y = -math.inf
    for subject, line in sorted(lines.items(), key=lambda item: -item[1][-1][1]):
        colour = COLOURS.get(subject) or next(colours)
        points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in line)
        label_y = max(y_of(line[-1][1]) + 4, label_y + 14)  # labels do not lie on one another
        dots = "".join(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{colour}"/>' for x, y in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'
                     f'<text x="{x_of(line[-1][0]) + 8:.1f}" y="{label_y:.1f}" fill="{colour}">{escape(subject)}'
                       f' {number(line[-1][1])}</text>')
    write_svg(path, bench, "medians of one run over the number of fibers; logarithmic scales",
              CURVE_LEFT + CURVE_WIDTH + VALUE_WIDTH, TOP + CURVE_HEIGHT + 28, parts)


def main():
    parser, arguments = parse_arguments()
    if not arguments.build_dir.is_dir():
        parser.error(f"--build-dir: {arguments.build_dir} is not a directory")
    if arguments.json and not arguments.json.resolve().parent.is_dir():
        parser.error(f"--json: {arguments.json.parent} is not a directory")
    for name in arguments.names:  # before anything is looked for: a misspelt name is the caller's error
        if name.split("/")[0] not in BENCHES:
            parser.error(f"unknown benchmark '{name}'; known: {', '.join(BENCHES)}")
    arguments.names = arguments.names or [name for name in BENCHES if name not in GROUPS["python"]]
    benches = dict.fromkeys(name.split("/")[0] for name in arguments.names)
    found, missing = find_subjects(arguments, benches)
    for (subject, kind), reason in missing.items():
        print(f"LEFT OUT: {subject} ({kind.__name__}): {reason}", file=sys.stderr)
    runs = select_runs(parser, arguments.names, found)
    if not runs:
        print(f"run.py: nothing that is built in {arguments.build_dir} measures that", file=sys.stderr)
        return 1

    figures, failures, left_out, stretch = run_all(found, runs, arguments.repetitions)
    rows = summarize(figures)
    print_table(rows, failures, stretch)

    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(f"JSON: {arguments.json}")
    arguments.svg_dir.mkdir(parents=True, exist_ok=True)
    for bench in dict.fromkeys(row["bench"] for row in rows):
        path = arguments.svg_dir / f"{bench}.svg"
        of_one_unit = [row for row in rows if row["bench"] == bench and row["unit"] == BENCHES[bench].unit]
        (draw_curve if BENCHES[bench].curve else draw)(bench, of_one_unit, path)
        print(f"Chart: {path}")
    for (subject, kind), reason in missing.items():
        print(f"LEFT OUT: {subject} ({kind.__name__}): {reason}")
    for (bench, shape, subject), reason in left_out.items():
        print(f"LEFT OUT: {subject} {bench}/{shape}: {reason}")
    for (bench, shape, subject), reason in failures.items():
        print(f"FAILED: {subject} {bench}/{shape}: {reason}")
    beyond = list(beyond_bounds(rows))
    for text in beyond:
        print(f"ABOVE ITS BOUND: {text}")
    lacking = {*(subject for subject, _ in missing), *(subject for _, _, subject in failures)}
    return 1 if beyond or lacking.intersection(OURS) else 0


if __name__ == "__main__":
    sys.exit(main())
