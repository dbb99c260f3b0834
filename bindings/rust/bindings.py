#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""bindings.py [--check] - makes fiberrt-sys/src/bindings.rs from fiberrt.h: its functions, structures, function types
and constants.

With --check it writes nothing, and fails if the file is not as it would make it. It fails if the header has a
declaration or a constant that it does not understand. fiberrt-sys/tests/header.rs compares the result with the header
by the C compiler.
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADER = HERE.parents[1] / "include/fiberrt.h"
OUT = HERE / "fiberrt-sys/src/bindings.rs"

BASES = {
    "void": "c_void", "char": "c_char", "int": "c_int", "unsigned": "c_uint", "int32_t": "i32", "uint32_t": "u32",
    "int64_t": "i64", "uint64_t": "u64", "uint8_t": "u8", "size_t": "usize",
}  # fmt: skip
OF_LIBC = ("addrinfo iovec mode_t msghdr open_how pid_t signalfd_siginfo sigset_t sockaddr socklen_t statx").split()
KEYWORDS = ("type", "move", "fn", "in", "ref", "loop", "match")


class Header:
    def __init__(self, text: str) -> None:
        self.text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S).replace("\\\n", " ")
        code = re.sub(r"^\s*#.*$", "", self.text, flags=re.M)
        code = re.sub(r'extern "C" \{|FIBERRT_CHECK_RESULT', " ", code)
        self.statements = self.split(re.sub(r"\s+", " ", code))
        self.types = set(re.findall(r"(\w+_t)\s*;", " ".join(s + ";" for s in self.statements if "typedef" in s)))
        self.types |= set(re.findall(r"\(\*(\w+_t)\)", code))

    @staticmethod
    def split(code: str) -> "list[str]":
        """Splits at the semicolons outside of braces."""
        parts, depth, begin = [], 0, 0
        for at, letter in enumerate(code):
            depth += (letter == "{") - (letter == "}")
            if letter == ";" and depth <= 0:
                parts.append(code[begin:at].strip())
                begin = at + 1
        return parts

    def base(self, name: str) -> str:
        name = name.replace("struct ", "").strip()
        if name in BASES:
            return BASES[name]
        if name in OF_LIBC:
            return f"libc::{name}"
        if name in self.types:
            return name
        sys.exit(f"bindings.py: a type that it does not know: '{name}'")

    def type(self, text: str, array_is_pointer: bool = False) -> str:
        base, *stars = text.split("*")
        constant = "const" in base.split()
        rust = self.base(re.sub(r"\bconst\b", "", base).strip())
        for star in [*stars, ""] if array_is_pointer else stars:
            rust = f"{'*const' if constant else '*mut'} {rust}"
            constant = "const" in star
        return rust

    def pointer(self, result: str, parameters: str) -> str:
        return f'Option<unsafe extern "C" fn({self.parameters(parameters, False)}){self.result(result)}>'

    def result(self, text: str) -> str:
        return "" if text.strip() == "void" else f" -> {self.type(text.strip())}"

    def declared(self, text: str, parameter: bool) -> "tuple[str, str]":
        """Returns the name (empty if there is none) and the type of a member or a parameter."""
        text = text.strip()
        function = re.fullmatch(r"(.*?)\(\*(\w*)\)\((.*)\)", text)
        if function:
            return function[2], self.pointer(function[1], function[3])
        array = re.fullmatch(r"(.*?)(\w+)\[(\w*)\]", text)
        if array and parameter:
            return array[2], self.type(array[1], array_is_pointer=True)
        if array:
            return array[2], f"[{self.type(array[1])}; {array[3]}]"
        plain = re.fullmatch(r"(.*[\s*])(\w+)", text)
        if plain and plain[2] not in BASES and plain[2] not in self.types:
            return plain[2], self.type(plain[1])
        return "", self.type(text)

    def parameters(self, text: str, named: bool) -> str:
        parts = [] if text.strip() == "void" else re.split(r",(?![^()]*\))", text)
        made = [self.declared(part, True) for part in parts]
        return ", ".join(f"{escaped(name)}: {rust}" if named else rust for name, rust in made)

    def typedefs(self) -> "list[str]":
        out = []
        for statement in self.statements:
            opaque = re.fullmatch(r"typedef struct \w+ (\w+)", statement)
            if opaque:
                out.append(f"#[repr(C)]\npub struct {opaque[1]} {{\n    private: [u8; 0],\n}}")
                continue
            function = re.fullmatch(r"typedef (\w+) \(\*(\w+)\)\((.*)\)", statement)
            if function:
                out.append(f"pub type {function[2]} = {self.pointer(function[1], function[3])};")
                continue
            struct = re.fullmatch(r"typedef struct(?: \w+)? \{(.*)\} (\w+)", statement)
            if struct:
                out.append(self.struct(struct[2], struct[1]))
            elif statement.startswith("typedef"):
                sys.exit(f"bindings.py: a typedef that it does not understand: {statement}")
        return out

    def struct(self, name: str, body: str) -> str:
        members = [self.declared(member, False) for member in body.split(";") if member.strip()]
        if [member for member, _ in members] == ["id"]:
            derived = "Clone, Copy, Debug, Default, PartialEq, Eq, Hash"
        elif [member for member, _ in members] == ["opaque"]:
            derived = ""  # a primitive stays in its place
        else:
            derived = "Clone, Copy"
        lines = [f"#[derive({derived})]"] if derived else []
        lines += ["#[repr(C)]", f"pub struct {name} {{"]
        lines += [f"    pub {escaped(member)}: {rust}," for member, rust in members]
        return "\n".join([*lines, "}"])

    def functions(self) -> "list[str]":
        out = []
        for statement in self.statements:
            if not re.match(r"FIBERRT_API ", statement):
                continue
            found = re.fullmatch(r"FIBERRT_API (.*?)(\w+)\((.*)\) FIBERRT_LINKNAME\((\w+)\) ?", statement + " ")
            if not found or found[2] != found[4]:
                sys.exit(f"bindings.py: a function that it does not understand: {statement}")
            parameters, result = self.parameters(found[3], True), self.result(found[1])
            out.append(f'    #[link_name = "fiberrt_{found[2]}"]\n    pub fn {found[2]}({parameters}){result};')
        return out

    def constants(self) -> "list[str]":
        out = []
        for name, value in re.findall(r"^#define (FIBER[A-Z]*_\w+)[ \t]+(.*?)\s*$", self.text, flags=re.M):
            if name in ("FIBERRT_API", "FIBERRT_CHECK_RESULT", "FIBERRT_H") or "INITIALIZER" in name:
                continue
            out.append(f"pub const {name}: {constant(name, value)};")
        return out


