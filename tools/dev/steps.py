# SPDX-License-Identifier: MIT OR Apache-2.0
"""The steps of ./dev test, ./dev test --all and ./dev soak: each a function that returns whether it passed."""

import hashlib
import os
import re
import subprocess
from pathlib import Path

import machine
from building import BUILD, configure_and_build, run_ctest
from ledger import Ledger, die, note, show
from processes import ROOT, SCRATCH, environment, lines_of, run

RELEASE = BUILD / "release"
DID_NOT_RUN = 77


class Steps:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.refusal = ""  # why the kernel refuses io_uring

    def leave_out_listed(self, path: Path) -> None:
        """Notes the left-out tests of a file. Each line has a name, a tab, and a reason."""
        for line in dict.fromkeys(lines_of(path)):
            what, _, why = line.partition("\t")
            self.ledger.leave_out(what, why)

    def leave_out_under(self, tool: str, path: str) -> None:
        """Notes the tests that do not run under a tool, from a list of names and reasons."""
        for line in lines_of(ROOT / path):
            if line and not line.startswith("#"):
                name, _, reason = line.partition(" ")
                self.ledger.leave_out(f"{name} under {tool}", reason.strip())

    def ran(self, status: int, what: str, why: str) -> bool:
        """Returns whether a script passed. Notes it as left out if its status is 77: it could not run."""
        if status == DID_NOT_RUN:
            self.ledger.leave_out(what, why)
        return status in (0, DID_NOT_RUN)

    def look_for_io_uring(self) -> None:
        """If io_uring is refused, notes that its own tests are left out; the others run on libev."""
        probe = SCRATCH / "io_uring_probe"
        if run([*machine.compiler("CC", "cc"), "-o", probe, "tests/io_uring_probe.c"]) != 0:
            die("the probe for io_uring does not compile")
        found = subprocess.run([probe], stdout=subprocess.PIPE, text=True)
        self.refusal = found.stdout.strip() if found.returncode else ""
        if found.returncode:
            self.ledger.leave_out("the tests on io_uring", f"{self.refusal}: they ran on libev")

    # --- The release build ------------------------------------------------------------------------------------------

    def build_release(self, bench: str) -> bool:
        return configure_and_build(
            "release", ["all"], "-DFIBERRT_TESTS=ON", "-DFIBERRT_EXAMPLES=ON", f"-DFIBERRT_BENCH={bench}",
            f"-DFIBERRT_PEERS_DIR={machine.PEERS}",
        )  # fmt: skip

    def benchmarks(self) -> bool:
        return self.build_release("ON") and run_ctest(self.ledger, "release", "--tests-regex", "^bench_smoke")

    # --- Presets ----------------------------------------------------------------------------------------------------

    def tests(self, preset: str, built: bool) -> bool:
        return built and run_ctest(self.ledger, preset)

    def preset(self, preset: str, target: str = "all") -> bool:
        return self.tests(preset, configure_and_build(preset, [target]))

    def same_trace(self) -> bool:
        """Compares traces of the same seeds between the builds of gcc and clang."""
        programs = [RELEASE / "tests/sim_workload", BUILD / "clang/tests/sim_workload"]
        return run(["tests/same_trace.sh", 20, *programs]) == 0

    def cross(self, arch: str, preset: str, built: bool) -> bool:
        if not self.tests(preset, built):
            return False
        version = re.sub(r" version ([0-9.]*).*", r" \1", machine.output(f"qemu-{arch}", "--version").split("\n")[0])
        note(f"The tests of {arch} ran under {version}: no such processor took part.")
        if not (BUILD / "cross" / arch / "lib/libev.a").exists():  # cmake/cross_libev.cmake has said why
            self.ledger.leave_out(f"THE TESTS OF I/O ON {arch}", "the sources of libev could not be fetched or compiled")
        for line in lines_of(ROOT / "tests/qemu-leaves-out.txt"):
            if line and not line.startswith("#"):
                what, _, why = line.partition(": ")
                self.ledger.leave_out(f"{what} ({arch})", why)
        return True

    def cross_whole(self, arch: str) -> bool:
        return self.cross(arch, f"{arch}-whole", configure_and_build(f"{arch}-whole", ["all"]))

    # --- Three builds without a backend -----------------------------------------------------------------------------

    def build_backends(self, uring: str, ev: str, ahead: bool) -> bool:
        tree = BUILD / f"backends/uring-{uring}-ev-{ev}"
        log = tree.with_suffix(".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("")
        configure = ["cmake", "--preset", "release", "-B", tree, f"-DFIBERRT_WITH_URING={uring}",
                     f"-DFIBERRT_WITH_EV={ev}", "-DFIBERRT_TESTS=ON", "-DFIBERRT_EXAMPLES=OFF", "-DFIBERRT_BENCH=OFF",
                     # The tests do not depend on it, and it compiles in a fifth of the time.
                     "-DFIBERRT_UNITY=ON", "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1",
                     "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1"]  # fmt: skip
        build = [
            "cmake",
            "--build",
            tree,
            "--target",
            "fiberrt",
            "fiberrt_archive",
            "fiberrt_posix",
            "backend_selection_test",
            "io_refused_test",
            "deny_uring",
        ]
        if all(run(command, log=log, ahead=ahead) == 0 for command in (configure, build)):
            return True
        show(log.read_text(errors="replace"))
        return False

    def backends(self, uring: str, ev: str) -> bool:
        """Tests a little: runs a quarter of the scenarios of the release build with the library of that build."""
        tree = BUILD / f"backends/uring-{uring}-ev-{ev}"
        some = "^(backend_selection_test|io_refused_test.EPERM|abi.check_symbols)"
        ctest = ["ctest", "--test-dir", tree, "--output-on-failure", "--no-tests=error", "-j", 2]
        if run([*ctest, "--exclude-regex", "refused$", "--tests-regex", some]) != 0:
            return False
        if uring == ev == "OFF":
            return True
        env = {"LD_LIBRARY_PATH": tree}
        ldd = ["ldd", str(RELEASE / "tests/conformance")]
        linked = subprocess.run(ldd, env=environment(env), capture_output=True, text=True).stdout
        if f"=> {tree}/libfiberrt.so" not in linked:
            show(linked)
            return False
        return run_ctest(self.ledger, "release", "--tests-regex", r"^conformance\.[12]$", env=env)

    def all_backends(self, built: bool) -> bool:
        return built and all(self.backends(uring, ev) for uring, ev in self.BACKENDS)

    BACKENDS = (("ON", "OFF"), ("OFF", "ON"), ("OFF", "OFF"))

    # --- Other languages, another release of Debian -----------------------------------------------------------------

    def python(self) -> bool:
        env = {
            "FIBERRT_HTTPD": RELEASE / "examples/httpd",
            "FIBERRT_SIM": RELEASE / "fiberrt-sim",
            "FIBERRT_UNITY": "ON",
        }
        status = run(["bindings/python/test.sh", BUILD / "python"], env)
        self.leave_out_listed(BUILD / "python/left_out")
        if status == 0 and not self.python_simulations("fiberrt", "--seeds", "50"):
            return False
        if status == 0 and os.access(RELEASE / "bench/echo_load", os.X_OK):
            return self.python_benchmarks()
        return self.ran(status, "THE PYTHON PACKAGE AND ITS TESTS",
                        "their packages could not be fetched; see build/python/pip.log")  # fmt: skip

    def python_benchmarks(self) -> bool:
        """Runs the benchmarks of the Python package as briefly as possible, to see that each gives figures."""
        names = ["python-yield", "python-spawn", "python-memory", "python-echo"]
        told = ["--subjects", "fiberrt", "--svg-dir", "build/python"]
        figures, log = "build/python/bench.json", BUILD / "python/bench.log"
        tools = ["--build-dir", "build/release", "--python", "build/python/venv/bin/python"]
        briefly = ["--repetitions", 5, "--min-time", "0.001", "--json", figures]
        measure = ["python3", "bench/run.py", *tools, *briefly, *told, *names]
        log.write_text("")
        if run(measure, log=log) == 0 and run(["python3", "bench/check_json.py", figures, *names, *told], log=log) == 0:
            return True
        show(log.read_text(errors="replace") + "a benchmark of the Python package gave no figure")
        return False

    def python_tests(self, script: str, what: str, *arguments: str) -> bool:
        """Runs a script that runs tests with the package that test.sh has installed."""
        log = SCRATCH / script
        log.write_text("")
        status = run(["python3", f"bindings/python/{script}", BUILD / "python", *arguments], log=log)
        text = log.read_text(errors="replace")
        if status not in (0, DID_NOT_RUN):
            show(text)
        for line in re.findall(rf"^{script}: (.* tests, .*)", text, re.M) if status == 0 else []:
            note(line)
        return self.ran(status, what, "".join(re.findall(r"DID NOT RUN: (.*)", text)))

    def python_simulations(self, *arguments: str) -> bool:
        return self.python_tests("simulated_suites.py", "TESTS IN THE SIMULATION", *arguments)

    def python_debug(self) -> bool:
        """Tests the Python package with an interpreter built with assertions; runs after python()."""
        status = run(["bindings/python/debug.sh", BUILD / "python"], {"FIBERRT_BUILD": RELEASE})
        return self.ran(status, "PYTHON'S TESTS WITH THE DEBUG INTERPRETER",
                        "it could not be fetched; see build/python/debug/log")  # fmt: skip

    def python_suites(self, *arguments: str) -> bool:
        return self.python_tests("suites.py", "CPYTHON'S OWN TESTS UNDER FIBERRT", *arguments)

    def soak_python_suites(self) -> bool:
        status = run(["bindings/python/test.sh", BUILD / "python", "--install"])
        return status in (0, DID_NOT_RUN) and all(
            [self.python_suites(*which) for which in ((), ("--loop", "--jobs", "2"), ("--gevent", "--jobs", "2"))]
        )

    def soak_python_load(self) -> bool:
        """Puts load on Django for an hour, with the package that soak_python_suites() has installed."""
        log = SCRATCH / "load"
        log.write_text("")
        status = run([BUILD / "python/venv/bin/python", "bindings/python/soak.py"], log=log)
        text = log.read_text(errors="replace")
        show(text)
        return self.ran(status, "AN HOUR OF LOAD ON DJANGO", "".join(re.findall(r"DID NOT RUN: (.*)", text)))

    def python_package(self, *arguments: str) -> bool:
        # The soak builds the wheel in the form in which it is published.
        env = {"FIBERRT_BUILD": RELEASE, "FIBERRT_UNITY": "ON"} if arguments else None
        status = run(["bindings/python/package.sh", BUILD / "wheel", *arguments], env)
        return self.ran(status, "THE PYTHON PACKAGE'S WHEEL, SOURCE DISTRIBUTION AND STUBS",
                        "their build tools could not be fetched; see build/wheel/log")  # fmt: skip

    def go(self, *arguments: str) -> bool:
        status = run(["bindings/go/test.sh", BUILD / "go", *arguments], {"FIBERRT_BUILD": RELEASE})
        self.leave_out_listed(BUILD / "go/left_out")
        return self.ran(status, "THE GO PACKAGE AND ITS TESTS", "there is no Go 1.24 or later, and none can be fetched")

    def rust(self, *arguments: str) -> bool:
        status = run(["bindings/rust/test.sh", BUILD / "rust", *arguments], {"FIBERRT_BUILD": RELEASE})
        self.leave_out_listed(BUILD / "rust/left_out")
        return self.ran(status, "THE RUST CRATES AND THEIR TESTS",
                        "there is no cargo, or it or the crates they need could not be fetched")  # fmt: skip

    def debian_13(self) -> bool:
        """Tests with the compiler, the C library and the libraries of a newer release of Debian."""
        env = {"CONFORMANCE": RELEASE / "tests/conformance"}
        status = run(["debian/other_release.sh", "trixie", BUILD / "debian-13"], env)
        return self.ran(status, "THE BUILD AND THE CONFORMANCE SUITE ON DEBIAN 13",
                        "its system could not be made; see build/debian-13")  # fmt: skip

    LIBCS = ("musl", "glibc-2.28", "aarch64-musl", "aarch64-glibc-2.28")

    def other_libc(self, libc: str, *arguments: str) -> bool:
        """Builds for another C library, and runs the conformance suite."""
        env = {"FIBERRT_NO_URING": self.refusal} if self.refusal else None
        status = run(["tests/other_libc.sh", ROOT, BUILD / "other-libc", libc, *arguments], env)
        return self.ran(status, f"THE BUILD AND THE CONFORMANCE SUITE FOR {libc}",
                        "its compiler or a source could not be fetched; see build/other-libc")  # fmt: skip

    # --- Soak -------------------------------------------------------------------------------------------------------

    def mutants(self) -> bool:
        log = SCRATCH / "mutants"
        log.write_text("")
        status = run(["python3", "tests/mutants/mutate.py", ".", "build/mutate"], log=log)
        text = log.read_text(errors="replace")
        show("\n".join(line for line in text.splitlines() if ": found by " not in line))
        return self.ran(
            status, "SOME OF THE PLANTED BUGS", "".join(re.findall(r"^mutate\.py: DID NOT RUN: (.*)", text, re.M))
        )


# --- ./dev test --all does not repeat the tests that passed in ./dev test --------------------------------------------

PASSED = RELEASE / ".passed-test"  # first line: the state that passed; then the tests left out


def tree_state(missing: list[str]) -> str:
    """Returns a hash of everything that the result of ./dev test depends on: the sources, the compiler and the missing
    tools. Returns an empty string if git cannot list the sources: then nothing counts as passed already."""
    files = machine.output("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    if files == [""]:
        return ""
    state = hashlib.sha256()
    for name in sorted(filter(None, files)):
        path = ROOT / name
        state.update(os.fsencode(name) + b"\0")
        try:
            state.update(hashlib.sha256(path.read_bytes()).digest())
        except OSError:  # deleted without a commit, a folder, or unreadable
            pass
    state.update(machine.output(*machine.compiler("CXX", "c++"), "--version").encode())
    state.update(("missing: " + " ".join(missing)).encode())
    return state.hexdigest()


def remember(state: str, left_out: list[str]) -> None:
    PASSED.write_text("\n".join([state, *left_out]) + "\n")


def remembered(state: str) -> "list[str] | None":
    """Returns the tests that were left out when this state passed; None if it has not passed."""
    lines = lines_of(PASSED)
    return lines[1:] if state and lines and lines[0] == state else None
