# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs tests in the simulation, by `pytest --fiberrt-sim`: those of three libraries with threads, and our own tests that
wait.

Usage: simulated_suites.py FOLDER [--seeds N] [NAME...]: FOLDER is the folder of test.sh, with its environment; without
names, all of SUITES run. The source distributions of libraries are fetched, and stay in FOLDER/simulated_suites, where
the output is, too. The script ends with 1 if simulated_suites.txt does not name a test that fails, or names a test that
passes; with 77 if the libraries cannot be fetched. Only files of tests that start threads or fibers run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Suite:
    """Files of tests: our own, or those of a library of the package index."""

    name: str
    version: str  # empty: our own tests
    tests: tuple[str, ...]

    @property
    def switches(self) -> str:
        """Fibers switch at their waits only, and our own tests rely on that."""
        return "lines" if self.version else "waits"


SUITES = (
    Suite(
        "fiberrt", "",
        ("tests/test_fiber.py", "tests/test_locks.py", "tests/test_queues.py", "tests/test_scopes.py"),
    ),
    Suite(
        "fiberrt-more", "",
        ("tests/test_io.py", "tests/test_socket.py", "tests/test_together.py"),
    ),
    Suite("cachetools", "8.0.2", ("tests/test_threading.py",)),
    Suite(
        "dbutils", "3.2.0",
        ("tests/test_pooled_db.py", "tests/test_simple_pooled_db.py", "tests/test_persistent_db.py",
         "tests/test_threading_local.py"),
    ),
    Suite("readerwriterlock", "1.0.10", ("tests/test_rwlock.py",)),
)  # fmt: skip


def say(text: str) -> None:
    print(f"simulated_suites.py: {text}", flush=True)


def fetch(suite: Suite, folder: Path) -> Path:
    """Return the folder of a library's sources. Next to its tests is the library itself, in the folder lib."""
    place = folder / f"{suite.name}-{suite.version}"
    if not (place / "lib").exists():
        say(f"fetching {suite.name} {suite.version}")
        pip, wanted = folder.parent / "venv/bin/pip", f"{suite.name}=={suite.version}"
        commands = (
            f"'{pip}' download -q --no-deps --no-binary :all: {wanted} && tar xzf {suite.name}-*.tar.gz && "
            f"'{pip}' install -q --target '{place}/lib' {suite.name}-*.tar.gz"
        )
        done = subprocess.run(["sh", "-c", commands], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            say(f"DID NOT RUN: {wanted} cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
            raise SystemExit(77)
    return place


def results_of(suite: Suite, folder: Path, seeds: int) -> dict[str, str]:
    """Return how each test ends."""
    place = fetch(suite, folder) if suite.version else HERE
    results = folder / f"{suite.name}.json"
    results.unlink(missing_ok=True)
    command = [
        folder.parent / "venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
        f"--fiberrt-sim={seeds}", f"--fiberrt-switches={suite.switches}", f"--fiberrt-json={results}", *suite.tests,
    ]  # fmt: skip
    with open(folder / f"{suite.name}.log", "w") as log:
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        if suite.version:  # not among the installed packages, so its lines count as the program's
            environment["PYTHONPATH"] = str(place / "lib")
        status = subprocess.run(command, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    if status.returncode not in (0, 1):  # 1: tests fail
        say(f"{suite.name}: PYTEST HAS ENDED WITH {status.returncode}; see {folder}/{suite.name}.log")
        raise SystemExit(1)
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    return {f"{suite.name}: {line['test']}": line["outcome"] for line in lines}


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def known_failures(path: Path) -> dict[str, str]:
    """Return the reason for each test that the list names."""
    known, reason = {}, ""
    for line in path.read_text().splitlines():
        if line.startswith("    "):
            known[line.strip()] = reason
        elif line and not line.startswith("#"):
            reason = line
    return known


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=100)
    options = parser.parse_intermixed_args()
    folder = options.folder.resolve() / "simulated_suites"
    folder.mkdir(exist_ok=True)
    known, wrong = known_failures(HERE / "simulated_suites.txt"), 0
    for suite in SUITES:
        if options.names and suite.name not in options.names:
            continue
        begun, used_before = time.monotonic(), processor_seconds()
        results = results_of(suite, folder, options.seeds)
        failing = {name: how for name, how in results.items() if how not in ("passed", "skipped")}
        used = processor_seconds() - used_before
        say(f"{suite.name}: {len(results)} tests, {len(failing)} fail, {time.monotonic() - begun:.0f} s, "
            f"{used:.0f} s of processors")  # fmt: skip
        for name, how in sorted(failing.items()):
            wrong += name not in known
            say(f"{name} {how}: {known.get(name, 'NOT KNOWN')}")
        for name in sorted(known.keys() - failing.keys()):
            if name.startswith(f"{suite.name}:"):
                wrong += 1
                say(f"{name} passes: IT IS LISTED, AND MUST NOT BE")
        if not results:
            wrong += 1
            say(f"{suite.name} HAS RUN NO TEST; see {folder}/{suite.name}.log")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
