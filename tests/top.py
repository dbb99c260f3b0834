#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests fiberrt-top with a process that has a deadlock of two cords and a fiber that keeps its thread: the texts, the
JSON, the messages, and the screen under tmux; and with a process of so many fibers. usage: top.py TOP SUBJECT FIBERS"""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from checks import check, report

TOP, SUBJECT = (Path(argument).resolve() for argument in sys.argv[1:3])
MANY = int(sys.argv[3])
MOST = 60  # seconds for an event; each wait ends with its event
NOBODY = 65534
SLEEPS = "(sleeps|fiber_sleep)"  # how a group begins; not optimised, the library's public function has a frame of its own


def until(condition):
    """Waits for a condition; returns its last value."""
    end = time.monotonic() + MOST
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return value


def top(*arguments, program=None, **options):
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "100"}
    return subprocess.run([program or TOP, *map(str, arguments)], capture_output=True, text=True, timeout=MOST,
                          env=environment, stdin=subprocess.DEVNULL, check=False, **options)  # fmt: skip


@contextlib.contextmanager
def subject(folder, *arguments, **options):
    """The process, until the end of the block."""
    with subprocess.Popen([SUBJECT, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "FIBERRT_TOP": str(folder)}, **options) as process:  # fmt: skip
        try:
            assert process.stdout.readline() == "ready\n", "the process does not start"
            yield process
        finally:
            process.stdin.close()
            process.wait(timeout=MOST)


@contextlib.contextmanager
def false_agent(path, *answers):
    """A socket whose clients get these answers, one each, and the last one from then on. Yields their requests."""
    requests = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(8)

        def serve():
            with contextlib.suppress(OSError):
                for answer in itertools.chain(answers, itertools.repeat(answers[-1])):
                    client, _ = listener.accept()
                    with client, contextlib.suppress(OSError):
                        requests.append(client.recv(100))
                        client.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield requests
        listener.shutdown(socket.SHUT_RDWR)
    path.unlink()


def test_text(process, folder):
    pid, path = process.pid, folder / f"{process.pid}.sock"
    once = top("--once", pid)
    check("--once of a process", once.returncode == 0, once.stderr)
    lines = once.stdout.splitlines()
    check("the process and its release", re.match(rf"fiberrt-top  process {pid}, fiberrt \d", lines[0]), lines[0])
    check("no line is wider than asked for", max(map(len, lines)) <= 100)
    check("the deadlock", any(re.fullmatch(r"DEADLOCK: (left -> right -> left|right -> left -> right)", line)
                               for line in lines), once.stdout)  # fmt: skip
    check("the cords with their names", {"other", "hogs"} <= {line.split()[0] for line in lines[2:9]}, once.stdout)
    check("the fiber that keeps its thread stands first", lines[lines.index(next(
        line for line in lines if line.startswith(" FIBER"))) + 1].split()[1:4] == ["hog", "hogs", "running"], once.stdout)  # fmt: skip
    check("the holder of a lock", re.search(r" left +other +waiting .*a lock, held by right$", once.stdout, re.M), once.stdout)
    check("no control character", not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", once.stdout) and "odd ?[31m" in once.stdout)
    check("a character of another script", "odd ?[31mä" in once.stdout, once.stdout)
    for place in (path, folder):
        again = top("--once", "--interval", "0", place)
        check(f"--once of {'a socket' if place == path else 'a directory'}", again.returncode == 0, again.stderr)
    by_stack = top("--once", "--interval", 0, "--sort", "stack", pid).stdout
    sizes = [float(size[:-1]) for size in re.findall(r" (\d+\.\d+K) ", by_stack.split(" FIBER NAME")[1])]
    check("sorted by stacks", len(sizes) > 20 and sizes == sorted(sizes, reverse=True), by_stack)
    names = [line[7:] for line in top("--once", "--interval", 0, "--sort", "name", pid).stdout.splitlines()]
    check("sorted by names", names.index(next(n for n in names if n.startswith("hog")))
          < names.index(next(n for n in names if n.startswith("left"))))  # fmt: skip
    ascii_only = subprocess.run([TOP, "--once", "--interval", "0", str(pid)], capture_output=True, check=False,
                                timeout=MOST, env={"LC_ALL": "C"})  # fmt: skip
    check("plain ASCII in the locale C", ascii_only.returncode == 0 and ascii_only.stdout.isascii())
    stacks = top("--stacks", pid)
    check("equal stacks are counted", re.search(rf"^22 fibers: {SLEEPS} .*sleep_long", stacks.stdout, re.M),
          stacks.stdout + stacks.stderr)  # fmt: skip


def test_json(process, folder):
    done = top("--json", process.pid)
    told = json.loads(done.stdout)
    names = {fiber["id"]: fiber["name"] for fiber in told["fibers"]}
    check("JSON has the deadlock", [sorted(names[id] for id in circle) for circle in told["deadlocks"]] == [["left", "right"]],
          done.stdout)  # fmt: skip
    left = next(fiber for fiber in told["fibers"] if fiber["name"] == "left")
    check("JSON has frames", any(frame["symbol"] == "take_left" for frame in left["frames"]), str(left))
    saved = folder / "saved"
    saved.write_text(done.stdout)
    later = top("--once", saved)
    check("a saved answer is shown", later.returncode == 0 and "DEADLOCK: " in later.stdout, later.stderr)
    bad = folder / "bad"
    cuts = [0, 1, 100, len(done.stdout) // 2, len(done.stdout) - 3]
    for text in [done.stdout[:cut] for cut in cuts] + ["[]", "{}", '{"fiberrt":1}', "\x00", "[" * 100000, '{"a":' * 500]:
        bad.write_text(text)
        refused = top("--once", bad)
        check(f"a file of {len(text)} bytes is refused: {refused.stderr.strip()[-60:]}",
              refused.returncode == 1 and refused.stderr.startswith("fiberrt-top: ") and not refused.stdout)  # fmt: skip
    bad.unlink()
    saved.unlink()


def test_rates(folder):
    """The rates that fiberrt-top shows of two looks that are made up: a process is never where a test wants it."""
    cord, hog, new = 2 << 56 | 1, 1 << 56 | 1, 1 << 56 | 1 << 32 | 1

    def look(second, fibers, **of_cord):
        return json.dumps({"fiberrt": "0", "pid": 1, "now_ns": second * 10**9, "deadlocks": [], "incomplete": [],
                           "cords": [{"id": str(cord), "thread": 1 << 30, **of_cord}],
                           "fibers": [{"cord": str(cord), **fiber} for fiber in fibers]}).encode()  # fmt: skip

    def shown(*answers):
        with false_agent(folder / "made-up.sock", *answers):
            done = top("--once", "--times", "--interval", "0.1", folder / "made-up.sock")
        check("two looks that are made up", done.returncode == 0, done.stderr)
        return {line.split()[1]: line.split()[4] for line in done.stdout.split(" FIBER ")[-1].splitlines()[1:]}

    times = {"turns": 3, "runnable_ns": 0, "wait_ns": 0}
    runs = {"id": str(hog), "name": "hog", "state": "running", **times}
    one_look = {"id": str(new), "name": "new", "state": "running", "run_ns": 5, **times}
    # The cord counts times from its next poll on, so the first look has none. Half a second later the hog has run for 0.3.
    cpu = shown(b"ok\n", look(1, [{"id": str(hog), "name": "hog", "state": "running"}], polls=1),
                look(2, [{**runs, "run_ns": 300_000_000}, one_look], polls=9, elapsed_ns=500_000_000), b"ok\n")  # fmt: skip
    check("a fiber whose times began after the first look has its share of the time since then", cpu["hog"] == "60.0", cpu)
    check("a fiber that the first look did not see has none", cpu["new"] == "-", cpu)
    cpu = shown(b"already\n", look(1, [{**runs, "run_ns": 100_000_000}], polls=1, elapsed_ns=100_000_000),
                look(2, [{**runs, "run_ns": 300_000_000}], polls=9, elapsed_ns=1_100_000_000))  # fmt: skip
    check("a fiber with times in both looks has its share of the time between them", cpu["hog"] == "20.0", cpu)
    cpu = shown(b"already\n", look(1, [{"id": str(hog), "name": "hog", "state": "running"}], polls=1, elapsed_ns=10**9),
                look(2, [{**runs, "run_ns": 300_000_000}], polls=9, elapsed_ns=2 * 10**9))  # fmt: skip
    check("a fiber whose times could not be read at the first look has none", cpu["hog"] == "-", cpu)


def test_messages(process, folder):
    def refused(what, status, message, *arguments, **options):
        done = top(*arguments, **options)
        check(what, done.returncode == status and re.match(message, done.stderr) and not done.stdout,
              f"{done.returncode}: {done.stderr}{done.stdout}")  # fmt: skip

    refused("no such process", 1, r"fiberrt-top: there is no process 4999999\n", "--once", 4999999)
    refused("a process without an agent", 1, rf"fiberrt-top: process {os.getpid()} has no agent: start it with", os.getpid())
    refused("no such file", 1, r"fiberrt-top: /no/such/file: No such file", "--once", "/no/such/file")
    refused("no terminal", 1, r"fiberrt-top: (the screen needs a terminal|this fiberrt-top was built without)", process.pid)
    refused("two processes", 2, r"fiberrt-top: only one process", 1, 2)
    refused("an unknown option", 2, r"[^\n]*\nUsage: ", "--nothing")
    refused("an unknown order", 2, r"fiberrt-top: --sort wants", "--sort", "luck", process.pid)
    for interval in ("x", "-1", "0.05", "61", "nan", "1e9", ""):
        refused(f"an interval of {interval!r}", 2, r"fiberrt-top: --interval wants", "--interval", interval, process.pid)
    empty = folder / "empty"
    empty.mkdir()
    refused("a directory without a socket", 1, r"fiberrt-top: there is no socket in ", "--once", empty)
    stale = empty / "stale.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(stale))
        left.listen(1)
    refused("a socket that a process has left", 1, r"fiberrt-top: .*: no process listens there", "--once", stale)
    stale.unlink()
    for answer, message in (
        (b"", "the process gave no answer"),
        (b"error: not today\n", "not today"),
        (b"{", "the JSON is cut off"),
        (b"\xff" * 1000, "no JSON at byte 0"),
        (b'{"fiberrt":"9","fibers":[{"id":"x"}]}', "no JSON at byte"),
        (b'{"fiberrt":"9","cords":3}', "no JSON at byte"),
    ):
        with false_agent(stale, answer):
            refused(f"an agent that answers {answer[:20]!r}", 1, rf"fiberrt-top: .*{message}", "--once", stale)
    with false_agent(empty / "a.sock", b""), false_agent(empty / "b.sock", b""):
        refused("a directory with two sockets", 1, r"(?s)fiberrt-top: there are several sockets .*[ab]\.sock\n", "--once", empty)
    odd = [empty / "a\x1b[31m.sock", empty / "b\n.sock"]  # of another user, perhaps, in /tmp
    with false_agent(odd[0], b""), false_agent(odd[1], b""):
        listed = top("--once", empty).stderr
        check("no control character of a file's name", re.fullmatch(r"[^\n]+several sockets[^\n]+\n  [^\n]+\n  [^\n]+\n", listed)
              and "a?[31m.sock" in listed and "b?.sock" in listed, repr(listed))  # fmt: skip
    with false_agent(stale, b"error: \x1b]0;title\x07no\n"):
        told = top("--once", stale).stderr
        check("no control character of an answer", told == "fiberrt-top: ?]0;title?no\n", repr(told))
    with false_agent(stale, b"ok\n") as requests:
        refused("an agent that counts times and tells nothing", 1, r"fiberrt-top: .*no JSON at byte", "--once", "--times", stale)
        check("and that need not count any more", requests == [b"times on\n", b"dump json\n", b"times off\n"], str(requests))
    empty.rmdir()
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([TOP, "--once", str(process.pid)], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        check("no room for the text", done.returncode == 1 and "cannot be written" in done.stderr, done.stderr)
    if os.geteuid() != 0:
        print("left out: another user's process, because only root can start one")
        return
    # A user who may read neither the folder of the build nor that of the sockets.
    place = Path("/tmp") / f"fiberrt-top-{os.getpid()}"
    place.mkdir(mode=0o755)
    program = shutil.copy(TOP, place / "fiberrt-top")
    refused("another user's process", 1, rf"fiberrt-top: you may not look at process {process.pid}: .*Try: sudo -u 'root'",
            "--once", process.pid, program=program, user=NOBODY, group=NOBODY, extra_groups=[])  # fmt: skip
    shutil.rmtree(place)


def test_times(process, folder):
    """--times ends with the program."""

    def ask(request):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(folder / f"{process.pid}.sock"))
            client.sendall(request + b"\n")
            return b"".join(iter(lambda: client.recv(65536), b""))

    def counts():
        return b"fiberrt_cord_run_seconds" in ask(b"metrics")

    once = top("--once", "--times", "--interval", "0", process.pid)
    check("--once --times", once.returncode == 0 and not counts(), once.stderr)
    for number in (signal.SIGINT, signal.SIGTERM):
        with subprocess.Popen([TOP, "--once", "--times", "--interval", "60", str(process.pid)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as program:  # fmt: skip
            check("the process counts times", until(counts))
            program.send_signal(number)
            text, _ = program.communicate(timeout=MOST)
        check(f"{number.name} ends --once --times", program.returncode == -number and not text, str(program.returncode))
        check("and the process counts no times any more", not counts())


def test_many(folder):
    with subject(folder, str(MANY)) as process:
        told = json.loads(top("--json", process.pid).stdout)
        check(f"JSON of {MANY:,} fibers", len([f for f in told["fibers"] if f["name"] == "sleeper"]) == MANY)
        lines = top("--once", "--interval", "0", process.pid).stdout.splitlines()
        check(f"--once has {MANY:,} fibers", len([line for line in lines if " sleeper " in line]) == MANY)
        grouped = top("--stacks", process.pid)
        check(f"{MANY:,} equal stacks are one entry", re.search(rf"^{MANY + 2:,} fibers: {SLEEPS} ", grouped.stdout, re.M),
              grouped.stdout)  # fmt: skip


class Screen:
    """A command in a terminal of tmux."""

    made = 0

    def __init__(self, command, width=80, height=24):
        Screen.made += 1
        self.name = f"fiberrt-top-{os.getpid()}-{Screen.made}"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), command,
                  environment={**os.environ, "LC_ALL": "C.UTF-8", "SHELL": "/bin/sh"})  # fmt: skip

    def tmux(self, *arguments, environment=None):
        return subprocess.run(["tmux", "-u", "-L", self.name, *arguments], capture_output=True, text=True, check=True,
                              env=environment, timeout=MOST).stdout  # fmt: skip

    def text(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def shows(self, what, pattern, *options):
        """Whether the screen shows this some time."""
        found = until(lambda: re.search(pattern, self.text(*options), re.M | re.S))
        check(what, found, "" if found else self.text())

    def close(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.tmux("kill-server")


def restored(screen):
    """Whether the two lines of stty are equal."""
    settings = until(lambda: (found := re.findall(r"^[0-9a-f]+:[0-9a-f:]+", screen.text("-J"), re.M))[1:] and found)
    return settings and len(settings) == 2 and settings[0] == settings[1]


def test_screen(folder):
    if not shutil.which("tmux"):
        print("left out: the screen, because tmux is missing")
        return
    if "built without ncurses" in top(os.getpid()).stderr:
        print("left out: the screen, because fiberrt-top was built without ncurses")
        return
    red = r"\x1b\[[0-9;]*\b31m"
    with subject(folder) as process:
        # The terminal's settings before and after, and the exit status.
        show = f"stty -g; '{TOP}' --interval 0.1 {process.pid}; echo \"status $?\"; stty -g; read -r end"
        screen = Screen(show)
        try:
            screen.shows("the screen has the process", rf"^fiberrt-top  process {process.pid}, ")
            screen.shows("the deadlock is red", red + r"[^\n]*DEADLOCK: [^\n]*left -> right", "-e")
            lines = screen.text().splitlines()
            check("80 columns and 24 lines", len(lines) == 24 and max(map(len, lines)) <= 80, "\n".join(lines))
            screen.shows("the keys stand in the last line", r"\nEnter stack .*q quit *\n*\Z")
            screen.keys("w")
            screen.shows("w sorts by waits: fibers in the deadlock come first",
                         r"sorted by waits.* FIBER [^\n]*\n +\d+ (left|right) [^\n]*\n +\d+ (left|right) ")  # fmt: skip
            screen.shows("fibers in the deadlock are red", red + r"[^\n]* (left|right) +(other|\d+) +waiting", "-e")
            screen.keys("s")
            screen.shows("s sorts by stack", r"sorted by stack")
            screen.keys("n", "r")
            screen.shows("n and r sort by name, backwards", r"sorted by name, backwards")
            screen.keys("r")
            screen.keys("/")
            screen.keys("-l", "rightx")
            screen.keys("BSpace", "Enter")
            screen.shows("/ finds a fiber", r"with \"right\".* FIBER [^\n]*\n +\d+ left [^\n]*\n +\d+ right [^\n]*\n\s*\nEnter")
            screen.keys("Home", "Enter")
            screen.shows("Enter shows the stack", r"fiber 0x[0-9a-f]{16} \w+ of cord .*deadlock: .*FRAMES.*take_(left|right)\+")
            screen.keys("Escape")
            screen.shows("Esc goes back", r" FIBER NAME ")
            screen.keys("/", "Escape")
            screen.shows("Esc shows all fibers", r"\A(?!.*with \"right\").* sleeper ")
            screen.keys("?")
            screen.shows("? shows the keys", r"sort by CPU, waits, stack")
            screen.keys("Escape", "i", "End")
            screen.shows("End selects the last fiber", r"\d child [^\n]*\n[^\n]*q quit")
            screen.tmux("resize-window", "-x", "132", "-y", "43")
            screen.shows("a larger terminal has more columns", r"TURNS/S WAITS FOR")
            check("and more lines", len(screen.text().splitlines()) == 43)
            for width, height in ((20, 5), (1, 1), (40, 2), (80, 24)):
                screen.tmux("resize-window", "-x", str(width), "-y", str(height))
                until(lambda size=f"{width} {height}": screen.tmux("display", "-p", "#{pane_width} #{pane_height}") == size + "\n")
            screen.shows("the screen is whole after very small ones", rf"^fiberrt-top  process {process.pid}, .*q quit")
            screen.keys("p")
            screen.shows("p pauses", r"fiberrt [\d.]+, paused")
            screen.keys("q")
            screen.shows("q quits", r"status 0\n")
            check("the terminal is as it was", restored(screen), screen.text())
        finally:
            screen.close()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            screen = Screen(show.replace("stty -g; read", "stty -g; echo end; read"))
            try:
                screen.shows("the screen once more", r"^fiberrt-top  process")
                shell = screen.tmux("display", "-p", "#{pane_pid}").strip()
                program = subprocess.run(["pgrep", "-P", shell, "-x", "fiberrt-top"], capture_output=True, text=True,
                                         check=True).stdout  # fmt: skip
                os.kill(int(program), number)
                screen.shows(f"{number.name} ends it", rf"status {128 + number}\n")
                screen.shows("the shell continues", r"^end$")
                check("and the terminal is as it was", restored(screen), screen.text())
            finally:
                screen.close()
        screen = Screen(show)
        try:
            screen.shows("before the process ends", r"^fiberrt-top  process")
            process.stdin.close()
            process.wait(timeout=MOST)
            screen.shows("the end of the process is told", r"no process listens there; q quits")
            screen.keys("q")
            screen.shows("q quits then, too", r"status 0\n")
        finally:
            screen.close()


def main():
    # Short: the path of a socket has 107 bytes at most.
    sockets = Path("/tmp") / f"fiberrt-top-test-{os.getpid()}"
    sockets.mkdir(mode=0o700)
    try:
        with subject(sockets) as process:
            test_text(process, sockets)
            test_json(process, sockets)
            test_messages(process, sockets)
            test_times(process, sockets)
        test_rates(sockets)
        check("the process removes its socket", not list(sockets.iterdir()), str(list(sockets.iterdir())))
        test_many(sockets)
        test_screen(sockets)
    finally:
        shutil.rmtree(sockets)
    return report()


sys.exit(main())
