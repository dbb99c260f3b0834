#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests the example httpsd by curl, by openssl's client and by Python's: pages, ALPN, new certificates at SIGHUP,
clients that are too slow, clients that speak no TLS. Ends with 77 if there is no curl or no openssl.

Usage: httpsd_test.py HTTPSD_BINARY
"""

import hashlib
import os
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HTTPSD = sys.argv.pop() if len(sys.argv) > 1 else ""
PATIENCE_S = 120  # for events that come at once on a machine that is not busy
LARGE = 3_000_001
NO_TLS = (b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x80", b"", b"x" * 5000)


def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, timeout=PATIENCE_S, **more)


def certificate(folder, name):
    """Makes a certificate and its key."""
    done = run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
               "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "30", "-subj", f"/CN={name}",
               "-addext", "subjectAltName=IP:127.0.0.1")
    assert done.returncode == 0, done.stderr


def links_of(folder):
    for path in list(folder.iterdir()):
        try:
            yield os.readlink(path)
        except FileNotFoundError:
            pass  # closed in between


class Server:
    def __init__(self, folder, limit_ms=600_000):
        self.process = subprocess.Popen([HTTPSD, "0", folder / "cert.pem", folder / "key.pem", folder / "root",
                                         str(limit_ms)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.line()
        assert line.startswith("listening on 127.0.0.1:"), line
        self.port = int(line.rpartition(":")[2])

    def line(self):
        if not select.select([self.process.stdout], [], [], PATIENCE_S)[0]:
            raise AssertionError("no output")
        return self.process.stdout.readline().decode().strip()

    def await_no_connection(self):
        """Waits until the server has no socket but the one that listens."""
        folder, end = Path(f"/proc/{self.process.pid}/fd"), time.monotonic() + PATIENCE_S
        while sum(link.startswith("socket:") for link in links_of(folder)) > 1:
            assert time.monotonic() < end, "a connection stays open"
            time.sleep(0.01)

    def stop(self):
        self.process.kill()
        self.process.communicate()


class Httpsd(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        root = self.folder / "root"
        root.mkdir()
        (root / "index.html").write_text("<title>start</title>\n")
        (root / "empty.txt").write_text("")
        (root / "large").write_bytes(bytes(i * i % 251 for i in range(LARGE)))
        with (root / "huge").open("wb") as file:
            file.truncate(256 << 20)
        (self.folder / "secret").write_text("not below the directory")
        certificate(self.folder, "first")

    def serve(self, **more):
        server = Server(self.folder, **more)
        self.addCleanup(server.stop)
        return server

    def curl(self, server, *arguments):
        urls = [word if word.startswith("-") else f"https://127.0.0.1:{server.port}/{word}" for word in arguments]
        return run("curl", "-sS", "--path-as-is", "--cacert", self.folder / "cert.pem", *urls)

    def s_client(self, server, *arguments):
        return run("openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", *arguments, input=b"").stdout.decode()

    def connect(self, server):
        context = ssl.create_default_context(cafile=self.folder / "cert.pem")
        plain = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
        connection = context.wrap_socket(plain, server_hostname="127.0.0.1")
        self.addCleanup(connection.close)
        return connection

    def ask(self, server, request):
        """Connects and sends. On a busy machine the server's limit may pass before: tries again then."""
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                connection = self.connect(server)
                connection.sendall(request)
                return connection
            except OSError:
                if time.monotonic() > end:
                    raise

    @staticmethod
    def receive_all(connection):
        """The number of bytes until the server ends the connection, in whichever way."""
        count = 0
        try:
            while data := connection.recv(65536):
                count += len(data)
        except OSError:
            pass
        return count

    def test_pages(self):
        server = self.serve()
        self.assertEqual(self.curl(server, "").stdout, b"<title>start</title>\n")
        self.assertEqual(self.curl(server, "empty.txt").stdout, b"")
        large = self.curl(server, "large").stdout
        self.assertEqual(hashlib.sha256(large).hexdigest(),
                         hashlib.sha256((self.folder / "root/large").read_bytes()).hexdigest())
        self.assertIn(b"Content-Length: %d\r\n" % LARGE, self.curl(server, "--head", "large").stdout)
        for path in ("none", "../secret", "", "index.html?x=1"):
            status = self.curl(server, "-o/dev/null", "-w%{http_code}", path).stdout
            self.assertEqual(status, b"200" if path in ("", "index.html?x=1") else b"404", path)
        status = self.curl(server, "-o/dev/null", "-w%{http_code}", "-dbody", "").stdout
        self.assertEqual(status, b"501")

    def test_several_requests_on_one_connection(self):
        server = self.serve()
        done = self.curl(server, "-w%{num_connects} ", "-o/dev/null", "index.html", "-o/dev/null", "large",
                         "-o/dev/null", "none", "-o/dev/null", "index.html")
        self.assertEqual(done.stdout, b"1 0 0 0 ")
        connection = self.connect(server)
        connection.sendall(b"GET / HTTP/1.1\r\n\r\nGET /empty.txt HTTP/1.1\r\nConnection: close\r\n\r\n")
        answers = b""
        while data := connection.recv(4096):
            answers += data
        self.assertEqual(answers.count(b"HTTP/1.1 200 OK\r\n"), 2)
        self.assertTrue(answers.endswith(b"Content-Length: 0\r\nConnection: close\r\n\r\n"), answers)

    def test_alpn(self):
        server = self.serve()
        self.assertIn("ALPN protocol: http/1.1", self.s_client(server, "-alpn", "h2,http/1.1"))
        self.assertIn("No ALPN negotiated", self.s_client(server))
        self.assertIn("no peer certificate available", self.s_client(server, "-alpn", "h2"))
        for version in "-tls1_2", "-tls1_3":
            self.assertIn("CN = first", self.s_client(server, version))

    def test_new_certificates(self):
        server = self.serve()
        connection = self.connect(server)
        certificate(self.folder, "second")
        server.process.send_signal(signal.SIGHUP)
        self.assertEqual(server.line(), "reloaded")
        self.assertIn("CN = second", self.s_client(server))
        (self.folder / "cert.pem").write_text("no certificate")
        server.process.send_signal(signal.SIGHUP)
        self.assertEqual(server.line(), "not reloaded")
        self.assertIn("CN = second", self.s_client(server))
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")  # an older connection goes on
        self.assertTrue(connection.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n"))

    def test_slow_clients_are_cut_off(self):
        server = self.serve(limit_ms=2000)
        silent = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
        self.addCleanup(silent.close)
        self.assertEqual(self.receive_all(silent), 0)
        half = self.ask(server, b"GET / HTTP/1.1\r\n")
        takes_nothing = self.ask(server, b"GET /huge HTTP/1.1\r\n\r\n")
        self.assertEqual(self.receive_all(half), 0)
        server.await_no_connection()
        self.assertLess(self.receive_all(takes_nothing), 256 << 20)

    def test_clients_that_speak_no_tls(self):
        """The failures of some connections are not those of others."""
        server = self.serve()
        good = [self.connect(server) for _ in range(10)]
        for _ in range(20):
            bad = []
            for number in range(len(NO_TLS)):
                bad.append(socket.create_connection(("127.0.0.1", server.port), PATIENCE_S))
                bad[-1].sendall(NO_TLS[number])
            for connection in good:
                connection.sendall(b"GET /empty.txt HTTP/1.1\r\n\r\n")
            for connection in good:
                self.assertTrue(connection.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n"))
            for connection in bad:
                connection.close()
        for connection in good:
            connection.close()
        server.await_no_connection()


if __name__ == "__main__":
    for program in ("curl", "openssl"):
        if not shutil.which(program):
            print(f"SKIPPED: there is no {program}")
            sys.exit(77)
    if "tls" not in Path("/proc/sys/net/ipv4/tcp_available_ulp").read_text().split():
        print("This kernel has no kTLS, so the server sends large files by SSL_write here.")
    unittest.main(argv=[sys.argv[0], "-v"])
