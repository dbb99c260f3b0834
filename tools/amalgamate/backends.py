# SPDX-License-Identifier: MIT OR Apache-2.0
"""python3 tools/amalgamate/backends.py OUT STATE - adds libev and liburing to an amalgamation in the folder OUT, for
programs that are compiled where neither is installed. Define FIBERRT_BUNDLED to compile fiberrt.cc with them.

    OUT/fiberrt_backends.c   libev, with epoll only, and liburing: to compile as C
    OUT/fiberrt_ev.h         the header of libev, which fiberrt.cc includes
    OUT/fiberrt_liburing.h   the header of liburing, which fiberrt.cc includes
    OUT/LICENSES/            also the licences of both

Their sources are those of the system's Debian release. They are fetched into the folder STATE, or are there from before.
All functions get names that begin with fiberrt_, so a program may have its own libev or liburing. Exit status 77: the
sources could not be fetched.
"""

import re
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools/dev"))
import fetched  # noqa: E402

DID_NOT_RUN = 77
INCLUDE = re.compile(r'\s*#\s*include\s+["<]([\w./+-]+)[">]')
EPOLL_ONLY = "".join(
    f"#define EV_{name}\n"
    for name in ("STANDALONE 1", "USE_EPOLL 1", "USE_EVENTFD 1", "USE_SELECT 0", "USE_POLL 0", "USE_LINUXAIO 0",
                 "USE_IOURING 0", "WALK_ENABLE 1")  # fmt: skip
)
SYSTEM = "#pragma once\n#pragma GCC system_header\n"  # compilers do not warn of system headers
LIBURING = ("setup", "queue", "register", "syscall")
# For the headers of Linux before 5.1, 5.6 and 6.12, which lack these files and that name.
COMPATIBLE = """\
#include <stdint.h>
#if __has_include(<linux/time_types.h>)
#include <linux/time_types.h>
#else
#define UAPI_LINUX_IO_URING_H_SKIP_LINUX_TIME_TYPES_H 1
struct __kernel_timespec {
    int64_t tv_sec;
    long long tv_nsec;
};
#endif
#if __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#else
struct open_how {
    uint64_t flags, mode, resolve;
};
#endif
#if __has_include(<linux/blkdev.h>)
#include <linux/blkdev.h>
#endif
#ifndef BLOCK_URING_CMD_DISCARD
#define BLOCK_URING_CMD_DISCARD _IO(0x12, 0)
#endif
"""


def sources(state: Path) -> "dict[str, dict[str, str]]":
    """The texts of both sources: the file's name in the tarball, without the first folder, and the text. One header is
    not in liburing's tarball, because liburing's build makes it."""
    names = ["libev", "liburing"]
    found = {name: sorted((state / "sources-of" / name).glob("*.orig.tar.*[!c]")) for name in names}
    if not all(len(tarballs) == 1 for tarballs in found.values()):
        state.mkdir(parents=True, exist_ok=True)
        fetcher = fetched.Fetcher(state / "log", state)
        found = {name: [tarball] for name, tarball in fetcher.sources(names).items()}
    texts: "dict[str, dict[str, str]]" = {}
    for name, (tarball, *_) in found.items():
        texts[name] = {}
        with tarfile.open(tarball) as tar:
            for member in tar:
                file = member.name.partition("/")[2]
                if member.isfile() and re.search(r"\.[ch]$|\.map$|^(LICENSE|COPYING|README)$", file):
                    texts[name][file] = tar.extractfile(member).read().decode("utf-8", "replace")
    major, minor = re.search(r"_(\d+)\.(\d+)", found["liburing"][0].name).groups()
    texts["liburing"]["src/include/liburing/io_uring_version.h"] = (
        f"#define IO_URING_VERSION_MAJOR {major}\n#define IO_URING_VERSION_MINOR {minor}\n"
    )
    return texts


def inlined(files: "dict[str, str]", name: str, instead: "dict[str, str]") -> str:
    """The text of a file with the files that it includes by `"..."`. `instead` has other texts for some of these. Files
    are put in wherever they are included, since some includes are under a condition; their guards do the rest."""
    out = []
    for line in files[name].splitlines():
        include = INCLUDE.match(line)
        if include and include[1] in instead:
            line = instead[include[1]]
        elif include and (own := place(files, name, include[1])):
            line = inlined(files, own, instead)
        elif re.match(r"#define _(DEFAULT|POSIX_C)_SOURCE\b", line):
            continue  # fiberrt_backends.c has defined _GNU_SOURCE
        out.append(line)
    return "\n".join(out) + "\n"


