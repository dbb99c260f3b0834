# SPDX-License-Identifier: MIT OR Apache-2.0
"""After patch(), a loop that only polls lets the other fibers of the thread run."""

import pytest

import fiberrt

START = """
import fiberrt.monkey
fiberrt.monkey.patch()
import os, queue, select, selectors, signal, socket, subprocess, sys, threading, time
import fiberrt
a, b = socket.socketpair()
"""

# For each poll, the objects that are made before the loop, and the call that the loop repeats.
KINDS = {
    "select, something is ready": ("", "select.select([], [a], [], 60)"),
    "select, at once": ("", "select.select([b], [], [], 0)"),
    "poll, something is ready": ("p = select.poll(); p.register(a, select.POLLOUT)", "p.poll(60000)"),
    "poll, at once": ("p = select.poll(); p.register(a, select.POLLIN)", "p.poll(0)"),
    "epoll, something is ready": ("p = select.epoll(); p.register(a, select.EPOLLOUT)", "p.poll(60)"),
    "epoll, at once": ("p = select.epoll(); p.register(a, select.EPOLLIN)", "p.poll(0)"),
    "selector, something is ready": (
        "s = selectors.DefaultSelector(); s.register(a, selectors.EVENT_WRITE)",
        "s.select(60)",
    ),
    "selector, at once": ("s = selectors.PollSelector(); s.register(a, selectors.EVENT_READ)", "s.select(-1)"),
    "event": ("e = threading.Event()", "e.wait(0)"),
    "event that is set": ("e = threading.Event(); e.set()", "e.wait(60)"),
    "event, is_set": ("e = threading.Event()", "e.is_set()"),
    "lock": ("l = threading.Lock(); l.acquire()", "l.acquire(False)"),
    "lock with a timeout of 0": ("l = threading.Lock(); l.acquire()", "l.acquire(timeout=0)"),
    "lock, locked": ("l = threading.Lock()", "l.locked()"),
    "semaphore": ("s = threading.Semaphore(0)", "s.acquire(blocking=False)"),
    "rlock of another": (
        "l = threading.RLock(); t = fiberrt.spawn(lambda: l.acquire() and fiberrt.park()); fiberrt.reschedule()",
        "l.acquire(False)",
    ),
    "condition": ("c = threading.Condition(); c.acquire()", "c.wait(0)"),
    "condition's lock": ("c = threading.Condition(threading.Lock()); c.acquire()", "c.acquire(False)"),
    "barrier": ("", "try_(threading.Barrier(2).wait, 0)"),
    "queue, get_nowait": ("q = queue.Queue()", "try_(q.get_nowait)"),
    "queue, get with a timeout of 0": ("q = queue.Queue()", "try_(q.get, True, 0)"),
    "queue, put_nowait": ("q = queue.Queue(1); q.put(1)", "try_(q.put_nowait, 1)"),
    "queue, put_nowait and get_nowait with something": ("q = queue.LifoQueue()", "q.put_nowait(1); q.get_nowait()"),
    "queue, empty": ("q = queue.PriorityQueue()", "q.empty()"),
    "simple queue": ("q = queue.SimpleQueue()", "try_(q.get_nowait)"),
    "simple queue, empty": ("q = queue.SimpleQueue()", "q.empty()"),
    "child, poll": ("c = subprocess.Popen(['sleep', '60'])", "c.poll()"),
    "child, wait(0)": ("c = subprocess.Popen(['sleep', '60'])", "try_(c.wait, 0)"),
    "child, waitpid": ("c = subprocess.Popen(['sleep', '60'])", "os.waitpid(c.pid, os.WNOHANG)"),
    "child, wait4": ("c = subprocess.Popen(['sleep', '60'])", "os.wait4(-1, os.WNOHANG)"),
    "child, waitid": ("c = subprocess.Popen(['sleep', '60'])", "os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)"),
    "recv": ("a.setblocking(False)", "try_(a.recv, 1)"),
    "recvfrom": ("a.setblocking(False)", "try_(a.recvfrom, 1)"),
    "recv and send with something": ("a.setblocking(False); b.setblocking(False)", "a.send(b'x'); b.recv(1)"),
    "accept": ("l = socket.create_server(('127.0.0.1', 0)); l.setblocking(False)", "try_(l.accept)"),
    "connect": (
        "l = socket.create_server(('127.0.0.1', 0)); s = socket.socket(); s.setblocking(False)",
        "s.connect_ex(l.getsockname())",
    ),
    "read": ("os.set_blocking(a.fileno(), False)", "try_(os.read, a.fileno(), 1)"),
    "thread, is_alive": ("t = threading.Thread(target=fiberrt.park, daemon=True); t.start()", "t.is_alive()"),
    "thread, join(0)": ("t = threading.Thread(target=fiberrt.park, daemon=True); t.start()", "t.join(0)"),
    "threads, enumerate": ("", "threading.enumerate()"),
    "threads, active_count": ("", "threading.active_count()"),
    "future, done": ("import concurrent.futures; f = concurrent.futures.Future()", "f.done()"),
    "future, running": ("import concurrent.futures; f = concurrent.futures.Future()", "f.running()"),
    "future, cancelled": ("import concurrent.futures; f = concurrent.futures.Future()", "f.cancelled()"),
    "future of an executor": (
        "x = fiberrt.FiberExecutor(); f = x.submit(fiberrt.park); fiberrt.reschedule()",
        "f.done()",
    ),
    "fiber, join(0)": ("f = fiberrt.spawn(fiberrt.park)", "f.join(0)"),
    "sigtimedwait": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])",
        "signal.sigtimedwait([signal.SIGUSR1], 0)",
    ),
    "sleep(0)": ("", "time.sleep(0)"),
    "sched_yield": ("", "os.sched_yield()"),
}

