#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the client programs of PostgreSQL, Redis, MariaDB and libcurl plainly and by fiberrt-run, and compares exit
statuses and outputs:

- of libpq's sources, the test programs libpq_pipeline (with its traces), libpq_testclient and libpq_uri_regress, and
  the examples testlibpq*.c and testlo.c (testlo64.c writes a file of 4 GB); Debian's psql and pgbench;
- of hiredis' sources, test.c; Debian's redis-cli and redis-benchmark;
- Debian's mariadb and mariadb-slap;
- of curl's sources, tests of libcurl (tests/libtest) and of the program curl with curl's own servers, by runtests.pl.

    client_programs.py BUILD DIR [--only NAMES] [--curl TESTS]

BUILD has fiberrt-run. DIR gets the programs and logs. NAMES has commas between postgresql, redis, mariadb and curl.
TESTS: the numbers of curl's tests, for runtests.pl. The sources and packages are unpacked under build/client-sources
and build/client-packages. The status is 77 if something could not be fetched.

client-programs-differ.txt lists the differences expected. Each other difference is an error.
"""

import argparse
import contextlib
import dataclasses
import difflib
import getpass
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import servers

HERE = Path(__file__).resolve().parent
SOURCES = servers.ROOT / "build/client-sources"
CLIENTS = servers.ROOT / "build/client-packages"
SECONDS = 300  # far more than any program takes
MODES = {"run": ([], {}), "cord": (["--cord"], {}), "cord on ev": (["--cord"], {"FIBERRT_BACKEND": "ev"})}


def say(text: str) -> None:
    print(text, flush=True)


# --- Sources and packages --------------------------------------------------------------------------------------------


def postgresql_release() -> str:
    return servers.Programs(servers.UNPACKED if servers.UNPACKED.exists() else None).program("postgres").parents[1].name


# Of each tarball, the folders and files that are unpacked.
WANTED = {
    "postgresql": r"src/(interfaces/libpq/(test|t)|test/examples|test/modules/libpq_pipeline)/.*",
    "hiredis": r"[^/]*\.[ch]",
    "curl": r"(include|lib|src|tests)/.*",
}


def fetch(release: str) -> bool:
    def unpack_sources(fetcher, new: Path) -> None:
        packages = {"postgresql": f"postgresql-{release}", "hiredis": "hiredis", "curl": "curl"}
        tarballs = fetcher.sources(list(packages.values()))
        for name, package in packages.items():
            with tarfile.open(tarballs[package]) as tar:
                for member in tar:
                    member.name = member.name.partition("/")[2]  # without the name of the release
                    if member.isfile() and re.fullmatch(WANTED[name], member.name):
                        tar.extract(member, new / name)

    def unpack_clients(fetcher, new: Path) -> None:
        fetcher.unpack([f"postgresql-server-dev-{release}"], re.compile(r"postgresql-server-dev-\d+"), new)
        wanted = re.compile(rf"mariadb-client(-core)?|curl|{servers.WANTED.pattern}")
        fetcher.unpack(["mariadb-client", "curl"], wanted, new)

    return servers.unpack_once(SOURCES, "the sources of the clients", unpack_sources) and servers.unpack_once(
        CLIENTS, "packages of the clients", unpack_clients
    )


# --- Runs ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Run:
    """A program with arguments. It runs in a fresh folder; `files` of that folder are compared too."""

    name: str
    command: "list[object]"
    files: "tuple[str, ...]" = ()
    input: bytes = b""
    beside: "Callable[[], None] | None" = None  # on another thread, while the program runs
    changes: "tuple[tuple[str, str], ...]" = ()  # replaced in the output, because it differs in each run
    status: "int | None" = 0  # of the plain run
    given: "tuple[tuple[str, str], ...]" = ()  # files that are written before
    before: "Callable[[], None] | None" = None
    program: "Path | None" = None  # if the command is a shell that starts it
    calls: bool = True  # whether it makes calls that can be replaced


class Comparison:
    def __init__(self, build: Path, folder: Path) -> None:
        self.launcher, self.folder = build / "fiberrt-run", folder
        self.programs = servers.Programs(servers.UNPACKED if servers.UNPACKED.exists() else None)
        self.clients = servers.Programs(CLIENTS)
        self.compared = 0
        self.found: "dict[str, str]" = {}  # the differences
        self.failed: "list[str]" = []

    def environment(self, program: object) -> "dict[str, str]":
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        paths = {}
        if str(program).startswith(str(servers.UNPACKED)):
            paths = self.programs.environment()
        elif str(program).startswith(str(CLIENTS)):
            paths = self.clients.environment()
        return {**kept, **paths, "LC_ALL": "C", "TZ": "UTC", "PSQL_PAGER": "cat"}

    def compile(self, name: str, sources: "list[Path]", *options: object) -> Path:
        target = self.folder / "programs" / name
        target.parent.mkdir(exist_ok=True)
        command = [*shlex.split(os.environ.get("CC", "cc")), "-w", "-o", target, *sources, *options]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"FAILED: {name} cannot be compiled:\n{done.stderr[-3000:]}")
        return target

    def perform(self, run: Run, mode: str, launcher: "list[object]", changes: "dict[str, str]") -> "dict[str, str]":
        """Runs the program, and returns its status and outputs."""
        folder = self.folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if run.before:
            run.before()
        for name, text in run.given:
            (folder / name).write_text(text)
        environment = {**self.environment(run.program or run.command[0]), **changes}
        process = subprocess.Popen(
            [str(word) for word in [*launcher, *run.command]], cwd=folder, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
            preexec_fn=lambda parent=os.getpid(): servers.dies_with_parent(signal.SIGKILL, parent),
        )  # fmt: skip
        beside = threading.Thread(target=run.beside) if run.beside else None
        if beside:
            beside.start()
        try:
            out, err = process.communicate(run.input, SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += b"KILLED: it did not end"
        if beside:
            beside.join()
        results = {"status": str(process.returncode), "output": self.text(out, run), "errors": self.text(err, run)}
        for name in run.files:
            path = folder / name
            results[name] = self.text(path.read_bytes(), run) if path.exists() else "(no file)"
        return results

    def text(self, data: bytes, run: Run) -> str:
        text = data.decode(errors="backslashreplace").replace(str(self.folder / "run"), "FOLDER")
        for pattern, replacement in run.changes:
            text = re.sub(pattern, replacement, text, flags=re.M)
        return text

    def check(self, run: Run) -> None:
        begin = time.monotonic()
        found, failed = self.compare(run)
        told = "\n".join([*found.values(), *failed])
        if told and not re.search(r"KILLED: it did not end|ends with -|^\+-\d+$", told, re.M):
            # Some programs have time limits that a busy machine does not keep. A hang or a crash counts at once.
            say(f"differs: {run.name}. It is compared once more. The difference:\n{told}")
            found, failed = self.compare(run)
        self.compared += len(MODES)
        self.found.update(found)
        self.failed += failed
        say(f"compared: {run.name}, {time.monotonic() - begin:.1f} s")

    def compare(self, run: Run) -> "tuple[dict[str, str], list[str]]":
        found, failed = {}, []
        plain = self.perform(run, "plain", [], {})
        if run.status is not None and plain["status"] != str(run.status):
            return {}, [f"{run.name} ends with {plain['status']} even plainly: {plain['errors'][-500:]}"]
        for mode, (options, changes) in MODES.items():
            lists = mode == "run" and run.calls and not run.program
            words = [self.launcher, *options, *(["--list", "--alone"] if lists else []), "--"]
            result = self.perform(run, mode, words, changes)
            if lists:
                result["errors"], replaced = re.subn(r"^\S*/\S*:( \w+)+\n", "", result["errors"], flags=re.M)
                if not replaced:
                    failed.append(f"{run.name}: fiberrt-run replaces no function. {result['errors'][-500:]}")
            for what, value in plain.items():
                if result[what] != value:
                    texts = value.splitlines(), result[what].splitlines()
                    lines = list(difflib.unified_diff(*texts, "plainly", mode, n=1, lineterm=""))
                    found[f"{run.name}, {mode}: {what}"] = "\n".join(lines[:60])
        return found, failed


# --- PostgreSQL ------------------------------------------------------------------------------------------------------

# On a busy machine, PQexec may read notifications with the answer to LISTEN, and testlibpq2 then waits for more. So it is
# notified until it ends.
NOTIFY = """
DO $$ BEGIN
    WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE query = 'LISTEN TBL2' AND state = 'idle') LOOP
        PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
    END LOOP;
    WHILE EXISTS (SELECT FROM pg_stat_activity WHERE query = 'LISTEN TBL2') LOOP
        INSERT INTO testlibpq2.tbl1 VALUES (1);
        COMMIT;
        PERFORM pg_sleep(0.02), pg_stat_clear_snapshot();
    END LOOP;
