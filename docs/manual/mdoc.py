# SPDX-License-Identifier: MIT OR Apache-2.0
"""Turns text of the header's comments into mdoc(7): names become links, parameters and constants are marked."""

import re

from header import structure

# Words that are parameters of functions and, far more often, words.
COMMON = {"to", "in", "fiber", "cord", "scope", "result", "value", "name", "out", "count", "key", "from",
          "pool", "size", "length", "file", "path", "limit", "number", "event", "mutex", "group", "once",
          "item", "capacity", "cases", "hooks", "tag", "user", "step", "most", "policy", "bytes", "reason",
          "flags", "deadline", "error", "permits", "message", "address", "events", "mode", "written", "lost",
          "buffer", "offset", "service", "node", "hints", "options", "status", "signals", "mask", "set",
          "info", "environment", "source", "stream", "threads", "guard", "child", "failure", "destructor",
          "apply", "init", "workers", "detached", "daemon", "pipes", "how", "op", "ops", "verdict", "n",
          "pid", "worker", "chan"}
CLOSING = ".,:;)]?!"
WORD = re.compile(
    r"^(?P<before>[(\[\"“`…]*)(?P<core>.+?)(?P<after>(?:'s|s')?[)\]\"”`.,:;?!…]*)$")


def escape(text):
    """Text as roff reads it: no line of it is a request, no backslash an escape."""
    text = text.replace("\\", "\\e")
    text = "".join(letter if ord(letter) < 128 else f"\\[u{ord(letter):04X}]" for letter in text)
    return "\\&" + text if text[:1] in (".", "'") else text


def argument(text):
    """One argument of a macro, whatever is in it."""
    text = escape(text).replace('"', "\\(dq")
    return f'"{text}"' if " " in text or not text else text


class Writer:
    """Writes the lines of one page. `names` tells what is known: a pages.Names."""

    def __init__(self, names, page, parameters=()):
        self.names = names
        self.page = page
        self.parameters = set(parameters)
        self.lines = []

    def macro(self, *words):
        self.lines.append("." + " ".join(words))

    def heading(self, text):
        self.macro("Sh", text)

    def code(self, lines):
        self.macro("Bd", "-literal", "-offset", "indent")
        self.lines += [escape(line) for line in lines]
        self.macro("Ed")

    def comment(self, lines, first=False):
        """A whole comment; `first` if nothing stands before it that a paragraph would be kept apart from."""
        for kind, content in structure(lines):
            if kind == "text":
                if not first:
                    self.macro("Pp")
                self.flow(content)
            elif kind == "code":
                self.code(content)
            elif kind == "bullets":
                self.macro("Bl", "-bullet")
                for item in content:
                    self.macro("It")
                    self.flow(item)
                self.macro("El")
            else:
                self.macro("Bl", "-tag", "-width", "Ds")
                for tag, item in content:
                    self.macro("It", self.tag(tag))
                    self.flow(item)
                self.macro("El")
            first = False

    def tag(self, text):
        if text.startswith("-E"):
            return " , ".join(f"Er \\{name}" for name in text.split(", "))
        constant, _, rest = text.partition(" ")
        if constant in self.names.constants:
            return f"Dv {constant}" + (f" No {rest}" if rest else "")
        return f"Va {argument(text)}"

    def flow(self, text):
        """A paragraph: words in lines, a new one after each sentence."""
        text = self.names.link_sections(text)
        line = []

        def flush():
            if line:
                self.lines.append(escape(" ".join(line)))
                line.clear()

        words = text.split()
        for at, word in enumerate(words):
            marked = self.mark(word, words[at + 1] if at + 1 < len(words) else "")
            if marked is None:
                line.append(word)
                long = sum(len(part) + 1 for part in line) > 90
                ends = re.search(r"[\w)\"'][.?!][)\"]?$", word)
                if long or ends:
                    flush()
            else:
                flush()
                self.macro(marked)
        flush()

    def mark(self, word, following):
        """The macro line for a word that is a name, or None."""
        match = WORD.match(word)
        if not match:
            return None
        before, core, after = match.group("before", "core", "after")
        quoted = before.endswith("`") and after.startswith("`")
        if quoted:
            before, after = before[:-1], after[1:]
        macro = self.macro_for(core, quoted)
        if macro is None and after[:1] == ")" and re.search(r"\(\w*$", core):
            core, after = core + ")", after[1:]
            macro = self.macro_for(core, quoted)
        if macro is None:
            return None
        out = macro
        if before:
            out = f"No \\&{argument(before)} Ns {macro}"
        possessive = re.match(r"'s|s'|[\"”…`]+", after)
        if possessive:
            out += f" Ns {argument(possessive.group())}"
            after = after[possessive.end() :]
        for letter in after:
            out += f" {letter}" if letter in CLOSING else f" Ns {argument(letter)}"
        return out

    def macro_for(self, core, quoted):
        names = self.names
        manual = re.match(r"^([A-Za-z_][\w.-]*)\(([1-8])\)$", core)
        if manual and manual.group(1) not in names.pages:
            return None if manual.groups() == self.page else f"Xr {manual.group(1)} {manual.group(2)}"
        call = re.match(r"^(fiber\w*|FIBER\w+)(\((.*)\))?$", core)
        if call and call.group(1) in names.pages:
            if call.group(3) is not None and call.group(3) != "":
                words = [argument(part) for part in call.group(3).split(",")]
                return f"Fn {call.group(1)} " + " ".join(words)
            if names.pages[call.group(1)] == self.page[0]:
                return f"Fn {call.group(1)}"
            return f"Xr {call.group(1)} 3"
        if core in names.types:
            return f"Vt {core}"
        if core in names.constants or core in ("NULL", "INT64_MAX", "SSIZE_MAX"):
            return f"Dv {core}"
        if re.match(r"^-E[A-Z0-9]+$", core):
            return f"Er \\{core}"
        if re.match(r"^FIBERRT_(?!VERSION)[A-Z_]+$", core):
            return f"Ev {core}"
        if core in ("fiberrt-sim", "fiberrt-doctor", "fiberrt-run", "fiberrt-top") and self.page[0] != core:
            return f"Xr {core} 1"
        if quoted:
            return f"Fa {argument(core)}"
        bare = core.lstrip("*")
        if bare in self.parameters and (core != bare or "_" in bare or bare not in COMMON):
            return f"Fa {argument(core)}"
        return None
