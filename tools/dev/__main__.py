# SPDX-License-Identifier: MIT OR Apache-2.0
"""The commands of ./dev. `./dev help` lists them."""

import json
import os
import re
import sys
import time

import fetched
import machine
import testing
import trying
import web
from building import BUILD, configure_and_build, run_ctest, tests_if_possible
from ledger import Ledger, die, note, say
from processes import ROOT, SCRATCH, run, set_up
from steps import RELEASE, Steps

FUZZ_TARGETS = ("runqueue", "switch", "waiting", "timers", "handles", "stack_pool", "io", "api", "httpd", "inbox")

ledger = Ledger()
steps = Steps(ledger)
yes = False


def provide(command: str) -> list[str]:
    return machine.provide(command, ledger, yes)


def build(preset: str, targets: list[str], *options: str) -> None:
    if not configure_and_build(preset, targets, *options):
        die("that did not build")


def end_with(status: int) -> None:
    if status != 0:
        sys.exit(status)


# --- To test --------------------------------------------------------------------------------------------------------


def command_soak() -> None:
    provide("soak")
    testing.soak(steps)


def command_try(*arguments: str) -> None:
    if len(arguments) != 1 or not arguments[0]:
        die("try takes one name, of a primitive or a call, such as semaphore; see ./dev help")
    provide("try")
    trying.run_it(steps, arguments[0])


def command_coverage() -> None:
    provide("coverage")
    steps.look_for_io_uring()
    say("building with gcc, to count lines")
    build("coverage", ["all"])
    for counts in (BUILD / "coverage").rglob("*.gcda"):
        counts.unlink()
    ledger.step("the tests, counted", lambda: run_ctest(ledger, "coverage"))
    ledger.leave_out("stacks_test, httpd_test", "the counters make system calls and open files, which these tests forbid")
    report = ["tests/coverage/report.py", ".", "build/coverage", 93]
    ledger.step("which lines were reached", lambda: run(report) == 0)
    ledger.conclude()


def command_structure() -> None:
    provide("structure")
    say("building the library")
    build("release", ["fiberrt_objects"], tests_if_possible())
    objects = sorted((RELEASE / "src/CMakeFiles/fiberrt_objects.dir").rglob("*.o"))
    end_with(run(["python3", "tests/structure.py", ".", "nm", *objects]))


def command_fuzz(*arguments: str) -> None:
    rest, chosen, seconds = list(arguments), list(FUZZ_TARGETS), 60
    takes = f"fuzz takes a target ({' '.join(FUZZ_TARGETS)}) and a number of seconds, not"
    if rest and rest[0] in FUZZ_TARGETS:
        chosen = [rest.pop(0)]
    if rest and rest[0]:
        if not re.fullmatch("[0-9]+", rest[0]) or rest[0] == "0":
            die(f"{takes} {rest[0]}")
        seconds = int(rest.pop(0))
    if rest:
        die(f"{takes} {' '.join(rest)}")
    provide("fuzz")
    say("building the fuzz targets")
    build("fuzz", [f"fuzz_{target}" for target in chosen])
    for target in chosen:
        say(f"{target}, for {seconds} seconds")
        # The fuzzer keeps its inputs there, and the next run begins with them.
        found = f"build/fuzz/found/{target}"
        if run(["fuzz/run.sh", f"build/fuzz/fuzz/fuzz_{target}", f"fuzz/corpus/{target}", found, seconds]) != 0:
            die(f"{target} has found a defect")
    note("The inputs found are under build/fuzz/found; fuzz/README.md says how to add them to the corpora.")


# --- To see, to measure, to build ------------------------------------------------------------------------------------


def command_demo() -> None:
    provide("demo")
    say("building the library and the example web server")
    build("release", ["example_httpd", "fiberrt-doctor"], tests_if_possible(), "-DFIBERRT_EXAMPLES=ON")
    tell_limits()
    tell_left_out()
    web.demo()


def command_build() -> None:
    provide("build")
    build("release", ["src/all", "tools/all", "examples/all"], tests_if_possible())
    say("built in build/release")
    tell_limits()


def tell_left_out() -> None:
    for line in ledger.left_out:
        note(line)


def tell_limits() -> None:
    """Prints why there is no io_uring here and the list of limits, as fiberrt-doctor finds them; nothing without
    limits."""
    doctor = "build/release/tools/fiberrt-doctor"
    shown, limits = False, []
    for line in machine.output(doctor).splitlines():
        if line and not line.startswith(" "):
            shown = line.startswith(("limited  io_uring ", "Limited: "))
        if shown:
            limits.append(line)
    if limits:
        say("about this machine")
        for line in limits:
            note(line)
        note(f"{doctor} prints the whole report.")


def command_bench(*arguments: str) -> None:
    provide("bench")
    fetched.provide_peers(ledger)
    say("building the benchmarks")
    build("bench", ["all"])
    if any(argument.startswith("python") for argument in arguments):
        say("building the Python package, fetching its peers")
        if not fetched.provide_python_peers(BUILD / "bench/python"):
            die("that did not build")
    tell_left_out()
    os.chdir(os.environ.get("FIBERRT_DEV_FROM", "."))  # names of files are relative to the user's folder
    sys.exit(run(["python3", ROOT / "bench/run.py", "--build-dir", BUILD / "bench", *arguments], cwd="."))


