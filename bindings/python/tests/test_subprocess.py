# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares fiberrt.subprocess with the standard library's subprocess; also tests fiberrt.selectors, which it uses."""

import io
import os
import select
import selectors as stdlib_selectors
import signal
import socket
import subprocess as stdlib

import pytest

import fiberrt
import fiberrt.selectors
import fiberrt.subprocess

PATIENCE = 60
CAT = ["cat"]
FOR_EVER = ["sleep", "1000"]


@pytest.fixture(params=[stdlib, fiberrt.subprocess], ids=["stdlib", "fiberrt"])
def sub(request):
    return request.param


def gone(pid):
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


# Tests that run on both


def test_run(sub):
    done = sub.run(["echo", "hello"], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
    assert isinstance(done, stdlib.CompletedProcess)
    assert sub.run(CAT, input=b"data", stdout=sub.PIPE).stdout == b"data"
    assert sub.check_output(["sh", "-c", "echo out; echo err >&2"], stderr=sub.STDOUT) == b"out\nerr\n"
    assert sub.call(["sh", "-c", "exit 3"]) == 3
    assert sub.getstatusoutput("echo x; exit 1") == (1, "x") and sub.getoutput("echo y") == "y"
    with pytest.raises(stdlib.CalledProcessError) as caught:
        sub.check_call(["false"])
    assert caught.value.returncode == 1
    with pytest.raises(FileNotFoundError):
        sub.run(["/no/such/program"])
    with pytest.raises(ValueError):
        sub.run(CAT, input=b"", stdin=sub.PIPE)


def test_wait_and_poll(sub):
    with sub.Popen(["sh", "-c", "read x; exit 7"], stdin=sub.PIPE) as process:
        assert isinstance(process, stdlib.Popen)
        assert process.poll() is None
        with pytest.raises(stdlib.TimeoutExpired):
            process.wait(0.02)
        with pytest.raises(stdlib.TimeoutExpired):
            process.wait(0)
        process.stdin.close()
        assert process.wait(PATIENCE) == 7 and process.wait() == 7 and process.poll() == 7
    with sub.Popen(FOR_EVER) as process:
        process.terminate()
        assert process.wait() == -signal.SIGTERM


def test_much_data_both_ways(sub):
    data = os.urandom(3_000_000)
    with sub.Popen(["sh", "-c", "tee /dev/stderr"], stdin=sub.PIPE, stdout=sub.PIPE, stderr=sub.PIPE) as process:
        assert process.communicate(data, timeout=PATIENCE) == (data, data)
        assert process.returncode == 0


def test_communicate_may_be_tried_again(sub):
    with sub.Popen(["sh", "-c", "echo one; read x; echo $x"], stdin=sub.PIPE, stdout=sub.PIPE, text=True) as process:
        with pytest.raises(stdlib.TimeoutExpired):
            process.wait(0.02)
        assert process.communicate("two\n", timeout=PATIENCE) == ("one\ntwo\n", None)
    with sub.Popen(["sh", "-c", "echo one; exec sleep 1000"], stdout=sub.PIPE) as process:
        assert select.select([process.stdout], [], [], PATIENCE)[0]
        with pytest.raises(stdlib.TimeoutExpired):
            process.communicate(timeout=0.1)
        process.kill()
        assert process.communicate(timeout=PATIENCE) == (b"one\n", None)


@pytest.mark.parametrize("size", [None, -1, 0, 2, 4096])
def test_sizes_of_buffers(sub, size):
    with sub.Popen(CAT, bufsize=size, stdin=sub.PIPE, stdout=sub.PIPE) as child:
        assert child.communicate(b"data") == (b"data", None)
        assert isinstance(child.stdin, io.RawIOBase) == (size == 0)
    assert sub.run(["echo", "x"], bufsize=size, stdout=sub.PIPE, text=True).stdout == "x\n"
    with pytest.raises(TypeError, match="bufsize must be an integer"):
        sub.Popen(CAT, bufsize="x", stdin=sub.PIPE)


def test_regular_files_instead_of_pipes(sub, tmp_path):
    (tmp_path / "in").write_bytes(b"read")
    with sub.Popen(CAT, stdin=sub.DEVNULL) as child:
        child.stdin = open(tmp_path / "out", "wb")
        child.stdout = open(tmp_path / "in", "rb")
        assert child.communicate(b"written", timeout=PATIENCE) == (b"read", None)
    assert (tmp_path / "out").read_bytes() == b"written"


def test_pipes_line_by_line(sub):
    with sub.Popen(CAT, stdin=sub.PIPE, stdout=sub.PIPE, text=True, bufsize=1) as process:
        for line in ("one\n", "two\n"):
            process.stdin.write(line)
            assert process.stdout.readline() == line
        process.stdin.close()
        assert process.stdout.read() == ""
    with sub.Popen(CAT, stdin=sub.PIPE, stdout=sub.PIPE, bufsize=0) as process:
        assert process.stdin.write(b"abc") == 3
        assert process.stdout.read(2) == b"ab"
        memory = bytearray(5)
        assert process.stdout.readinto(memory) == 1 and memory[:1] == b"c"
        process.stdin.write(b"rest")
        process.stdin.close()
        assert process.stdout.read() == b"rest" and process.stdout.read() == b""
        assert process.stdout.name == process.stdout.fileno() and process.stdout.readable()
        assert not os.get_inheritable(process.stdout.fileno())
    with pytest.raises(ValueError):
        process.stdout.read(1)


def test_a_pipe_that_is_set_not_to_block(sub):
    with sub.Popen(CAT, stdin=sub.PIPE, stdout=sub.PIPE, bufsize=0) as process:
        os.set_blocking(process.stdout.fileno(), False)
        assert process.stdout.read(1) is None
        process.stdin.close()


def test_a_child_that_does_not_read(sub):
    with sub.Popen(["true"], stdin=sub.PIPE) as process:
        process.wait(PATIENCE)
        assert process.communicate(bytes(1_000_000)) == (None, None)
    with sub.Popen(["true"], stdin=sub.PIPE, bufsize=0) as process:
        process.wait(PATIENCE)
        with pytest.raises(BrokenPipeError):
            process.stdin.write(b"x")


def test_a_child_that_another_caller_has_reaped(sub):
    with sub.Popen(["true"]) as process:
        os.waitpid(process.pid, 0)
        assert process.wait(PATIENCE) == 0


# Tests for fibers only


def test_a_grandchild_keeps_the_pipe(sub):
    """The child ends; its output ends only when the grandchild does."""
    child = sub.Popen(["sh", "-c", "sleep 60 2>/dev/null & echo $! >&2"], stdout=sub.PIPE, stderr=sub.PIPE)
    pid = int(child.stderr.readline())
    assert child.wait(60) == 0
    with pytest.raises(sub.TimeoutExpired):
        child.communicate(timeout=0.1)
    os.kill(pid, signal.SIGKILL)
    assert child.communicate(timeout=60) == (b"", b"")


def test_many_children_at_once():
    fibers = [fiberrt.spawn(fiberrt.subprocess.check_output, ["sh", "-c", f"read x; echo {i} $x"], input=b"x\n")
              for i in range(10)]
    assert [fiber.result(PATIENCE) for fiber in fibers] == [b"%d x\n" % i for i in range(10)]


def test_fibers_on_one_child():
    with fiberrt.subprocess.Popen(CAT, stdin=stdlib.PIPE, stdout=stdlib.PIPE) as process:
        waits = [fiberrt.spawn(process.wait) for i in range(3)]
        reads = fiberrt.spawn(process.stdout.read)
        fiberrt.reschedule()
        assert reads.waits_for == "read" and not any(fiber.done for fiber in waits)
        process.stdin.write(b"words")
        process.stdin.close()
        assert reads.result(PATIENCE) == b"words"
        assert [fiber.result(PATIENCE) for fiber in waits] == [0] * 3


def started(make, *args, **options):
    """Returns a fiber that runs a function of the module, and the child that it has started."""
    children = []
    real = fiberrt.subprocess.Popen.__init__

    def init(self, *args, **options):
        real(self, *args, **options)
        children.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fiberrt.subprocess.Popen, "__init__", init)
        fiber = fiberrt.spawn(make, *args, **options)
        while not children:
            fiberrt.sleep(0.001)
    fiberrt.sleep(0.001)
    return fiber, children[0]


