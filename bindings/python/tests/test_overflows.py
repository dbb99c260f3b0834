# SPDX-License-Identifier: MIT OR Apache-2.0
"""The name of a fiber whose stack overflows is printed, also together with faulthandler; the program still dies."""

import re
import signal

import pytest

# glibc's compiler of regular expressions takes some of the stack for each bracket, more than any stack has in the end.
PROGRAM = """
import ctypes, faulthandler, os, sys, threading
def overflow():
    ctypes.CDLL(None).regcomp(ctypes.create_string_buffer(1024), b"(" * 1000000, 1)
def run():
    fiber = fiberrt.spawn(overflow)
    fiber.name = "deep"
    fiber.join()
{before}
import fiberrt
{after}
"""
NAMED = 'fiberrt: fiber 0x[0-9a-f]{16} "deep" of cord 0x[0-9a-f]{16} has overflowed its stack of 8192 KiB; a larger one may help\n'
FAULT = "Fatal Python error: Segmentation fault"
ENABLE = "faulthandler.enable(); faulthandler.enable(file=sys.stderr)"
DISABLE = "faulthandler.disable()"
OFF = "fiberrt.report_overflows(False)"


@pytest.mark.parametrize(
    "before, after, named, fault",
    [
        (DISABLE, "run()", True, False),
        (ENABLE, "run()", True, True),
        (DISABLE, f"{ENABLE}; run()", True, True),
        (ENABLE, f"{DISABLE}; run()", True, False),
        (DISABLE, f"{ENABLE}; {DISABLE}; run()", True, False),
        # By a name that was taken before: its handler, which is called first, tells nothing of the stack.
        (f"{DISABLE}; enable = faulthandler.enable", "enable(); run()", False, True),
        (f"{DISABLE}; enable = faulthandler.enable", f"enable(); {DISABLE}; run()", True, False),
        (DISABLE, f"{OFF}; run()", False, False),
        (DISABLE, f"{OFF}; {ENABLE}; run()", False, True),
        (ENABLE, f"{OFF}; run()", False, True),
        (ENABLE, f"{OFF}; fiberrt.report_overflows(); run()", True, True),
        (DISABLE, "threading.Thread(target=run).start()", True, False),
        (DISABLE, "fiberrt.spawn(lambda: os.fork() or run()).join(); os.kill(os.getpid(), os.wait()[1])", True, False),
    ],
)
def test_an_overflow_is_named(program, before, after, named, fault):
    done = program(PROGRAM.format(before=before, after=after))
    assert done.code == -signal.SIGSEGV
    assert bool(re.search(NAMED, done.err)) == named, done.err
    assert (FAULT in done.err and "in overflow" in done.err) == fault
    assert done.err.count("fiberrt:") == named


def test_obstacles_to_reports(lines):
    assert lines("""
        import _signal, faulthandler, resource, _thread, fiberrt
        def told(on):
            try: print("told", fiberrt.report_overflows(on))
            except OSError as error: print("told", error.errno)
        def on_a_thread():  # it has no stack for handlers yet
            fiberrt.reschedule()
            limit = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (0, limit[1]))
            told(True)
            faulthandler.enable()
            resource.setrlimit(resource.RLIMIT_AS, limit)
            told(True)
            done.release()
        faulthandler.disable()
        fiberrt.report_overflows(False)
        done = _thread.allocate_lock()
        done.acquire()
        _thread.start_new_thread(on_a_thread, ())
        done.acquire()
        _signal.signal(_signal.SIGSEGV, lambda *args: None)  # one of the program's, which stays
        told(False)
        told(True)
        faulthandler.enable()
        faulthandler.disable()
        print(_signal.getsignal(_signal.SIGSEGV).__name__)
    """) == ["told 12", "told None", "told 16", "told None", "<lambda>"]
