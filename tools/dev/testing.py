# SPDX-License-Identifier: MIT OR Apache-2.0
"""The steps of ./dev test, ./dev test --all and ./dev soak, their order, and the steps that run in parallel."""

import os
from collections.abc import Callable

import building
import machine
import web
from building import configure_and_build, has_tests, run_ctest
from ledger import die
from processes import ROOT, Lane, lines_of, run
from steps import PASSED, Steps, remember, remembered, tree_state


def release_steps(steps: Steps, missing: list[str], between: Callable[[], None] = lambda: None) -> None:
    """Makes the release build and runs its tests; calls `between` in between."""
    ledger, state = steps.ledger, tree_state(missing)
    before = len(ledger.left_out)
    PASSED.unlink(missing_ok=True)
    passed = ledger.step("release build", lambda: steps.build_release("OFF"))
    between()
    if passed:
        passed = ledger.step("the tests of the release build", lambda: run_ctest(ledger, "release"))
    # The state counts only if the sources did not change during the tests.
    if passed and state and state == tree_state(missing):
        remember(state, ledger.left_out[before:])


def missing_for_test() -> list[str]:
    return [package.name for package in machine.missing("test")]


def test(steps: Steps) -> None:
    ledger = steps.ledger
    steps.look_for_io_uring()
    release_steps(steps, missing_for_test())
    ledger.leave_out("clang, the sanitizers, the benchmarks, the longer tests", "they take longer: run ./dev test --all")
    ledger.leave_out("the soak tests", "they run for many minutes: run ./dev soak")
    ledger.conclude()


def crossed() -> list[str]:
    return [arch for arch in machine.CROSS_ARCHS if machine.can_cross(arch)]


def builds_ahead(steps: Steps, presets: list[str], at_once: bool) -> Lane:
    """Returns a lane, not begun yet, that makes the builds of the steps in advance, in their order and at the lowest
    priority."""
    lane = Lane(at_once)
    for preset in presets:
        if preset == "backends":
            lane.add(preset, lambda: all(steps.build_backends(*which, ahead=at_once) for which in steps.BACKENDS))
            continue
        targets = ["fuzz/all"] if preset.startswith("fuzz") else ["all"]
        lane.add(preset, lambda preset=preset, targets=targets: configure_and_build(preset, targets, ahead=at_once))
    return lane


def python_here() -> bool:
    return machine.venv() and machine.python_headers()


def steps_beside(steps: Steps, at_once: bool) -> Lane:
    """Returns a lane of steps that mostly wait. They share no folder with the other steps."""
    lane = Lane(at_once)

    def add(name: str, work: Callable[[], bool]) -> None:
        lane.add(name, lambda: steps.ledger.step(name, work))

    if python_here():
        some = ("test_select", "test_poll", "test_selectors", "test_poplib", "test_ftplib", "test_queue", "test_fileio")
        add("the Python package and its tests", steps.python)
        add("some of CPython's own tests under fiberrt", lambda: steps.python_suites("--jobs", "2", *some))
        loops = [f"test_asyncio.test_{name}" for name in ("events", "sendfile", "server", "streams", "unix_events")]
        add("some of asyncio's own tests on our loop", lambda: steps.python_suites("--loop", "--jobs", "2", *loops))
        add("the Python package with a debug interpreter", steps.python_debug)
        add("the Python package's wheel, source distribution and stubs", lambda: steps.python_package("--all"))
    add("the Go package and its tests", steps.go)
    add("the Rust crates and their tests", steps.rust)
    add("Debian 13: its compiler and libraries, in a chroot", steps.debian_13)
    if machine.venv():
        # The one that differs most from this system's.
        add("musl, by zig's compiler: a sample", lambda: steps.other_libc("musl"))
    lane.begin()
    return lane


