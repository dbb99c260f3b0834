# SPDX-License-Identifier: MIT OR Apache-2.0
"""After patch(), the calls of os, pathlib and shutil on paths and files wait as fibers: where a file system is slow, and
for pipes and disks everywhere."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import servers

PATCH = """
import fiberrt.monkey
fiberrt.monkey.patch()
def begin(function, *args): return fiberrt.spawn(function, *args)
"""
NO_PATCH = "def begin(function, *args): return fiberrt.spawn(fiberrt.to_thread, function, *args)"
BEGIN = """
import glob, inspect, io, os, pathlib, pickle, select, shutil, stat, sys, tempfile
import fiberrt
from fiberrt import _fiberrt, _files, _paths
folder = sys.argv[1]
os.chdir(folder)
"""

# As if the disk were a slow file system: each call is made by a thread.
SLOW = """
with open("/proc/self/mountinfo") as file:
    kinds = {line.split(" - ")[1].split()[0] for line in file}
_fiberrt.slow_file_systems(sorted(kinds))
assert _fiberrt.is_slow(folder)
fiberrt.current()  # before it has used fibers, a thread has none that could run meanwhile, and makes the calls itself
threads = set()
def noted(function, *args, **options):
    threads.add(function.__name__)
    return offloaded(function, *args, **options)
offloaded, _fiberrt.offload = _fiberrt.offload, noted
shielded = _fiberrt.offload_shielded
def noted_shielded(function, *args, **options):
    threads.add(function.__name__)
    return shielded(function, *args, **options)
_fiberrt.offload_shielded = noted_shielded
detached = _fiberrt.offload_detached
def noted_detached(function, *args, **options):
    threads.add(function.__name__)
    return detached(function, *args, **options)
_fiberrt.offload_detached = noted_detached
"""

CALLS = """
    path = pathlib.Path("some") / "folder"
    path.mkdir(parents=True)
    file = path / "file"
    print(file.write_text("text"), file.read_text(), file.stat().st_size, file.exists(), path.is_dir())
    os.symlink("file", path / "link")
    print(os.readlink(path / "link"), sorted(os.listdir(path)), sorted(entry.name for entry in os.scandir(path)))
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            print(entry.name, entry.path, os.fspath(entry), entry.is_file(), entry.is_dir(), entry.is_symlink(),
                  entry.stat().st_size, entry.inode() == os.lstat(entry).st_ino, isinstance(entry, os.DirEntry))
    print(sorted(glob.glob("**", recursive=True)), sorted(map(str, pathlib.Path().rglob("*"))))
    print([(top, folders, sorted(files)) for top, folders, files in os.walk(".")])
    file.rename(path / "other")
    os.replace(path / "other", file)
    os.chmod(file, 0o600)
    print(oct(stat.S_IMODE(os.stat(file).st_mode)), os.access(file, os.R_OK), os.statvfs(path).f_bsize > 0)
    os.link(file, path / "second")
    os.utime(file, ns=(5, 7))
    os.truncate(file, 2)
    print(os.stat(file).st_mtime_ns != 7, os.lstat(file).st_nlink, file.read_bytes())
    shutil.copytree("some", "copy", symlinks=True)
    print(sorted(map(str, pathlib.Path("copy").rglob("*"))))
    folder_fd = os.open(path, os.O_RDONLY)
    fd = os.open("file", os.O_RDWR, dir_fd=folder_fd)
    print(os.stat("file", dir_fd=folder_fd).st_size, os.fstat(fd).st_size, sorted(os.listdir(folder_fd)))
    os.ftruncate(fd, 1)
    print(os.pread(fd, 10, 0), os.pwrite(fd, b"abc", 1), os.read(fd, 10), os.write(fd, b"!"))
    print(os.preadv(fd, [buffer := bytearray(3)], 1), bytes(buffer), os.pwritev(fd, [b"x", b"y"], 0))
    os.fsync(fd), os.fdatasync(fd), os.sync(), os.posix_fallocate(fd, 0, 4096)
    os.lseek(fd, 0, 0)
    copy = os.open("copied", os.O_RDWR | os.O_CREAT)
    print(os.sendfile(copy, fd, 0, 3), os.copy_file_range(fd, copy, 3), os.fstat(copy).st_size)
    for each in fd, copy, folder_fd: os.close(each)
    os.mkfifo("fifo")
    reader = begin(pathlib.Path("fifo").read_text)
    fiberrt.reschedule()
    print(reader.done, pathlib.Path("fifo").write_text("through a FIFO"), reader.result())
    for call in (lambda: os.stat("none")), (lambda: open("none/x", "w")), (lambda: os.listdir("none")), (lambda: os.mkdir("some")):
        try: call()
        except OSError as error: print(error)
    for args in (), (1.5,), ("a", "b"), ("a\\0b",):
        try: os.mkdir(*args)
        except (TypeError, ValueError) as error: print(error)
    os.unlink("fifo"), os.remove("copied")
    shutil.rmtree("some"), shutil.rmtree("copy")
    with tempfile.TemporaryDirectory(dir=".") as temporary:
        os.makedirs(os.path.join(temporary, "a", "b"))
        with tempfile.NamedTemporaryFile("w+", dir=temporary) as file: print(file.write("x"))
    print(os.listdir())
