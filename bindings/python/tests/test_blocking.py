# SPDX-License-Identifier: MIT OR Apache-2.0
"""report_blocking() reports fibers that block the other fibers of their thread."""

import contextlib
import os
import select
import subprocess
import sys
import textwrap
import time

import fiberrt
import pytest

HOG = """
    import os, sys
    import fiberrt

    class Told:
        def write(self, text):
            os.write(2, text.encode())
            os.write(write_end, b"x")

        def flush(self):
            pass

    def hog():
        os.read(read_end, 1)  # blocks the thread, until it is reported

    read_end, write_end = os.pipe()
    sys.stderr = Told()
    fiber = fiberrt.spawn(hog)
    fiber.name = "the hog"
    fiber.result()
    print("reported")
"""


@pytest.mark.parametrize("how", ["environment", "-X dev", "call"])
def test_a_fiber_that_blocks_is_reported_while_it_does(how, tmp_path):
    source = textwrap.dedent(HOG)
    if how == "call":
        source = source.replace("def hog", "fiberrt.report_blocking(0.02)\n\ndef hog")
    path = tmp_path / "program.py"
    path.write_text(source, encoding="utf-8")
    environment = {**os.environ, **({"FIBERRT_DEBUG": "1"} if how == "environment" else {})}
    arguments = ["-X", "dev"] if how == "-X dev" else []
    done = subprocess.run([sys.executable, *arguments, str(path)], env=environment, capture_output=True, text=True,
                          timeout=60)
    assert done.stdout == "reported\n", done.stderr
    assert done.stderr.count("has kept its thread") == 1
    assert "the hog" in done.stderr and "os.read(read_end, 1)" in done.stderr
    assert ("0.02 s" if how == "call" else "0.1 s") in done.stderr


class Told:
    """A stderr that counts the reports; capsys may lose what another thread writes."""

    def __init__(self):
        self.count = 0

    def write(self, text):
        self.count += text.count("has kept its thread")

    def flush(self):
        pass


@contextlib.contextmanager
def reports(after):
    with contextlib.redirect_stderr(Told()) as told:
        fiberrt.report_blocking(after)
        try:
            yield told
        finally:
            fiberrt.report_blocking(None)


def test_a_fiber_that_lets_others_run_is_not_reported():
    """A fiber that waits is not reported, nor one that computes for longer but lets the others run now and then."""
    for _ in range(5):  # a busy machine may stop this thread for as long in the middle of a turn
        with reports(0.4) as told:
            sleeper = fiberrt.spawn(fiberrt.sleep, 1)
            while not sleeper.done:
                fiberrt.reschedule()
            alone = time.monotonic() + 0.6
            while time.monotonic() < alone:
                pass  # there are no other fibers
            fiberrt.sleep(0.6)
        if told.count == 0:
            break
    assert told.count == 0


def test_each_long_turn_is_reported_once():
    with reports(0.02) as told:
        other = fiberrt.spawn(fiberrt.park)
        for turn in 1, 2:
            fiberrt.sleep(0)
            before = told.count  # on a busy machine an earlier run may have been long, too
            end = time.monotonic() + 60
            while told.count == before:
                assert time.monotonic() < end
            time.sleep(0.1)
            assert told.count == before + 1
        other.wakeup()
        other.join()


@pytest.mark.parametrize("after", [0, -1, float("nan")])
def test_a_time_that_is_no_number_is_refused(after):
    with pytest.raises(ValueError):
        fiberrt.report_blocking(after)


def test_the_child_of_a_fork_is_watched_too():
    read_end, write_end = os.pipe()
    fiberrt.report_blocking(0.02)
    pid = os.fork()
    if pid == 0:
        import sys

        class Told:
            def write(self, text):
                os.write(write_end, b"x")

            def flush(self):
                pass

        sys.stderr = Told()
        fiberrt.spawn(fiberrt.park)
        while True:
            pass
    fiberrt.report_blocking(None)
    try:
        with fiberrt.fail_after(60):
            fiberrt.wait_fd(read_end, select.POLLIN)
        assert os.read(read_end, 1) == b"x"
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(read_end)
        os.close(write_end)
