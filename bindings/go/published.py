# SPDX-License-Identifier: MIT OR Apache-2.0
"""published.py FOLDER [--all] - tests the module that module.sh has made in FOLDER/module, with the library in it, as a
user gets it: `go get` from a module proxy, and `go run`, where the PATH has Go, the compilers, cp and nothing else. Then
runs the module's own tests there. --all: also with the race detector and cgo's checks."""

import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from proxy import put

TOOLS = ("go", "gcc", "g++", "as", "ld", "cp")
# A compiler of C++17 only.
OLD = """#!/bin/sh
for word; do shift; set -- "$@" "$(echo "$word" | /bin/sed s/=c++20/=c++17/)"; done
exec g++ "$@"
"""


class Machine:
    """The environment of a user who has Go and the compilers. Go's cache is the usual one, so that Go compiles the library
    once for all these tests."""

    def __init__(self, folder: Path) -> None:
        self.user, self.bin = folder / "user", folder / "bin"
        for path in (self.user, self.bin):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool) or sys.exit(f"published.py: FAILED: there is no {tool}"))
        cache, root = subprocess.check_output(["go", "env", "GOCACHE", "GOROOT"], text=True).split()
        self.env = {
            "HOME": self.user, "PATH": self.bin, "GOROOT": root, "GOCACHE": cache, "GOMODCACHE": folder / "modules",
            "GOTOOLCHAIN": "local", "GOPROXY": f"file://{folder}/proxy", "GONOSUMDB": "*", "GOFLAGS": "-modcacherw",
        }  # fmt: skip

    def run(self, *command: str, **env: str) -> "subprocess.CompletedProcess[str]":
        env = {name: str(value) for name, value in {**self.env, **env}.items()}
        return subprocess.run(["/bin/sh", "-ec", *command], cwd=self.user, env=env, capture_output=True, text=True)

    def passes(self, command: str, **env: str) -> str:
        done = self.run(command, **env)
        if done.returncode != 0:
            fail(f"{command}: {done.stdout}{done.stderr}")
        if re.sub(r"^(go: .*|\tgo mod tidy)\n", "", done.stderr, flags=re.M):
            fail(f"{command} printed: {done.stderr}")
        return done.stdout

    def refuses(self, words: str, command: str, **env: str) -> None:
        """The command fails, and the first line that is no name of a package tells the reason."""
        done = self.run(command, **env)
        said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("#")]
        if done.returncode == 0 or not said or words not in said[0]:
            fail(f"{command} ends with {done.returncode}, and does not begin with '{words}': {said}")
        print(f"ok: {env or ''} {command}: {words}")


def fail(text: str) -> None:
    sys.exit(f"published.py: FAILED: {text}")


def main(folder: Path, whole: bool) -> None:
    module = folder / "module"
    at = put(module, folder / "proxy")
    path = at.partition("@")[0]
    for old in (folder / "modules" / at, folder / "modules/cache/download" / path):
        shutil.rmtree(old, ignore_errors=True)
    machine = Machine(folder)

    readme = (module / "README.md").read_text()
    program = re.search(r"^```go\n(.*?)^```$", readme, re.M | re.S)[1]
    (machine.user / "main.go").write_text(program)
    found = re.search(r"^    go mod init .*\n(?:    .*\n)*    go run \.\n", readme, re.M)
    if not found or f"go get {path}/fiberrt\n" not in found[0]:
        fail("README.md has no commands for a new module")
    begun = time.monotonic()
    printed = machine.passes(found[0])
    got = time.monotonic()
    if printed != "99990000\n" or machine.passes("go run .") != printed:
        fail(f"the program printed: {printed}")
    print(f"ok: go get and go run in {got - begun:.1f} s, go run again in {time.monotonic() - got:.1f} s")

    machine.passes("go build -o program .")
    names = set(re.findall(r" \w (\w+)$", subprocess.check_output(["nm", machine.user / "program"], text=True), re.M))
    for name in ("ev_run", "ev_io_start", "io_uring_submit", "io_uring_queue_exit"):
        if name in names or "fiberrt_" + name not in names:
            fail(f"the program should have {name} under another name only")

    machine.refuses('"no-such-c++": executable file not found', "go build .", CXX="no-such-c++")
    (machine.bin / "old-c++").write_text(OLD)
    (machine.bin / "old-c++").chmod(0o755)
    machine.refuses("fiberrt needs C++20: gcc 12, clang 14 or newer", "go build .", CXX="old-c++")
    machine.refuses('"pkg-config": executable file not found', "go build -tags fiberrt_system .")

    machine.passes(f"go vet {shlex.quote(path)}/...")
    print(machine.passes(f"go test -count=1 {path}/..."), end="")
    print(machine.passes(f"go test -count=1 -run 'Conn|Echo|Listen' {path}/fiberrt", FIBERRT_BACKEND="ev"), end="")
    if whole:
        print(machine.passes(f"go test -count=1 -race {path}/..."), end="")
        print(machine.passes(f"go test -count=1 {path}/...", GODEBUG="cgocheck=1", GOEXPERIMENT="cgocheck2"), end="")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).absolute(), "--all" in sys.argv[2:])
