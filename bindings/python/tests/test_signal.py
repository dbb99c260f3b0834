# SPDX-License-Identifier: MIT OR Apache-2.0
"""fiberrt.signal: the iterator, waits for blocked signals, and handlers."""

import os
import signal
import threading

import pytest

import fiberrt
import fiberrt.signal

PATIENCE = 60


def later(*numbers):
    """Another process sends the signals while this thread sleeps."""
    script = "".join(f"kill -{int(number)} {os.getpid()}; sleep 0.02; " for number in numbers)
    return fiberrt.subprocess.Popen(["sh", "-c", script])


def blocked_in(thread):
    """Returns the signal mask of a thread of this process; all signals if the thread has ended."""
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
    with fiberrt.fail_after(PATIENCE):  # a joined thread may not have ended yet, and would take the signals
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
        fiberrt.reschedule()
        os.kill(os.getpid(), signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR2)
        for number, count in (signal.SIGUSR2, 3), (signal.SIGUSR1, 4):  # the interpreter sees both at once in their order
            with later(number), fiberrt.fail_after(PATIENCE):
                while len(got) < count:
                    fiberrt.sleep(0.001)
        fiber.result(PATIENCE)
        waits = fiberrt.spawn(list, numbers)
        fiberrt.reschedule()
    assert got == [signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR2, signal.SIGUSR1]
    assert waits.result(PATIENCE) == []  # it is over
    assert signal.getsignal(signal.SIGUSR1) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_receive_in_its_own_fiber_and_cancel():
    def body():
        with fiberrt.signal.receive(signal.SIGUSR1) as numbers:
            return next(numbers)

    fiber = fiberrt.spawn(body)
    fiberrt.reschedule()
    with later(signal.SIGUSR1):
        assert fiber.result(PATIENCE) is signal.SIGUSR1
    fiber = fiberrt.spawn(body)
    fiberrt.reschedule()
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
    fiberrt.reschedule()
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


def test_sigwait_blocks_unblocked_signals():
    def mask():
        return signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGHUP, signal.SIGUSR2}

    fibers = [fiberrt.spawn(fiberrt.signal.sigwait, [signal.SIGHUP]) for _ in range(2)]
    fiberrt.reschedule()
    assert mask() == {signal.SIGHUP}
    signal.pthread_kill(threading.get_ident(), signal.SIGHUP)  # other threads may not block it
    done, left = fiberrt.wait(fibers, timeout=PATIENCE, return_when=fiberrt.FIRST_COMPLETED)
    assert [fiber.result() for fiber in done] == [signal.SIGHUP] and mask() == {signal.SIGHUP}
    for fiber in left:
        fiber.cancel()
        fiber.join()
    assert mask() == set()
    assert fiberrt.signal.sigtimedwait([signal.SIGUSR2], 0) is None and mask() == set()


def test_sigtimedwait_for_no_signal_ends_with_its_time():
    ran = []
    fiber = fiberrt.spawn(ran.append, 1)
    assert fiberrt.signal.sigtimedwait([], 0.01) is None and ran == [1]
    fiber.join()
    assert fiberrt.signal.sigtimedwait(set(), 0) is None
    with pytest.raises(ValueError):
        fiberrt.signal.sigtimedwait([], -1)
    for signals in [], [signal.SIGUSR1]:
        with pytest.raises(TypeError), fiberrt.move_on_after(0.01):
            fiberrt.signal.sigtimedwait(signals, None)
    for wait in fiberrt.signal.sigwait, fiberrt.signal.sigwaitinfo:
        with fiberrt.move_on_after(0.01) as scope:
            wait([])
        assert scope.expired


def test_sigwait_refuses(blocked):
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


# A program in which a signal comes during a C call, after which no bytecode runs before the thread sleeps.
LATE = """
    import ctypes, itertools, os, signal
    import fiberrt, fiberrt.signal, fiberrt.monkey
    libc = ctypes.PyDLL(None)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    seen = []

    def handler(number, frame):
        seen.append(number)
        os.kill(os.getpid(), signal.SIGUSR2)

    def late():
        sent = map(getattr(libc, 'raise'), [signal.SIGUSR1])
        return fiberrt._fiberrt.sigwait(itertools.chain(filter(None, sent), [signal.SIGUSR2]), 60)[0] == signal.SIGUSR2
"""


def test_a_handler_runs_when_the_signal_comes_right_before_the_sleep(lines):
    assert lines(
        LATE
        + """
    fiberrt.signal.signal(signal.SIGUSR1, handler)
    fiberrt.sleep(0.001)
    for _ in range(20):
        print(late(), len(seen))
    """
    ) == [f"True {count}" for count in range(1, 21)]


def test_a_handler_is_taken_back_before_anything_else_has_run(lines):
    # The fiber that wakes the thread has not begun then; after patch(), os.write() lets it run.
    assert lines("""
        import fiberrt.monkey
        fiberrt.monkey.patch()
        import os, signal, time
        fiberrt.sleep(0.001)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            signal.signal(signal.SIGUSR1, print)
            until = time.monotonic() + 0.005  # long enough for other fibers to run
            while time.monotonic() < until: pass
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        fiberrt.sleep(0.001)
        print(len(os.listdir("/proc/self/fd")) - before)
    """) == ["0"]  # fmt: skip


