# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds the tools and headers that a command needs (packages.txt), and installs missing ones by apt."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ledger import Ledger, die, note, say

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "build/peers"
CROSS_ARCHS = ("aarch64", "riscv64")
FUZZED = "int LLVMFuzzerTestOneInput(const void *d, unsigned long n) { return d && n > 9 ? 0 : 0; }"
HAS_HEADERS = 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'


def succeeds(*command: str, text: str = "") -> bool:
    try:
        return subprocess.run(command, input=text.encode(), capture_output=True).returncode == 0
    except OSError:
        return False


def output(*command: str) -> str:
    """Returns the output of a program; an empty string if there is no such program."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="surrogateescape", stdin=subprocess.DEVNULL
        ).stdout
    except OSError:
        return ""


# --- The probes: each looks for the tool or the header, not for a package --------------------------------------------


def compiler(variable: str, default: str) -> list[str]:
    return shlex.split(os.environ.get(variable) or default)  # the variable may hold several words: "ccache gcc"


def tool(name: str) -> bool:
    return shutil.which(name) is not None


def c_compiler() -> bool:
    return tool(compiler("CC", "cc")[0])


def cxx_compiler() -> bool:
    return tool(compiler("CXX", "c++")[0])


def header(name: str) -> bool:
    if c_compiler():
        source = f"#if !__has_include(<{name}>)\n#error\n#endif\n"
        return succeeds(*compiler("CC", "cc"), "-E", "-x", "c", "-", text=source)
    return any(Path(folder, name).exists() for folder in ("/usr/include", "/usr/local/include"))


def peer(name: str) -> bool:
    return header(name) or (PEERS / "usr/include" / name).exists()


def peer_program(name: str) -> bool:
    return tool(name) or any((PEERS / "usr" / folder / name).exists() for folder in ("bin", "sbin"))


def cmake() -> bool:
    version = re.match(r"cmake version (\d+)\.(\d+)", output("cmake", "--version"))
    return version is not None and (int(version[1]), int(version[2])) >= (3, 25)


def clang_links(sanitizers: str, source: str) -> bool:
    return succeeds("clang", f"-fsanitize={sanitizers}", "-x", "c", "-", "-o", "/dev/null", text=source)


def clang_runtime() -> bool:
    return clang_links("address", "int main(void) { return 0; }")


def fuzzer() -> bool:
    return clang_links("fuzzer,address", FUZZED)


def llvm_cov() -> bool:
    return tool("clang") and os.access(output("clang", "--print-prog-name=llvm-cov").strip(), os.X_OK)


def module(name: str) -> bool:
    return succeeds("pkg-config", "--exists", name)


def venv() -> bool:
    return succeeds("python3", "-c", "import ensurepip, venv")


def python_headers() -> bool:
    return succeeds("python3", "-c", HAS_HEADERS)


def debian_python_headers() -> bool:
    """Whether the headers of Debian's own interpreter are here, even if another interpreter comes first in PATH."""
    return succeeds("/usr/bin/python3", "-c", HAS_HEADERS)


def gnu_parallel() -> bool:
    """Whether GNU parallel is here: moreutils has another program of that name."""
    return output("parallel", "--version").startswith("GNU parallel")


def cargo_1_90() -> bool:
    """Whether cargo can pack a crate that uses an unpublished one."""
    version = re.match(r"cargo 1\.(\d+)", output("cargo", "--version"))
    return bool(version) and int(version[1]) >= 90


def qemu() -> bool:
    return all(tool(f"qemu-{arch}") for arch in CROSS_ARCHS)


def can_cross(arch: str) -> bool:
    return tool(f"{arch}-linux-gnu-g++") and qemu() and Path("/usr/src/googletest/googletest/CMakeLists.txt").exists()


# --- packages.txt ----------------------------------------------------------------------------------------------------


def found(probe: str) -> bool:
    kind, _, argument = probe.partition(":")
    if kind == "file":
        return Path(argument).exists()
    function = globals()[kind]
    return bool(function(argument) if argument else function())


@dataclass
class Package:
    name: str
    commands: list[str]
    needed: bool
    probe: str
    purpose: str
    elsewhere: dict[str, str] = field(default_factory=dict)

    def here(self) -> bool:
        return found(self.probe)


