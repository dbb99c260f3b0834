# SPDX-License-Identifier: MIT OR Apache-2.0
"""The processes of subjects and servers, and the processors that they are pinned to."""

import os
import re
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

from runner.benches import RUN_TIMEOUT_S, Failure, LeftOut


def allowed_cpus():
    """Returns the CPUs of this process, the last first, because the first one gets more interrupts."""
    try:
        return sorted(os.sched_getaffinity(0), reverse=True)
    except (AttributeError, OSError):
        return []


def pin_to(count):
    """Returns the CPUs to pin a subject to, or None for no pinning."""
    cpus = allowed_cpus()
    return set(cpus[:count]) if 0 < count <= len(cpus) else None


def server_and_load_cpus():
    """Returns a CPU for the server and another one for the load."""
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
    """Runs a program once and returns its output."""
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
    """A process that serves inside a `with` block. It prints its port as a line, or is given a port."""

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
        """Returns the CPU time of the server's processes so far, user and system."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        # The clock id of a process's CPU time, computed as clock_getcpuclockid(3) does.
        return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in [self.process.pid, *map(int, children)])

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
