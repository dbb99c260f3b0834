#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drives the example httpd with wrk, in three or more rounds of two seconds, until it has answered many requests. Fails
on any error, on any answer that is not a 2xx, if a descriptor stays open, and if the memory has grown since the first
round. Ends with 77 if there is no wrk.

Usage: httpd_load.py HTTPD_BINARY ROOT [REQUESTS [THREADS]]; it requests "/" of ROOT.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONNECTIONS = 100
SECONDS = 2
MIN_ROUNDS, MAX_ROUNDS = 3, 50


class Failed(Exception):
    pass


class Server:
    def __init__(self, program, root, threads, scratch):
        self.out, self.err = scratch / "out", scratch / "err"
        command = [program, "--port", "0", "--root", root, "--threads", str(threads)]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err)
        self.proc = Path(f"/proc/{self.process.pid}")

    def url(self):
        for _ in range(100):
            listening = re.search("^listening on (.*)$", self.out.read_text(), re.MULTILINE)
            if listening:
                return listening[1]
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise Failed(f"{self.process.args[0]} does not start: {self.err.read_text()}")

    def resident_kib(self):
        return int(re.search(r"^VmRSS:\s*(\d+)", (self.proc / "status").read_text(), re.MULTILINE)[1])

    def descriptors(self):
        return len(list((self.proc / "fd").iterdir()))

    def cpu_s(self):
        """User and system time; the command's name, in parentheses, comes before the fields that are counted."""
        fields = (self.proc / "stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(server, url, seconds, descriptors_before):
    """Runs wrk for some seconds; the number of answers. Waits until the connections are closed again, so that the next
    run's do not come on top of them."""
    command = ["wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", f"{seconds}s", url]
    wrk = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if wrk.returncode != 0:
        raise Failed(f"wrk failed: {wrk.stdout}")
    errors = re.findall("^.*(?:Socket errors|Non-2xx).*$", wrk.stdout, re.MULTILINE)
    if errors:
        raise Failed(f"wrk saw errors: {errors}")
    requests = re.search(r"^\s*(\d+) requests in ", wrk.stdout, re.MULTILINE)
    if not requests or requests[1] == "0":
        raise Failed("no request was answered")
    if server.process.poll() is not None:
        raise Failed("httpd has ended")
    for _ in range(100):
        if server.descriptors() == descriptors_before:
            return int(requests[1])
        time.sleep(0.1)
    raise Failed(f"{server.descriptors()} descriptors are open, {descriptors_before} were before")


def drive(server, wanted, threads):
    url = server.url()
    descriptors_before = server.descriptors()
    load(server, url, 1, descriptors_before)  # warms up
    total, resident_kib, cpu_before_s = 0, [], server.cpu_s()
    while total < wanted or len(resident_kib) < MIN_ROUNDS:
        if len(resident_kib) == MAX_ROUNDS:
            raise Failed(f"only {total} requests in {MAX_ROUNDS} rounds")
        count = load(server, url, SECONDS, descriptors_before)
        total += count
        resident_kib.append(server.resident_kib())
        print(f"round {len(resident_kib)}: {count} requests, {resident_kib[-1]} KiB resident", flush=True)
    cpu_us = (server.cpu_s() - cpu_before_s) * 1e6 / total
    server.process.send_signal(signal.SIGTERM)
    status = server.process.wait()
    if status != 0:
        raise Failed(f"httpd ended with {status} after SIGTERM")
    if server.err.read_text():
        raise Failed(f"httpd complained: {server.err.read_text()}")
    print(
        f"httpd_load: {total} requests on {CONNECTIONS} connections, {threads} thread(s), without an error, "
        f"{cpu_us:.1f} us of CPU each; memory {resident_kib[0]} KiB after the first round, {resident_kib[-1]} at the end"
    )
    if resident_kib[-1] > resident_kib[0] + 1024 * threads:  # each thread keeps its own stacks
        raise Failed("memory has grown")


def main(program, root, wanted="100000", threads="1"):
    if not shutil.which("wrk"):
        print("NO LOAD: there is no wrk (package wrk)")
        sys.exit(77)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as scratch:
        server = Server(program, root, int(threads), Path(scratch))
        try:
            drive(server, int(wanted), int(threads))
        except Failed as failure:
            sys.exit(f"httpd_load: {failure}")
        finally:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()


if not 3 <= len(sys.argv) <= 5:
    sys.exit(f"usage: {sys.argv[0]} HTTPD_BINARY ROOT [REQUESTS [THREADS]]")
main(*sys.argv[1:])