def read_packages() -> list[Package]:
    packages = []
    for line in Path(__file__).with_name("packages.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        columns = [column.strip() for column in line.split("|")]
        if (
            len(columns) != 6
            or columns[2] not in ("need", "want")
            or columns[3].split(":")[0] not in {*globals(), "file"}
        ):
            die(f"tools/dev/packages.txt has a line that describes no package: {line}")
        name, commands, must, probe, purpose, elsewhere = columns
        names = dict(pair.split("=") for pair in elsewhere.split())
        packages.append(Package(name, commands.split(), must == "need", probe, purpose, names))
    return packages


def missing(command: str) -> list[Package]:
    wanted = {command, "every"} if command != "peers" else {command}
    return [package for package in read_packages() if wanted & set(package.commands) and not package.here()]


def provide(command: str, ledger: Ledger, yes: bool) -> list[str]:
    """Installs the packages that a command needs. Ends dev if a required one is still missing. Returns the names of the
    optional ones that are still missing, whose tests are left out."""
    lacking = missing(command)
    if lacking:
        say("missing here")
        for package in lacking:
            note(f"{package.name}: {package.purpose}")
        if install(list(dict.fromkeys(package.name for package in lacking)), yes):
            lacking = missing(command)
    needed = [package.name for package in lacking if package.needed]
    if needed:
        die("cannot go on without " + " ".join(needed))
    for package in lacking:
        ledger.leave_out(package.purpose, f"{package.name} is missing")
    return [package.name for package in lacking]


# --- apt -------------------------------------------------------------------------------------------------------------


def install(names: list[str], yes: bool) -> bool:
    if not tool("apt-get"):
        tell_other_managers(names)
        return False
    # A fresh container has no package lists at all.
    update = any(not apt_knows(name) for name in names)
    line = "apt-get install -y --no-install-recommends " + " ".join(names)
    if update:
        line = "apt-get update && " + line
    as_root = how_to_be_root(line, yes)
    if as_root is None:
        return False
    say(f"installing:  {line}")
    log = ROOT / "build/apt.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text("")

    def apt(*arguments: str) -> bool:
        with log.open("a") as file:
            command = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *arguments]
            return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file).returncode == 0

    def install_known() -> bool:
        """Installs the packages that apt knows: this release of Debian may lack one of them."""
        known = [name for name in names if apt_knows(name)]
        for name in names:
            if name not in known:
                note(f"apt knows no package {name}")
        return apt("install", "-y", "--no-install-recommends", *known)

    # Outdated package lists name files that are gone, so there is a second try with new lists.
    if (not update or apt("update")) and install_known():
        return True
    if not update and apt("update") and install_known():
        return True
    sys.stdout.writelines(line + "\n" for line in log.read_text(errors="replace").splitlines()[-20:])
    note("The installation failed; see build/apt.log.")
    return False


def how_to_be_root(line: str, yes: bool) -> "list[str] | None":
    if os.geteuid() == 0:
        return []
    if not tool("sudo"):
        note(f"There is no sudo here; as root:  {line}")
        return None
    if os.isatty(0) and os.isatty(1):
        if not yes:
            print(f"   Run this with sudo?  {line}  [y/N] ", end="", flush=True)
            if not sys.stdin.readline().lower().startswith("y"):
                return None
        return ["sudo"]
    if yes:
        return ["sudo", "-n"]
    note(f"There is no terminal to ask on. Use -y, or run:  sudo sh -c '{line}'")
    return None


def apt_knows(name: str) -> bool:
    return succeeds("apt-cache", "show", name)


def tell_other_managers(names: list[str]) -> None:
    elsewhere: dict[str, dict[str, str]] = {}
    for package in read_packages():
        elsewhere.setdefault(package.name, {}).update(package.elsewhere)
    note("There is no apt-get here. By other package managers (names as far as they are known):")
    for manager in ("dnf install", "pacman -S", "zypper install"):
        called = [elsewhere[name].get(manager.split()[0], name) for name in names]
        note(f"  {manager} " + " ".join(called))
