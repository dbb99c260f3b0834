# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is fetched from Debian's archive and lies under build/, so that nothing is installed and no root is needed: the
peers of the benchmarks, and libev for the processors of the cross builds, compiled from its source package, because
there are binaries for only some of them."""

import getpass
import os
import re
import shutil
import subprocess
from pathlib import Path

import machine
from ledger import Ledger, note, say
from processes import ROOT, finish, start

APT = ROOT / "build/peers-apt"
CROSS = ROOT / "build/cross"


class Failed(Exception):
    pass


class Fetcher:
    """apt with its state below build/, so that it does not touch the system's; nothing counts as installed."""

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


# --- The peers of the benchmarks -------------------------------------------------------------------------------------


def provide_peers(ledger: Ledger) -> None:
    names = [package.name for package in machine.missing("peers")]
    if not names:
        return
    say("unpacking under build/peers: " + " ".join(names))
    if machine.tool("apt-get") and machine.tool("dpkg"):
        try:
            fetch_peers(Fetcher(ROOT / "build/peers-apt.log"), names)
        except (Failed, OSError, KeyError, UnicodeError) as error:
            note(f"That did not work; build/peers-apt.log tells more. {error}")
    for package in machine.missing("peers"):
        ledger.leave_out(
            "what needs " + re.sub("-dev$", "", package.name), f"{package.name} could be neither found nor fetched"
        )


def fetch_peers(fetcher: Fetcher, names: list[str]) -> None:
    debs_here = APT / "debs"
    for folder in (machine.PEERS, debs_here):
        folder.mkdir(parents=True, exist_ok=True)
    fetcher.apt("update")
    # Of all that installing them on an empty system would bring, only the peers' own packages: no other libc.
    peers = r"^Inst ((?:lib(?:benchmark|boost|st[-0-9]|ev[-0-9]|uv1|pcre2-8|ssl3|wrap0)\S*)|nginx|socat)(?= )"
    debs = re.findall(peers, fetcher.apt("--simulate", "install", "--no-install-recommends", *names), re.M)
    if not debs:
        raise Failed
    fetcher.apt("download", *debs, cwd=debs_here)
    for deb in debs_here.glob("*.deb"):
        fetcher.run("dpkg", "-x", deb, machine.PEERS)


# --- libev for other processors --------------------------------------------------------------------------------------


def has_cross_ev(arch: str) -> bool:
    return all((CROSS / arch / name).exists() for name in ("include/ev.h", "lib/libev.so", "lib/libev.a"))


def provide_cross_ev(ledger: Ledger) -> None:
    archs = [arch for arch in machine.CROSS_ARCHS if machine.can_cross(arch) and not has_cross_ev(arch)]
    if not archs:
        return
    say("libev, from its sources, under build/cross: " + " ".join(archs))
    try:
        fetcher = Fetcher(CROSS / "log")
        if not (CROSS / "libev").exists():
            fetch_libev(fetcher)
        for arch in archs:
            make_cross_ev(fetcher, arch)
    except (Failed, OSError, KeyError, UnicodeError) as error:
        note(f"That did not work; build/cross/log tells more. {error}")
    for arch in archs:
        if not has_cross_ev(arch):
            ledger.leave_out(f"THE TESTS OF I/O ON {arch}", "the sources of libev could not be fetched or compiled")


def make_cross_ev(fetcher: Fetcher, arch: str) -> None:
    to, gcc = CROSS / arch, f"{arch}-linux-gnu-gcc"
    for folder in ("include", "lib"):
        (to / folder).mkdir(parents=True, exist_ok=True)
    lib = to / "lib"
    fetcher.run(gcc, "-O2", "-w", "-fPIC", "-DEV_STANDALONE=1", "-c", "-o", lib / "ev.o", CROSS / "libev/ev.c")
    fetcher.run(gcc, "-shared", "-Wl,-soname,libev.so.4", "-o", lib / "libev.so.4", lib / "ev.o", "-lm")
    (lib / "libev.a").unlink(missing_ok=True)
    fetcher.run(f"{arch}-linux-gnu-ar", "rcs", lib / "libev.a", lib / "ev.o")
    (lib / "libev.so").unlink(missing_ok=True)
    (lib / "libev.so").symlink_to("libev.so.4")
    shutil.copy(CROSS / "libev/ev.h", to / "include")


def fetch_libev(fetcher: Fetcher) -> None:
    """From where the system has its packages, whether or not it asks for sources there."""
    sources, archive, unpacked = APT / "sources.list.d", CROSS / "tar", CROSS / "libev.new"
    for folder in (archive, unpacked):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in (sources, archive, unpacked):
        folder.mkdir(parents=True, exist_ok=True)
    etc = Path("/etc/apt")
    for path in [etc / "sources.list", *etc.glob("sources.list.d/*.list")]:
        if path.exists():
            binaries = [line for line in path.read_text().splitlines() if line.startswith("deb ")]
            text = "".join(re.sub("^deb ", "deb-src ", line) + "\n" for line in binaries)
            (sources / f"{path.name}.list").write_text(text)
    for path in etc.glob("sources.list.d/*.sources"):
        (sources / path.name).write_text(re.sub("(?im)^types:.*", "Types: deb-src", path.read_text()))
    where = ("-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={sources}")
    fetcher.apt("update", *where)
    fetcher.apt("source", "--download-only", "--tar-only", "libev", *where, cwd=archive)
    tarballs = list(archive.glob("libev_*.orig.tar.*"))
    if not tarballs:
        raise Failed
    fetcher.run("tar", "-xf", tarballs[0], "-C", unpacked, "--strip-components=1")
    os.rename(unpacked, CROSS / "libev")  # whole, or not there