@pytest.mark.parametrize("function", ["run", "call", "check_call", "check_output"])
def test_a_child_that_never_ends_is_killed_by_a_cancel(function):
    fiber, child = started(getattr(fiberrt.subprocess, function), FOR_EVER)
    fiber.cancel()
    fiber.join(PATIENCE)
    assert fiber.cancelled and child.returncode == -signal.SIGKILL
    gone(child.pid)


def test_a_time_limit_kills_it():
    with fiberrt.move_on_after(0.02) as scope:
        fiberrt.subprocess.run(FOR_EVER, capture_output=True)
    assert scope.expired
    with pytest.raises(stdlib.TimeoutExpired):
        fiberrt.subprocess.run(FOR_EVER, capture_output=True, timeout=0.02)


def test_a_cancelled_block_with_data_in_its_pipes():
    def body():
        with fiberrt.subprocess.Popen(FOR_EVER, stdin=stdlib.PIPE, stdout=stdlib.PIPE) as process:
            process.stdin.write(bytes(1_000_000))

    fiber, child = started(body)
    fiber.cancel()
    fiber.join(PATIENCE)
    assert fiber.cancelled and child.returncode == -signal.SIGKILL and child.stdin.closed


def test_elsewhere_a_cancel_leaves_the_child_alone():
    process = fiberrt.subprocess.Popen(CAT, stdin=stdlib.PIPE, stdout=stdlib.PIPE)
    for what in (process.wait, process.stdout.read):
        with fiberrt.move_on_after(0.02) as scope:
            what()
        assert scope.expired and process.poll() is None
    with process:
        process.stdin.write(b"still")
        process.stdin.close()
        assert process.stdout.read() == b"still"
    assert process.returncode == 0
    with fiberrt.subprocess.Popen(FOR_EVER, stdout=stdlib.PIPE, stderr=stdlib.PIPE) as process:
        with fiberrt.move_on_after(0.02) as scope:
            process.communicate()
        assert scope.expired and process.poll() is None
        process.kill()


