#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs Debian's PostgreSQL, MariaDB, Redis and nginx for tests, on free ports of the loopback interface and on Unix
sockets. The packages are unpacked under build/servers, not installed; programs that are installed are used if the
packages cannot be fetched. Root starts the servers as the user nobody.

    servers.py fetch                               unpacks the packages
    servers.py run DIR [--only NAMES] -- COMMAND   starts the servers, runs the command, stops the servers
    servers.py start DIR [--only NAMES]            starts the servers, prints where they are, keeps them until a signal

NAMES has commas between postgresql, mariadb, redis and nginx. DIR gets the logs, and the data if the servers can reach
it. The command finds the servers by environment variables: Servers.environment lists them. The status is that of the
command; 77 if one of the servers is neither fetched nor installed; 1 if one of them does not start. As a module:

    with servers.running(folder, ["redis"]) as environment: ...

The kernel ends each server when the thread that started it ends, so the servers do not outlive a killed test. They
depend on no other process for that.
"""

import argparse
import contextlib
import ctypes
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = ROOT / "build/servers"
PACKAGES = ["postgresql", "mariadb-server-core", "redis-server", "nginx", "libnginx-mod-http-echo", "openssl"]
# The servers' own packages and the libraries that they need, without the C library and the compiler's.
WANTED = re.compile(
    r"(?!libc6|libc-|libgcc|libstdc|libllvm|libz3|libperl|libpam-|.*-perl$|.*-dev$)"
    r"(?:lib\S+|lua-\S+|postgresql-(?:client-)?\d+|mariadb-server-core|redis-(?:server|tools)|nginx|openssl)"
)
NEEDLESS = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/lib/postgresql/*/lib/bitcode")
PROGRAMS = {"postgresql": ["postgres", "initdb"], "mariadb": ["mariadbd"], "redis": ["redis-server"],
            "nginx": ["nginx"]}  # fmt: skip
NAMES = list(PROGRAMS)
SECONDS_TO_START = 120  # far more than any server takes: the machine may stand still for a while
DID_NOT_RUN = 77
SOCKETS = "fiberrt-servers-"
CONNECTIONS = 1200  # as many as a server must take
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


class Missing(Exception):
    """A server that is neither fetched nor installed."""


class Failed(Exception):
    """A server that does not start."""


def say(text: str) -> None:
    print(f"servers.py: {text}", flush=True)


# --- Packages --------------------------------------------------------------------------------------------------------


def unpack_once(into: Path, what: str, unpack) -> bool:
    """Fetches packages and unpacks them, once: other tests that start now wait for it. unpack(fetcher, new) puts them
    into the folder `new`, which then becomes `into`. Says why if it cannot."""
    if into.exists():
        return True
    sys.path.insert(0, str(ROOT / "tools/dev"))
    import fetched

    into.parent.mkdir(parents=True, exist_ok=True)
    with into.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if into.exists():
            return True
        log, new = into.with_suffix(".log"), into.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        say(f"fetching {what}, to unpack them under {into.relative_to(ROOT)}")
        try:
            if not shutil.which("apt-get") or not shutil.which("dpkg"):
                raise fetched.Failed("there is no apt-get here")
            unpack(fetched.Fetcher(log, into.with_suffix(".apt")), new)
        except (fetched.Failed, OSError, KeyError, UnicodeError) as error:
            say(f"{what} could not be fetched. {error}; see {log}")
            return False
        new.rename(into)
        shutil.rmtree(into.with_suffix(".apt"), ignore_errors=True)
    return True


def unpack_servers(fetcher, new: Path) -> None:
    fetcher.unpack(PACKAGES, WANTED, new)
    for pattern in NEEDLESS:
        for folder in new.glob(pattern):
            shutil.rmtree(folder)


def fetch() -> None:
    """Unpacks the packages under build/servers."""
    if not unpack_once(UNPACKED, "Debian's servers", unpack_servers):
        say("so only installed servers run")


class Programs:
    """Finds programs and their files, unpacked or installed."""

    def __init__(self, tree: "Path | None") -> None:
        self.tree = tree

    def find(self, pattern: str) -> "Path | None":
        """The last of the files that match: the newest release, if there are several."""
        for root in (self.tree, Path("/")):
            found = sorted(root.glob(pattern)) if root else []
            if found:
                return found[-1]
        return None

    def program(self, name: str) -> Path:
        for folder in ("usr/lib/postgresql/*/bin", "usr/sbin", "usr/bin", "usr/local/sbin", "usr/local/bin"):
            path = self.find(f"{folder}/{name}")
            if path:
                return path
        raise Missing(f"there is no {name} here: it could be neither fetched nor found")

    def environment(self) -> "dict[str, str]":
        """The environment of a server: it finds the libraries that were unpacked with it."""
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        if self.tree:
            folders = {path.parent for path in self.tree.glob("*/**/lib*.so.*") if "postgresql" not in path.parts}
            kept["LD_LIBRARY_PATH"] = ":".join(sorted(str(folder) for folder in folders))
        return {**kept, "LC_ALL": "C", "TZ": "UTC"}


# --- Users, processes, ports -----------------------------------------------------------------------------------------


def credentials() -> dict:
    """The options of Popen by which root starts a server without root's rights."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


