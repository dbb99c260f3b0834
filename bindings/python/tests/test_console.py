# SPDX-License-Identifier: MIT OR Apache-2.0
"""The console into a running program."""

import os
import stat
import struct
import subprocess
import sys

import pytest

import fiberrt
from fiberrt import console, socket


class Client:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.prompt()

    def prompt(self, end=b">>> "):
        text = b""
        while not text.endswith(end):
            data = self.sock.recv(4096)
            if not data:
                break
            text += data
        return text.removesuffix(end).decode()

    def run(self, line, end=b">>> "):
        self.sock.sendall(line.encode() + b"\n")
        return self.prompt(end)

    def close(self):
        self.sock.close()


@pytest.fixture
def served(tmp_path):
    path = str(tmp_path / "console")
    state = {"count": 1}
    server = console.serve(path, {"state": state})
    yield path, state
    server.stop(0)
    if isinstance(sys.stdout, console._Redirected):
        sys.stdout = sys.stdout._original


def test_commands(served, capsys):
    path, state = served
    client = Client(path)
    assert client.run("1 + 1") == "2\n"
    assert client.run("state['count'] += 1") == "" and state == {"count": 2}
    assert client.run("print('here')") == "here\n"
    assert client.run("for i in range(2):", b"... ") == "" and client.run("    print(i)", b"... ") == ""
    assert client.run("") == "0\n1\n"
    assert "ZeroDivisionError" in client.run("1 / 0") and "SyntaxError" in client.run("1 +* 2")
    assert "<fiberrt.Fiber" in client.run("dump()")
    assert client.run("exit()") == ""
    client.close()
    assert capsys.readouterr().out == ""


def test_each_console_has_its_own_names_and_output(served, capsys):
    path, _ = served
    clients = [Client(path) for _ in range(2)]
    for number, client in enumerate(clients):
        assert client.run(f"name = {number}") == ""
    assert [client.run("name") for client in clients] == ["0\n", "1\n"]
    waiting = clients[0]
    waiting.sock.sendall(b"import fiberrt; fiberrt.sleep(0.01); print('late')\n")
    print("the program's own")
    assert clients[1].run("print('meanwhile')") == "meanwhile\n"
    assert waiting.prompt() == "late\n"
    assert capsys.readouterr().out == "the program's own\n"
    for client in clients:
        client.close()


def test_only_the_owner_may_connect(served):
    path, _ = served
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with pytest.raises(OSError):
        console.serve(path)


def test_another_user_is_refused(served, monkeypatch):
    path, _ = served

    class Connection:
        def __init__(self, user):
            self.user = user

        def getsockopt(self, level, name, size):
            assert (level, name) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
            return struct.pack("3i", 1, self.user, 1)

    assert console._is_owner(Connection(os.geteuid())) and console._is_owner(Connection(0))
    assert not console._is_owner(Connection(os.geteuid() + 1))
    monkeypatch.setattr(console, "_is_owner", lambda connection: False)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        assert client.recv(10) == b""


def test_the_command(served):
    path, _ = served
    done = fiberrt.offload(
        subprocess.run, [sys.executable, "-m", "fiberrt.console", path], input="6 * 7\n", capture_output=True, text=True
    )
    assert done.returncode == 0 and ">>> 42\n" in done.stdout and f"process {os.getpid()}" in done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "fiberrt.console", path + ".nothing"], capture_output=True, text=True
    )
    assert done.returncode == 1 and "No such file" in done.stderr
    assert subprocess.run([sys.executable, "-m", "fiberrt.console"], capture_output=True).returncode == 2