def constant(name: str, value: str) -> str:
    sized = re.fullmatch(r"\(*\((size_t|uint64_t)\)(\d+)\)?( << \d+)?\)?", value)
    if sized:
        return f"{BASES[sized[1]]} = {sized[2]}{sized[3] or ''}"
    number = re.fullmatch(r"\(?(-?\d+)(u?)\)?", value)
    if number:
        return f"{'c_uint' if number[2] else 'c_int' if name.startswith('FIBER_') else 'u32'} = {number[1]}"
    if value == "INT64_MAX":
        return "i64 = i64::MAX"
    if value == "((void *)(intptr_t)-1)":
        return "*mut c_void = -1isize as *mut c_void"
    sys.exit(f"bindings.py: a constant that it does not understand: {name} {value}")


def escaped(name: str) -> str:
    return f"r#{name}" if name in KEYWORDS else name


def with_sizes_of_arrays(text: str) -> str:
    return re.sub(r"; (FIBER_\w+)\]", r"; \1 as usize]", text)


def main() -> None:
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    header = Header(HEADER.read_text(encoding="utf-8"))
    text = "\n".join([
        "// SPDX-License-Identifier: MIT OR Apache-2.0",
        "// Made from include/fiberrt.h by bindings/rust/bindings.py: change those.",
        "",
        "use libc::{c_char, c_int, c_uint, c_void};",
        "",
        "\n".join(header.constants()),
        "",
        with_sizes_of_arrays("\n\n".join(header.typedefs())),
        "",
        'extern "C" {',
        "\n".join(header.functions()),
        "}",
        "",
    ])  # fmt: skip
    formatted = subprocess.run(
        ["rustfmt", "--edition", "2021"], input=text, capture_output=True, text=True, cwd=HERE  # with its rustfmt.toml
    )
    if formatted.returncode != 0:
        sys.exit(f"bindings.py: rustfmt: {formatted.stderr}")
    if sys.argv[1:] != ["--check"]:
        OUT.write_text(formatted.stdout, encoding="utf-8")
    elif OUT.read_text(encoding="utf-8") != formatted.stdout:
        sys.exit(f"bindings.py: {OUT} is not what fiberrt.h says: run bindings/rust/bindings.py")


if __name__ == "__main__":
    main()