def reachable(path: Path, access: str) -> bool:
    return subprocess.run(["test", f"-{access}", str(path)], **credentials()).returncode == 0


def remove_left_over() -> None:
    """Removes the folders of tests that were killed: their names have the numbers of processes that are gone."""
    for path in Path(tempfile.gettempdir()).glob(f"{SOCKETS}*-*"):
        if not Path("/proc", path.name[len(SOCKETS) :].partition("-")[0]).exists():
            shutil.rmtree(path, ignore_errors=True)


def own(path: Path) -> Path:
    """Makes a folder that belongs to the servers' user."""
    path.mkdir(mode=0o700, parents=True)
    if os.geteuid() == 0:
        shutil.chown(path, "nobody", "nogroup")
    return path


def dies_with_parent(number: int, parent: int) -> None:
    """In the child, after it has changed its user (which would undo this): the kernel sends it the signal when the
    starting thread ends."""
    if LIBC.prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0) != 0 or os.getppid() != parent:
        os._exit(127)


def start(command: list, log: Path, death: int = signal.SIGKILL, **options) -> "subprocess.Popen[bytes]":
    parent = os.getpid()
    with log.open("ab") as file:
        return subprocess.Popen(
            [str(word) for word in command], stdin=options.pop("stdin", subprocess.DEVNULL), stdout=file, stderr=file,
            preexec_fn=lambda: dies_with_parent(death, parent), **options,
        )  # fmt: skip


def free_port() -> int:
    """A port that is free now. Another program may take it before the server does: then the server tries another."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def connects(address: "str | tuple[str, int]", send: bytes = b"", answer: bytes = b"") -> bool:
    """Whether a server accepts a connection there; and if an answer is given, whether it begins with that."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as sock:
        sock.settimeout(10)
        try:
            sock.connect(address)
            sock.sendall(send)
            return not answer or sock.recv(len(answer)) == answer
        except OSError:
            return False


# --- The servers -----------------------------------------------------------------------------------------------------