"""


@pytest.fixture
def patched(lines, tmp_path):
    """Returns the lines that a program in an empty folder writes after patch()."""

    def run(source: str, before: str = PATCH) -> list[str]:
        return lines(before + BEGIN + textwrap.dedent(source), str(tmp_path))

    return run


def test_the_calls_return_the_same_as_without_patch(patched):
    expected = patched(CALLS, NO_PATCH)
    assert len(expected) > 20
    assert patched(CALLS) == expected


def test_on_a_slow_file_system_threads_make_the_calls(patched):
    *told, threads = patched(f"{SLOW}\n{textwrap.dedent(CALLS)}\nprint(*sorted(threads))")
    assert told == patched(CALLS, NO_PATCH)
    assert {*threads.split()} >= {
        "_read_folder", "access", "chmod", "copy_file_range", "fstat", "ftruncate", "is_dir", "is_file", "is_symlink",
        "link", "listdir", "lstat", "mkdir", "mkfifo", "posix_fallocate", "preadv", "pwritev", "readlink", "remove",
        "rename", "replace", "rmdir", "stat", "statvfs", "symlink", "sync", "truncate", "unlink", "utime",
    }  # fmt: skip


def test_a_cancel_ends_a_query_of_a_slow_file_system_at_once(patched):
    assert patched(SLOW + """
import _thread
held = _thread.allocate_lock()
held.acquire()
def hang(path):
    with held: return "late"
stat = _fiberrt.FileCall(hang, _paths._query)
fiber = fiberrt.spawn(stat, folder)
fiberrt.reschedule()
print(fiber.done, fiber.waits_for)
fiber.cancel()
try: fiber.result()
except fiberrt.CancelledError: print("cancelled")
held.release()
""") == ["False thread", "cancelled"]  # fmt: skip


def test_on_a_slow_file_system_a_cancelled_fiber_completes_its_changes(patched):
    assert patched(SLOW + """
def outcome(function):
    fiber = fiberrt.spawn(function)
    while fiber.waits_for != "park": fiberrt.sleep(0)
    fiber.cancel()
    try: fiber.result()
    except fiberrt.CancelledError: print("cancelled")
def write(mode, data):
    with open("file", mode) as file:
        file.write(data)
        fiberrt.park()
def read():
    with open("file") as file: fiberrt.park()
def use():
    fd = os.open("file", os.O_RDWR)
    try: fiberrt.park()
    finally:
        print(os.write(fd, b"OS"), os.pwrite(fd, b"!", 5))
        os.ftruncate(fd, 6), os.mkdir("made"), os.rename("made", "renamed"), os.close(fd)
def make():
    try: fiberrt.park()
    finally:
        with open("new", "w") as file: file.write("made by a cancelled fiber")