def command_abi_record() -> None:
    provide("abi-record")
    say("building the library")
    build("release", ["src/all"], tests_if_possible())
    compilers = "".join(path.read_text() for path in RELEASE.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"))
    if 'set(CMAKE_CXX_COMPILER_ID "GNU")' not in compilers or os.uname().machine != "x86_64":
        die("abi/ has the interface of x86-64, as gcc describes it")
    kept, before = ROOT / "abi/libfiberrt-x86_64.abi", SCRATCH / "before.abi"
    before.write_text(kept.read_text() if kept.exists() else "")
    if run(["tests/abi/record.sh", "build/release/libfiberrt.so.1", "include", kept.with_suffix("")]) != 0:
        die("it could not be read")
    if not before.stat().st_size:
        note("abi/ had no record; now it has one.")
        return
    status = run(["tests/abi/record.sh", "--compare", before, kept])
    if status > 1:
        die("the records could not be compared")
    if status == 0:
        # The order of a record depends on the build folder and has no meaning, so a change of the order only is undone.
        kept.write_text(before.read_text())
        note("Nothing has changed: abi/ stays as it was.")
    else:
        note("These are the changes; docs/abi.md says which are allowed. (git diff abi also shows a changed order.)")


def command_manual() -> None:
    provide("manual")
    run(["rm", "-rf", "build/manual"])
    manual = ["python3", "docs/manual/manual.py"]
    for what, folder in (("pages", "man"), ("html", "html")):
        if run([*manual, what, "include/fiberrt.h", f"build/manual/{folder}"]) != 0:
            die("the manual could not be made")
    if run([*manual, "check", "include/fiberrt.h"]) != 0:
        die("the manual has mistakes")
    note("to read it: man -l build/manual/man/man7/fiberrt.7, or build/manual/html/index.html")


def command_site() -> None:
    provide("site")
    if run(["python3", "tools/site/build.py", "build/site", "build/site-tools"]) != 0:
        die("the site could not be made")
    note("to read it: python3 -m http.server --bind 127.0.0.1 --directory build/site")


def command_mutate(*arguments: str) -> None:
    sys.exit(run(["python3", "tests/mutants/mutate.py", ".", "build/mutate", *arguments]))


# --- To publish ------------------------------------------------------------------------------------------------------


def make_wheel() -> int:
    if not testing.python_here():
        die("that needs python3 with its venv and its headers")
    status = run(["bindings/python/package.sh", BUILD / "wheel"])
    for path in sorted((BUILD / "wheel/dist").glob("*")) if status == 0 else []:
        note(str(path.relative_to(ROOT)))
    return status


def command_wheel() -> None:
    provide("wheel")
    end_with(make_wheel())


def make_amalgamation() -> int:
    status = run(["python3", "-B", "tools/amalgamate", BUILD / "amalgamation", BUILD])
    if status == 0:
        note("build/amalgamation has the library as one file; README.md there says how to compile it")
    return status


def command_amalgamate() -> None:
    end_with(make_amalgamation())


def make_debs() -> int:
    status = run(["debian/packages.sh", "build/deb"])
    for path in sorted((BUILD / "deb/one").glob("*.deb")) if status == 0 else []:
        if "-dbgsym_" not in path.name:
            note(str(path.relative_to(ROOT)))
    return status


def command_deb() -> None:
    provide("deb")
    end_with(make_debs())


def make_release() -> None:
    # 77 as well: nothing may be left out of a release
    if run(["python3", "-B", "tools/release", "build/publish"]) != 0:
        die("this must not be released")


def command_release() -> None:
    provide("release-check")
    make_release()


def command_release_check() -> None:
    provide("release-check")
    say("the files of the release, twice")
    make_release()
    say("the steps of a new user")
    made, = (path.parent for path in (BUILD / "publish").glob("*/SHA256SUMS"))
    if run(["debian/release.sh", "build/release-check", made, made, made]) != 0:
        die("this must not be released")
    say("the C libraries of other systems, a sample of the conformance suite")  # 77 as well, as above
    steps.look_for_io_uring()
    if not all(steps.other_libc(libc) for libc in ("musl", "glibc-2.28")) or steps.ledger.left_out:
        die("this must not be released")
    say("the recipes for other systems")
    if run(["python3", "tests/recipes.py", ".", "build/recipes"]) != 0:
        die("this must not be released")  # 77 as well: nothing may be left out here
    say("the packages of Debian 13 and unstable")  # 77 as well: nothing may be left out here
    for release in ("trixie", "unstable"):
        if run(["debian/other_release.sh", release, f"build/debian-{release}", "packages"]) != 0:
            die("this must not be released")


# --- The command line ------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> None:
    global yes
    yes = "-y" in arguments
    arguments = [argument for argument in arguments if argument != "-y"]
    command, rest = arguments[0], arguments[1:]
    if command == "test":
        if rest not in ([], ["--all"]):
            die(f"test takes --all or nothing, not {' '.join(rest)}")
        provide("test-all" if rest else "test")
        begun = time.monotonic()
        (testing.test_all if rest else testing.test)(steps)
        seconds = BUILD / "seconds.json"  # the time of the last run that passed, for ./dev structure
        known = json.loads(seconds.read_text()) if seconds.exists() else {}
        known[" ".join([command, *rest])] = int(time.monotonic() - begun)
        seconds.write_text(json.dumps(known) + "\n")
    elif command == "go-module":
        if len(rest) != 1:
            die("go-module takes one path; see ./dev help")
        sys.exit(run(["bindings/go/module.sh", *rest, BUILD / "go-module", BUILD / "go/downloads"]))
    elif command in ("mutate", "fuzz", "bench", "try"):
        {"mutate": command_mutate, "fuzz": command_fuzz, "bench": command_bench, "try": command_try}[command](*rest)
    else:
        if rest:
            die(f"{command} takes no arguments; see ./dev help")
        globals()["command_" + command.replace("-", "_")]()


set_up()
main(sys.argv[1:])
