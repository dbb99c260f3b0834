# SPDX-License-Identifier: MIT OR Apache-2.0
"""Subjects that serve: echo servers and web servers, with the load for them."""

import math
import os
import re
import shutil
import socket
import tempfile
from pathlib import Path

from runner.benches import Failure, LeftOut
from runner.processes import Server, allowed_cpus, call, server_and_load_cpus


# nginx's faster way for a page of this size is to read it: by sendfile it takes some 15 % more.
NGINX_SENDFILE = "off"

class Echo:
    """An echo server and the load for it."""

    names = ("echo/64x100",)

    def __init__(self, subject, arguments):
        program, *mode = subject.split("_")
        directory = arguments.build_dir / "bench"
        self.environment = None
        if program == "fiberrt":  # the mode is a backend
            self.environment = os.environ | {"FIBERRT_BACKEND": mode.pop() if mode else "uring"}
        self.command = [directory / ("echo_" + program), *mode]
        self.load = directory / "echo_load"
        self.seconds = max(0.2, 12 * arguments.min_time)
        for executable in self.command[0], self.load:
            if not executable.is_file():
                raise LeftOut(f"not built (no {executable})")

    def measure(self, _, shape):
        server_cpu, load_cpu = server_and_load_cpus()
        with Server(self.command, r"port (\d+)\n", server_cpu, environment=self.environment) as server:
            output = call([self.load, str(server.port), str(server.process.pid), "100", str(self.seconds)], load_cpu)
        requests, cpu_ns, _ = map(int, output.split())
        return {shape: cpu_ns / requests / 1000}, None


NGINX_CONF = """\
daemon off;
worker_processes {workers};
pid {directory}/nginx.pid;
error_log {directory}/error.log;
worker_rlimit_nofile 4096;
events {{ worker_connections 1024; }}
http {{
    default_type text/html;
    access_log off;
    sendfile {sendfile};
    tcp_nopush on;
    keepalive_requests 1000000000;
    open_file_cache off;
    client_body_temp_path {directory}/1;
    proxy_temp_path {directory}/2;
    fastcgi_temp_path {directory}/3;
    uwsgi_temp_path {directory}/4;
    scgi_temp_path {directory}/5;
    server {{ listen 127.0.0.1:{port}{ssl} reuseport; root {directory}/root; {certificate} }}
}}
"""


class Http:
    """A web server that serves a page of 1 KiB, opened anew at each request, and wrk."""

    names = ("http/1k", "http/1k_2threads")
    example = "httpd"

    def __init__(self, subject, arguments):
        self.subject = subject
        self.peers = arguments.peers_dir
        self.find_load(arguments)
        if subject == "nginx":
            unpacked = self.peers / "usr" / "sbin" / "nginx"
            self.program = unpacked if unpacked.is_file() else shutil.which("nginx")
            if not self.program:
                raise LeftOut(f"neither {unpacked} nor an installed one")
        else:
            self.program = arguments.build_dir / "examples" / self.example
            if not self.program.is_file():
                raise LeftOut(f"not built (no {self.program})")

    def find_load(self, arguments):
        self.seconds = max(1, math.ceil(20 * arguments.min_time))  # wrk takes no fractions
        self.wrk = shutil.which("wrk")
        if not self.wrk:
            raise LeftOut("no wrk to put load on it")

    def server(self, directory, cpus, threads):
        if self.subject == "nginx":
            return self.nginx(directory, cpus, threads)
        command = [self.program, "--port", "0", "--root", directory / "root", "--threads", str(threads)]
        return Server(command, r"listening on .*:(\d+)/", cpus)

    def nginx(self, directory, cpus, threads, ssl="", certificate=""):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        config = directory / "nginx.conf"
        config.write_text(NGINX_CONF.format(directory=directory, port=port, workers=threads, sendfile=NGINX_SENDFILE,
                                            ssl=ssl, certificate=certificate))
        libraries = f"{self.peers}/usr/lib/x86_64-linux-gnu"
        return Server([self.program, "-p", directory, "-e", directory / "error.log", "-c", config], None, cpus, port,
                      {**os.environ, "LD_LIBRARY_PATH": libraries})

    def measure(self, _, shape):
        server_cpu, load_cpu = server_and_load_cpus()
        threads = 2 if shape == "1k_2threads" else 1
        if threads == 2:  # where there are but two processors, the second one has the load to do as well
            server_cpu |= set(allowed_cpus()[2:3]) or load_cpu
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            directory.chmod(0o755)  # nginx's worker may be another user
            (directory / "root").mkdir()
            (directory / "root" / "page.html").write_text("x" * 1023 + "\n")
            with self.server(directory, server_cpu, threads) as server:
                return {shape: self.cpu_us(server, shape, load_cpu)}, None

    def cpu_us(self, server, _, load_cpu):
        """The server's CPU time per request."""
        command = [self.wrk, "-t1", "-c100", f"http://127.0.0.1:{server.port}/page.html"]
        call([*command, "-d1"], load_cpu)  # the cost of the first requests does not count
        before = server.cpu_ns()
        output = call([*command, f"-d{self.seconds}"], load_cpu)
        after = server.cpu_ns()
        done = re.search(r"(\d+) requests in", output)
        if not done or "Non-2xx" in output or "Socket errors" in output:
            raise Failure("wrk saw errors: " + " ".join(re.findall("Non-2xx.*|Socket errors.*", output)))
        return (after - before) / int(done[1]) / 1000