for function in lambda: write("w", "some text"), lambda: write("ab", b" and more"), read, use, make: outcome(function)
with open("file") as file, open("new") as new: print(file.read(), new.read(), os.listdir("renamed"))
print([path for fd in os.listdir("/proc/self/fd") if (path := os.path.realpath("/proc/self/fd/" + fd)).startswith(folder)])
""") == ["cancelled", "cancelled", "cancelled", "2 1", "cancelled", "cancelled", "OSme ! made by a cancelled fiber []", "[]"]  # fmt: skip


def test_a_copy_of_a_large_file_lets_others_run(patched):
    assert patched("""
        size = 50_000_000
        with open("large", "wb") as file: file.truncate(size)
        ran = []
        ticker = fiberrt.spawn(lambda: [ran.append(fiberrt.reschedule()) for _ in range(3)])
        print(shutil.copyfile("large", "copy"), len(ran) > 0, os.stat("copy").st_size == size)
        print(ticker.join())
    """) == ["copy True True", "True"]  # fmt: skip


def test_the_replaced_functions_look_like_the_originals(patched):
    assert patched("""
        import posix
        print(os.stat.__name__, os.stat.__doc__ == posix.stat.__doc__, inspect.signature(os.stat) == inspect.signature(posix.stat))
        print(pickle.loads(pickle.dumps(os.stat)) is os.stat, pickle.loads(pickle.dumps(open)) is open, repr(os.rmdir))
        print(os.stat in os.supports_fd, os.scandir in os.supports_fd, os.mkdir in os.supports_dir_fd, os.open in os.supports_dir_fd)
        print(os.access in os.supports_effective_ids, shutil.rmtree.avoids_symlink_attacks)
        print(io.open is open is fiberrt.open, type(open("x", "w")) is _files.TextIOWrapper, type(os.fdopen(0, "rb", closefd=False)) is _files.BufferedReader)
        class Kept: stat, listdir, open = os.stat, os.listdir, open
        print(Kept().stat(folder) == os.stat(folder), Kept().listdir(folder) == ["x"], Kept().open("x").read() == "")
        import tarfile
        print(tarfile.bltn_open is open)
    """) == [
        "stat True True", "True True <fiberrt: <built-in function rmdir>>", "True True True True", "True True", "True True True",
        "True True True", "True",
    ]  # fmt: skip


def test_wrong_descriptors_and_ends_of_os_read(patched):
    assert patched("""
        r, w = os.pipe()
        os.write(w, b"some"), os.close(w)
        print(os.read(r, 2), os.read(r, 10), os.read(r, 10), os.read(r, 0))
        for call in (lambda: os.read(99_999, 1)), (lambda: os.pread(r, 1, 0)), (lambda: os.read(r, -1)), (lambda: os.fsync(r)), (lambda: os.pread(0, 1, -1)):
            try: print(call())
            except OSError as error: print(error)
        for call in (lambda: os.read("x", 1)), (lambda: os.read(r, "x")), (lambda: os.pwrite(r, "x", 0)), (lambda: os.fsync("x")):
            try: print(call())
            except TypeError as error: print("TypeError")
        fiber = fiberrt.spawn(os.read, os.open("/etc/passwd", os.O_RDONLY), 10)
        print(len(fiber.result()))
        os.set_blocking(r, False)
        r, w = os.pipe2(os.O_NONBLOCK)
        try: os.read(r, 1)
        except BlockingIOError: print("BlockingIOError")
    """) == [
        "b'so' b'me' b'' b''", "[Errno 9] Bad file descriptor", "[Errno 29] Illegal seek", "[Errno 22] Invalid argument",
        "[Errno 22] Invalid argument", "[Errno 22] Invalid argument", *["TypeError"] * 4, "10", "BlockingIOError",
    ]  # fmt: skip


def test_the_table_of_mounts_in_the_child_of_a_fork(patched):
    assert patched("""
        fiberrt.current()
        os.stat(folder)
        numbers = [int(fd) for fd in os.listdir("/proc/self/fd") if "mountinfo" in os.path.realpath("/proc/self/fd/" + fd)]
        if (pid := os.fork()) == 0:
            os.dup2(os.open("/etc/passwd", os.O_RDONLY), *numbers)
            _fiberrt.slow_file_systems([])
            os.stat(folder)
            os._exit(os.read(*numbers, 4) == b"root")       # that file is still open, at its beginning
        print(len(numbers), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """) == ["1 1"]  # fmt: skip


def test_the_table_of_mounts_after_the_program_has_reused_its_descriptor(patched):
    assert patched("""
        fiberrt.current()
        os.stat(folder)
        number, = [int(fd) for fd in os.listdir("/proc/self/fd") if "mountinfo" in os.path.realpath("/proc/self/fd/" + fd)]
        os.dup2(os.open("/etc/passwd", os.O_RDONLY), number)
        _fiberrt.slow_file_systems(["proc"])
        print(_fiberrt.is_slow("/proc"), _fiberrt.is_slow(folder), os.read(number, 4))
    """) == ["True False b'root'"]  # fmt: skip


def test_a_symbolic_link_of_a_slow_file_system(patched):
    assert patched("""
        with tempfile.TemporaryDirectory(dir="/dev/shm") as temporary:
            os.symlink("/etc/passwd", os.path.join(temporary, "link"))
            os.stat(os.path.join(temporary, "link"))
            _fiberrt.slow_file_systems(["tmpfs"])
            print(_fiberrt.is_slow(os.path.join(temporary, "link")), _fiberrt.is_slow("/etc/passwd"))
            _fiberrt.slow_file_systems([])
    """) == ["True False"]  # fmt: skip


def test_folders_and_descriptors_by_name_on_a_slow_file_system(patched):
    assert patched(SLOW + """
asked = []
is_slow = _paths.is_slow
_paths.is_slow = lambda *arguments: asked.append(arguments)     # None: it is not slow
os.mkdir("sub")
pathlib.Path("file").touch()
sub = os.open("sub", os.O_RDONLY)
asked.clear()
os.rename("file", "moved", dst_dir_fd=sub)
os.rename("moved", "file", src_dir_fd=sub)
os.link(src="file", dst="second", src_dir_fd=None, dst_dir_fd=sub)
os.symlink("file", dst="link", dir_fd=sub)
os.fstat(fd=sub)
os.close(fd=sub)
print(*[f"{'fd' if path == sub else path} {'in the folder' if folder == sub else folder}" for path, folder in asked], sep=", ")
_paths.is_slow = is_slow
import greenlet
entries = sorted(os.scandir("."), key=lambda entry: entry.name)
# A greenlet cannot wait as a fiber.
print(fiberrt.spawn(greenlet.greenlet(lambda: [entry.is_file() for entry in entries]).switch).result())
""") == [
        "file None, moved in the folder, moved in the folder, file None, file None, second in the folder, "
        "file in the folder, link in the folder, fd None, fd None",
        "[True, False]",
    ]  # fmt: skip


def test_a_folder_whose_entries_cannot_be_asked_for_is_read(patched):
    assert patched(SLOW + """
class Entry:
    name = path = "entry"
    def is_dir(self, **options): raise PermissionError("no search permission")
class Entries(list):
    def __enter__(self): return self
    def __exit__(self, *error): pass
entry, = _paths._read_folder(lambda path: Entries([Entry()]), ".")
print(entry.name)
try: entry.is_dir()
except PermissionError as error: print(error)
""") == ["entry", "no search permission"]  # fmt: skip


# --- A real slow file system


class Server:
    """fuse_server.py, in a program that has its own mounts."""

    SOURCE = """
import subprocess
server = subprocess.Popen([sys.executable, sys.argv[2], folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
told = server.stdout.readline().decode().strip()
print(told, flush=True)
if told != "mounted": sys.exit()
def slowly(function, *args):
    "Calls a function in a fiber, while this fiber lets the file system answer. Returns the result, and the requests."
    requests = []
    with fiberrt.fail_after(60):
        fiber = fiberrt.spawn(function, *args)
        while not fiber.done:
            if fiberrt.wait_fd(server.stdout, select.POLLIN, 0.01):  # it is asked, and we run
                requests.append(server.stdout.raw.readline().decode().strip())
                server.stdin.write(b"\\n"), server.stdin.flush()
    return fiber.result(), requests
"""


@pytest.fixture
def on_fuse(tmp_path):
    """Returns the lines that a program writes after patch(), for which a file system of fuse_server.py is mounted in a
    folder."""

    def run(source: str) -> list[str]:
        script = Path(__file__).parent / "fuse_server.py"
        program = PATCH + BEGIN.replace("os.chdir(folder)", "") + Server.SOURCE + textwrap.dedent(source)
        command = ["unshare", "--mount", "--map-root-user", sys.executable, "-X", "faulthandler", "-c", program]
        done = subprocess.run([*command, str(tmp_path), script], capture_output=True, text=True, timeout=120)
        first, *rest = done.stdout.splitlines() or [f"no: {done.stderr.strip()}"]
        if first.startswith(("no: /dev/fuse", "no: mount", "no: unshare")):
            servers.did_not_run("files of a FUSE file system", first[4:])
        assert (done.returncode, done.stderr, first) == (0, "", "mounted")
        return rest

    return run


def test_others_run_while_a_fuse_file_system_answers(on_fuse):
    assert on_fuse("""
        path = os.path.join(folder, "file")
        def read():
            with open(path) as file: return file.read()
        print(_fiberrt.is_slow(folder), _fiberrt.is_slow("/"))
        text, requests = slowly(read)
        print(repr(text), {"OPEN", "READ", "FLUSH"} <= {*requests})
        status, requests = slowly(os.stat, path)
        print(status.st_size, requests)
        for function, argument in (os.listdir, folder), (lambda path: [entry.stat().st_size for entry in os.scandir(path)], folder):
            found, requests = slowly(function, argument)
            print(found, "READDIR" in requests)
        def use():
            fd = os.open(path, os.O_RDONLY)
            try: return os.read(fd, 3), os.pread(fd, 10, 3), os.fstat(fd).st_size, os.fsync(fd)
            finally: os.close(fd)
        found, requests = slowly(use)
        print(found, "OPEN" in requests)
        print(slowly(pathlib.Path(path).read_text)[0] == slowly(lambda: shutil.copy(path, "/tmp/" + str(os.getpid())) and text)[0])
        os.unlink("/tmp/" + str(os.getpid()))
        server.kill(), server.wait()
    """) == [
        "True False", "'slowly\\n' True", "7 ['GETATTR']", "['file'] True", "[7] True", "(b'slo', b'wly\\n', 7, None) True", "True",
    ]  # fmt: skip


def test_a_cancel_ends_the_wait_for_a_fuse_file_system(on_fuse):
    assert on_fuse("""
        path = os.path.join(folder, "file")
        closed = []
        class File(_files.FileIO):
            def close(self):
                super().close()
                closed.append(self)
        def read():
            with File(path) as file: return file.read()
        for function, args in (read, ()), (os.stat, (path,)):
            fiber = fiberrt.spawn(function, *args)
            print(server.stdout.raw.readline())
            fiber.cancel()
            try: fiber.result(60)
            except fiberrt.CancelledError: print("cancelled")
            server.stdin.write(b"\\n"), server.stdin.flush()
        server.stdin.close()
        with fiberrt.fail_after(60):        # the thread of the cancelled open() closes the file
            while not closed: fiberrt.sleep(0.001)
        server.kill(), server.wait()
    """) == ["b'OPEN\\n'", "cancelled", "b'GETATTR\\n'", "cancelled"]  # fmt: skip


def test_a_read_that_a_cancel_ends_does_not_move_the_position(on_fuse):
    assert on_fuse("""
        path = os.path.join(folder, "file")
        def ended(function, *args):
            fiber = fiberrt.spawn(function, *args)
            with fiberrt.fail_after(60):
                while (request := server.stdout.raw.readline()) != b"READ\\n":
                    assert request == b"GETATTR\\n"
                    server.stdin.write(b"\\n"), server.stdin.flush()
            fiber.cancel()                          # a thread reads, and waits for the answer
            try: fiber.result(60)
            except fiberrt.CancelledError: pass
            server.stdin.write(b"\\n"), server.stdin.flush()
        file, _ = slowly(open, path, "rb")
        raw = file.raw
        for function, args in (raw.read, (3,)), (raw.readall, ()), (raw.readinto, (bytearray(3),)), (file.read, (3,)), (os.read, (raw.fileno(), 3)):
            ended(function, *args)
        def both(): return [fiber.result() for fiber in [fiberrt.spawn(raw.read, size) for size in (3, 2)]]
        print(slowly(both)[0], slowly(raw.tell)[0])
        print(slowly(file.seek, 1)[0], slowly(file.read)[0], slowly(raw.seek, 2)[0], slowly(raw.readall)[0], slowly(raw.read, 3)[0])
        slowly(file.close)
        server.kill(), server.wait()
    """) == ["[b'slo', b'wl'] 5", "1 b'lowly\\n' 2 b'owly\\n' b''"]  # fmt: skip
