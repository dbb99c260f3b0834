# SPDX-License-Identifier: MIT OR Apache-2.0
"""Servers that the tests talk to: Redis and PostgreSQL. They are installed ones, or come from Debian's packages, which
are fetched once and unpacked next to the virtual environment. They run as an unprivileged user, on free ports, until a
test ends them. did_not_run() reports a server that is not available."""

import contextlib
import ctypes
import glob
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

PATIENCE = 300
FOLDER = Path(sys.prefix).parent / "servers"
# Dependencies of the servers that these tests do not use.
NOT_NEEDED = re.compile(r"libllvm|postgresql$|postgresql-(common|client|contrib)|ssl-cert|perl|locales|systemd|debconf")


def did_not_run(what: str, why: str) -> None:
    """Skips the test, and notes the reason in the file from which test.sh and ./dev repeat it."""
    with open(FOLDER.parent / "left_out", "a") as file:
        file.write(f"{what}\t{why}\n")
    pytest.skip(f"DID NOT RUN: {what}: {why}", allow_module_level=True)


def needs(what: str, *modules: str) -> None:
    for module in modules:
        try:
            __import__(module)
        except ImportError:
            did_not_run(what, f"there is no Python package {module}")


def needs_installed(what: str, *modules: str) -> None:
    """As needs(), but without an import: locust, for one, patches the process when it is imported."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            did_not_run(what, f"there is no Python package {module}")


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


def _fetch() -> None:
    """Unpacks the packages and their dependencies that are not installed."""
    if not all(map(shutil.which, ("apt-get", "apt-cache", "dpkg-deb"))):
        raise OSError("there is no apt-get")
    postgresql = re.search(r"Depends: (postgresql-\d+)", _output("apt-cache", "depends", "postgresql"))
    if not postgresql:
        raise OSError("apt-get knows no PostgreSQL")
    simulated = _output("apt-get", "-s", "--no-install-recommends", "install", "redis-server", postgresql[1])
    missing = {name for name in re.findall(r"^Inst (\S+)", simulated, re.M) if not NOT_NEEDED.match(name)}
    with tempfile.TemporaryDirectory(prefix="fetching.", dir=FOLDER.parent) as scratch:
        subprocess.run(
            ["apt-get", "download", *sorted(missing | {"redis-server", "redis-tools", postgresql[1], "libpq5"})],
            cwd=scratch, capture_output=True, timeout=4 * PATIENCE, check=True,
        )  # fmt: skip
        for package in glob.glob(f"{scratch}/*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, f"{scratch}/tree"], capture_output=True, check=True)
        os.rename(f"{scratch}/tree", FOLDER)  # the folder appears only when it is complete
    FOLDER.chmod(0o755)


def _find(server: str) -> tuple[Path, Path | None]:
    """Returns the folder of a server's programs, and the folder of the libraries unpacked with them."""
    error: Exception | None = None
    if not FOLDER.exists():
        try:
            _fetch()
        except (OSError, subprocess.SubprocessError) as caught:
            error = caught
    for root in (FOLDER, Path("/")) if FOLDER.exists() else (Path("/"),):
        for place in ("usr/bin", "usr/local/bin", "usr/lib/postgresql/*/bin"):
            for found in sorted(root.glob(f"{place}/{server}")):
                libraries = next(iter(root.glob("usr/lib/*-linux-gnu*")), None) if root == FOLDER else None
                return found.resolve().parent if root != FOLDER else found.parent, libraries
    did_not_run(f"the tests with {server}", f"it is not installed, and Debian's packages are not available ({error})")
    raise AssertionError


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def _searchable_by_all(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o005 == 0o005 for folder in (path, *path.parents))


_prctl = ctypes.CDLL(None, use_errno=True).prctl
PR_SET_PDEATHSIG = 1


def end_with_us(number: int):
    """For preexec_fn: the server gets this signal when the tests end for any reason."""
    tests = os.getpid()

    def set_it() -> None:
        _prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0)
        if os.getppid() != tests:  # they have ended already
            os._exit(1)

    return set_it


