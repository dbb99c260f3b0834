# SPDX-License-Identifier: MIT OR Apache-2.0
"""older.py LIBRARY MAP WORK - checks that an installed library without a function that the Go package needs is refused by
that function's name: when Go links the program, and when a program starts that was linked with a newer library.
LIBRARY: libfiberrt.so.1. MAP: the version script that it was linked with. The environment is that of test.sh."""

import os
import re
import subprocess
import sys
from pathlib import Path

LACKING = "fiberrt_fiber_exchange"  # its name for the linker


def fail(text: str) -> None:
    sys.exit(f"older.py: FAILED: {text}")


def run(*command: object, **env: object) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **{name: str(value) for name, value in env.items()}}
    return subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True,
                          cwd=Path(__file__).parent)  # fmt: skip


def main(library: str, version_script: str, work: Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    names = re.findall(r" T (\w+)", run("nm", "-D", "--defined-only", library).stdout)
    if LACKING not in names:
        fail(f"{library} has no {LACKING}")
    (work / "older.c").write_text("".join(f"void {name}(void) {{}}\n" for name in names if name != LACKING))
    made = run(os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-w", "-Wl,-soname,libfiberrt.so.1",
               f"-Wl,--version-script={version_script}", work / "older.c", "-o", work / "libfiberrt.so.1")  # fmt: skip
    if made.returncode != 0:
        fail(made.stderr)
    (work / "libfiberrt.so").unlink(missing_ok=True)
    (work / "libfiberrt.so").symlink_to("libfiberrt.so.1")

    linked = run("go", "build", "-o", work / "linked", "./examples/pipeline", CGO_LDFLAGS=f"-L{work}")
    if linked.returncode == 0 or not re.search(rf"undefined reference to .{LACKING}'", linked.stderr):
        fail(f"Go links it, or says: {linked.stderr}")
    print(f"ok: linked with an older library: undefined reference to {LACKING}")

    built = run("go", "build", "-o", work / "program", "./examples/pipeline")
    if built.returncode != 0:
        fail(built.stderr)
    started = run(work / "program", "fiber", "README.md", LD_LIBRARY_PATH=work)
    says = rf"\S+: symbol lookup error: \S+: (undefined symbol: {LACKING}, version FIBERRT_\S+)\n"
    said = re.fullmatch(says, started.stderr)
    if started.returncode != 127 or not said:
        fail(f"with an older library a program ends with {started.returncode}: {started.stdout}{started.stderr}")
    print(f"ok: run with an older library: {said[1]}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]).absolute())
