# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs CPython's own tests of the modules that fiberrt.monkey patches, with the plain interpreter and under
`python -m fiberrt`. With --loop, runs the tests of asyncio, and those of uvloop, with asyncio's own event loop and with
that of fiberrt.aio. With --gevent, runs the tests of gevent and of packages that use it, with gevent and with
fiberrt.compat.gevent.

Usage: suites.py FOLDER [--loop | --gevent] [TEST-FILE...]: FOLDER is the folder of test.sh, with its environment;
without names, all of FILES, LOOP_FILES or suites_gevent.FILES run. uvloop's files are named uvloop.test_tcp …; its
source distribution is fetched. The interpreter is CPython 3.11; with --loop or --gevent, or for the files of OF_FILES
alone, it may be 3.13. --jobs: the number of files at a time. --list, --tests and --patience are for the script's own
test: another suites.txt, another folder of the package test, the seconds that a test may take. A test differs if it
passes with the plain interpreter and not under fiberrt, also when it runs again. The script ends with 1 if suites.txt
(loops.txt for --loop, gevent.txt for --gevent) does not name a test that differs, names a test that does not differ, or
names more than MOST; with 77 if there is no copy of the tests. That is the interpreter's own, or that of Debian's
package, which is unpacked below FOLDER. Tests that need the network or much memory are left out. Each file runs in its
own process and folder; their output is in FOLDER/suites.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import suites_gevent

FILES = (
    "test_ftplib", "test_poplib", "test_asyncio", "test_socket", "test_select", "test_poll", "test_selectors",
    "test_subprocess", "test_threading", "test_queue", "test_io", "test_fileio",
)  # fmt: skip
LOOP_FILES = (
    *(f"test_asyncio.test_{name}" for name in (
        "base_events", "buffered_proto", "context", "events", "futures", "locks", "pep492", "queues", "runners",
        "selector_events", "sendfile", "server", "sock_lowlevel", "ssl", "sslproto", "streams", "subprocess",
        "taskgroups", "tasks", "threads", "timeouts", "transports", "unix_events", "waitfor",
    )),
    *(f"uvloop.test_{name}" for name in (
        "base", "context", "dns", "executors", "pipes", "process", "regr1", "runner", "signals", "sockets", "tcp", "udp",
        "unix",
    )),
)  # fmt: skip
OF_FILES = ("test_io", "test_fileio")  # under fiberrt, these use its types of files in place of io's
MOST = 30
MOST_OF_GEVENT = 57
PATIENCE_S = 60
HERE = Path(__file__).resolve().parent
LOOP = "FIBERRT_SUITES_LOOP"  # the event loop of a process that runs a file, own or asyncio's; not set: as it is
over = threading.Event()  # when set, running processes are killed

# --- In the process that runs one file
# -----------------------------------------------------------------------------------


def use_loop(which: str) -> None:
    """Replaces asyncio's event loop by ours (which: own). uvloop's tests get the same loop instead of uvloop's."""
    import asyncio

    if which == "own":
        import fiberrt.aio

        class SelectorEventLoop(fiberrt.aio.EventLoop):
            def __init__(self, selector: object = None) -> None:  # a test may choose one
                super().__init__()

        asyncio.SelectorEventLoop = asyncio.unix_events.SelectorEventLoop = SelectorEventLoop
        asyncio.unix_events._UnixDefaultEventLoopPolicy._loop_factory = SelectorEventLoop
        if hasattr(asyncio, "EventLoop"):
            asyncio.EventLoop = SelectorEventLoop
    try:
        import uvloop
    except ImportError:
        return
    uvloop.new_event_loop = uvloop.Loop = asyncio.SelectorEventLoop


def use_files() -> None:
    """Replaces the types of files of io by ours, which fiberrt.monkey does not do: tests call these types."""
    import _io
    import io

    from fiberrt import _files

    for name in ("FileIO", "BufferedReader", "BufferedWriter", "BufferedRandom", "BufferedRWPair", "TextIOWrapper", "open"):
        for module in (io, _io):
            setattr(module, name, getattr(_files, name))


def package_of(module: str) -> str:
    """Returns the name by which Python knows a file of tests."""
    if module in suites_gevent.FILES or module.startswith("gevent."):
        return suites_gevent.package_of(module)
    return "tests." + module.removeprefix("uvloop.") if module.startswith("uvloop.") else f"test.{module}"