LOOP = """
def try_(function, *args):
    try: function(*args)
    except (OSError, RuntimeError, queue.Empty, queue.Full, subprocess.TimeoutExpired): pass
{before}
done = []
def work():
    time.sleep(0.01)
    done.append(1)
threading.Thread(target=work, daemon=True).start()
end = time.monotonic() + 30
while not done and time.monotonic() < end:
    {look}
print(bool(done))
# A cancel ends the loop.
def loop():
    looked.set()
    while time.monotonic() < end:
        {look}
looked = fiberrt.Event()
fiber = fiberrt.spawn({loop})
looked.wait(30)
fiber.cancel()
print(fiber.join(30), fiber.cancelled)
if "c" in globals() and hasattr(c, "kill"): c.kill(); c.wait()
for fiber in fiberrt._fiberrt.fibers(): fiber is not fiberrt.current() and fiber.cancel()
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_that_only_looks_gives_turns(lines, kind):
    before, look = KINDS[kind]
    # For locks and conditions, only the fiber that holds them may call these.
    loop = "lambda: (c.acquire(), loop())" if kind == "condition" else "loop"
    release = "; c.release()" if kind == "condition" else ""
    source = START + LOOP.format(before=before, look=look, loop=loop)
    assert lines(source.replace("print(bool(done))", f"print(bool(done)){release}")) == ["True", "True True"]


def test_one_look_is_not_ended_by_a_cancel(lines):
    # Only a fiber that continues to poll gets the cancel: its finally blocks may poll once.
    assert lines("""
        import fiberrt.monkey; fiberrt.monkey.patch()
        import queue, threading, time, fiberrt
        def work():
            try: threading.Event().wait()
            finally:
                lock = threading.Lock()
                q = queue.SimpleQueue()
                q.put(1)
                print(lock.acquire(False), lock.acquire(False), threading.Event().wait(0) if False else q.get_nowait())
        fiber = fiberrt.spawn(work)
        other = fiberrt.spawn(fiberrt.park)
        fiberrt.reschedule()
        fiber.cancel()
        fiber.join()
        print(fiber.cancelled)
        other.cancel()
        other.join()
    """) == ["True False 1", "True"]


def test_without_patch_a_look_never_gives_a_turn(lines):
    assert lines("""
        import time, fiberrt
        ran = []
        fiberrt.spawn(ran.append, 1)
        lock, event, queue = fiberrt.Lock(), fiberrt.Event(), fiberrt.Queue()
        lock.acquire()
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            lock.acquire(False); event.is_set(); queue.empty()
        print(ran)
        fiberrt.reschedule()
        print(ran)
    """) == ["[]", "[1]"]


def test_an_executor_s_dispatcher_looks_without_a_turn(lines):
    # Imported after patch(): a cancel of the dispatcher, between two Futures, must not lose one.
    assert lines("""
        import fiberrt.monkey; fiberrt.monkey.patch()
        import concurrent.futures, time, fiberrt
        from fiberrt import _executor
        future, ran = concurrent.futures.Future(), []
        fiber = fiberrt.spawn(ran.append, 1)
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            _executor._is_done(future)
            _executor._is_cancelled(future)
        print(ran)
        fiber.join()
    """) == ["[]"]
