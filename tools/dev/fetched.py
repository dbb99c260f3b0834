# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fetches the peers of the benchmarks from Debian's archive and unpacks them under build/peers, so that nothing is
installed and no root is needed. Fetches the peers of the Python package from PyPI into a separate virtual
environment."""

import getpass
import re
import subprocess
from pathlib import Path

import machine
from ledger import Ledger, note, say, show
from processes import ROOT, finish, lines_of, run, start

APT = ROOT / "build/peers-apt"


class Failed(Exception):
    pass


class Fetcher:
    """apt with its state below build/, apart from the system's state. It treats every package as not installed."""

    def __init__(self, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log.open("w")
        for folder in ("lists/partial", "cache/archives/partial"):
            (APT / folder).mkdir(parents=True, exist_ok=True)
        (APT / "status").write_text("")

    def run(self, *command: object, cwd: Path = ROOT) -> str:
        process = start(list(command), cwd=cwd, stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL)
        assert process.stdout
        text = process.stdout.read().decode(errors="replace")
        self.log.write(text)
        self.log.flush()
        if finish(process) != 0:
            raise Failed
        return text

    def apt(self, *arguments: object, cwd: Path = ROOT) -> str:
        state = (f"Dir::State={APT}", f"Dir::State::status={APT}/status", f"Dir::Cache={APT}/cache",
                 "Debug::NoLocking=1", f"APT::Sandbox::User={getpass.getuser()}")  # fmt: skip
        return self.run("apt-get", *arguments, *(word for option in state for word in ("-o", option)), cwd=cwd)


def provide_peers(ledger: Ledger) -> None:
    names = [package.name for package in machine.missing("peers")]
    if not names:
        return
    say("unpacking under build/peers: " + " ".join(names))
    if machine.tool("apt-get") and machine.tool("dpkg"):
        try:
            fetch_peers(Fetcher(ROOT / "build/peers-apt.log"), names)
        except (Failed, OSError, KeyError, UnicodeError) as error:
            note(f"apt failed; see build/peers-apt.log. {error}")
    for package in machine.missing("peers"):
        ledger.leave_out(
            "what needs " + re.sub("-dev$", "", package.name), f"{package.name} could be neither found nor fetched"
        )


def fetch_peers(fetcher: Fetcher, names: list[str]) -> None:
    debs_here = APT / "debs"
    for folder in (machine.PEERS, debs_here):
        folder.mkdir(parents=True, exist_ok=True)
    fetcher.apt("update")
    # Selects the peers' own packages from everything that apt would install on an empty system, so no second libc.
    peers = r"^Inst ((?:lib(?:benchmark|boost|st[-0-9]|ev[-0-9]|uv1|pcre2-8|ssl3|wrap0)\S*)|nginx|socat)(?= )"
    debs = re.findall(peers, fetcher.apt("--simulate", "install", "--no-install-recommends", *names), re.M)
    if not debs:
        raise Failed
    fetcher.apt("download", *debs, cwd=debs_here)
    for deb in debs_here.glob("*.deb"):
        fetcher.run("dpkg", "-x", deb, machine.PEERS)


def provide_python_peers(folder: Path) -> bool:
    """Makes a virtual environment with the Python package of these sources and its peers. A peer that cannot be fetched
    is left out and reported."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    log.write_text("")
    python, pip = folder / "venv/bin/python", [folder / "venv/bin/pip", "install", "--disable-pip-version-check"]

    def done(*command: object) -> bool:
        return run(list(command), log=log) == 0

    def has(modules: str) -> bool:
        return done(python, "-c", f"import {modules}")

    built = python.exists() or done("python3", "-m", "venv", folder / "venv")
    built = built and (has("scikit_build_core, pybind11") or done(*pip, "scikit-build-core >= 0.10", "pybind11 >= 2.13"))
    for peer in ("greenlet", "gevent", "uvloop") if built else ():
        if not has(peer) and not done(*pip, peer):
            note(f"LEFT OUT: {peer} (Python) could not be fetched; see {log}")
    build = ["--no-build-isolation", "--no-deps", "--force-reinstall", "-C", f"build-dir={folder}/build"]
    if built and done(*pip, *build, ROOT / "bindings/python"):
        return True
    show("\n".join(lines_of(log)[-20:]))
    return False
