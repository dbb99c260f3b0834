# SPDX-License-Identifier: MIT OR Apache-2.0
"""Web servers for WSGI applications, each in a process of its own: gunicorn with our worker, and python -m fiberrt.wsgi;
and requests to them."""

import os
import re
import signal
import subprocess
import sys

import servers

import fiberrt
from fiberrt import socket


def ask(address, text=b"hello"):
    """Sends a text, ends the sending, and returns all of the answer."""
    with socket.create_connection(address) as client:
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


def _chunks(body):
    while body:
        size, _, body = body.partition(b"\r\n")
        yield body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]


class WebServer:
    """Serves the WSGI application `app` of a module's source until the end of a `with` block."""

    COMMAND: list[str]
    LISTENS: str  # the pattern of the log's line with the host and the port

    def __init__(self, folder, application, *options, **environment):
        (folder / "application.py").write_text(application)
        self.log = folder / "log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *self.COMMAND, *options, "application:app"], cwd=folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "FOLDER": str(folder), "HOME": str(folder), **environment},
                preexec_fn=servers.end_with_us(signal.SIGTERM),
            )  # fmt: skip
        found = self.await_line(self.LISTENS)
        self.address = (found[1], int(found[2]))

    def await_line(self, pattern, count=1):
        """Waits until the log has `count` lines of that pattern, and returns the last one's match."""
        while True:
            found = list(re.finditer(pattern, self.log.read_text()))
            if len(found) >= count:
                return found[count - 1]
            assert self.process.poll() is None, self.log.read_text()
            fiberrt.sleep(0.01)

    def get(self, path, body=b"", headers=""):
        """Returns the status and the body of the answer to a request on a new connection."""
        head = b"%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n"
        head %= (b"POST" if body else b"GET", path.encode(), len(body), headers.encode())
        answer = ask(self.address, head + body)
        if not answer:
            raise ConnectionResetError("the connection has ended without an answer")
        head, _, body = answer.partition(b"\r\n\r\n")
        if b"\r\ntransfer-encoding: chunked" in head.lower():
            body = b"".join(_chunks(body))
        return int(head.split()[1]), body

    def __enter__(self):
        return self

    def __exit__(self, kind, *error):
        if kind is not None:
            print(self.log.read_text(errors="replace"))  # pytest shows it with the failure
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()


class Gunicorn(WebServer):
    COMMAND = ["gunicorn", "-k", "fiberrt.gunicorn.Worker", "-b", "127.0.0.1:0", "--graceful-timeout", "60"]
    LISTENS = r"Listening at: https?://([\d.]+):(\d+)"


class OurServer(WebServer):
    COMMAND = ["fiberrt.wsgi", "--bind", "127.0.0.1:0", "--graceful", "60"]
    LISTENS = r"serving .* at \('([\d.]+)', (\d+)\)"


def multipart(content, name="file"):
    """Returns the headers and the body of a request that uploads a file in a form."""
    body = b'--bb\r\nContent-Disposition: form-data; name="%s"; filename="x"\r\n\r\n%s\r\n--bb--\r\n' % (name.encode(), content)
    return "Content-Type: multipart/form-data; boundary=bb\r\n", body
