#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plants mistakes in copies of fiberrt.h and of the pages, and sees that each is found.

Usage: manual_mistakes.py SOURCE_DIR
"""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
source_dir = Path(sys.argv[1])
sys.path.insert(0, str(source_dir / "docs/manual"))
import check
import manual
from header import Mistake, read_header

header_path = source_dir / "include/fiberrt.h"
header_text = header_path.read_text(encoding="utf-8")
dl_text = manual.dl_header(header_path)
exported = manual.exported_names(header_path)
failures = []


def replaced(text, old, new):
    if text.count(old) != 1:
        failures.append(f"{text.count(old)} times there, instead of once: {old!r}")
    return text.replace(old, new)


def expect(what, wrong, expected):
    """The tool must find exactly this mistake, and name it."""
    if not wrong or not all(expected in line for line in wrong):
        failures.append(f"{what}: expected {expected!r}, found {wrong}")


POLICY = " * Where: anywhere. Switches: no. Errors: -EINVAL policy is neither of the two. Since: 0.1\n"
# The mistakes planted in the header: a name, the text, its replacement, and the expected message.
IN_THE_HEADER = (
    ("no Where", POLICY, POLICY.replace("Where: anywhere. ", ""),
     "fiber_set_fork_policy: the field Where is missing"),
    ("no Switches", POLICY, POLICY.replace("Switches: no. ", ""),
     "fiber_set_fork_policy: the field Switches is missing"),
    ("no Errors", POLICY, POLICY.replace("Errors: -EINVAL policy is neither of the two. ", ""),
     "fiber_set_fork_policy: the field Errors is missing"),
    ("no Since", POLICY, POLICY.replace(" Since: 0.1", ""), "fiber_set_fork_policy: the field Since is missing"),
    ("no release", POLICY, POLICY.replace("Since: 0.1", "Since: ever"), "fiber_set_fork_policy: Since is no release"),
    ("perhaps", POLICY, POLICY.replace("Switches: no", "Switches: perhaps"),
     "fiber_set_fork_policy: Switches begins with neither"),
    ("an error that there is not", POLICY, POLICY.replace("-EINVAL", "-EINVALID"), "there is no error EINVALID"),
    ("an error that there is not, in a text", " * Waits until a cord has ended,",
     " * -ENOPE. Waits until a cord has ended,", "there is no error ENOPE"),
    ("no description", "/** Returns the handle of the calling fiber, in *out. Errors", "/** Errors",
     "fiber_self: it has no description"),
    ("no comment", "/** Resets an event. Returns 1 if it was set, 0 if not. */\n", "", "fiber_event_reset: "),
    ("a section without a field", " * Defaults: Where: anywhere. Switches: no. Since: 0.1. Errors: none.\n",
     " * Defaults: Where: anywhere. Since: 0.1. Errors: none.\n", "the field Switches is missing"),
    ("a name that nothing has", " * Waits until a cord has ended,",
     " * Waits, as fiber_wait_for, until a cord has ended,", "there is nothing called fiber_wait_for"),
    ("a constant that there is not", "one of FIBER_NEW", "one of FIBER_NOT_YET, FIBER_NEW",
     "there is nothing called FIBER_NOT_YET"),
    ("nothing above", "one of FIBER_NEW … FIBER_DEAD.", "one of the five above.", "there is nothing 'the five above'"),
    ("a constant without a comment", " /* never happens */", "", "FIBER_CASE_NONE: it has no description"),
    ("another linker name", "FIBERRT_LINKNAME(fiber_detach)", "FIBERRT_LINKNAME(fiber_attach)",
     "fiber_detach has the linker name of"),
)

sound = read_header(header_text, dl_text)
expect("nothing planted", check.comments(sound, exported) or ["none"], "none")
for what, old, new, expected in IN_THE_HEADER:
    planted = read_header(replaced(header_text, old, new), dl_text)
    expect(what, check.comments(planted, exported), expected)

# A comment at the head that has no place in fiberrt.7; a declaration that cannot be read.
for what, old, new, expected in (
        ("a paragraph without a place", " * A FIBER is a function", " * So a FIBER is a function",
         "no paragraph that begins"),
        ("a declaration unlike the others", " FIBERRT_LINKNAME(fiber_detach)", "", "not a declaration as the others")):
    try:
        manual.make_pages(read_header(replaced(header_text, old, new), dl_text))
        failures.append(f"{what}: not found")
    except (Mistake, ValueError) as mistake:
        expect(what, [str(mistake)], expected)

# fiberrt_dl.h.
planted = read_header(header_text, replaced(dl_text, "text of dlerror; as fiberrt_dl_load. Since: 0.1", "dlerror says."))
expect("no Since in fiberrt_dl.h", check.comments(planted, exported), "fiberrt_dl_open: the field Since is missing")

# The exported names: one too few, one too many.
expect("not exported", check.comments(sound, {name: of for name, of in exported.items() if name != "fiber_detach"}),
       "fiber_detach is not among the exported names")
expect("not declared", check.comments(sound, exported | {"fiber_attach": "0.1"}),
       "the exported name fiber_attach is not in the header")
expect("of another release", check.comments(sound, exported | {"fiber_detach": "0.2"}),
       "fiber_detach is exported as of 0.2, and is not")

# The pages.
pages = manual.make_pages(sound)
expect("the pages as they are", check.links(pages) + check.names_on_pages(sound, pages) or ["none"], "none")
fewer = {key: lines for key, lines in pages.items() if key[0] != "fiber_self"}
expect("a page is gone", check.names_on_pages(sound, fewer),
       "there is no page for fiber_self")
astray = dict(pages)
astray["fiber_new", "3"] = [".so man3/fiber_gone.3"]
expect("an alias that leads nowhere", check.links(astray), "leads to man3/fiber_gone.3, which there is not")
astray["fiber_new", "3"] = [".so man3/fiber_state.3"]
expect("an alias that leads elsewhere", check.links(astray), "leads to fiber_state, which does not tell of it")
astray = dict(pages)
astray["fiber_state", "3"] = pages["fiber_state", "3"] + [".Xr fiber_gone 3"]
expect("a reference to no page", check.links(astray), "refers to fiber_gone(3), which there is not")
with tempfile.TemporaryDirectory() as scratch:
    folder = Path(scratch)
    manual.write_pages({("fiber_state", "3"): pages["fiber_state", "3"] + [".Sh AGAIN", ".Bl -tag", ".Zz"]}, folder)
    expect("a page that mandoc does not like", check.lint(folder), "fiber_state.3")
    # The examples.
    names = manual.Names(sound)
    expect("an example for each", check.without_example(names) or ["none"], "none")
    del names.examples["fiber_sem_init"]
    expect("no example", check.without_example(names), "the page fiber_sem_init has no example")
    # The command itself ends with an error, and names the mistake.
    (folder / "planted.h").write_text(header_text.replace("-EOVERFLOW", "-EOVERFLOWN"), encoding="utf-8")
    done = subprocess.run([sys.executable, source_dir / "docs/manual/manual.py", "check", folder / "planted.h"],
                          capture_output=True, text=True, timeout=100, check=False)
    if done.returncode != 1 or "there is no error EOVERFLOWN" not in done.stdout:
        failures.append(f"manual.py check ended with {done.returncode}: {done.stdout}{done.stderr}")

for line in failures:
    print(line)
if failures:
    sys.exit(1)
print(f"ok: {len(IN_THE_HEADER) + 12} planted mistakes were found")
