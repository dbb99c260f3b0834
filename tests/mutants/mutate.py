#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plants bugs, one at a time, and lists the bugs that no test finds.

Plants the named mutants, or all, in a copy of the sources below the folder, which may be kept: then only changed files
are built. Ends with 1 if a mutant survived that gives no reason, if one that gives a reason was found, or if a test fails
without any mutant; else with 77 if a test of Python's, Go's or Rust's could not run.

A folder of sources keeps the mutants of its files in its mutants.txt, one record per mutant, with an empty line between
two of them:

    the_next_waiter_is_not_woken
     if (Waiter* next = mutex.claim_first()) {
    -    done.add(next, 0);
    > conformance Mutex*:Cond*

A name; the lines of the change, as in a unified diff without its headers; the tests that should find it, a line each,
after `> `, as Tree.passes takes them. `= reason` says why no test does. The lines are looked for in all sources, blanks
at their ends left aside, so that a function may move to another file. They must be in one place only, else it is an
error: add context.
"""

import argparse
import fnmatch
import os
import pathlib
import signal
import subprocess
import sys

REASONS_MOST = 3
CONFORMANCE = ("conformance", "uring", "ev", "sim")  # the program of all of these
SECONDS = {"python": 900, "go": 900, "rust": 900, "conformance": 600}  # after which a test counts as hung, and the mutant as found
SECONDS_ELSE = 120
LISTS = ("src/*/mutants.txt", "bindings/*/mutants.txt")
ROOTS = {"src": (".cc", ".h", ".S"), "bindings/python/src": (".cc", ".h", ".py"), "bindings/go/fiberrt": (".go",),
         "bindings/rust/fiberrt/src": (".rs",)}  # fmt: skip
REST = ["mutex_test", "run_queue_test", "timers_test", "slots_test", "conformance *", "sim_pool mixed 8 200"]


class Mutant:
    def __init__(self, record, where):
        self.name, self.tests, self.reason, self.change = record[0], [], "", []
        for line in record[1:]:
            if line.startswith("> "):
                self.tests.append(line[2:])
            elif line.startswith("= "):
                self.reason = line[2:]
            elif line[0] in " -+":
                self.change.append(line)
            else:
                sys.exit(f"mutate.py: {where}: mutant {self.name} has a line that belongs to no part: {line}")
        if not self.change or not self.tests:
            sys.exit(f"mutate.py: {where}: mutant {self.name} has no change, or no tests")

    def place(self, sources):
        """The path of the one file with the change's old lines, and its lines with the new ones."""
        old = [line[1:].strip() for line in self.change if line[0] in " -"]
        places = []
        for path, (lines, stripped) in sources.items():
            at = -1
            while old[0] in stripped[at + 1 :]:
                at = stripped.index(old[0], at + 1)
                if stripped[at : at + len(old)] == old:
                    places.append((path, lines, at))
        if len(places) != 1:
            sys.exit(f"mutate.py: mutant {self.name} fits {len(places)} places of the sources, and must fit one.")
        path, lines, at = places[0]
        new = []
        for line in self.change:
            if line[0] == "+":
                new.append(line[1:])
            else:
                new += [lines[at]] if line[0] == " " else []
                at += 1
        return path, lines[: at - len(old)] + new + lines[at:]


def read_lists(source):
    mutants = []
    for path in sorted(path for pattern in LISTS for path in source.glob(pattern)):
        record = []
        for line in path.read_text().splitlines() + [""]:
            if line.startswith("#"):
                continue
            if line:
                record.append(line)
            elif record:
                mutants.append(Mutant(record, path.relative_to(source)))
                record = []
    names = [m.name for m in mutants]
    if twice := {n for n in names if names.count(n) > 1}:
        sys.exit(f"mutate.py: two mutants are called {', '.join(sorted(twice))}.")
    if sum(bool(m.reason) for m in mutants) > REASONS_MOST:
        sys.exit(f"mutate.py: more than {REASONS_MOST} mutants are excused from being found.")
    return mutants


def read_sources(tree):
    """By path: the lines, and the same without blanks at their ends."""
    sources = {}
    for root, suffixes in ROOTS.items():
        for path in sorted((tree / root).rglob("*")):
            if path.suffix in suffixes and not path.name.endswith("_test.go"):
                lines = path.read_text().splitlines()
                sources[path] = (lines, [line.strip() for line in lines])
    return sources


def check(source, conformance):
    """Ends with 1 unless each mutant fits one place, and each filter names tests of the program conformance."""
    sources, names, suite = read_sources(source), [], ""
    listed = subprocess.run([conformance, "--gtest_list_tests"], check=True, text=True, capture_output=True).stdout
    for line in listed.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("  "):
            names.append(suite + name)
        else:
            suite = name
    mutants = read_lists(source)
    for mutant in mutants:
        mutant.place(sources)
        for program, *arguments in map(str.split, mutant.tests):
            filters = arguments[0].split(":") if program in CONFORMANCE else []
            for nothing in [f for f in filters if not fnmatch.filter(names, f)]:
                sys.exit(f"mutate.py: the filter {nothing} of mutant {mutant.name} names no test.")
    print(f"{len(mutants)} mutants, {len(names)} tests")


def copy_tree(source, tree):
    """The files that git tracks or would add; unchanged files keep their times, so that they are not built again."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=source, check=True, text=True,
                            capture_output=True).stdout.splitlines()
    listed = {name for name in listed if (source / name).is_file() or (source / name).is_symlink()}
    for old in [p for p in tree.rglob("*") if p.is_file() or p.is_symlink()]:
        name = str(old.relative_to(tree))
        if name not in listed and not name.startswith("build/"):
            old.unlink()
    for name in listed:
        to = tree / name
        if (source / name).is_symlink():  # which may lead to a directory
            to.unlink(missing_ok=True)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.symlink_to(os.readlink(source / name))
            continue
        data = (source / name).read_bytes()
        if not to.exists() or to.read_bytes() != data:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(data)
            to.chmod((source / name).stat().st_mode)


def run(command, cwd, seconds=None, env=None):
    """The exit status, or "hung" after so many seconds. The processes that it started end with it."""
    with open(cwd / "build/mutate.log", "a") as log:
        print("$", *command, file=log, flush=True)
        process = subprocess.Popen(command, cwd=cwd, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = "hung"
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        print("=", status, file=log, flush=True)
    return status


class CannotRun(Exception):
    """A test lacks a tool."""


def is_simulated(program):
    """Whether it runs under fiberrt-sim; sim_test starts its simulations itself."""
    return program.startswith("sim_") and program != "sim_test"


class Tree:
    def __init__(self, source, folder):
        self.path, self.build = folder / "tree", folder / "tree/build/release"
        self.path.mkdir(parents=True, exist_ok=True)
        copy_tree(source, self.path)
        (self.path / "build").mkdir(exist_ok=True)
        (self.path / "build/mutate.log").unlink(missing_ok=True)
        self.folder = folder
        cache = [] if (self.build / "CMakeCache.txt").exists() else ["-DCMAKE_LINK_DEPENDS_NO_SHARED=ON"]
        options = ["-DFIBERRT_TESTS=ON", "-DFIBERRT_EXAMPLES=ON", *cache]
        if run(["cmake", "--preset", "release", *options], self.path) != 0:
            sys.exit(f"mutate.py: the copy could not be configured: see {self.path}/build/mutate.log")
        self.sources = read_sources(self.path)

    def compile(self, targets):
        return run(["cmake", "--build", "build/release", "--target", "fiberrt", *sorted(targets)], self.path) == 0

    def passes(self, test):
        """Whether the test passes: `PROGRAM ARGUMENT...`; `conformance FILTER`, on each backend; `python`, `go`,
        `rust`.
        `on BACKEND` before a program: with FIBERRT_BACKEND.

        A program sim_* runs under 100 seeds; its argument faults=N goes to fiberrt-sim.
        """
        program, *arguments = test.split()
        env, commands = dict(os.environ), []
        if program == "on":
            env["FIBERRT_BACKEND"], program, *arguments = arguments
        if program == "python":
            commands = [(["bindings/python/test.sh", str(self.folder / "python"), "-x", *arguments], {})]
        elif program == "go":
            env["FIBERRT_BUILD"] = str(self.build)
            commands = [(["bindings/go/test.sh", str(self.folder / "go"), *arguments], {})]
        elif program == "rust":
            commands = [(["bindings/rust/test.sh", str(self.folder / "rust"), *arguments], {})]
        elif program in CONFORMANCE:
            for backend in ("sim", "ev", "uring") if program == "conformance" else (program,):
                command = ["build/release/tests/conformance", f"--gtest_filter={arguments[0]}", "--gtest_fail_fast"]
                command += ["--seeds", "1-3"] if backend == "sim" else []
                commands.append((command, {"FIBERRT_BACKEND": backend}))
        elif is_simulated(program):
            faults = [word[len("faults=") :] for word in arguments if word.startswith("faults=")] or ["0"]
            arguments = [word for word in arguments if not word.startswith("faults=")]
            commands = [(["build/release/fiberrt-sim", "--seeds", "1-100", "--timeout", "60", "--faults", faults[0], "--",
                          f"build/release/tests/{program}", *arguments], {})]
        else:
            commands = [([f"build/release/tests/{program}", *arguments], {})]
        for command, more in commands:
            status = run(command, self.path, SECONDS.get(program, SECONDS_ELSE), env | more)
            if status == 77 and program in ("python", "go", "rust"):
                raise CannotRun(program)
            if status != 0:
                return False
        return True


def program_of(test):
    """The target of a test that CMake builds."""
    words = test.split()
    program = words[2] if words[0] == "on" else words[0]
    if program in ("python", "go", "rust"):
        return {"src/all"}  # Go's tests install the library
    if is_simulated(program):
        return {program, "fiberrt_sim"}
    return {"conformance" if program in CONFORMANCE else program}


def finder(tree, mutant, quick):
    """The test that finds the mutant; None: it survives."""
    path, lines = mutant.place(tree.sources)
    whole = path.read_text()
    rest = [] if quick or "bindings" in path.parts else REST
    try:
        path.write_text("\n".join(lines) + "\n")
        for tests in (mutant.tests, [test for test in rest if test not in mutant.tests]):
            if not tree.compile(set().union(*map(program_of, tests))):
                return "the compiler"
            for test in tests:
                if not tree.passes(test):
                    return test
    finally:
        path.write_text(whole)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path, help="the folder of the sources")
    parser.add_argument("folder", type=pathlib.Path, nargs="?", help="where the copy of the sources is made and built")
    parser.add_argument("names", nargs="*", metavar="name", help="a mutant; all of them if none is named")
    parser.add_argument("--quick", action="store_true", help="a mutant meets only the tests that its record names")
    parser.add_argument("--check", metavar="CONFORMANCE",
                        help="plant nothing: whether each mutant has its place, and its scenarios are in this program")  # fmt: skip
    arguments = parser.parse_intermixed_args()
    source, names, quick = arguments.source.resolve(), arguments.names, arguments.quick
    if arguments.check:
        return check(source, arguments.check)
    if not arguments.folder:
        parser.error("the folder is missing")
    folder = arguments.folder.resolve()
    mutants = read_lists(source)
    if unknown := set(names) - {m.name for m in mutants}:
        sys.exit(f"mutate.py: there is no mutant {', '.join(sorted(unknown))}.")
    tree = Tree(source, folder)
    for mutant in mutants:
        mutant.place(tree.sources)
    if names:
        mutants = [m for m in mutants if m.name in names]
    used, bad, lacking = set(), [], set()
    for number, mutant in enumerate(mutants, 1):
        try:
            found_by = finder(tree, mutant, quick)
        except CannotRun as error:
            print(f"[{number}/{len(mutants)}] {mutant.name}: NOT TRIED: the tests of {error} cannot run here", flush=True)
            lacking.add(str(error))
            continue
        used.add(found_by)
        print(f"[{number}/{len(mutants)}] {mutant.name}: {'found by ' + found_by if found_by else 'SURVIVES'}", flush=True)
        if found_by == "the compiler":
            bad.append(f"{mutant.name} does not compile, and so says nothing")
        elif found_by and mutant.reason:
            bad.append(f"{mutant.name} is found: take its reason away")
        elif not found_by and not mutant.reason:
            bad.append(f"{mutant.name} survives")
        elif not found_by:
            print(f"    because {mutant.reason}")
    # A test that fails by itself has found nothing.
    tests = sorted(used - {None, "the compiler"})
    if not tree.compile(set().union(*map(program_of, tests))):
        bad.append("the sources do not build without a mutant")
    bad += [f"this test fails without a mutant: {test}" for test in tests if not tree.passes(test)]
    print(f"{len(mutants)} mutants", *bad, sep="\n")
    if lacking:
        print(f"mutate.py: DID NOT RUN: the tests of {' and '.join(sorted(lacking))}: see {tree.path}/build/mutate.log")
    sys.exit(1 if bad else 77 if lacking else 0)


if __name__ == "__main__":
    main()
