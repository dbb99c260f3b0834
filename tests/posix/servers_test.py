#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks servers.py: the servers answer and run without root's rights; they end with the process that started them,
also if it is killed; they start again in the same folder; servers.py names a missing server. Ends with 77 if the
servers are neither fetched nor installed.

Usage: servers_test.py FOLDER
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import servers

FOLDER = Path(sys.argv[1]).resolve()
SCRIPT = Path(__file__).resolve().with_name("servers.py")
STARTED = {"SERVER_PQ", "SERVER_MYSQL", "SERVER_REDIS", "SERVER_HTTP"}


def check(what: str, holds: bool) -> None:
    if not holds:
        sys.exit(f"FAILED: {what}")
    print(f"ok: {what}")


def start() -> "tuple[subprocess.Popen[str], dict[str, str]]":
    """servers.py start, and the environment that it prints."""
    process = subprocess.Popen([sys.executable, SCRIPT, "start", FOLDER / "run"], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    environment = {}
    for line in process.stdout:
        if line == "ready\n":
            return process, environment
        print(line, end="")
        variable = re.fullmatch(r"export (\w+)='(.*)'\n", line)
        if variable:
            environment[variable[1]] = variable[2]
        did_not_run = re.match("DID NOT RUN: (.*)", line)
        if did_not_run:
            print(did_not_run[1])
            sys.exit(77)
    sys.exit(f"FAILED: servers.py start ends with {process.wait()}")


def children(parent: int) -> "dict[int, int]":
    """The processes below this one, and their users."""
    found: "dict[int, int]" = {}
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):  # it has ended meanwhile
            fields = (path / "stat").read_text().rpartition(") ")[2].split()
            if fields[0] not in "ZX":
                parents[int(path.name)] = int(fields[1]), path.stat().st_uid
    below = {parent}
    while True:
        more = {pid for pid, (of, _) in parents.items() if of in below and pid not in below}
        if not more:
            return found
        below |= more
        found.update((pid, parents[pid][1]) for pid in more)


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    return False


def all_ended(pids: "dict[int, int]") -> bool:
    """Whether all of them end. The limit is far more than that takes."""
    end = time.monotonic() + 100
    while any(map(is_running, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(is_running, pids))


process, environment = start()
check("all four servers have started", set(environment) >= STARTED)
for name in ("SERVER_MYSQL", "SERVER_REDIS"):
    check(f"{name} accepts connections", servers.connects(environment[name]))
pids = children(process.pid)
check(f"the {len(pids)} processes do not run as root", len(pids) >= 4 and 0 not in pids.values())
os.kill(process.pid, signal.SIGKILL)
process.wait()
check("the servers end if servers.py is killed", all_ended(pids))
left = Path(environment["SERVER_CA"]).parent
process, environment = start()
check("they start again in the same folder, after the rest of the killed run is removed", not left.exists())
pids = children(process.pid)
process.terminate()
check("servers.py ends by a signal as a shell would", process.wait() == 128 + signal.SIGTERM)
check("it has stopped the servers", not any(map(is_running, pids)))
check("it has removed its sockets and the servers' data",
      not Path(environment["SERVER_CA"]).exists() and not any((FOLDER / "run" / name).exists() for name in servers.NAMES))  # fmt: skip

only_redis = [sys.executable, SCRIPT, "run", FOLDER / "run", "--only", "redis", "--"]
status = subprocess.run([*only_redis, "sh", "-c", "test -S $SERVER_REDIS && test -z \"$SERVER_PQ\" && exit 5"]).returncode
check("the status of servers.py run is the command's", status == 5)
nowhere = FOLDER / "nowhere"
shutil.rmtree(nowhere, ignore_errors=True)
nowhere.mkdir(parents=True)
(nowhere / "servers.py").write_text(
    SCRIPT.read_text().replace('Path("/")', f'Path("{nowhere}")').replace("parents[2]", "parents[0]")
)
(nowhere / "build/servers").mkdir(parents=True)
said = subprocess.run([sys.executable, nowhere / "servers.py", "run", nowhere / "run", "--", "true"],
                      stdout=subprocess.PIPE, text=True)  # fmt: skip
check("without the servers it skips itself and says why",
      said.returncode == 77 and said.stdout.startswith("DID NOT RUN: there is no openssl here"))  # fmt: skip
