# SPDX-License-Identifier: MIT OR Apache-2.0
"""python3 tools/amalgamate OUT [ARCHIVES] - makes the amalgamation: the library as one file, for programs that compile it
with their own sources. With a folder ARCHIVES also the archive to publish, which it names.

    OUT/fiberrt.cc          all files of src/*/, and the headers of src/ that they include, each once
    OUT/fiberrt.h           a copy
    OUT/fiberrt_switch.S    the switches of all processors
    OUT/README.md           how to compile them
    OUT/LICENSES/           copies

The output depends only on the sources. The build's definitions and options that the code relies on are in the file:
begin.h has the definitions, and hide() says what becomes of -fvisibility=hidden.
"""

import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import packing  # noqa: E402

SPDX = "SPDX-License-" + "Identifier: MIT OR Apache-2.0"  # in parts: reuse would read it as a line of this file
PROCESSORS = {"x86_64": "__x86_64__", "aarch64": "__aarch64__", "riscv64": "__riscv"}  # the macro of each src/arch/*.S
BACKENDS = {"ev": "defined FIBERRT_HAVE_EV", "uring": "defined FIBERRT_HAVE_URING"}  # as src/CMakeLists.txt leaves files out

OWN = re.compile(r'#include "([a-z_]+/[a-z_0-9]+\.h)"')
CONDITION = re.compile(r"\s*#\s*(if|endif)")
NAMESPACE = re.compile(r"(inline )?namespace fiberrt\b.*\{$")
END_OF_NAMESPACE = re.compile(r"\} // namespace fiberrt\b")


def text_of(path: Path) -> list[str]:
    """The lines of a source, without the licence, which stands once at the top of the output."""
    first, *rest = path.read_text().splitlines()
    if SPDX not in first:
        sys.exit(f"amalgamate: {path} does not begin with the line of the licence")
    return rest


class Inliner:
    """Puts sources one after the other, each behind the headers of src/ that it includes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.done: set[str] = set()  # headers of src/
        self.included: set[str] = set()  # other headers, outside of conditions

    def add(self, name: str, guard: str = "") -> None:
        lines = text_of(ROOT / "src" / name)
        for line in lines:
            # Also an include within a condition comes here: files that have it without one may follow.
            if (own := OWN.match(line)) and own[1] not in self.done:
                self.done.add(own[1])
                self.add(own[1], guard_of(own[1]))
        self.lines += ["", f"/* ---- src/{name} " + "-" * (120 - len(f"/* ---- src/{name}  */")) + " */", ""]
        if guard:
            self.lines += [f"#if {guard}", ""]
        depth = 0
        for line in lines:
            if condition := CONDITION.match(line):
                depth += 1 if condition[1] == "if" else -1
            if OWN.match(line) or line == "#pragma once":
                continue
            if line.startswith("#include") and not depth and not guard:
                if line in self.included:
                    continue
                self.included.add(line)
            self.lines.append(line)
        if guard:
            self.lines += ["", "#endif"]


def hide(lines: list[str]) -> list[str]:
    """Gives the library's own names hidden visibility. The option -fvisibility=hidden does it for definitions; a pragma
    does it for declarations, too. So the pragma holds in the library's namespace only: functions of other libraries are
    declared outside."""
    out: list[str] = []
    for line in lines:
        if NAMESPACE.match(line):
            # Two parts of the namespace with only comments between them share a pragma.
            at = len(out)
            while at and (not out[at - 1] or out[at - 1].startswith("//") or out[at - 1].startswith("/* ----")):
                at -= 1
            if at and out[at - 1] == "#pragma GCC visibility pop":
                del out[at - 1]
            else:
                out.append("#pragma GCC visibility push(hidden)")
        out.append(line)
        if END_OF_NAMESPACE.match(line):
            out.append("#pragma GCC visibility pop")
    return out


def fix_thread_locals(lines: list[str]) -> list[str]:
    """Gives the variables of threads the model that the build gives them by -ftls-model=initial-exec: a load relative
    to the thread register, without a call."""
    model = r'[[gnu::tls_model("initial-exec")]] \g<0>'
    return [re.sub(r"^((extern|inline|constinit) )*thread_local ", model, line) for line in lines]


def squeeze(lines: list[str]) -> list[str]:
    """Without more than one empty line at a time."""
    return [line for i, line in enumerate(lines) if line or (i and lines[i - 1])]


def guard_of(name: str) -> str:
    if name.startswith("posix/") and name != "posix/posix.cc":
        return "FIBERRT_ADOPTS"
    backend = re.fullmatch(r"[a-z]+/(ev|uring)(_[a-z_]+)?\.cc", name)
    return BACKENDS[backend[1]] if backend else ""


def library(head: list[str]) -> list[str]:
    names = sorted(str(path.relative_to(ROOT / "src")) for path in ROOT.glob("src/*/*.cc"))
    # Those that use the library's namespace are last, as they do so for the rest of the file.
    names.sort(key=lambda name: "\nusing namespace " in (ROOT / "src" / name).read_text())
    inliner = Inliner()
    for name in names:
        inliner.add(name, guard_of(name))
    return squeeze([*head, "", *text_of(HERE / "begin.h"), *hide(fix_thread_locals(inliner.lines))])


def switches(head: list[str]) -> list[str]:
    inliner = Inliner()
    for i, (processor, macro) in enumerate(PROCESSORS.items()):
        inliner.lines += ["", f"#{'el' if i else ''}if defined {macro}"]
        inliner.done.clear() # each branch has its own headers
        inliner.add(f"arch/{processor}.S")
    return squeeze([*head, *inliner.lines, "", "#else", '#error "fiberrt has no switch for this processor"', "#endif"])


def main(out: Path) -> None:
    def head(file: str, what: str) -> list[str]:
        return [
            f"/* {SPDX} */",
            "/*",
            f" * {file} - {what} of libfiberrt {packing.version(ROOT)}, made from its sources by tools/amalgamate: change those.",
            " * README.md next to this file says how to compile it.",
            " */",
        ]

    out.mkdir(parents=True, exist_ok=True)
    for name, lines in {
        "fiberrt.cc": library(head("fiberrt.cc", "all")),
        "fiberrt_switch.S": switches(head("fiberrt_switch.S", "the switch")),
    }.items():
        (out / name).write_text("\n".join(lines) + "\n")
    shutil.copyfile(ROOT / "include/fiberrt.h", out / "fiberrt.h")
    shutil.copyfile(HERE / "README.md", out / "README.md")
    shutil.copytree(ROOT / "LICENSES", out / "LICENSES", dirs_exist_ok=True)


def publish(out: Path, folder: Path) -> None:
    """Packs the amalgamation into the folder."""
    name = f"fiberrt-amalgamation-{packing.version(ROOT)}"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("fiberrt-amalgamation-*.tar.gz"):  # of another version
        old.unlink()
    archive = folder / f"{name}.tar.gz"
    packing.pack(out, archive, name)
    print(archive)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
    if len(sys.argv) == 3:
        publish(Path(sys.argv[1]), Path(sys.argv[2]))
