# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fetches packages from Debian's archive and unpacks them under build, so that nothing is installed and no root is
needed: the peers of the benchmarks, and for tests/posix/servers.py the servers. Fetches the peers of the Python package
from PyPI into a separate virtual environment."""

import contextlib
import getpass
import re
import shutil
import subprocess
from pathlib import Path

import machine
from ledger import Ledger, note, say, show
from processes import ROOT, finish, lines_of, run, start

APT = ROOT / "build/peers-apt"


class Failed(Exception):
    pass


class Fetcher:
    """apt with its state in a folder below build/, apart from the system's state. It treats every package as not
    installed."""

    def __init__(self, log: Path, state: Path = APT) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log, self.state = log.open("w"), state
        for folder in ("lists/partial", "cache/archives/partial", "debs"):
            (state / folder).mkdir(parents=True, exist_ok=True)
        (state / "status").write_text("")

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
        return self.run("apt-get", *arguments, *self._options(), cwd=cwd)

    def _options(self) -> "list[str]":
        state = (f"Dir::State={self.state}", f"Dir::State::status={self.state}/status",
                 f"Dir::Cache={self.state}/cache", "Debug::NoLocking=1",
                 f"APT::Sandbox::User={getpass.getuser()}")  # fmt: skip
        return [word for option in state for word in ("-o", option)]

    def unpack(self, names: "list[str]", wanted: "re.Pattern[str]", into: Path) -> None:
        """Downloads and unpacks the wanted ones of the packages that apt would install for these on an empty system."""
        into.mkdir(parents=True, exist_ok=True)
        self.apt("update")
        listed = self.apt("--simulate", "install", "--no-install-recommends", *names)
        debs = [deb for deb in re.findall(r"^Inst (\S+)", listed, re.M) if wanted.fullmatch(deb)]
        if not debs:
            raise Failed
        self.apt("download", *debs, cwd=self.state / "debs")
        for deb in (self.state / "debs").glob("*.deb"):
            self.run("dpkg", "-x", deb, into)

    def sources(self, names: "list[str]") -> "dict[str, Path]":
        """Downloads source packages, and returns the upstream tarball of each. An archive may lack the newest release,
        which comes from its sister for security: then an older one is taken."""
        options = self._source_lists()
        self.apt(*options, "update")
        tarballs = {}
        for name in names:
            # Renamed when it is complete: an interrupted download leaves no half of a tarball.
            whole = self.state / "sources-of" / name
            folder = whole.with_suffix(".new")
            for old in (whole, folder):
                shutil.rmtree(old, ignore_errors=True)
            folder.mkdir(parents=True)
            shown = self.run("apt-cache", *options, *self._options(), "showsrc", "--only-source", name)
            for version in re.findall(r"^Version: (\S+)", shown, re.M)[::-1]:
                with contextlib.suppress(Failed):
                    self.apt(*options, "source", "--download-only", f"{name}={version}", cwd=folder)
                    break
            found = list(folder.glob("*.orig.tar.*[!c]"))
            if len(found) != 1:
                raise Failed(f"no source of {name}")
            folder.rename(whole)
            tarballs[name] = whole / found[0].name
        return tarballs

    def _source_lists(self) -> "tuple[str, ...]":
        """The options by which apt sees the system's archives as archives of sources."""
        parts = self.state / "sources.list.d"
        parts.mkdir(exist_ok=True)
        system = Path("/etc/apt")
        for path in (system / "sources.list", *(system / "sources.list.d").glob("*.*")):
            if path.is_file():
                text = re.sub(r"^Types:.*", "Types: deb-src", path.read_text(), flags=re.M)
                text = re.sub(r"^deb(?= )", "deb-src", re.sub(r"^deb-src .*", "", text, flags=re.M), flags=re.M)
                (parts / path.name).write_text(text)
        return "-o", "Dir::Etc::sourcelist=-", "-o", f"Dir::Etc::sourceparts={parts}"


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
    # The peers' own packages, so no second libc.
    peers = re.compile(r"(?:lib(?:benchmark|boost|st[-0-9]|ev[-0-9]|uv1|pcre2-8|ssl3|wrap0)\S*)|nginx|socat")
    fetcher.unpack(names, peers, machine.PEERS)


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
    peers = {"greenlet": "greenlet", "gevent": "gevent", "uvloop": "uvloop", "psycogreen": "psycogreen",
             "psycopg2": "psycopg2-binary", "gunicorn": "gunicorn >= 22"}  # fmt: skip
    for module, peer in peers.items() if built else ():
        if not has(module) and not done(*pip, peer):
            note(f"LEFT OUT: {peer} (Python) could not be fetched; see {log}")
    build = ["--no-build-isolation", "--no-deps", "--force-reinstall", "-C", f"build-dir={folder}/build"]
    if built and done(*pip, *build, ROOT / "bindings/python"):
        return True
    show("\n".join(lines_of(log)[-20:]))
    return False
