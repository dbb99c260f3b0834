# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profilers, debuggers, samplers and coverage tools, which were not written for fibers, work on a program with
fibers."""

import cProfile
import faulthandler
import os
import pstats
import runpy
import subprocess
import sys
import tempfile
import threading
import time
import trace
from pathlib import Path

import pytest

import fiberrt
import servers
from conftest import run_program


def step():
    fiberrt.reschedule()


def steps(count):
    for _ in range(count):
        step()
    return count


def calls_of(profiler):
    return {key[2]: value[1] for key, value in pstats.Stats(profiler).stats.items()}


def test_cprofile():
    profiler = cProfile.Profile()
    profiler.enable()
    fibers = [fiberrt.spawn(steps, 7) for _ in range(10)]
    for fiber in fibers:
        fiber.join()
    profiler.disable()
    calls = calls_of(profiler)
    assert calls["steps"] == 10 and calls["step"] == 70


def test_cprofile_comes_and_goes_in_the_midst():
    profiler = cProfile.Profile()
    fibers = [fiberrt.spawn(steps, 10) for _ in range(10)]
    fiberrt.reschedule()
    profiler.enable()
    fibers += [fiberrt.spawn(steps, 10) for _ in range(10)]
    for fiber in fibers[:10]:
        fiber.join()
    profiler.disable()
    assert [fiber.result() for fiber in fibers] == [10] * 20
    assert calls_of(profiler)["step"] >= 80


def test_trace_counts_lines_of_all_fibers():
    tracer = trace.Trace(count=1, trace=0)
    tracer.runfunc(lambda: [fiber.join() for fiber in [fiberrt.spawn(steps, 3) for _ in range(5)]])
    first = steps.__code__.co_firstlineno
    counts = {line: count for (file, line), count in tracer.counts.items() if file == __file__}
    assert (counts[first + 2], counts[first + 3], counts[step.__code__.co_firstlineno + 1]) == (15, 5, 15)


@pytest.mark.parametrize("files", [1, 2])
def test_coverage(tmp_path, monkeypatch, files):
    """For several files only by sys.monitoring: coverage's trace functions expect one call stack per thread."""
    coverage = pytest.importorskip("coverage", reason="the package coverage is not installed")
    monitors = sys.version_info >= (3, 12)
    if files == 2 and not monitors:
        pytest.skip("coverage cannot use sys.monitoring before CPython 3.12")
    work = (
        "import fiberrt\ndef f():\n    for i in range(3):\n        fiberrt.reschedule()\n\n    return i\n"
        "def never():\n    pass\n"
    )
    main = "fibers = [fiberrt.spawn(each) for each in (f, g, f, g)]\ntotal = sum(fiber.result() for fiber in fibers)\n"
    (tmp_path / "main.py").write_text(work + ("g = f\n" if files == 1 else "from other import g\n") + main)
    (tmp_path / "other.py").write_text("\n\n" + work.replace("f()", "g()"))
    monkeypatch.setenv("COVERAGE_CORE", "sysmon" if monitors else "ctrace")
    monkeypatch.syspath_prepend(tmp_path)
    measure = coverage.Coverage(data_file=None, config_file=False, include=[f"{tmp_path}/*"])
    measure.start()
    try:
        assert runpy.run_path(str(tmp_path / "main.py"))["total"] == 8
    finally:
        measure.stop()
        sys.modules.pop("other", None)
    assert measure.analysis2(str(tmp_path / "main.py"))[3] == [8]
    if files == 2:
        assert measure.analysis2(str(tmp_path / "other.py"))[3] == [10]


def test_pdb(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import fiberrt\n"
        "def work(n):\n"
        "    for i in range(3):\n"
        "        fiberrt.reschedule()\n"
        "        last = (n, i)\n"
        "    return n\n"
        "fibers = [fiberrt.spawn(work, n) for n in range(2)]\n"
        "print('sum', sum(fiber.result() for fiber in fibers))\n"
    )
    look = "continue\np ('at', n, i)\n"
    commands = f"break 5\n{look}{look}next\np last\nwhere\nclear 1\ncontinue\nquit\n"
    done = subprocess.run(
        [sys.executable, "-m", "pdb", str(script)], input=commands, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stderr == ""
    told = done.stdout.replace("(Pdb) ", "").splitlines()
    assert "('at', 0, 0)" in told and "('at', 1, 0)" in told and "sum 1" in told


def test_samplers_see_the_running_code():
    over, seen = [], set()

    def sample():
        while not over:
            frame = sys._current_frames()[main]
            while frame:
                seen.add(frame.f_code.co_name)
                frame = frame.f_back
        with tempfile.TemporaryFile("w+") as file:
            faulthandler.dump_traceback(file, all_threads=True)
            file.seek(0)
            seen.add(file.read())

    def spin():
        until = time.monotonic() + 60
        while not {"spin", "step"} <= seen and time.monotonic() < until:
            step()

    main = threading.get_ident()
    thread = threading.Thread(target=sample)
    thread.start()
    fibers = [fiberrt.spawn(spin) for _ in range(3)]
    for fiber in fibers:
        fiber.join()
    over.append(1)
    thread.join()
    assert "spin" in seen and any("test_samplers_see_the_running_code" in text for text in seen)


def test_faulthandler_in_a_fiber_ends_at_its_function():
    def dump():
        with tempfile.TemporaryFile("w+") as file:
            faulthandler.dump_traceback(file, all_threads=True)
            file.seek(0)
            return file.read()

    text = fiberrt.spawn(dump).result()
    assert " in dump" in text and "test_faulthandler" not in text


def test_a_fault_in_a_fiber_is_reported():
    done = run_program("import fiberrt, faulthandler\nfiberrt.spawn(faulthandler._sigsegv).join()")
    assert done.code < 0 and "Segmentation fault" in done.err


def test_fiberrt_sim_finds_the_order_in_which_a_program_fails(tmp_path):
    sim = os.environ.get("FIBERRT_SIM", "")
    example = Path(__file__).parent.parent / "examples" / "tellers.py"
    if not os.access(sim, os.X_OK):
        servers.did_not_run("the test of fiberrt-sim", "FIBERRT_SIM does not name the tool, which was not built")
    if not example.exists():
        servers.did_not_run("the test of fiberrt-sim", "the tests are not next to the sources")
    program = [sys.executable, str(example)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([sim, "--", *program], cwd=tmp_path, env=environment, capture_output=True, text=True,
                          timeout=servers.PATIENCE)  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == 1 and "the balance is 400, and should be 350" in told, told
    again = told.strip().splitlines()[-1].removeprefix("again:").split()
    settings = dict(word.split("=", 1) for word in again if word.startswith("FIBERRT_"))
    assert "FIBERRT_SIM_REPLAY" in settings, told
    done = subprocess.run(program, env=environment | settings, capture_output=True, text=True, timeout=servers.PATIENCE)
    assert done.returncode == 1 and "the balance is 400, and should be 350" in done.stderr, done.stderr
