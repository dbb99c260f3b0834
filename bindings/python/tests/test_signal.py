# SPDX-License-Identifier: MIT OR Apache-2.0
"""Signals: the iterator, waits for blocked ones, and handlers."""

import errno
import os
import signal
import threading

import pytest

import fiberrt
import fiberrt.signal

PATIENCE = 60


def later(*numbers):
    """Another process sends them, and this thread sleeps meanwhile."""
    script = "".join(f"kill -{int(number)} {os.getpid()}; sleep 0.02; " for number in numbers)
    return fiberrt.subprocess.Popen(["sh", "-c", script])


def blocked_in(thread):
    """The mask of a thread of this process; of one that has ended all of it."""
    try:
        with open(f"/proc/self/task/{thread}/status") as status:
            return next(int(line.split()[1], 16) for line in status if line.startswith("SigBlk"))
    except (FileNotFoundError, ProcessLookupError):
        return -1


@pytest.fixture
def blocked():
    numbers = {signal.SIGUSR1, signal.SIGUSR2}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    mask = sum(1 << (number - 1) for number in numbers)
    with fiberrt.fail_after(PATIENCE):  # a thread that has been joined may still be about to end, and would take them
        while not all(blocked_in(thread) & mask == mask for thread in os.listdir("/proc/self/task")):
            fiberrt.sleep(0.001)
    yield numbers
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_receive():
    before = signal.getsignal(signal.SIGUSR1)
    got = []
    with fiberrt.signal.receive(signal.SIGUSR1, signal.SIGUSR2) as numbers:

        def receive():
            for number in numbers:
                got.append(number)
                if len(got) == 4:
                    return

        fiber = fiberrt.spawn(receive)
        fiberrt.yield_()
        os.kill(os.getpid(), signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR2)
        with later(signal.SIGUSR2, signal.SIGUSR1):
            fiber.result(PATIENCE)
        waits = fiberrt.spawn(list, numbers)
        fiberrt.yield_()
    assert got == [signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR2, signal.SIGUSR1]
    assert waits.result(PATIENCE) == []  # it is over
    assert signal.getsignal(signal.SIGUSR1) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_receive_in_its_own_fiber_and_cancel():
    def body():
        with fiberrt.signal.receive(signal.SIGUSR1) as numbers:
            return next(numbers)

    fiber = fiberrt.spawn(body)
    fiberrt.yield_()
    with later(signal.SIGUSR1):
        assert fiber.result(PATIENCE) is signal.SIGUSR1
    fiber = fiberrt.spawn(body)
    fiberrt.yield_()
    fiber.cancel()
    fiber.join(PATIENCE)
    assert fiber.cancelled and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_receive_refuses():
    with pytest.raises(TypeError):
        fiberrt.signal.receive()
    for bad in (0, 1000, signal.SIGKILL):
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises((ValueError, OSError)), fiberrt.signal.receive(bad):
            pass
        assert len(os.listdir("/proc/self/fd")) == before
    raised = []

    def elsewhere():
        try:
            with fiberrt.signal.receive(signal.SIGUSR1):
                pass
        except ValueError as error:
            raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(raised) == 1
    with fiberrt.signal.receive(signal.SIGUSR1) as numbers, pytest.raises(RuntimeError):
        numbers.__enter__()


def test_sigwait(blocked):
    fiber = fiberrt.spawn(fiberrt.signal.sigwait, blocked)
    fiberrt.yield_()
    assert fiber.waits_for == "sigwait"
    with later(signal.SIGUSR2) as child:
        assert fiber.result(PATIENCE) is signal.SIGUSR2
    child = later(signal.SIGUSR1)
    with child:
        info = fiberrt.signal.sigwaitinfo(blocked)
        assert (info.si_signo, info.si_pid, info.si_uid) == (signal.SIGUSR1, child.pid, os.getuid())
    assert fiberrt.signal.sigtimedwait(blocked, 0.01) is None and fiberrt.signal.sigtimedwait(blocked, 0) is None
    os.kill(os.getpid(), signal.SIGUSR1)
    assert fiberrt.signal.sigtimedwait(blocked, PATIENCE).si_signo == signal.SIGUSR1
    with fiberrt.move_on_after(0.01) as scope:
        fiberrt.signal.sigwait(blocked)
    assert scope.expired


def test_sigwait_refuses(blocked):
    with pytest.raises(OSError) as caught:
        fiberrt.signal.sigwait([signal.SIGHUP])  # it is not blocked
    assert caught.value.errno == errno.EINVAL
    for bad, error in (([0], ValueError), ([1000], ValueError), (["x"], TypeError), (5, TypeError)):
        with pytest.raises(error):
            fiberrt.signal.sigwait(bad)
    with pytest.raises(ValueError):
        fiberrt.signal.sigtimedwait(blocked, -1)


def test_handlers_run_while_fibers_wait():
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:
        with later(signal.SIGUSR1), fiberrt.fail_after(PATIENCE):
            while not seen:
                fiberrt.sleep(0.001)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [signal.SIGUSR1]