END $$;
"""
# The session of the run before may not have ended yet.
NO_LISTENER = """
DO $$ BEGIN
    WHILE EXISTS (SELECT FROM pg_stat_activity WHERE query = 'LISTEN TBL2') LOOP
        PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
    END LOOP;
END $$;
"""
PSQL = r"""
\set ON_ERROR_STOP off
SELECT version() IS NOT NULL AS there_is_a_version;
CREATE TABLE numbers AS SELECT n, repeat(n::text, 10) AS text FROM generate_series(1, 5000) AS n;
SELECT count(*), sum(n), md5(string_agg(text, ',' ORDER BY n)) FROM numbers;
\copy numbers to 'numbers.csv' csv
\copy (SELECT * FROM numbers WHERE n < 20) to stdout
CREATE TABLE copied (LIKE numbers);
\copy copied from 'numbers.csv' csv
SELECT count(*), sum(n) FROM copied;
SELECT 1 / 0;
SELECT pg_sleep(0.05);
\set FETCH_COUNT 100
SELECT n FROM numbers ORDER BY n LIMIT 250;
\set FETCH_COUNT 0
LISTEN news;
NOTIFY news, 'of today';
\! echo a shell
SELECT 'by ' || 'a pipe' \g |cat
BEGIN; DECLARE c CURSOR FOR SELECT * FROM numbers ORDER BY n; FETCH 3 FROM c; MOVE 4000 IN c; FETCH 2 FROM c; COMMIT;
SET statement_timeout = '50ms';
SELECT pg_sleep(20);
\connect
SELECT count(*) FROM copied;
SELECT pg_terminate_backend(pg_backend_pid());
SELECT 'after the loss';
DROP TABLE numbers, copied;
"""


def postgresql(comparison: Comparison, environment: "dict[str, str]", release: str) -> None:
    sources = SOURCES / "postgresql/src"
    at, tls = environment["SERVER_PQ"], environment["SERVER_PQ_TLS"]
    psql = comparison.programs.program("psql")
    pgbench = comparison.programs.program("pgbench")

    def sql(text: str) -> None:
        subprocess.run([psql, "-qX", "-d", at], input=text.encode(), check=True, stdout=subprocess.DEVNULL,
                       env={**comparison.environment(psql), "PGOPTIONS": "-c client_min_messages=warning"})  # fmt: skip

    def clean() -> None:
        sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public;")

    headers = [f"-I{CLIENTS}/usr/include/postgresql/{release}/server", *flags_of("libpq")]
    static = [f"-L{CLIENTS}/usr/lib/postgresql/{release}/lib", "-lpgcommon", "-lpgport", "-lm"]

    def build(path: str) -> Path:
        return comparison.compile(Path(path).name, [sources / f"{path}.c"], *headers, *static)

    # The connection is given as the name of a database, so it may be any connection string.
    examples = {name: build(f"test/examples/{name}") for name in
                ("testlibpq", "testlibpq2", "testlibpq3", "testlibpq4", "testlo")}  # fmt: skip
    for name in ("testlibpq2", "testlibpq3"):
        sql((sources / f"test/examples/{name}.sql").read_text())
    numbers = ((r"\b(PID|object) \d+", r"\1 N"),)
    notified = (*numbers, (r"(^ASYNC NOTIFY .*\n){4,}", r"\1"))
    given = (("in", "".join(f"{number}\n" for number in range(5000))),)

    def notify() -> None:
        sql(NOTIFY)

    for way, connection in (("by a Unix socket", at), ("by TLS", tls)):
        runs = [
            Run("testlibpq", [examples["testlibpq"], connection], changes=((r"^(fiberrt|postgres) .*\n", ""),)),
            Run("testlibpq2", [examples["testlibpq2"], connection], beside=notify, changes=notified,
                before=lambda: sql(NO_LISTENER)),
            Run("testlibpq3", [examples["testlibpq3"], connection]),
            Run("testlibpq4", [examples["testlibpq4"], "pg_am", connection, connection]),
            Run("testlo", [examples["testlo"], connection, "in", "out"], ("out",), changes=numbers, given=given),
        ]
        for run in runs:
            run.name += f" {way}"
            comparison.check(run)

    pipeline = build("test/modules/libpq_pipeline/libpq_pipeline")
    traces = sources / "test/modules/libpq_pipeline/traces"
    tests = subprocess.run([pipeline, "tests"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    if not tests:
        sys.exit("FAILED: libpq_pipeline lists no test")
    for test in tests:
        # Where libpq_pipeline's own test compares no trace, a trace differs from run to run.
        trace = ("-t", "trace") if (traces / f"{test}.trace").exists() else ()
        # uniqviol prints in which order its rows are sent and answered.
        changes = ((r"^(?!ok|/).*\n", ""),) if test == "uniqviol" else ()
        command = [pipeline, "-r", 700, *trace, test, at]
        comparison.check(Run(f"libpq_pipeline {test}", command, trace[1:], before=clean, changes=changes))
    testclient = build("interfaces/libpq/test/libpq_testclient")
    comparison.check(Run("libpq_testclient --ssl", [testclient, "--ssl"], calls=False))
    uri = build("interfaces/libpq/test/libpq_uri_regress")
    words = re.findall(r"q\{(postgres[^}]*)\}", (sources / "interfaces/libpq/t/001_uri.pl").read_text())
    if not words:
        sys.exit("FAILED: 001_uri.pl has no URI")
    loop = 'uri=$1; shift; for word; do "$uri" "$word" 2>&1; done; true'
    comparison.check(Run("libpq_uri_regress", ["/bin/sh", "-c", loop, "sh", uri, *words], calls=False))

    for way, connection in (("by a Unix socket", at), ("by TLS", tls)):
        changes = ((r"PID \d+", "PID N"), (r" \(PID N\)", ""))
        comparison.check(
            Run(f"psql {way}", [psql, "-X", "-a", "-d", connection], ("numbers.csv",), PSQL.encode(), changes=changes,
                status=None, before=clean)
        )  # fmt: skip
    # Their times differ; the counts must not.
    changes = (
        (r"\b\d+\.\d+( ms|s| s|\b)", "TIME"), (r"^(tps|latency|initial|done in|vacuuming|creating|generating).*\n", ""),
        (r"^.*tuples.*\n", ""), (r"^ +\d+ .*\n", ""),
    )  # fmt: skip
    comparison.check(Run("pgbench -i", [pgbench, "-i", "-s", 1, at], changes=changes, before=clean))
    kinds = {"select-only": ["-S", "-c", 20, "-t", 20], "tpcb-like, threads": ["-c", 8, "-j", 4, "-t", 5],
             "extended": ["-S", "-M", "extended", "-c", 5, "-t", 10, "-C"]}  # fmt: skip
    for name, options in kinds.items():
        comparison.check(Run(f"pgbench {name}", [pgbench, "-n", *options, at], changes=changes))


def flags_of(module: str) -> "list[str]":
    done = subprocess.run(["pkg-config", "--cflags", "--libs", module], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise servers.Missing(f"pkg-config does not find {module}")
    return done.stdout.split()


# --- Redis -----------------------------------------------------------------------------------------------------------


def redis(comparison: Comparison, environment: "dict[str, str]", _release: str) -> None:
    sources = SOURCES / "hiredis"
    path, (host, port) = environment["SERVER_REDIS"], environment["SERVER_REDIS_TCP"].split(":")
    test = comparison.compile("hiredis-test", [sources / "test.c"], f"-I{sources}", *flags_of("hiredis"))
    times = ((r"\b\d+\.\d+s", "TIME"), (r"inherited fd \d+", "inherited fd"))
    cli, benchmark = comparison.programs.program("redis-cli"), comparison.programs.program("redis-benchmark")
    comparison.check(
        Run("hiredis' test", [test, "-h", host, "-p", port, "-s", path], changes=times)
    )
    lines = "SET a 1\nINCR a\nLPUSH l 1 2 3\nLRANGE l 0 -1\nBLPOP none 0.1\nWRONG\nMULTI\nINCR a\nEXEC\n"
    pipe = b"".join(b"*3\r\n$3\r\nSET\r\n$%d\r\nk%d\r\n$1\r\n1\r\n" % (len(str(n)) + 1, n) for n in range(5000))
    for way, where in (("by TCP", ["-h", host, "-p", port]), ("by a Unix socket", ["-s", path])):
        base = [cli, *where]
        comparison.check(Run(f"redis-cli {way}", base, input=lines.encode() + b"DEL a l\n"))
        comparison.check(Run(f"redis-cli --pipe {way}", [*base, "--pipe"], input=pipe))
        comparison.check(Run(f"redis-cli -r {way}", [*base, "-r", 5, "-i", "0.02", "INCRBY", "none", 0]))
        comparison.check(
            Run(f"redis-cli --scan {way}", ["/bin/sh", "-c", '"$@" --scan | sort | tail -3', "sh", *base], program=cli)
        )
        counts = ((r'"[\d.]+"', "N"), (r"^.*rps.*\n|^.*\r", ""))
        for options in (["-c", 20, "-P", 4], ["--threads", 2, "-c", 10]):
            words = ["-n", 1000, "-t", "ping,set,get,lpush,lrange_100", "--csv", *options]
            comparison.check(Run(f"redis-benchmark {options[0]} {way}", [benchmark, *where, *words], changes=counts))


# --- MariaDB ---------------------------------------------------------------------------------------------------------


def mariadb(comparison: Comparison, environment: "dict[str, str]", _release: str) -> None:
    client, slap = comparison.clients.program("mariadb"), comparison.clients.program("mariadb-slap")
    host, port = environment["SERVER_MYSQL_TCP"].split(":")
    text = "".join(f"INSERT INTO t VALUES ({n}, REPEAT('{n}', 100));\n" for n in range(300))
    text = f"""CREATE DATABASE clients; USE clients; CREATE TABLE t (n INT PRIMARY KEY, s TEXT);
        {text} SELECT COUNT(*), SUM(n), MD5(GROUP_CONCAT(s ORDER BY n)) FROM t; SELECT * FROM t WHERE n < 50;
        SELECT SLEEP(0.1); INSERT INTO t VALUES (1, 'twice'); SELECT * FROM none; DROP DATABASE clients;
        SELECT 'after an error'; KILL CONNECTION_ID(); SELECT 'after the loss';"""
    ways = {"by TCP": [f"--host={host}", f"--port={port}", "--protocol=tcp"],
            "by a Unix socket": [f"--socket={environment['SERVER_MYSQL']}"]}  # fmt: skip
    changes = (
        (r"\b\d+\.\d+ sec(onds)?", "TIME"), (r"[Cc]onnection id: +\d+", "connection id: N"),
        # After the loss of the connection, the answer to the next statement depends on how far the loss has come.
        (r"^ERROR 20(06|13|26) \(HY000\) (at line \d+): .*", r"ERROR: lost \2"),
    )  # fmt: skip
    for way, where in ways.items():
        base = ["--no-defaults", "--user=root", *where]
        command = [client, *base, "--force", "--verbose"]
        comparison.check(Run(f"mariadb {way}", command, input=text.encode(), changes=changes, status=None))
        words = ["--auto-generate-sql", "--auto-generate-sql-load-type=mixed", "--concurrency=10",
                 "--number-of-queries=200"]  # fmt: skip
        comparison.check(Run(f"mariadb-slap {way}", [slap, *base, *words], changes=changes))


# --- libcurl ---------------------------------------------------------------------------------------------------------

HAVE_HEADERS = """ARPA_INET ASSERT ERRNO FCNTL INTTYPES LOCALE NETDB NETINET_IN NETINET_TCP POLL PTHREAD SETJMP SIGNAL
    STDBOOL STDINT STDLIB STRING SYS_IOCTL SYS_POLL SYS_RESOURCE SYS_SELECT SYS_SOCKET SYS_STAT SYS_TIME SYS_TYPES
    SYS_UN TIME UNISTD"""
HAVE = """BOOL_T CLOCK_GETTIME_MONOTONIC FCNTL_O_NONBLOCK FREEADDRINFO GETADDRINFO GETRLIMIT GETTIMEOFDAY GMTIME_R
    LOCALTIME_R LONGLONG PIPE POLL_FINE RECV SA_FAMILY_T SELECT SEND SETLOCALE SETRLIMIT SIGNAL SOCKET SOCKETPAIR
    STRCASECMP STRDUP STRTOLL STRUCT_SOCKADDR_STORAGE STRUCT_TIMEVAL SUSECONDS_T UNAME VARIADIC_MACROS_C99"""
CONFIGURED = """
#define OS "Linux"
#define RECV_TYPE_ARG1 int
#define RECV_TYPE_ARG2 void *
#define RECV_TYPE_ARG3 size_t
#define RECV_TYPE_ARG4 int
#define RECV_TYPE_RETV ssize_t
#define SEND_QUAL_ARG2 const
#define SEND_TYPE_ARG1 int
#define SEND_TYPE_ARG2 void *
#define SEND_TYPE_ARG3 size_t
#define SEND_TYPE_ARG4 int
#define SEND_TYPE_RETV ssize_t
#define SIZEOF_CURL_OFF_T 8
#define SIZEOF_INT __SIZEOF_INT__
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_OFF_T 8
#define SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#define SIZEOF_TIME_T __SIZEOF_LONG__
#define STDC_HEADERS 1
#define TIME_WITH_SYS_TIME 1
#define USE_THREADS_POSIX 1
#define _FILE_OFFSET_BITS 64
"""
SERVERS_OF_CURL = ("fake_ntlm", "mqttd", "resolve", "rtspd", "sockfilt", "socksd", "sws", "tftpd")
LIBRARY_OF_SERVERS = """base64 curl_multibyte dynbuf inet_pton memdebug mprintf nonblock strcase strdup strtoofft
    timediff warnless""".split()
WRAPPER = '#!/bin/sh\nexec $CLIENT_LAUNCHER "{}" "$@"\n'


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class CurlTests:
    """A build tree for runtests.pl. The programs under test are started by $CLIENT_LAUNCHER."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison, self.sources = comparison, SOURCES / "curl"
        self.folder = comparison.folder / "curl"
        self.curl = comparison.clients.program("curl")
        self.tests = self.folder / "tests"
        (self.tests / "server").mkdir(parents=True)
        (self.folder / "lib").mkdir()
        words = [f"HAVE_{name}_H" for name in HAVE_HEADERS.split()] + [f"HAVE_{name}" for name in HAVE.split()]
        configured = "".join(f"#define {word} 1\n" for word in words) + CONFIGURED
        (self.folder / "lib/curl_config.h").write_text(configured)
        write_program(self.folder / "src/curl", WRAPPER.format(self.curl))
        write_program(self.folder / "curl-config", "#!/bin/sh\n")
        write_program(self.tests / "server/disabled", "#!/bin/sh\n")
        folders = [self.folder / "lib", *(self.sources / name for name in ("lib", "include", "src", "tests/server",
                                                                          "tests/libtest"))]  # fmt: skip
        self.flags = ["-O0", "-DHAVE_CONFIG_H", *(f"-I{folder}" for folder in folders)]
        self.makefile = (self.sources / "tests/libtest/Makefile.inc").read_text()

    def objects(self, name: str, sources: "list[str]") -> "list[Path]":
        folder = self.folder / "objects" / name
        folder.mkdir(parents=True)
        command = [*shlex.split(os.environ.get("CC", "cc")), "-w", *self.flags, "-c"]
        command += [str(self.sources / f"{source}.c") for source in sources]
        subprocess.run(list(map(str, command)), cwd=folder, check=True)
        return list(folder.glob("*.o"))

    def build_servers(self) -> None:
        common = [f"lib/{name}" for name in LIBRARY_OF_SERVERS]
        objects = self.objects("server", [*common, "tests/server/getpart", "tests/server/util"])
        for name in SERVERS_OF_CURL:
            program = self.comparison.compile(name, [self.sources / f"tests/server/{name}.c", *objects], *self.flags)
            program.rename(self.tests / "server" / name)

    def build_tools(self, numbers: "list[str]") -> None:
        """Compiles the programs that the tests need."""
        tools = set()
        for number in numbers:
            text = (self.sources / f"tests/data/test{number}").read_text(errors="replace")
            tools.update(re.findall(r"<tool>\s*(lib\d+)\s*</tool>", text.replace("%TESTNUMBER", number)))
        names = [f"tests/libtest/{name}" for name in ("first", "testutil", "testtrace")]
        objects = self.objects("libtest", [*names, "lib/timediff", "lib/warnless"])
        for tool in sorted(tools):
            source = re.search(rf"^{tool}_SOURCES = (\S+)", self.makefile, re.M)
            defined = re.search(rf"^{tool}_CPPFLAGS = \$\(AM_CPPFLAGS\)(.*)", self.makefile, re.M)
            if not source:
                continue
            program = self.comparison.compile(
                tool, [self.sources / "tests/libtest" / source[1], *objects], *self.flags,
                *(defined[1].split() if defined else []), *flags_of("libcurl"), "-lpthread",
            )  # fmt: skip
            write_program(self.tests / "libtest" / tool, WRAPPER.format(program))

    def run(self, numbers: "list[str]", launcher: "list[object]", changes: "dict[str, str]") -> "dict[str, str]":
        """Runs the tests. Returns for each PASS, FAIL or SKIP."""
        environment = {**self.comparison.environment(self.curl), "CLIENT_LAUNCHER": " ".join(map(str, launcher)),
                       "srcdir": str(self.sources / "tests"), "USER": getpass.getuser(), **changes}  # fmt: skip
        log = self.tests / "log.txt"
        command = ["perl", f"-I{self.sources}/tests", self.sources / "tests/runtests.pl", "-c", "../src/curl", "-vc",
                   self.curl, "-n", "-a", "-am", "-p", *numbers]  # fmt: skip
        process = servers.start(command, log, cwd=self.tests, env=environment)
        process.wait()
        text = log.read_text(errors="replace")
        log.rename(self.tests / f"log{len(list(self.tests.glob('log*.txt')))}.txt")
        found = re.findall(r"^(PASS|FAIL|SKIP): (\d+) - (.*)", text, re.M)
        missing = set(numbers) - {number for _, number, _ in found}
        if missing:
            self.comparison.failed.append(f"runtests.pl does not run {sorted(missing, key=int)}:\n{text[-3000:]}")
        return {f"{number} ({what})": result for result, number, what in found}