def place(files: "dict[str, str]", by: str, include: str) -> str:
    """The name in `files` of the file that another one includes; empty if it is not there."""
    for folder in (Path(by).parent, Path("src"), Path("src/include")):
        parts: "list[str]" = []
        for part in (folder / include).parts:
            if part == "..":
                parts.pop()
            else:
                parts.append(part)
        if "/".join(parts) in files:
            return "/".join(parts)
    return ""


def renamed(names: "set[str]") -> str:
    return "".join(f"#define {name} fiberrt_{name}\n" for name in sorted(names))


def headers(ev: "dict[str, str]", uring: "dict[str, str]") -> "dict[str, str]":
    """Both headers, with the definitions that rename all functions."""
    ev_names = set(re.findall(r"^EV_API_DECL [\w\s*]*?(ev_\w+)\s*\(", ev["ev.h"], re.M)) | {"ev_default_loop_ptr"}
    liburing = inlined(uring, "src/include/liburing.h", {"liburing/compat.h": COMPATIBLE})
    texts = "".join(uring[f"src/{name}.c"] for name in LIBURING)
    uring_names = set(re.findall(r"^(?!static)[a-z_][\w \t*]*?\b(_*io_uring_\w+)\(", texts, re.M))
    uring_names -= set(re.findall(r"^(?:static inline|IOURINGINLINE)[\w\s*]*?(\w+)\(", liburing, re.M))
    if "ev_run" not in ev_names or "io_uring_submit" not in uring_names:
        sys.exit("backends.py: it does not understand the headers of this libev or liburing")
    return {
        "fiberrt_ev.h": SYSTEM + EPOLL_ONLY + renamed(ev_names) + ev["ev.h"],
        "fiberrt_liburing.h": SYSTEM + renamed(uring_names) + liburing,
    }


def implementation(ev: "dict[str, str]", uring: "dict[str, str]", names: "list[str]") -> str:
    backends = {f"ev_{name}.c": "" for name in ("iocp", "win32", "port", "kqueue", "linuxaio", "iouring", "poll", "select")}
    libev = inlined(ev, "ev.c", {"config.h": "", "ev.h": "", **backends})
    own = {f"liburing{part}.h": "" for part in ("", "/compat", "/io_uring", "/barrier")}
    parts = [inlined(uring, f"src/{name}.c", own) for name in LIBURING]
    hidden = "".join(f'__asm__(".hidden {name}");\n' for name in names)
    # The flag 3 marks the following lines as a system header, so compilers print no warnings for them.
    return f"""\
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
# 1 "fiberrt_backends.c" 3
#include "fiberrt_ev.h"
#include "fiberrt_liburing.h"
{hidden}
{"".join(parts)}
{libev}"""


def head(file: str, what: str) -> str:
    return f"""\
/*
 * {file} - {what}. Made from their sources by tools/amalgamate/backends.py of libfiberrt.
 * libev: Copyright (c) 2007-2020 Marc Alexander Lehmann, BSD-2-Clause OR GPL-2.0-or-later.
 * liburing: Copyright (c) 2019-2025 Jens Axboe and others, MIT. Their terms are in LICENSES.
 */
"""


def main(out: Path, state: Path) -> int:
    try:
        texts = sources(state)
    except (fetched.Failed, OSError) as error:
        print(f"backends.py: DID NOT RUN: the sources of libev and liburing could not be fetched ({error}); see {state}/log")
        return DID_NOT_RUN
    ev, uring = texts["libev"], texts["liburing"]
    made = headers(ev, uring)
    names = sorted(set(re.findall(r"^#define \w+ (fiberrt_\w+)$", "".join(made.values()), re.M)))
    made["fiberrt_backends.c"] = implementation(ev, uring, names)
    for name, text in made.items():
        what = {"fiberrt_ev.h": "the header of libev", "fiberrt_liburing.h": "the header of liburing"}
        (out / name).write_text(head(name, what.get(name, "libev and liburing")) + text)
    (out / "LICENSES").mkdir(exist_ok=True)
    (out / "LICENSES/libev.txt").write_text(ev["LICENSE"])
    (out / "LICENSES/liburing.txt").write_text(uring["LICENSE"])
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]).absolute()))
