# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks of ./dev: how it reads the results of CTest (failed, unsteady, skipped); that its list of packages can be
read; that it finds the sources also through a symbolic link from elsewhere; that it goes on without the tools of a
step, and says so; that all processes that it runs end with it; and that shell scripts say why they are.

Usage: dev_test.py SOURCE FOLDER
"""

import contextlib
import functools
import io
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import unittest.mock
from pathlib import Path

SOURCE, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tools/dev"))
sys.dont_write_bytecode = True
import building
import machine
import processes
import testing
import trying
from ledger import Ledger

PRESETS = """{ "version": 6,
  "configurePresets": [ { "name": "p", "generator": "Ninja", "binaryDir": "${sourceDir}/build" } ],
  "testPresets": [ { "name": "p", "configurePreset": "p" } ] }"""


def result(name: str, *tests: str, names: "tuple[str, ...]" = ()) -> "tuple[bool, Ledger]":
    """The output of run_ctest for a project with these tests, each a line of a shell."""
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = ["cmake_minimum_required(VERSION 3.25)", "project(p NONE)", "enable_testing()"]
    for number, shell in enumerate(tests):
        (folder / f"{number}.sh").write_text(shell + "\n")
        test = names[number] if names else f"t.{number}"
        lines.append(f"add_test(NAME {test} COMMAND sh {folder}/{number}.sh)")
        limit = 2 if "sleep" in shell else 300
        lines.append(f"set_tests_properties({test} PROPERTIES TIMEOUT {limit} SKIP_RETURN_CODE 77)")
    (folder / "CMakeLists.txt").write_text("\n".join(lines) + "\n")
    (folder / "CMakePresets.json").write_text(PRESETS)
    subprocess.run(["cmake", "--preset", "p"], cwd=folder, check=True, capture_output=True)
    building.run = functools.partial(processes.run, cwd=folder)
    ledger = Ledger()
    return building.run_ctest(ledger, "p"), ledger


def check(what: str, holds: bool) -> None:
    if not holds:
        sys.exit(f"FAILED: {what}")
    print(f"ok: {what}")


passed, ledger = result("good", "true", "echo no such thing here; exit 77")
check("tests that pass or skip themselves pass", passed and not ledger.failures)
check("a skipped test is left out with its reason",
      ledger.left_out == ["did not run: t.1 (p), because no such thing here"])  # fmt: skip
passed, ledger = result("unsteady", "test -e $0.ran && exit 0; touch $0.ran; exit 1")
check("a test that fails once passes, and is told of", passed and ledger.unsteady == ["t.0 (p)"])
check("its failure is told of, too", len(ledger.failures) == 1)
passed, ledger = result("bad", "echo why; exit 1")
check("a test that fails each time fails, with its last words", not passed and ledger.failures == ["-- t.0 (p)\nwhy"])
ledger.step("a step", lambda: False)
with unittest.mock.patch("sys.stderr", io.StringIO()) as end, contextlib.suppress(SystemExit):
    ledger.conclude()
check("the end names the failed steps and tests", end.getvalue() == "./dev: failed: a step\n./dev: failed: t.0 (p)\n")
work = "import time\nwhile time.process_time() < 2: pass"
for how in "", " & wait":  # also of the programs that a program runs
    ledger.step("work", lambda how=how: processes.run(["sh", "-c", f"'{sys.executable}' -c '{work}'{how}"]) == 0)
    used = re.search(r"(\d+) s of processors", ledger.ran[-1])
    check("the processors' time of a step is told", used is not None and int(used[1]) >= 2)
passed, ledger = result("every_second", 'echo >>$0.runs; test "$(wc -l <$0.runs)" = 2')
check("a test that passes once and not twice fails", not passed)
first = "test -e $0.ran && exit 0; touch $0.ran; "
check("a crash counts at once", not result("crash", first + "kill -SEGV $$")[0])
check("a hang counts at once", not result("hang", first + "sleep 20")[0])
check(
    "a report of a sanitizer counts at once",
    not result("race", first + "echo SUMMARY: ThreadSanitizer: race; exit 1")[0],
)
check("also next to a test that fails by itself", not result("both", "exit 1", first + "kill -SEGV $$")[0])

case = building.Test(
    "program.3", "run", ["a.cc:3: Skipped", "no ring", "[  SKIPPED ] A.B (0 ms)", "[  PASSED  ] 4 tests."]
)
check(
    "of a program of many tests the skipped ones are told of",
    list(building.skipped(case)) == [("program.A.B", "no ring")],
)
brief = building.Test("program", "run", ["a.cc:3: Skipped", "no ring", "b.cc:4: Skipped", "no root", "", "[  PASSED  ]"])
check("also if GoogleTest is brief",
      list(building.skipped(brief)) == [("program", "no ring"), ("program", "no root")])  # fmt: skip
check("of many tests with one reason the programs",
      list(building.by_reason([(f"p.{n}", "r") for n in range(5)])) == [("5 tests of p", "r")])  # fmt: skip

packages = machine.read_packages()
check("packages.txt can be read", len(packages) > 40)
for package in packages:
    package.here()
check("each package can be looked for", True)

# If the tools of a step are missing, and there is no apt-get to install them, dev names them and goes on: here PATH has
# all programs of this machine except these, and a Python that can make no environment.
bare = FOLDER / "bare"
shutil.rmtree(bare, ignore_errors=True)
bare.mkdir()
absent = re.compile(r"apt-|clang|llvm|qemu-|valgrind$|spin$|wrk$|go$|cargo$|mmdebstrap$|swig$|.*-linux-gnu-g\+\+$|python3$")
for directory in os.environ["PATH"].split(os.pathsep):
    for program in Path(directory).glob("*"):
        if not absent.match(program.name) and not (bare / program.name).is_symlink():
            (bare / program.name).symlink_to(program)
python = bare / "python3"
python.write_text(f'#!/bin/sh\ncase $2 in *venv*) exit 1 ;; esac\nexec {sys.executable} "$@"\n')
python.chmod(0o755)
with unittest.mock.patch.dict(os.environ, PATH=str(bare)):
    ledger = Ledger()
    lacking = machine.provide("test-all", ledger, True)
    told = "\n".join(ledger.left_out)
    for name in ("clang", "clang-format", "valgrind", "spin", "golang-go", "cargo", "qemu-user", "python3-venv",
                 "mmdebstrap"):  # fmt: skip
        check(f"what {name} is for is left out, and told of", name in lacking and f"{name} is missing" in told)
    steps = unittest.mock.MagicMock(ledger=ledger, BACKENDS=())
    # All steps that are tried pass; which ones they are is looked at.
    with unittest.mock.patch.multiple(
        testing, configure_and_build=lambda *_, **__: True, run_ctest=lambda *_, **__: True, has_tests=lambda _: True,
        remembered=lambda _: [],
    ):  # fmt: skip
        testing.test_all(steps)
    ran = "\n".join(ledger.ran)
    check("no step runs without its tools", not re.search("clang|qemu|fuzz|the Python package", ran))
    begun: list[str] = []
    with unittest.mock.patch.multiple(
        testing, run_ctest=lambda *_: bool(begun.append("tests")) or True, tree_state=lambda _: "",
        PASSED=FOLDER / "passed",
    ):  # fmt: skip
        testing.release_steps(steps, [], lambda: begun.append("ahead"))
    check("builds are made ahead from the tests of the release build on", begun == ["ahead", "tests"])
    check("the others do", "ThreadSanitizer" in ran and "three builds" in ran and not ledger.failed_steps)
    passed, ledger = result("toolless", "true", "valgrind true", names=("t", "valgrind.t"))
    check("tests of such a tool are not run", passed and not ledger.failures)
    for test in (
        ["tests/format.sh", "."], ["tests/tidy.sh", ".", FOLDER], ["tests/models/run.sh", "pool", FOLDER / "model"],
        [sys.executable, "tests/httpd_load.py", "httpd", "."],
    ):  # fmt: skip
        said = subprocess.run(test, cwd=SOURCE, capture_output=True, text=True)
        check(f"{' '.join(map(str, test))} skips itself and says why", said.returncode == 77 and "there is no " in said.stdout)
    go = subprocess.run([SOURCE / "bindings/go/test.sh", FOLDER / "go"], capture_output=True, text=True)
    check("the Go package's tests say that there is no Go", go.returncode == 77 and "there is no Go" in go.stdout)
    with unittest.mock.patch.dict(os.environ, CARGO_HOME=str(FOLDER)):
        rust = subprocess.run([SOURCE / "bindings/rust/test.sh", FOLDER / "rust"], capture_output=True, text=True)
    told = "DID NOT RUN: the Rust crates' tests: there is no cargo"
    check("the Rust crates' tests say that there is no cargo", rust.returncode == 77 and told in rust.stdout)

# A shell script says its purpose, and a long one why it is not written in Python or CMake (CONTRIBUTING.md).
listed = machine.output("git", "-C", str(SOURCE), "ls-files", "*.sh").split()
for script in listed:
    lines = (SOURCE / script).read_text().splitlines() if (SOURCE / script).exists() else ["# (deleted)"] * 3
    head = lines[: next((i for i, line in enumerate(lines) if line[:1] != "#"), None)]
    if all(line.startswith(("#!", "# SPDX")) for line in head):
        check(f"{script} begins with a comment that states its purpose", False)
    if len(lines) > 40 and not any(line.startswith("# Shell, because ") for line in head):
        check(f"the head of {script}, which has {len(lines)} lines, says why it is a shell script", False)
check(f"all of {len(listed)} shell scripts state their purpose", True)

# ./dev help lists each command.
listed = subprocess.run(["./dev", "help"], cwd=SOURCE, capture_output=True, text=True).stdout
commands = re.findall(r"^def command_(\w+)", (SOURCE / "tools/dev/__main__.py").read_text(), re.M)
for command in (name.replace("_", "-") for name in commands):
    check(f"./dev help lists {command}", re.search(rf"^  {command}\b", listed, re.M))
check("there are commands", "site" in commands and len(commands) > 10)

# ./dev try: the tests and sources of one primitive, from the source tree as it is.
header, table = ((SOURCE / path).read_text() for path in ("include/fiberrt.h", "tests/sim_sweep.cc"))
names = trying.names_of("semaphore", header)
check("a semaphore is also a sem", names == {"semaphore", "sem"})
check("and a wg a wait group", trying.names_of("wg", header) == {"wg", "waitgroup"})
check("a name begins with a word", trying.has_one("TRAP_ARead", {"read"}) and not trying.has_one("Threads", {"read"}))
rows = trying.rows(table, names)
check("the sweep's rows of a semaphore are found, and no others",
      {"fiber_sem_wait", "fiber_sem_wait_timeout"} <= set(rows) and "fiber_mutex_lock" not in rows)  # fmt: skip
listing = "SemaphoreCancel.\n  A\nMutex.\n  AfterASemaphore\n  B\nPlaces/Sharp.  # TypeParam\n  C/0  # GetParam()\n"
check("scenarios are chosen by their names, and by the suites of a file",
      trying.scenarios(listing, names, {"Sharp"})
      == ["SemaphoreCancel.A", "Mutex.AfterASemaphore", "Places/Sharp.C/0"])  # fmt: skip
check("a word that names nothing chooses nothing", not trying.scenarios(listing, {"nothing"}, set()))
check("the scenarios of a file are found", trying.suites_in_files(names) >= {"Semaphore"})

# Called by a symbolic link from elsewhere, dev works where the sources are.
links = FOLDER / "links"
shutil.rmtree(links, ignore_errors=True)
links.mkdir()
(links / "straight").symlink_to(SOURCE / "dev")
(links / "twice").symlink_to("straight")
for name in ("straight", "twice"):
    traced = subprocess.run(["sh", "-x", links / name, "help"], cwd=links, capture_output=True, text=True)
    check(f"called as {name}, ./dev finds its sources", traced.returncode == 0 and f"+ cd {SOURCE}\n" in traced.stderr)

# A signal ends dev, and all processes that it runs: also those that ninja and ctest started, next to it and in their
# own groups.
folder = FOLDER / "signalled"
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir()
os.mkfifo(folder / "running")
# Each prints its number when it runs; a process is gone when its pidfd can be read.
waits = f"echo $$ >{folder}/running; exec sleep 1000"
(folder / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.25)
project(p NONE)
add_custom_target(waits COMMAND sh -c "{waits}" VERBATIM)
add_custom_target(waits_in_a_group COMMAND timeout 1000 sh -c "{waits}" VERBATIM)
enable_testing()
add_test(NAME waits COMMAND sh -c "{waits}")
""")
subprocess.run(["cmake", "-G", "Ninja", "-S", ".", "-B", "build"], cwd=folder, check=True, capture_output=True)
DEV = f"""
import sys
sys.path.insert(0, {str(SOURCE / "tools/dev")!r})
import processes
processes.set_up()
beside = processes.Lane(True)
beside.add("build", lambda: processes.run(["cmake", "--build", "build", "-t", "waits", "waits_in_a_group", "-j2"]))
beside.begin()
processes.run(["ctest", "--test-dir", "build"])
"""
dev = subprocess.Popen([sys.executable, "-B", "-c", DEV.replace("processes.run(", "processes.run(cwd='.', command=")],
                       cwd=folder, stdout=subprocess.DEVNULL)  # fmt: skip
gone = select.poll()
with open(os.open(folder / "running", os.O_RDWR)) as fifo:
    for _ in range(3):
        gone.register(os.pidfd_open(int(fifo.readline())), select.POLLIN)
check("what dev runs is running", not gone.poll(0))
dev.send_signal(signal.SIGTERM)
check("dev that meets SIGTERM says so by its status", dev.wait() == 128 + signal.SIGTERM)
until = time.monotonic() + 100
while len(gone.poll(0)) < 3 and time.monotonic() < until:
    time.sleep(0.01)
check("and the processes that it started have ended", len(gone.poll(0)) == 3)