def test_no_descriptor_is_left():
    def turn():
        fiberrt.subprocess.run(["cat"], input=b"x", capture_output=True)
        with fiberrt.move_on_after(0.005):
            fiberrt.subprocess.run(FOR_EVER, capture_output=True)

    turn()
    before = os.listdir("/proc/self/fd")
    for i in range(5):
        turn()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_selector():
    a, b = socket.socketpair()
    with a, b, fiberrt.selectors.DefaultSelector() as selector:
        assert isinstance(selector, stdlib_selectors.BaseSelector)
        selector.register(a, fiberrt.selectors.EVENT_READ, "data")
        assert selector.select(0) == [] and selector.select(-1) == [] and selector.select(0.01) == []
        fiber = fiberrt.spawn(selector.select)
        fiberrt.reschedule()
        assert fiber.waits_for == "wait_fd"
        b.send(b"x")
        ((key, events),) = fiber.result(PATIENCE)
        assert key.data == "data" and events == fiberrt.selectors.EVENT_READ
        a.recv(1)
        fiber = fiberrt.spawn(selector.select)
        fiberrt.reschedule()
        selector.register(b, fiberrt.selectors.EVENT_WRITE)  # while it waits
        ((key, events),) = fiber.result(PATIENCE)
        assert key.fileobj is b
        selector.unregister(b)
        with fiberrt.move_on_after(0.01) as scope:
            selector.select()
        assert scope.expired
