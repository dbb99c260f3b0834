#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""package.py OUT DOWNLOADS - packs the crates as `cargo publish` sends them, OUT/fiberrt-sys-*.crate and
OUT/fiberrt-*.crate.

fiberrt-sys contains the library as one file, with libev and liburing, whose sources are fetched into the folder
DOWNLOADS unless they are there. So its users need none of them installed. Exit status 77: nothing was packed, because
these sources could not be fetched, or cargo is older than 1.90 and cannot pack a crate that uses an unpublished one.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DID_NOT_RUN = 77
LIBRARY = ("fiberrt.cc", "fiberrt.h", "fiberrt_switch.S", "fiberrt_backends.c", "fiberrt_ev.h", "fiberrt_liburing.h")
NEEDED = {
    "fiberrt-sys": [f"amalgamation/{name}" for name in LIBRARY]
    + ["build.rs", "src/bindings.rs", "README.md", "NOTICE", "LICENSES/MIT.txt", "LICENSES/libev.txt"],
    "fiberrt": ["src/lib.rs", "examples/echo.rs", "README.md", "LICENSES/MIT.txt"],
}
LICENCE = 'license = "MIT OR Apache-2.0"'
LICENCE_WITH_LIBRARIES = 'license = "(MIT OR Apache-2.0) AND BSD-2-Clause AND MIT"'
NOTICE = """\
This crate is distributed under the terms of MIT or Apache-2.0, whichever you prefer. In the folder amalgamation,
fiberrt_backends.c, fiberrt_ev.h and fiberrt_liburing.h are made from the sources of libev and liburing, with the terms in
LICENSES/libev.txt and LICENSES/liburing.txt.
"""


def make_library(folder: Path, downloads: Path) -> int:
    tools = ROOT / "tools/amalgamate"
    subprocess.run([sys.executable, "-B", tools, folder], check=True)
    return subprocess.run([sys.executable, "-B", tools / "backends.py", folder, downloads]).returncode


def main(out: Path, downloads: Path) -> int:
    shutil.rmtree(out, ignore_errors=True)
    crates = out / "crates"
    crates.mkdir(parents=True)
    for name in ("fiberrt", "fiberrt-sys"):
        shutil.copytree(HERE / name, crates / name, ignore=shutil.ignore_patterns("amalgamation"))
        shutil.copytree(ROOT / "LICENSES", crates / name / "LICENSES")
    shutil.copy(HERE / "Cargo.toml", crates)
    sys_crate = crates / "fiberrt-sys"
    status = make_library(sys_crate / "amalgamation", downloads)
    if status != 0:
        return status
    for text in (sys_crate / "amalgamation/LICENSES").glob("lib*.txt"):
        shutil.copy(text, sys_crate / "LICENSES")
    shutil.rmtree(sys_crate / "amalgamation/LICENSES")
    (sys_crate / "NOTICE").write_text(NOTICE, encoding="utf-8")
    manifest = sys_crate / "Cargo.toml"
    text = manifest.read_text(encoding="utf-8")
    if text.count(LICENCE) != 1:
        print(f"package.py: the manifest of fiberrt-sys does not say {LICENCE} once")
        return 1
    manifest.write_text(text.replace(LICENCE, LICENCE_WITH_LIBRARIES), encoding="utf-8")
    for name, needed in NEEDED.items():
        listing = ["cargo", "package", "--list", "--allow-dirty", "-p", name]
        listed = subprocess.run(listing, cwd=crates, check=True, capture_output=True, text=True).stdout.split("\n")
        lacking = [path for path in needed if path not in listed]
        if lacking:
            print(f"package.py: the crate {name} lacks {', '.join(lacking)}")
            return 1
    version = subprocess.run(["cargo", "--version"], capture_output=True, text=True).stdout.split()[1]
    if tuple(map(int, version.split(".")[:2])) < (1, 90):
        print("package.py: DID NOT RUN: cargo is older than 1.90, and cannot pack a crate that uses an unpublished one")
        return DID_NOT_RUN
    env = os.environ | {"CARGO_TARGET_DIR": str(out / "target")}
    pack = ["cargo", "package", "--workspace", "--no-verify", "--allow-dirty"]
    subprocess.run(pack, cwd=crates, check=True, env=env)
    packed = sorted((out / "target/package").glob("*.crate"))
    if len(packed) != len(NEEDED):
        print(f"package.py: cargo has packed {len(packed)} crates and not {len(NEEDED)}")
        return 1
    for crate in packed:
        shutil.copy(crate, out)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute()))
