# SPDX-License-Identifier: MIT OR Apache-2.0
"""./dev demo: the example web server serves docs/, and meets some load."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import machine
from ledger import die, note, say, show
from processes import ROOT, SCRATCH, finish, start

HTTPD = "build/release/examples/httpd"
PAGE = "design.md"


class Server:
    """The web server on a free loopback port. If it ends before it listens, dev ends with its status."""

    def __init__(self) -> None:
        self.log = SCRATCH / "httpd.log"
        with self.log.open("wb") as file:
            self.process = start([HTTPD, "--port", "0", "--root", "docs"], stdout=file, stderr=file)
        for _ in range(100):
            listening = re.search(r"^listening on (http:.*)/$", self.said(), re.M)
            if listening:
                self.url = listening[1]
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        print(self.said(), end="", file=sys.stderr)
        sys.exit(finish(self.process) if self.process.poll() is not None else 1)

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def cpu_s(self) -> float:
        """Returns the user and system time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        """Stops the server: it finishes the requests in flight, and is killed after ten seconds. Returns its status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return finish(self.process)


def load(server: Server, seconds: int) -> bool:
    """Loads the server with wrk and prints the figures. Returns whether that passed."""
    cpu_before_s = server.cpu_s()
    log = SCRATCH / "wrk.log"
    with log.open("wb") as file:
        wrk = start(["wrk", "-t", 1, "-c", 64, "-d", seconds, f"{server.url}/{PAGE}"], stdout=file, stderr=file)
    note(f"{seconds} seconds of load by wrk, 64 connections")
    status = finish(wrk)
    if server.process.poll() is not None:
        note("The web server ended under the load. Its last output:")
        show("\n".join(server.said().splitlines()[-20:]))
        return False
    text = log.read_text(errors="replace")
    requests = re.search(r"^\s*(\d+) requests in ", text, re.M)
    rate = re.search(r"^Requests/sec:\s*(\S+)", text, re.M)
    if status != 0 or not requests or not rate or requests[1] == "0":
        show(text)
        return False
    cpu_us = (server.cpu_s() - cpu_before_s) * 1e6 / int(requests[1])
    note(f"{rate[1]} requests/s, {requests[1]} in all; {cpu_us:.1f} microseconds of server CPU each")
    for line in text.splitlines():
        if re.search("Socket errors|Non-2xx", line):
            note(f"wrk saw errors: {line}")
    return True


def demo() -> None:
    server = Server()
    say(f"serving docs/ on {server.url}; a page of it, by curl:")
    page = SCRATCH / "page"
    curl = ["curl", "--noproxy", "*", "--silent", "--show-error", "--fail", "--include", "--max-time", 10,
            "--output", page, f"{server.url}/{PAGE}"]  # fmt: skip
    if finish(start(curl)) != 0:
        die("the page did not come")
    for line in page.read_text(errors="replace").splitlines()[:20]:
        note(line)
    if machine.tool("wrk"):
        say("under load")
        if not load(server, 5):
            die("the load test failed")
    status = server.stop()
    if status != 0:
        die(f"the web server ended with status {status}")
    say("to keep it running, until Ctrl-C:")
    note(f"cd {shlex.quote(str(ROOT))} && {HTTPD} --port 8080 --root docs")