def curl(comparison: Comparison, numbers: "list[str]") -> None:
    tests = CurlTests(comparison)
    tests.build_servers()
    tests.build_tools(numbers)
    plain = tests.run(numbers, [], {})
    result = tests.run(numbers, [comparison.launcher, "--cord", "--"], {})
    for name, outcome in plain.items():
        comparison.compared += outcome != "SKIP"
        if result.get(name) != outcome:
            comparison.found[f"curl's test {name}, cord"] = f"plainly {outcome}, then {result.get(name)}"
    passed = sum(outcome == "PASS" for outcome in plain.values())
    say(f"curl's tests: {len(plain)}; {passed} pass plainly, {sum(o == 'PASS' for o in result.values())} on a fiber")
    say("not passed plainly: " + ", ".join(f"{o} {n}" for n, o in plain.items() if o != "PASS"))


# --- The command -----------------------------------------------------------------------------------------------------


def expected() -> "list[tuple[re.Pattern[str], str]]":
    lines = (HERE / "client-programs-differ.txt").read_text().splitlines()
    rows = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return [(re.compile(pattern), reason) for pattern, reason in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="postgresql,redis,mariadb,curl")
    parser.add_argument("--curl", default=CURL_TESTS, metavar="TESTS")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    folder = arguments.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        servers.fetch()
        release = postgresql_release()
        if not fetch(release):
            raise servers.Missing("the clients could not be fetched")
        comparison = Comparison(arguments.build.resolve(), folder)
        started = [name for name in names if name != "curl"]
        with servers.running(folder / "servers", started) as environment:
            for name in started:
                globals()[name](comparison, environment, release)
        if "curl" in names:
            curl(comparison, arguments.curl.split())
    except servers.Missing as error:
        say(f"DID NOT RUN: {error}")
        return servers.DID_NOT_RUN
    except servers.Failed as error:
        say(f"FAILED: {error}")
        return 1
    unexpected = 0
    reasons = expected()
    for name, text in comparison.found.items():
        reason = next((reason for pattern, reason in reasons if pattern.fullmatch(name)), None)
        say(f"differs as expected: {name}: {reason}" if reason else f"DIFFERS: {name}\n{text[:4000]}")
        unexpected += reason is None
    for text in comparison.failed:
        say(f"FAILED: {text}")
    say(f"{comparison.compared} comparisons, {len(comparison.found)} differences, {unexpected} of them unexpected")
    return 1 if unexpected or comparison.failed or not comparison.compared else 0


# curl's own tests: 1 to 60 of the program curl, the others of programs that use libcurl.
CURL_TESTS = " ".join(map(str, range(1, 61))) + """
    500 504 507 520 521 522 525 526 528 531 533 534 535 538 546 547 549 550 551 561 562 563 567 574 576 577 580 581 585
    586 588 591 592 593 595 596 597 660 1113 1114 1162 1163 1515 1516 1518 1519 1553 1569 1570 1590 1594 1595 1913 1914
    1940 1941 1942 1943 1944 3027"""

if __name__ == "__main__":
    sys.exit(main())
