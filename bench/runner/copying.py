# SPDX-License-Identifier: MIT OR Apache-2.0
"""Subjects that move data."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runner.benches import RUN_TIMEOUT_S, Failure, LeftOut
from runner.processes import pin_to, pinned, server_and_load_cpus


class Copy:
    """Programs that move data: through a TCP connection each way, compared with socat; from a file to another, or into
    a pipe, with cp."""

    names = ("copy/tcp", "copy/file", "copy/pipe")
    sources = {}  # the source files, by their MiB

    def __init__(self, subject, arguments):
        self.mib = 1024 if arguments.min_time >= 0.05 else 16
        self.environment = None
        examples = arguments.build_dir / "examples"
        self.programs = {"tcp": examples / "forward", "file": examples / "copy"}
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
            for program in self.programs.values():
                if not program.is_file():
                    raise LeftOut(f"not built (no {program})")
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
        """The peak resident memory so far; not from getrusage, which includes the process before exec."""
        found = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        return int(found[1]) if found else 0

    @staticmethod
    def end_of(process, ended_by=0):
        """The CPU time of a program, when it has ended: by itself, or by the signal ended_by."""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        words = process.stderr.read().decode().strip().splitlines()
        process.stdout.close()
        process.stderr.close()
        if process.returncode != -ended_by:
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
                command = [self.programs["tcp"], "0", f"127.0.0.1:{to}"]
            process = self.start(command, server_cpu)
            try:
                port = port or int(re.search(rb":(\d+)", process.stdout.readline())[1])
                kib = self.send_through(port, sink, process, load_cpu)
            except (OSError, TypeError) as error:
                process.kill()
                raise Failure(str(error)) from None
            if self.is_tool:
                return self.end_of(process), kib
            process.terminate()  # the example serves until then
            return self.end_of(process, signal.SIGTERM), kib

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
            kib = self.resident_kib(process)
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