def test_all(steps: Steps) -> None:
    ledger = steps.ledger
    steps.look_for_io_uring()
    at_once = (os.cpu_count() or 1) > 1 and not os.environ.get("FIBERRT_ONE_AT_A_TIME")
    needs = {"clang": machine.tool("clang++"), "fuzz": machine.fuzzer(), "fuzz-coverage": machine.llvm_cov()}
    presets = [p for p in ("backends", "clang", "asan", "tsan", "fuzz", "fuzz-coverage") if needs.get(p, True)]
    built = builds_ahead(steps, presets + crossed(), at_once)
    missing = missing_for_test()
    left_out_before = remembered(tree_state(missing))
    if left_out_before is not None:
        ledger.ran.append("before  passed  release build and its tests, on these very sources")
        ledger.left_out += left_out_before
        built.begin()
    else:
        release_steps(steps, missing, built.begin)
    if machine.peer("benchmark/benchmark.h"):
        ledger.step("the benchmarks, briefly", steps.benchmarks)
    beside = steps_beside(steps, at_once)
    if at_once:
        building.wait_for_other_steps = beside.wait
    if has_tests("all"):
        ledger.step("longer tests of the release build", lambda: run_ctest(ledger, "all"))
    ledger.step(
        "without io_uring, without libev, without both: three builds",
        lambda: steps.all_backends(built.result("backends")),
    )
    for preset, name in (
        ("clang", "clang"),
        ("same_trace", "the same traces of simulated runs by gcc and clang"),
        ("asan", "gcc with AddressSanitizer and UndefinedBehaviorSanitizer"),
        ("tsan", "gcc with ThreadSanitizer"),
        ("fuzz", "the fuzz targets, briefly, and with planted bugs"),
        ("fuzz-coverage", "what the corpora of the fuzz targets reach"),
    ):
        if preset == "same_trace" and "clang" in presets:
            ledger.step(name, steps.same_trace)
        elif preset in presets:
            ledger.step(name, lambda preset=preset: steps.tests(preset, built.result(preset)))
    for arch in crossed():
        ledger.step(f"{arch}, under qemu", lambda arch=arch: steps.cross(arch, arch, built.result(arch)))
    beside.wait()
    for preset, used in built.used.items():
        ledger.ran.append(f"        {used:4d} s of processors  built ahead  {preset}")
    for line in lines_of(ROOT / "tests/soak-only.txt"):
        if line and not line.startswith("#"):
            what, _, why = line.partition(": ")
            ledger.leave_out(what, why)
    steps.leave_out_under("ThreadSanitizer", "tests/tsan-leaves-out.txt")
    steps.leave_out_under("Valgrind", "tests/valgrind-leaves-out.txt")
    steps.leave_out_under("musl", "tests/musl-leaves-out.txt")
    ledger.leave_out("the soak tests", "they run for many minutes: run ./dev soak")
    ledger.conclude()


def soak(steps: Steps) -> None:
    ledger = steps.ledger
    steps.look_for_io_uring()
    if not steps.build_release("OFF"):
        die("that did not build")
    if has_tests("soak"):
        ledger.step("soak tests", lambda: run_ctest(ledger, "soak"))
    if python_here():
        ledger.step("all of Python's tests with the wheel", steps.python_package)
        ledger.step("CPython's own tests under fiberrt", steps.soak_python_suites)
        ledger.step("tests of libraries with threads, and our own, in the simulation", steps.python_simulations)
        ledger.step("an hour of load on Django with PostgreSQL", steps.soak_python_load)
    ledger.step("the Go package's tests with the race detector and cgo's checks", lambda: steps.go("--all"))
    ledger.step("the Rust crates, also by miri, by the oldest Rust, and packed", lambda: steps.rust("--all"))
    if steps.refusal or os.uname().machine != "x86_64":
        ledger.leave_out("PLANTED BUGS", "some of them are in the code for io_uring and for x86-64")
    elif not python_here():
        ledger.leave_out("PLANTED BUGS", "python3-venv or python3-dev is missing, which some of their tests need")
    else:
        ledger.step("planted bugs: none that no test finds", steps.mutants)
    if machine.tool("clang++"):
        ledger.step("clang, the whole suite", lambda: steps.preset("clang-whole"))
    ledger.step("gcc with AddressSanitizer, the whole suite", lambda: steps.preset("asan-whole"))
    ledger.step("gcc with ThreadSanitizer, the whole suite", lambda: steps.preset("tsan-whole"))
    if machine.fuzzer():
        ledger.step(
            "the fuzz targets, a minute each, and with planted bugs", lambda: steps.preset("fuzz-whole", "fuzz/all")
        )
    for arch in crossed():
        ledger.step(f"{arch}, under qemu, the whole suite", lambda: steps.cross_whole(arch))
    for libc in steps.LIBCS if machine.venv() else ():
        ledger.step(
            f"{libc}, by zig's compiler: the whole suite", lambda libc=libc: steps.other_libc(libc, "--whole")
        )
    if machine.tool("wrk") and os.access(web.HTTPD, os.X_OK):
        load = ["tests/httpd_load.py", web.HTTPD, "build/release/tests/httpd_load_root", 1000000]
        ledger.step("a million requests to the example web server", lambda: run(load) == 0)
    ledger.conclude()