def test_after_patch_and_in_the_child_of_a_fork(lines):
    assert lines(
        LATE
        + """
    fiberrt.monkey.patch('signal')
    signal.signal(signal.SIGUSR1, handler)
    print(late())
    child = os.fork()
    good = late()
    if child == 0:
        os._exit(17 if good else 1)
    print(good, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    ) == ["True", "True 17"]


def test_other_receivers_of_signals(lines):
    assert lines("""
        import os, signal, socket
        import fiberrt, fiberrt.signal
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        def told():
            with fiberrt.fail_after(60):
                fiberrt.wait_fd(theirs, 1)
            return theirs.recv(100) == bytes([signal.SIGUSR1])
        before = len(os.listdir('/proc/self/fd'))
        signal.set_wakeup_fd(ours.fileno())
        fiberrt.signal.signal(signal.SIGUSR1, lambda number, frame: None)
        os.kill(os.getpid(), signal.SIGUSR1)
        print(told())
        # The program changes the wakeup descriptor, which gets signals again after the next handler is set.
        signal.set_wakeup_fd(ours.fileno())
        fiberrt.signal.signal(signal.SIGUSR2, lambda number, frame: None)
        os.kill(os.getpid(), signal.SIGUSR1)
        print(told())
        # With the last handler this ends, and the program's descriptor gets the signals as before.
        fiberrt.signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        print(signal.set_wakeup_fd(ours.fileno()) == ours.fileno())
        fiberrt.signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        print(signal.set_wakeup_fd(-1) == ours.fileno())
        fiberrt.sleep(0.001)
        print([fiber.name for fiber in fiberrt._fiberrt.fibers()])
    """) == ["True", "True", "False", "True", "['main']"]


def test_handlers_that_are_set_and_put_back_leave_nothing(lines):
    assert lines("""
        import os, signal
        import fiberrt, fiberrt.signal
        fiberrt.sleep(0)
        def count():
            fiberrt.sleep(0.001)
            return len(os.listdir('/proc/self/fd')), len(fiberrt._fiberrt.fibers())
        def once():
            before = fiberrt.signal.signal(signal.SIGUSR1, lambda number, frame: None)
            fiberrt.signal.signal(signal.SIGUSR1, before)
        fiberrt.wait_fd(1, 4)  # now the backend is there
        once()
        first = count()
        for turn in range(100):
            once()
            if turn % 2: fiberrt.sleep(0)
        print(count() == first, signal.set_wakeup_fd(-1))
        # A program that cancels all fibers cancels that one, too.
        fiberrt.signal.signal(signal.SIGUSR1, lambda number, frame: print('handler'))
        fiberrt.sleep(0.001)
        for fiber in fiberrt._fiberrt.fibers():
            if fiber is not fiberrt.current(): fiber.cancel()
        print(count() == first, signal.set_wakeup_fd(-1))
        fiberrt.signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        # A handler that cannot be set is not set; without free descriptors, the former handler is restored.
        for wrong in (signal.SIGKILL, 1000):
            try: fiberrt.signal.signal(wrong, lambda number, frame: None)
            except (OSError, ValueError): print('refused')
        import resource
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
        try: fiberrt.signal.signal(signal.SIGUSR1, lambda number, frame: None)
        except OSError as error: print(error.errno)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        print(signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN, count() == first)
    """) == ["True -1", "True -1", "refused", "refused", "24", "True True"]


@pytest.mark.parametrize("call", ["offload", "to_thread"])
def test_an_exception_of_a_handler_during_an_offloaded_function_is_raised_at_its_end(lines, call):
    # There may be no other wait after it.
    assert lines("""
        import os, signal, sys, time, fiberrt
        def handler(number, frame): raise KeyError(number)
        signal.signal(signal.SIGUSR1, handler)
        def work():
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.05)
            if sys.argv[1] == "fail": raise ValueError
        for _ in range(2):
            try: getattr(fiberrt, sys.argv[2])(work)
            except KeyError as error: print(error.args[0] == signal.SIGUSR1)
        fiberrt.sleep(0)
        print(fiberrt.offload(int, "5"))
    """, "fail" if call == "offload" else "", call) == ["True", "True", "5"]


def test_an_exception_of_a_handler_at_the_very_end_is_reported(program):
    done = program("""
        import os, signal, fiberrt
        signal.signal(signal.SIGINT, signal.default_int_handler)
        def last():
            with fiberrt.shield():
                os.kill(os.getpid(), signal.SIGINT)
                fiberrt._fiberrt.close(os.dup(1))
        fiberrt.spawn(fiberrt.park)
        fiberrt.spawn(last)
        fiberrt.reschedule()
    """)
    assert "KeyboardInterrupt" in done.err