def run_file(module: str, told: str, chosen: set[str], but: set[str]) -> None:
    """Runs the chosen tests of a module, except some. Appends lines to the file `told`: the start of a test, its
    result."""
    import unittest

    def tell(name: str, how: str) -> None:
        with open(told, "a") as file:  # not kept open, so that no test uses its descriptor
            file.write(json.dumps([name, how]) + "\n")

    # Background jobs of a shell ignore SIGINT, and the tests of keyboard interrupts would fail in both runs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if suites_gevent.WHICH in os.environ:
        suites_gevent.use(os.environ[suites_gevent.WHICH])
        if suites_gevent.by_pytest(module, tell, chosen, but):
            return tell("", "done")
    else:
        from test import support

        support.use_resources = ["cpu", "subprocess"]
        support.verbose = 0
    if LOOP in os.environ:
        use_loop(os.environ[LOOP])
    elif module in OF_FILES and "fiberrt" in sys.modules:
        use_files()

    class Result(unittest.TextTestResult):
        def tell(self, test: unittest.TestCase, how: str) -> None:
            tell(test.id(), how)

        def startTest(self, test):
            self.tell(test, "begins")
            super().startTest(test)

        def addSuccess(self, test):
            super().addSuccess(test)
            self.tell(test, "passes")

        def addFailure(self, test, err):
            super().addFailure(test, err)
            self.tell(test, "fails")

        def addError(self, test, err):
            super().addError(test, err)
            self.tell(test, "fails")

        def addSubTest(self, test, subtest, err):
            super().addSubTest(test, subtest, err)
            if err is not None:
                self.tell(test, "fails")

        def addSkip(self, test, reason):
            super().addSkip(test, reason)
            self.tell(test, "skips")

        def addExpectedFailure(self, test, err):
            super().addExpectedFailure(test, err)
            self.tell(test, "passes")

        def addUnexpectedSuccess(self, test):
            super().addUnexpectedSuccess(test)
            self.tell(test, "fails")

    def wanted(suite):
        kept = unittest.TestSuite()
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                kept.addTest(wanted(test))
            elif test.id() not in but and (not chosen or test.id() in chosen):
                kept.addTest(test)
        return kept

    suite = wanted(unittest.defaultTestLoader.loadTestsFromName(package_of(module)))
    unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    tell("", "done")


# --- In the main process
# -------------------------------------------------------------------------------------------------


def say(what: str) -> None:
    print(f"suites.py: {what}", flush=True)


def not_to_be_had(why: str) -> None:
    say(f"DID NOT RUN: {why}")
    raise SystemExit(77)


