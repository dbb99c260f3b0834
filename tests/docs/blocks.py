#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks the documentation: every code block is compiled and run, or says why not; every name of the library exists.
Called by CTest (tests/docs.cmake), and by planted.py, which plants mistakes. links.py checks the links.

    blocks.py SOURCE BUILD WORK [--at-least N] [--seconds N] [--list] [--page NAME] [--cxx COMPILER]

SOURCE is the tree whose pages are read, BUILD where the library, its tools and the examples were built, WORK a folder
for this program only. CC and CXX are taken from the environment.

Pages are all Markdown files; the test `manual` checks the examples in fiberrt.h and in man pages. A block is fenced,
with a kind (```c), or indented, without one. Its kind, and marks on the lines before it, say how it is checked:

    <!-- kind: sh -->        the kind of an indented block
    <!-- frame: NAME -->     c, cpp: a fragment, put where tests/docs/frames/NAME.c (.cc) has the line BLOCK
    <!-- not run: REASON --> it is not run, for this reason
    <!-- file: NAME -->      it is this file, which a later sh block of the page uses and checks
    <!-- output -->          text: the exact output of the block before
    <!-- as in: FILE -->     the lines stand like this in FILE, except for indentation; the test of FILE checks them
    <!-- checked by: FILE --> the test FILE, which names this page, takes the block from here and runs it

Without marks: c and cpp are whole programs, compiled as GNU's C99 and C++20 without a warning, and run; they must exit
with 0. sh is run by `sh -eu` in the page's folder, which has the examples; the library is installed in $HOME/fiberrt,
its programs are in PATH, and the variables that earlier blocks of the page exported are set. console runs the lines
that begin with `$ ` in the same way; the text below each must be its output. text is no code. Any other block, also one
with neither mark nor kind, is an error. Marks for a whole page, which may stand anywhere:

    <!-- blocks checked by: FILE -->      the test FILE, which names this page, checks all its blocks
    <!-- names of others: a, b -->        fiber_… names that are not this library's; may be repeated"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys

MARKS = {"kind", "frame", "not run", "file", "output", "as in", "checked by"}
PAGE_MARKS = {"blocks checked by", "names of others"}
COMPILED = {"c": ".c", "cpp": ".cc"}


@dataclasses.dataclass
class Block:
    page: str
    line: int  # number of the first line of code
    kind: str
    code: list
    marks: dict = dataclasses.field(default_factory=dict)
    output: str = ""  # its output


class Page:
    """A file, cut into blocks, page marks, and the prose around them."""

    def __init__(self, name, text):
        self.name = name
        self.blocks = []
        self.marks = {}
        self.prose = []  # (line, text)
        self.errors = []
        self.read(text.split("\n"))

    def error(self, line, what):
        self.errors.append(f"{self.name}:{line}: {what}")

    def take_mark(self, line, text, pending):
        """Whether the text of a comment is a mark; if so, adds it to the page's marks, or to those of the next block.
        """
        match = re.fullmatch(r"([a-z ]+?)(?:: *(.*))?", text.strip())
        if match and match[1] in PAGE_MARKS:
            self.marks[match[1]] = ", ".join(filter(None, (self.marks.get(match[1]), match[2])))
        elif match and match[1] in MARKS:
            pending[match[1]] = match[2] or ""
        elif not text.strip().startswith("SPDX"):
            pending["unknown"] = text.strip()  # a comment, unless a block follows

    def add(self, line, kind, code, pending):
        marks = dict(pending)
        if "unknown" in marks:
            self.error(line, f"unknown mark: {marks['unknown']}")
        pending.clear()
        self.blocks.append(Block(self.name, line, marks.get("kind", kind), code, marks))

    def read(self, lines):
        pending = {}
        number = 0
        in_list = False  # indented lines in a list item are its text, unless they are indented deeper
        before = ""
        while number < len(lines):
            text = lines[number]
            number += 1
            fence = re.match(r"( *)```+(.*)", text)
            comment = re.fullmatch(r"<!--(.*)-->", text.strip())
            if fence:
                first = number + 1
                code = []
                while number < len(lines) and not re.match(r" *```+ *$", lines[number]):
                    code.append(lines[number].removeprefix(fence[1]))
                    number += 1
                if number == len(lines):
                    self.error(first - 1, "this block has no end")
                number += 1
                self.add(first, fence[2].strip(), code, pending)
            elif comment:
                self.take_mark(number, comment[1], pending)
            elif text.startswith("    ") and not before.strip() and not in_list:
                first = number
                code = [text[4:]]
                while number < len(lines) and (lines[number].startswith("    ") or not lines[number].strip()):
                    code.append(lines[number][4:])
                    number += 1
                while not code[-1].strip():
                    code.pop()
                self.add(first, "", code, pending)
            else:
                if text.strip():
                    self.no_block(number, pending)
                if text.strip() and not text.startswith(" "):
                    in_list = bool(re.match(r"([-*]|\d+\.) ", text))
                self.prose.append((number, text))
            before = lines[number - 1] if number <= len(lines) else ""
        self.no_block(number, pending)

    def no_block(self, line, pending):
        """No block follows text that may have been marks."""
        if pending.keys() - {"unknown"}:
            self.error(line, f"no block follows the mark {', '.join(pending)}")
        pending.clear()


def slug(heading):
    """The name by which GitHub lets others refer to a heading."""
    plain = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


class Check:
    def __init__(self, source, build, work, seconds):
        self.source, self.build, self.work = source, build, work
        self.seconds = seconds
        self.errors = []
        self.exports = {}  # for each page: the lines of its blocks, for the shells of later blocks
        self.counts = {}
        self.not_run = []
        self.home = work / "home"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("FIBERRT_")}
        self.environment.update(HOME=str(self.home), LC_ALL="C",
                                PATH=f"{self.home / 'fiberrt/bin'}:{os.environ['PATH']}")
        self.only = None  # the one page that is checked

    def call_cxx(self, compiler):
        """Makes this compiler the program c++ of the pages, with warnings as errors."""
        folder = self.work / "bin"
        folder.mkdir()
        (folder / "c++").write_text(f'#!/bin/sh\n: >>"$0.called"\nexec {compiler} -Wall -Wextra -Werror "$@"\n', encoding="utf-8")
        (folder / "c++").chmod(0o755)
        self.environment["PATH"] = f"{folder}:{self.environment['PATH']}"

    def error(self, block, what):
        self.errors.append(f"{block.page}:{block.line}: {what}")

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def pages(self):
        for folder, folders, files in os.walk(self.source):
            folders[:] = sorted(f for f in folders if f != "build" and not f.startswith(".")
                                and not os.path.islink(os.path.join(folder, f)))
            for name in sorted(files):
                path = pathlib.Path(folder, name).relative_to(self.source)
                if name.endswith(".md"):
                    yield Page(str(path), (self.source / path).read_text(encoding="utf-8"))

    # Names.

    def check_names(self, page, known):
        others = {name.strip() for name in page.marks.get("names of others", "").split(",")}
        for line, text in page.prose:
            for name in re.findall(r"\b(?:fiber_[a-z0-9_]+|FIBER_[A-Z0-9_]+)", text):
                if name in known or name in others:
                    continue
                if name.endswith("_") and any(other.startswith(name) for other in known):
                    continue  # of a family: fiber_mutex_*
                page.error(line, f"there is no {name}")

    # As what kind of code a block is compiled or run.

    def program(self, block):
        """The text of the program, or None and an error."""
        at = f'#line {block.line} "{block.page}"\n'
        code = "\n".join(block.code) + "\n"
        if "frame" not in block.marks:
            return at + code
        frame = self.source / "tests/docs/frames" / (block.marks["frame"] + COMPILED[block.kind])
        if not frame.is_file():
            self.error(block, f"there is no frame {frame.name} in tests/docs/frames")
            return None
        head, found, tail = frame.read_text(encoding="utf-8").partition("\nBLOCK\n")
        if not found:
            self.error(block, f"the frame {frame.name} has no line BLOCK")
            return None
        after = head.count("\n") + 3
        return f'{head}\n{at}{code}#line {after} "{frame}"\n{tail}'

    def compile_and_run(self, block):
        text = self.program(block)
        if text is None:
            return
        suffix = COMPILED[block.kind]
        path = self.work / "programs" / f"{re.sub('[^a-z0-9]', '_', block.page.lower())}_{block.line}{suffix}"
        path.write_text(text, encoding="utf-8")
        compiler, standard = ("CXX", "-std=gnu++20") if suffix == ".cc" else ("CC", "-std=gnu99")
        command = [*shlex.split(os.environ.get(compiler, compiler.replace("CXX", "c++").lower())), standard,
                   "-Wall", "-Wextra", "-Werror", f"-I{self.source / 'include'}", str(path),
                   "-o", str(path.with_suffix("")), f"-L{self.build}", f"-Wl,-rpath,{self.build}", "-lfiberrt",
                   "-pthread"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode:
            self.error(block, f"does not compile:\n{done.stdout.rstrip()}")
            return
        self.count(block.kind)
        self.run(block, [str(path.with_suffix(""))])

    def finish(self, block, command, script=""):
        """Runs a command in the folder of the block's page. Returns its status, None if it hung, and its output."""
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", cwd=self.folder(block.page), env=self.environment,
                              start_new_session=True) as process:
            try:
                output, _ = process.communicate(script, timeout=self.seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # its child processes hold the pipe, too
                output, _ = process.communicate()
                self.error(block, f"has not ended after {self.seconds} s:\n{output.rstrip()}")
                return None, output
        return process.returncode, output

    def run(self, block, command, script=""):
        """Runs a command, which must exit with 0. Its output is the block's output."""
        status, block.output = self.finish(block, command, script)
        if status:
            self.error(block, f"ends with {status}:\n{block.output.rstrip()}")
        return status == 0

    def folder(self, page):
        folder = self.work / "pages" / re.sub(r"[^a-z0-9]", "_", page.lower())
        if not folder.exists():
            folder.mkdir(parents=True)
            for program in (self.build / "examples").glob("*"):
                if program.is_file() and os.access(program, os.X_OK):
                    (folder / program.name).symlink_to(program)
        return folder

    def install(self):
        if self.home.exists():
            return
        self.home.mkdir()
        done = subprocess.run(["cmake", "--install", str(self.build), "--prefix", str(self.home / "fiberrt")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            self.errors.append(f"the library cannot be installed:\n{done.stdout}")
        library = self.home / "fiberrt/lib"  # as the pages call it; a build for distributions may call it otherwise
        for other in ("lib64", *(p.name for p in library.glob("*-linux-gnu*"))):
            found = next((p for p in (self.home / "fiberrt" / other, library / other) if p.is_dir()), None)
            if found and not (library / "pkgconfig").exists():
                library.mkdir(exist_ok=True)
                for path in found.iterdir():
                    (library / path.name).symlink_to(path)

    def run_console(self, block):
        """Each command's output is the text below it."""
        steps = []
        for line in block.code:
            if line.startswith("$ "):
                steps.append([line[2:], []])
            elif not steps:
                self.error(block, "a console block begins with `$ `")
                return
            else:
                steps[-1][1].append(line)
        for command, expected in steps:
            _, output = self.finish(block, ["sh", "-c", self.exports.get(block.page, "") + command])
            if output.rstrip("\n") != "\n".join(expected).rstrip("\n"):
                self.error(block, f"`{command}` puts out:\n{output.rstrip()}")

    def as_in(self, block):
        path = self.source / block.marks["as in"]
        if not path.is_file():
            self.error(block, f"there is no {block.marks['as in']}")
            return
        lines = [line.strip() for line in path.read_text(encoding="utf-8").split("\n")]
        wanted = [line.strip() for line in block.code]
        if not any(lines[at:at + len(wanted)] == wanted for at in range(len(lines))):
            self.error(block, f"does not stand so in {block.marks['as in']}")
        self.count("quoted")

    def sort_out(self, page):
        """Makes the checks that need no run; returns the blocks to compile, and those to run one after the other."""
        programs, scripts = [], []
        before = None
        for at, block in enumerate(page.blocks):
            marks = block.marks
            checker = marks.get("checked by", page.marks.get("blocks checked by"))
            if checker is not None:
                test = self.source / checker
                if not test.is_file() or os.path.basename(page.name) not in test.read_text(encoding="utf-8"):
                    self.error(block, f"{checker} does not check this page")
                self.count("checked by others")
            elif "not run" in marks:
                if len(marks["not run"].split()) < 3:
                    self.error(block, "the reason why it is not run is missing")
                self.not_run.append(f"{block.page}:{block.line}: not run: {marks['not run']}")
                self.count("not run")
            elif "as in" in marks:
                self.as_in(block)
            elif "file" in marks:
                users = [b for b in page.blocks[at + 1:] if b.kind in ("sh", "console")
                         and "not run" not in b.marks and marks["file"] in "\n".join(b.code)]
                if not users and marks["file"] != "CMakeLists.txt":
                    self.error(block, f"no later sh block uses {marks['file']}")
                scripts.append(block)
            elif "output" in marks:
                if block.kind != "text" or before is None or before.kind not in (*COMPILED, "sh"):
                    self.error(block, "output must be text, and follow what puts it out")
                else:
                    marks["of"] = before
            elif "frame" in marks and block.kind not in COMPILED:
                self.error(block, "a frame is for c and cpp")
            elif block.kind in COMPILED:
                programs.append(block)
            elif block.kind in ("sh", "console"):
                scripts.append(block)
            elif block.kind != "text":
                self.error(block, f"a block of kind {block.kind!r} is to say why it is not run" if block.kind
                           else "a block without a kind must have a mark")
            before = block
        return programs, scripts

    def run_scripts(self, scripts):
        for block in scripts:
            self.install()
            if "file" in block.marks:
                path = self.folder(block.page) / block.marks["file"]
                path.write_text("\n".join(block.code) + "\n", encoding="utf-8")
                self.count("files")
            elif block.kind == "console":
                self.run_console(block)
                self.count("console")
            else:
                before = self.exports.get(block.page, "")
                if self.run(block, ["sh", "-eu"], before + "\n".join(block.code) + "\n"):
                    self.count("sh")
                self.exports[block.page] = before + "".join(f"{l}\n" for l in block.code if l.startswith("export "))

    def all(self):
        (self.work / "programs").mkdir(parents=True)
        pages = list(self.pages())
        known = set()
        for name in ("fiberrt.h", "fiberrt.hpp"):
            header = self.source / "include" / name
            if header.is_file():
                known.update(re.findall(r"\b(?:fiber_|FIBER_)\w+", header.read_text(encoding="utf-8")))
        programs, scripts = [], []
        if self.only:
            pages = [page for page in pages if page.name == self.only]
        for page in pages:
            self.check_names(page, known)
            more, of_page = self.sort_out(page)
            programs += more
            scripts.append(of_page)
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            for block in programs:  # before the threads ask for them
                self.folder(block.page)
            list(threads.map(self.compile_and_run, programs))
        for of_page in scripts:
            self.run_scripts(of_page)
        for page in pages:
            for block in page.blocks:
                of = block.marks.get("of")
                if of is not None and of.output.rstrip("\n") != "\n".join(block.code).rstrip("\n"):
                    self.error(block, f"the block before puts out:\n{of.output.rstrip()}")
            self.errors += page.errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for folder in "source", "build", "work":
        parser.add_argument(folder, type=pathlib.Path)
    parser.add_argument("--at-least", type=int, default=0, help="fail if fewer blocks have run: they were not found")
    parser.add_argument("--seconds", type=int, default=120, help="after which a started program counts as hung")
    parser.add_argument("--list", action="store_true", help="tell of the blocks that are not run, and why")
    parser.add_argument("--page", help="the one page to check, without it all")
    parser.add_argument("--cxx", help="the C++ compiler for blocks of sh; 77 if it is missing")
    given = parser.parse_args()
    if given.cxx and not shutil.which(given.cxx):
        print(f"LEFT OUT: there is no {given.cxx}")
        return 77
    source, build, work = given.source.resolve(), given.build.resolve(), given.work.resolve()
    if work.exists():
        subprocess.run(["rm", "-rf", str(work)], check=True)
    work.mkdir(parents=True)
    check = Check(source, build, work, given.seconds)
    check.only = given.page
    if given.cxx:
        check.call_cxx(given.cxx)
    check.all()
    if given.list:
        print("\n".join(check.not_run))
    for error in check.errors:
        print(f"FAILED: {error}", file=sys.stderr)
    ran = sum(check.counts.get(kind, 0) for kind in ("c", "cpp", "sh", "console"))
    if not check.errors and ran < given.at_least:
        print(f"FAILED: {ran} blocks have run, and should be {given.at_least}: they were not found", file=sys.stderr)
        return 1
    if given.cxx and not (work / "bin/c++.called").exists():
        print(f"FAILED: no block has called c++, which stands for {given.cxx} here", file=sys.stderr)
        return 1
    print(", ".join(f"{count} {what}" for what, count in sorted(check.counts.items())))
    return 1 if check.errors else 0


if __name__ == "__main__":
    sys.exit(main())