class Servers:
    """Servers that run until stop(). `environment` says where they are:

    SERVER_PQ, SERVER_PQ_TCP, SERVER_PQ_TLS   connection strings of libpq: by a Unix socket, by TCP, by TLS
    SERVER_MYSQL, SERVER_MYSQL_TCP            of MariaDB: a Unix socket, and HOST:PORT; the user is root, without password
    SERVER_REDIS, SERVER_REDIS_TCP            of Redis: a Unix socket, and HOST:PORT
    SERVER_HTTPS, SERVER_HTTP                 of nginx: URLs without a path; write_nginx() lists the paths
    SERVER_HTTP_BACKEND                       a Unix socket: the test's own HTTP server there answers nginx's /held/
    SERVER_CA                                 the certificate by which the servers' names are verified
    """

    def __init__(self, folder: Path, names: "list[str]") -> None:
        self.environment: "dict[str, str]" = {}
        self._running: "list[tuple[str, subprocess.Popen[bytes], int]]" = []
        self._stack = contextlib.ExitStack()
        folder = folder.resolve()
        for name in NAMES:  # from an earlier run
            shutil.rmtree(folder / name, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        self.logs = folder
        with contextlib.ExitStack() as until_started:
            until_started.callback(self.stop)
            # Paths of Unix sockets must be short, and the servers' user may be unable to reach DIR.
            remove_left_over()
            prefix = f"{SOCKETS}{os.getpid()}-"
            self.sockets = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix)))
            self.sockets.chmod(0o755)
            self.run = own(self.sockets / "run")
            self.run.chmod(0o777)
            self.data = folder if os.geteuid() != 0 or reachable(folder, "x") else self.sockets
            self.programs = Programs(self._reachable_tree())
            self.certificate = own(self.sockets / "certificate")
            self._make_certificate()
            for name in names:
                self._start(name)
            until_started.pop_all()

    def _reachable_tree(self) -> "Path | None":
        """The unpacked packages. If the servers' user cannot reach them, the same files by another way."""
        if not UNPACKED.exists():
            return None
        if reachable(UNPACKED / "usr/bin", "x"):
            return UNPACKED
        copy = self.sockets / "servers"

        def link(source: str, target: str) -> None:
            try:
                os.link(source, target)
            except OSError:  # another file system
                shutil.copy2(source, target)

        shutil.copytree(UNPACKED, copy, symlinks=True, copy_function=link)
        copy.chmod(0o755)
        return copy

    def _finish(self, command: list, log: Path, **options) -> None:
        process = start(command, log, env=self.programs.environment(), **credentials(), **options)
        if process.wait() != 0:
            raise Failed(f"{command[0]} fails. {tail(log)}")

    def _make_certificate(self) -> None:
        path, log = self.certificate, self.logs / "certificate.log"
        log.write_text("")
        openssl = self.programs.program("openssl")
        (path / "conf").write_text("[req]\ndistinguished_name=name\n[name]\n")
        self._finish(
            [openssl, "req", "-x509", "-config", path / "conf", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-days", 365, "-subj", "/CN=localhost", "-addext",
             "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", path / "key.pem", "-out", path / "cert.pem"],
            log,
        )  # fmt: skip
        self.environment["SERVER_CA"] = str(self.sockets / "ca.pem")
        shutil.copy(path / "cert.pem", self.sockets / "ca.pem")

    def _start(self, name: str) -> None:
        log, folder = self.logs / f"{name}.log", own(self.data / name)
        log.write_text("")
        begin = getattr(self, f"_start_{name}")
        for attempt in range(5):
            process, ready = begin(folder, log)
            self._running.append((name, process, signal.SIGINT if name == "postgresql" else signal.SIGTERM))
            if self._await(process, ready):
                return
            self._running.pop()
            taken = "ddress already in use" in log.read_text(errors="replace")
            if process.poll() is None:
                process.kill()
                raise Failed(f"{name} does not answer. {tail(log)}")
            if not taken or attempt == 4:
                raise Failed(f"{name} ends with {process.returncode}. {tail(log)}")

    def _await(self, process: "subprocess.Popen[bytes]", ready) -> bool:
        """Waits until the server answers. False: it has ended instead, or it does not answer."""
        end = time.monotonic() + SECONDS_TO_START
        while process.poll() is None and time.monotonic() < end:
            if ready():
                return True
            time.sleep(0.02)
        return False

    def _server(self, command: list, log: Path, death: int) -> "subprocess.Popen[bytes]":
        return start(command, log, death, env=self.programs.environment(), **credentials())

    def _start_postgresql(self, folder: Path, log: Path):
        port, data = free_port(), folder / "data"
        if not data.exists():
            initdb = [self.programs.program("initdb"), "-D", data, "-A", "trust", "-U", "fiberrt", "-E", "UTF8",
                      "--no-locale", "--no-sync"]  # fmt: skip
            self._finish(initdb, log)
        settings = {
            "listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": self.run,
            "max_connections": CONNECTIONS, "shared_buffers": "32MB", "fsync": "off", "jit": "off", "ssl": "on",
            "ssl_cert_file": self.certificate / "cert.pem", "ssl_key_file": self.certificate / "key.pem",
            "timezone": "UTC", "log_timezone": "UTC", "logging_collector": "off",
        }  # fmt: skip
        command = [self.programs.program("postgres"), "-D", data]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        # At this signal it ends its own processes and itself at once.
        process = self._server(command, log, signal.SIGQUIT)
        both = f"port={port} user=fiberrt dbname=postgres"
        tcp = f"{both} host=localhost hostaddr=127.0.0.1"
        self.environment["SERVER_PQ"] = f"{both} host={self.run}"
        self.environment["SERVER_PQ_TCP"] = f"{tcp} sslmode=disable"
        self.environment["SERVER_PQ_TLS"] = f"{tcp} sslmode=verify-full sslrootcert={self.sockets}/ca.pem"
        pid_file = data / "postmaster.pid"  # its eighth line says when it is ready
        return process, lambda: subprocess.run(
            ["grep", "-qs", "^ready", str(pid_file)], **credentials()
        ).returncode == 0  # fmt: skip

    def _start_mariadb(self, folder: Path, log: Path):
        port, path = free_port(), self.run / "mysql.sock"
        program = self.programs.program("mariadbd")
        share = next((p for p in (program.parents[1] / "share" / n for n in ("mariadb", "mysql"))
                      if (p / "english/errmsg.sys").exists()), None)  # fmt: skip
        if not share:
            raise Missing("there are no messages of mariadbd here")
        # Without tables of grants no other program has to prepare the folder.
        data = folder / f"data-{port}"
        own(data)
        process = self._server(
            [program, "--no-defaults", "--skip-grant-tables", f"--datadir={data}", f"--basedir={program.parents[1]}",
             f"--lc-messages-dir={share}", f"--character-sets-dir={share}/charsets", f"--socket={path}",
             f"--port={port}", "--bind-address=127.0.0.1", f"--max-connections={CONNECTIONS}",
             f"--pid-file={folder}/pid", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M",
             "--innodb-flush-log-at-trx-commit=0", "--thread-cache-size=64", "--connect-timeout=600",
             f"--ssl-cert={self.certificate}/cert.pem", f"--ssl-key={self.certificate}/key.pem"],
            log, signal.SIGKILL,
        )  # fmt: skip
        self.environment["SERVER_MYSQL"] = str(path)
        self.environment["SERVER_MYSQL_TCP"] = f"127.0.0.1:{port}"
        return process, lambda: connects(str(path)) and connects(("127.0.0.1", port))

    def _start_redis(self, folder: Path, log: Path):
        port, path = free_port(), self.run / "redis.sock"
        # A rate of 500 makes the timeouts of its blocking commands exact.
        program = self.programs.program("redis-server")
        environment = self.programs.environment()
        version = subprocess.run([program, "--version"], env=environment, stdout=subprocess.PIPE, text=True)
        # hiredis' own test needs DEBUG SLEEP, which Redis 7 and later allow only on request.
        debug = [] if re.search(r" v=[456]\.", version.stdout) else ["--enable-debug-command", "local"]
        process = self._server(
            [program, *debug, "--port", port, "--bind", "127.0.0.1", "--unixsocket", path,
             "--dir", folder, "--save", "", "--daemonize", "no", "--hz", 500, "--maxclients", CONNECTIONS],
            log, signal.SIGKILL,
        )  # fmt: skip
        self.environment["SERVER_REDIS"] = str(path)
        self.environment["SERVER_REDIS_TCP"] = f"127.0.0.1:{port}"
        ping = (b"PING\r\n", b"+PONG")
        return process, lambda: connects(str(path), *ping) and connects(("127.0.0.1", port), *ping)

    def _start_nginx(self, folder: Path, log: Path):
        plain, tls = free_port(), free_port()
        while tls == plain:
            tls = free_port()
        program = self.programs.program("nginx")
        echo = self.programs.find("usr/lib/nginx/modules/ngx_http_echo_module.so")
        if not echo:
            raise Missing("there is no module echo of nginx here (package libnginx-mod-http-echo)")
        pages = self.sockets / "pages"
        pages.mkdir(exist_ok=True)
        for number in range(100):
            (pages / str(number)).write_text(f"{number}\n" * 10000)
        configuration = self.sockets / "nginx.conf"
        self.write_nginx(configuration, echo, plain, tls)
        process = self._server([program, "-p", folder, "-c", configuration, "-e", log], log, signal.SIGKILL)
        self.environment["SERVER_HTTP"] = f"http://localhost:{plain}"
        self.environment["SERVER_HTTPS"] = f"https://localhost:{tls}"
        self.environment["SERVER_HTTP_BACKEND"] = str(self.run / "backend.sock")
        return process, lambda: connects(("127.0.0.1", plain)) and connects(("127.0.0.1", tls))

    def write_nginx(self, path: Path, echo: Path, plain: int, tls: int) -> None:
        """Its paths: /n/N?s=S answers after S seconds with the line N, once; /many/N?s=S with 10,000 such lines;
        /pages/N, of N below 100, with a file of 10,000 such lines; /held/N asks the backend."""
        path.write_text(f"""
            daemon off; master_process off; pid pid; error_log stderr; load_module {echo};
            events {{ worker_connections {4 * CONNECTIONS}; }}
            http {{
                access_log off; sendfile on; default_type text/plain; keepalive_requests 1000000;
                client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp;
                scgi_temp_path tmp;
                server {{
                    listen 127.0.0.1:{plain} backlog=4096; listen 127.0.0.1:{tls} ssl http2 backlog=4096;
                    ssl_certificate {self.certificate}/cert.pem; ssl_certificate_key {self.certificate}/key.pem;
                    root {self.sockets};
                    location ~ ^/n/(\\d+)$ {{ echo_sleep $arg_s; echo $1; }}
                    location ~ ^/many/(\\d+)$ {{ echo_sleep $arg_s; echo_duplicate 10000 "$1\\n"; }}
                    location /pages/ {{ }}
                    location /held/ {{
                        proxy_pass http://unix:{self.run}/backend.sock: ; proxy_read_timeout 600s;
                    }}
                }}
            }}
        """)

    def stop(self) -> None:
        """Stops the servers, each by its number, and removes their sockets and data."""
        for _, process, number in self._running:
            if process.poll() is None:
                process.send_signal(number)
        for name, process, _ in self._running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                say(f"{name} does not stop, so it is killed")
                process.send_signal(signal.SIGQUIT if name == "postgresql" else signal.SIGKILL)
                process.wait()
        for name in NAMES:
            shutil.rmtree(self.logs / name, ignore_errors=True)
        self._stack.close()


def tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-15:]
    return "The end of its log:\n" + "\n".join(lines)


@contextlib.contextmanager
def running(folder: Path, names: "list[str] | None" = None) -> "Iterator[dict[str, str]]":
    """Servers for a with statement, which gets the variables of their environment. Raises Missing and Failed."""
    fetch()
    servers = Servers(folder, NAMES if names is None else names)
    try:
        yield servers.environment
    finally:
        servers.stop()


# --- The command -----------------------------------------------------------------------------------------------------


def run_command(command: "list[str]", environment: "dict[str, str]") -> int:
    """Runs the command, which ends with this process, and returns its exit status as a shell would."""
    parent = os.getpid()
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, preexec_fn=lambda: dies_with_parent(signal.SIGKILL, parent)
    )
    try:
        status = process.wait()
    finally:
        process.kill()
    return status if status >= 0 else 128 - status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("fetch", "run", "start"))
    parser.add_argument("folder", type=Path, nargs="?", metavar="DIR")
    parser.add_argument("--only", default=",".join(NAMES), metavar="NAMES")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:cut])
    command = words[cut + 1 :]
    if arguments.what == "fetch":
        fetch()
        return 0 if UNPACKED.exists() else DID_NOT_RUN
    names = arguments.only.split(",")
    if not arguments.folder or not set(names) <= set(NAMES) or (arguments.what == "run") != bool(command):
        parser.error("the arguments do not fit; see --help")
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda signal_number, _frame: sys.exit(128 + signal_number))
    try:
        with running(arguments.folder, names) as environment:
            if arguments.what == "run":
                return run_command(command, environment)
            for name, value in environment.items():
                print(f"export {name}='{value}'")
            print("ready", flush=True)
            while True:
                signal.pause()
    except Missing as error:
        print(f"DID NOT RUN: {error}")
        return DID_NOT_RUN
    except Failed as error:
        print(f"FAILED: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