def fetch_uvloop(folder: Path) -> str:
    """Installs uvloop, fetches its source distribution, and returns the folder with its package `tests`."""
    pip, place = folder / "venv/bin/pip", folder / "uvloop"
    if not (place / "tests").exists():
        say("fetching uvloop and its tests")
        place.mkdir(exist_ok=True)
        commands = (
            f"'{pip}' install --only-binary uvloop uvloop aiohttp psutil pyOpenSSL && "
            f"'{pip}' download --no-deps --no-binary uvloop -d . "
            f"\"uvloop == $('{folder}/venv/bin/python' -c 'import uvloop; print(uvloop.__version__)')\" && "
            "tar xf uvloop-*.tar.gz && mv uvloop-*/tests tests"
        )
        done = subprocess.run(["sh", "-c", commands], cwd=place, capture_output=True, text=True)
        if done.returncode != 0:
            not_to_be_had(f"uvloop and its tests cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
    return str(place)


def interpreter_with_tests(folder: Path, versions: Sequence[str]) -> tuple[str, str]:
    """Returns the environment's interpreter, and the folder with its package `test`, or "" if it finds the package
    itself."""
    python = folder / "venv/bin/python"
    if not python.exists():
        not_to_be_had("test.sh has made no environment")
    ask = "import sys, test, fiberrt; print(*sys.version_info[:2]); print(*test.__path__)"
    version, own = subprocess.run([python, "-c", ask], capture_output=True, text=True).stdout.splitlines() or ("", "")
    if version == "":
        not_to_be_had("test.sh has not installed the package, or the interpreter has no module test at all")
    if version not in versions:
        known = " and ".join(versions).replace(" 1", ".1")
        not_to_be_had(f"the list is about CPython {known}, and the interpreter is {version.replace(' ', '.')}")
    if Path(own, "test_socket.py").exists():
        return str(python), ""
    unpacked = folder / "testsuite"
    if not unpacked.exists():
        say("unpacking Debian's libpython3.11-testsuite")
        with tempfile.TemporaryDirectory(prefix="fetching.", dir=folder) as scratch:
            # Files that the package lacks are in the interpreter's own folder.
            commands = (
                "apt-get download libpython3.11-testsuite && dpkg-deb -x *.deb tree && "
                f"cp -R -n '{own}' tree/usr/lib/python3.11/ && mv tree/usr/lib/python3.11 '{unpacked}'"
            )
            done = subprocess.run(["sh", "-c", commands], cwd=scratch, capture_output=True, text=True)
        if done.returncode != 0:
            not_to_be_had(f"there is no copy of CPython's tests: {done.stderr.strip().splitlines()[-1:]}")
    return str(python), str(unpacked)


class Run:
    """The results of the tests of a file with one interpreter."""

    def __init__(self, command: list[str], tests: str, log: Path, patience_s: float, which: dict[str, str]) -> None:
        self._command, self._log, self._patience_s = command, log, patience_s
        self._environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "FIBERRT_DEBUG")}
        if tests:
            self._environment["PYTHONPATH"] = tests
        self._environment |= which
        self._log.write_text("")

    def results(self, module: str, chosen: set[str] = frozenset()) -> dict[str, str]:
        """Runs the tests. If a test hangs or ends the process, that is its result, and a new process runs the
        others."""
        results: dict[str, str] = {}
        while True:
            with tempfile.TemporaryDirectory(prefix="fiberrt.") as place:
                told = Path(place, "told")
                told.touch()
                ended = self._process(module, told, chosen, set(results), place)
                latest = ""
                how = ""
                for name, how in map(json.loads, told.read_text().splitlines()):
                    if how == "begins":
                        latest = name
                    elif name and results.get(name) != "fails":
                        results[name] = how
            if how == "done":
                return results
            if latest == "":
                results[package_of(module)] = f"{ended}, and runs no test"
                return results
            results.setdefault(latest, ended)  # otherwise the process ended after the test

    def _process(self, module: str, told: Path, chosen: set[str], but: set[str], place: str) -> str:
        work = Path(place, "work")
        work.mkdir()
        lists = Path(place, "lists")
        lists.write_text(json.dumps([sorted(chosen), sorted(but)]))
        with open(self._log, "ab") as log:
            process = subprocess.Popen(
                [*self._command, __file__, "--file", module, str(told), str(lists)], cwd=work, env=self._environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
            size, since = 0, time.monotonic()
            try:
                while process.poll() is None:
                    if over.wait(0.05):
                        raise SystemExit
                    if told.stat().st_size != size:
                        size, since = told.stat().st_size, time.monotonic()
                    elif time.monotonic() - since > self._patience_s:
                        return "hangs"
                return f"ends the process with {process.returncode}"
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)  # also ends processes that its tests have left
                except ProcessLookupError:
                    pass
                process.wait()


class Known:
    """The listed differences: the reason for each test, and the tests that do not differ in every run."""

    def __init__(self, path: Path) -> None:
        self.reasons: dict[str, str] = {}
        self.varying: set[str] = set()
        reason = ""
        for line in path.read_text().splitlines():
            if line.startswith("    "):
                name, _, mark = line.strip().partition(" ")
                if mark not in ("", "varies") or not reason or name in self.reasons:
                    raise ValueError(f"{path}: {line!r}")
                self.reasons[name] = reason
                if mark:
                    self.varying.add(name)
            elif line and not line.startswith("#"):
                reason = line


def differ(plain: dict[str, str], patched: dict[str, str]) -> dict[str, str]:
    """Returns the results under fiberrt of the tests that end worse there than with the plain interpreter."""
    good = {"passes": ("passes",), "skips": ("passes", "skips")}
    # If the setup of a class or module has failed, its tests do not run.
    names = [name for name, how in plain.items() if how in good and patched.get(name, "does not run") not in good[how]]
    found = {name: patched.get(name, "does not run") for name in names}
    found |= {name: how for name, how in patched.items() if name not in plain and how not in good}
    return found