class _Place:
    """Returns a folder for a server and its data, and the user to run it: an unprivileged one if this is root."""

    def __init__(self, server: str) -> None:
        self.programs, self.libraries = _find(server)
        self.data = Path(tempfile.mkdtemp(prefix="fiberrt.", dir="/tmp"))
        self.data.chmod(0o755)
        self.log = self.data / "log"
        self.who: dict[str, object] = {}
        if os.geteuid() == 0:
            self.who = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            if FOLDER in self.programs.parents and not _searchable_by_all(self.programs):
                copied = self.data / "servers"
                shutil.copytree(FOLDER, copied, symlinks=True)
                self.programs = copied / self.programs.relative_to(FOLDER)
                self.libraries = copied / self.libraries.relative_to(FOLDER)
            shutil.chown(self.data, "nobody")

    def start(self, program: str, *args: str) -> subprocess.Popen:
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
        if self.libraries:
            environment["LD_LIBRARY_PATH"] = str(self.libraries)
        with open(self.log, "ab") as log:
            return subprocess.Popen(
                [str(self.programs / program), *args], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment, cwd=self.data, start_new_session=True,
                preexec_fn=end_with_us(signal.SIGINT), **self.who,
            )  # fmt: skip


@contextlib.contextmanager
def serving(server: subprocess.Popen, log: Path, port: int, end: int):
    try:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                if server.poll() is not None or time.monotonic() > until:
                    pytest.fail(f"{server.args[0]} does not serve: {log.read_text(errors='replace')[-2000:]}")
                time.sleep(0.02)
        yield
    finally:
        if server.poll() is None:
            server.send_signal(end)
        try:
            server.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
            raise


@contextlib.contextmanager
def redis():
    """Starts a Redis server that stores nothing; returns its port."""
    place = _Place("redis-server")
    try:
        port = free_port()
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        with serving(place.start("redis-server", *options), place.log, port, signal.SIGTERM):
            yield port
    finally:
        shutil.rmtree(place.data)


class Postgres:
    """A PostgreSQL server that can go away and come back, with its data and its port. User and database are postgres."""

    def __init__(self, connections: int) -> None:
        self._place = _Place("postgres")
        data = str(self._place.data / "data")
        options = ["-D", data, "-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync"]
        if self._place.start("initdb", *options).wait(PATIENCE) != 0:
            pytest.fail(f"initdb: {self._place.log.read_text()}")
        self.port = free_port()
        self._options = ["-D", data, "-p", str(self.port), "-k", str(self._place.data), "-h", "127.0.0.1", "-F"]
        self._options += ["-N", str(connections), "-c", "jit=off", "-c", "shared_buffers=16MB"]
        self._options += ["-c", "authentication_timeout=300"]
        self._running = contextlib.ExitStack()

    def start(self) -> None:
        """Returns when the server accepts connections."""
        before = self._times_ready()
        server = self._place.start("postgres", *self._options)
        self._running.enter_context(serving(server, self._place.log, self.port, signal.SIGINT))
        self._server = server
        until = time.monotonic() + PATIENCE  # it listens before it accepts connections
        while self._times_ready() == before:
            assert time.monotonic() < until, self._place.log.read_text(errors="replace")
            time.sleep(0.02)

    def _times_ready(self) -> int:
        log = self._place.log
        return log.read_text(errors="replace").count("ready to accept connections") if log.exists() else 0

    def crash(self) -> None:
        """Ends the server at once, without a checkpoint. Its connections break."""
        self._server.send_signal(signal.SIGQUIT)
        self._running.close()

    def __enter__(self) -> "Postgres":
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._running.close()
        finally:
            shutil.rmtree(self._place.data)


@contextlib.contextmanager
def postgres(connections: int):
    """Starts a PostgreSQL server for that many connections; returns its port. User and database are postgres."""
    with Postgres(connections) as server:
        yield server.port


# The server of http.server with a thread for each connection, and with a longer queue than 5 connections.
THREADED_SERVER = """
import http.server, sys
http.server.ThreadingHTTPServer.request_queue_size = 128
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


@contextlib.contextmanager
def http(kind: str, root: Path):
    """Serves the files of a folder, by the example httpd or by Python's server on fibers; returns the port."""
    port = free_port()
    if kind == "httpd":
        httpd = os.environ.get("FIBERRT_HTTPD", "")
        if not os.access(httpd, os.X_OK):
            did_not_run("the tests with httpd", "FIBERRT_HTTPD does not name the example, which was not built")
        command = [httpd, "--host", "127.0.0.1", "--port", str(port), "--root", str(root), "--access-log", "none"]
    else:
        (root / "server.py").write_text(THREADED_SERVER)
        command = [sys.executable, "-m", "fiberrt", "server.py", str(port)]
    with tempfile.NamedTemporaryFile() as log:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=root, preexec_fn=end_with_us(signal.SIGTERM)
        )
        with serving(server, Path(log.name), port, signal.SIGTERM):
            yield port
