# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the tests of three libraries with threads in the simulation: `pytest --fiberrt-sim`.

Usage: simulated_suites.py FOLDER [--seeds N] [NAME...]: FOLDER is the folder of test.sh, with its environment; without
names, all of LIBRARIES run. Their source distributions are fetched, and stay in FOLDER/simulated_suites, where the
output is, too. The script ends with 1 if simulated_suites.txt does not name a test that fails, or names a test that
passes; with 77 if the libraries cannot be fetched. Only files of tests that start threads run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Library:
    """A library of the package index, and its files of tests."""

    name: str
    version: str
    tests: tuple[str, ...]


LIBRARIES = (
    Library("cachetools", "8.0.2", ("tests/test_threading.py",)),
    Library(
        "dbutils", "3.2.0",
        ("tests/test_pooled_db.py", "tests/test_simple_pooled_db.py", "tests/test_persistent_db.py",
         "tests/test_threading_local.py"),
    ),
    Library("readerwriterlock", "1.0.10", ("tests/test_rwlock.py",)),
)  # fmt: skip


def say(text: str) -> None:
    print(f"simulated_suites.py: {text}", flush=True)


def fetch(library: Library, folder: Path) -> Path:
    """Return the folder of a library's sources. Next to its tests is the library itself, in the folder lib."""
    place = folder / f"{library.name}-{library.version}"
    if not (place / "lib").exists():
        say(f"fetching {library.name} {library.version}")
        pip, wanted = folder.parent / "venv/bin/pip", f"{library.name}=={library.version}"
        commands = (
            f"'{pip}' download -q --no-deps --no-binary :all: {wanted} && tar xzf {library.name}-*.tar.gz && "
            f"'{pip}' install -q --target '{place}/lib' {library.name}-*.tar.gz"
        )
        done = subprocess.run(["sh", "-c", commands], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            say(f"DID NOT RUN: {wanted} cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
            raise SystemExit(77)
    return place


def results_of(library: Library, folder: Path, seeds: int) -> dict[str, str]:
    """Return how each test ends."""
    place = fetch(library, folder)
    results = folder / f"{library.name}.json"
    results.unlink(missing_ok=True)
    # The library is not among the installed packages, so its lines count as the program's.
    command = [
        folder.parent / "venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--fiberrt-sim={seeds}",
        "--fiberrt-switches=lines", f"--fiberrt-json={results}", *library.tests,
    ]  # fmt: skip
    with open(folder / f"{library.name}.log", "w") as log:
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(place / "lib")}
        subprocess.run(command, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    return {f"{library.name}: {line['test']}": line["outcome"] for line in lines}


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
    for library in LIBRARIES:
        if options.names and library.name not in options.names:
            continue
        begun = time.monotonic()
        results = results_of(library, folder, options.seeds)
        failing = {name: how for name, how in results.items() if how not in ("passed", "skipped")}
        say(f"{library.name}: {len(results)} tests, {len(failing)} fail, {time.monotonic() - begun:.0f} s")
        for name, how in sorted(failing.items()):
            wrong += name not in known
            say(f"{name} {how}: {known.get(name, 'NOT KNOWN')}")
        for name in sorted(known.keys() - failing.keys()):
            if name.startswith(f"{library.name}:"):
                wrong += 1
                say(f"{name} passes: IT IS LISTED, AND MUST NOT BE")
        if not results:
            wrong += 1
            say(f"{library.name} HAS RUN NO TEST; see {folder}/{library.name}.log")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