def verdict(known: Known, files: Sequence[str], differing: dict[str, str], most: int) -> int:
    """Prints each difference that the list lacks, and each listed one that was not found. Returns 1 if the list is
    wrong."""
    wrong = 0
    for name, how in sorted(differing.items()):
        wrong += name not in known.reasons
        say(f"{name} {how}: {known.reasons.get(name, 'NOT KNOWN')}")
    for name in sorted(known.reasons.keys() - differing.keys()):
        if any(name.startswith(package_of(file) + ".") for file in files):
            wrong += name not in known.varying
            say(
                f"{name} does not differ here: "
                f"{'it varies' if name in known.varying else 'IT IS LISTED, AND MUST NOT BE'}"
            )
    if len(known.reasons) > most:
        wrong += 1
        say(f"the list names {len(known.reasons)} tests, MORE THAN {most}")
    return 1 if wrong else 0


def compare(
    module: str, command: list[str], tests: str, logs: Path, patience_s: float, known: Known, variable: str
) -> tuple[int, dict[str, str]]:
    """Returns the number of tests in a file, and the results under fiberrt of those that differ. variable: LOOP,
    suites_gevent.WHICH or ""."""
    began = time.monotonic()
    which = {variable: "theirs"} if variable else {}
    plain = Run(command, tests, logs / f"{module}.plain", patience_s, which).results(module)
    if "passes" not in plain.values():
        return 0, {package_of(module): "has no test that passes with the plain interpreter"}
    ours = command if variable else [*command, "-m", "fiberrt"]
    run = Run(ours, tests, logs / f"{module}.fiberrt", patience_s, {variable: "own"} if variable else {})
    differing = differ(plain, run.results(module))
    # Run these again, without the others: on a busy machine tests about time may fail.
    again = {name for name in differing if name not in known.reasons and name in plain}
    for name, how in run.results(module, again).items() if again else ():
        if name in again and how == plain[name]:
            say(f"{name} {differing.pop(name)} at first, and not when it runs again")
    say(f"{module}: {len(plain)} tests, {len(differing)} differ, {time.monotonic() - began:.0f} s")
    return len(plain), differing


def main() -> int:
    if sys.argv[1:2] == ["--file"]:
        chosen, but = map(set, json.loads(Path(sys.argv[4]).read_text()))
        run_file(sys.argv[2], sys.argv[3], chosen, but)
        return 0
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--loop", action="store_const", const=LOOP, default="", dest="variable")
    parser.add_argument("--gevent", action="store_const", const=suites_gevent.WHICH, dest="variable")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list", type=Path)
    parser.add_argument("--tests", type=Path)
    parser.add_argument("--patience", type=float, default=PATIENCE_S)
    options = parser.parse_intermixed_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # its child processes end, too
    all_files, listed, most = {
        "": (FILES, "suites.txt", MOST), LOOP: (LOOP_FILES, "loops.txt", MOST),
        suites_gevent.WHICH: (suites_gevent.FILES, "gevent.txt", MOST_OF_GEVENT),
    }[options.variable]  # fmt: skip
    folder, files = options.folder.resolve(), options.files or all_files
    known = Known(options.list or HERE / listed)
    if options.variable == suites_gevent.WHICH:
        python, tests = str(folder / "venv/bin/python"), str(folder / "gevent")
        try:
            suites_gevent.fetch(folder, {file.partition(".")[0] for file in files})
        except OSError as error:
            not_to_be_had(str(error))
    elif options.tests:
        python, tests = str(folder / "venv/bin/python"), str(options.tests)
    else:
        newer = options.variable or {*files} <= {*OF_FILES}
        python, tests = interpreter_with_tests(folder, ("3 11", "3 13") if newer else ("3 11",))
    if any(file.startswith("uvloop.") for file in files):
        tests = ":".join(filter(None, (tests, fetch_uvloop(folder))))
    logs = folder / "suites"
    logs.mkdir(exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            compared = list(
                pool.map(
                    lambda file: compare(file, [python], tests, logs, options.patience, known, options.variable), files
                )
            )
        finally:
            over.set()
    differing = {name: how for _, found in compared for name, how in found.items()}
    say(f"{sum(total for total, _ in compared)} tests, {len(differing)} differ")
    return verdict(known, files, differing, most)


if __name__ == "__main__":
    raise SystemExit(main())
