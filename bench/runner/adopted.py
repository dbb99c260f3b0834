# SPDX-License-Identifier: MIT OR Apache-2.0
"""Subjects that use an adopted library: OpenSSL in a web server, libpq in a client."""

import atexit
import functools
import shutil
import sys
import tempfile
import time
from pathlib import Path

from runner.benches import ROOT, Failure, LeftOut
from runner.processes import Server, call, server_and_load_cpus
from runner.servers import Http


class Https(Http):
    """A web server with TLS. 1k: as http/1k, on connections kept alive. handshake: a connection with a full handshake
    and one request."""

    names = ("https/1k", "https/handshake")
    example = "httpsd"
    certificate = None

    def find_load(self, arguments):
        self.seconds = max(0.2, 40 * arguments.min_time)
        self.load = arguments.build_dir / "bench" / "https_load"
        if not self.load.is_file():
            raise LeftOut(f"not built (no {self.load})")
        if not shutil.which("openssl"):
            raise LeftOut("no openssl to make a certificate")

    @classmethod
    def files(cls):
        """The certificate and the key of both servers: P-256, as most sites have now."""
        if not cls.certificate:
            folder = Path(tempfile.mkdtemp())
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            folder.chmod(0o755)
            call(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                  "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "30", "-subj", "/CN=localhost"])
            cls.certificate = folder / "cert.pem", folder / "key.pem"
        return cls.certificate

    def server(self, directory, cpus, threads):
        certificate, key = self.files()
        if self.subject == "nginx":
            files = f"ssl_certificate {certificate}; ssl_certificate_key {key};"
            return self.nginx(directory, cpus, threads, " ssl", files + " ssl_protocols TLSv1.2 TLSv1.3;")
        return Server([self.program, "0", certificate, key, directory / "root"], r"listening on .*:(\d+)", cpus)

    def cpu_us(self, server, shape, load_cpu):
        connections, mode = (100, "keep") if shape == "1k" else (50, "new")
        worker = server.process.pid
        if self.subject == "nginx":
            worker = self.worker_of(worker)
        output = call([self.load, str(server.port), str(worker), str(connections), str(self.seconds), mode], load_cpu)
        done, cpu_ns = map(int, output.split())
        if not done:
            raise Failure("no answer in the time of the measurement")
        return cpu_ns / done / 1000

    @staticmethod
    def worker_of(master):
        """nginx's worker; the master only waits."""
        for _ in range(600):
            workers = Path(f"/proc/{master}/task/{master}/children").read_text().split()
            if workers:
                return int(workers[0])
            time.sleep(0.1)
        raise Failure("nginx has no worker")


@functools.cache
def postgresql():
    """Starts a PostgreSQL server, of those that the tests have, until this program ends. Returns where it is.

    It may use all processors. On one that the client does not use, each query would interrupt that processor, which the
    client pays for: on a virtual machine more than for the query."""
    sys.path.append(str(ROOT / "tests/posix"))
    import servers

    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        running = servers.running(Path(folder), ["postgresql"])
        environment = running.__enter__()
    except servers.Missing as reason:
        raise LeftOut(f"no PostgreSQL server: {reason}") from None
    except servers.Failed as reason:
        raise Failure(f"PostgreSQL: {reason}") from None
    atexit.register(running.__exit__, None, None, None)
    return environment["SERVER_PQ_TCP"] + " gssencmode=disable"


class Query:
    """A client of PostgreSQL with many connections: fibers of one thread, a thread each, or greenlets of gevent."""

    names = ("query/100", "query/1000")

    def __init__(self, subject, arguments):
        self.seconds = max(0.2, 40 * arguments.min_time)
        if subject == "gevent_psycogreen":
            self.command = [arguments.python, ROOT / "bench/python/query.py"]
            if not arguments.python.is_file():
                raise LeftOut(f"no {arguments.python}, which ./dev bench python makes")
            try:
                call([arguments.python, "-c", "import gevent, psycogreen, psycopg2"])
            except Failure:
                raise LeftOut("gevent, psycogreen or psycopg2 is not installed there") from None
            return
        program = arguments.build_dir / "bench" / "query"
        self.command = [program, "threads" if subject == "threads" else "fibers"]
        if not program.is_file():
            raise LeftOut(f"not built (no {program})")

    def measure(self, _, shape):
        client_cpu, _ = server_and_load_cpus()
        output = call([*self.command, shape, str(self.seconds), postgresql()], client_cpu)
        queries, cpu_ns = map(int, output.split())
        if not queries:
            raise Failure("no answer in the time of the measurement")
        return {shape: cpu_ns / queries / 1000}, None
