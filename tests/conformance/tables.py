#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether the tables of the conformance suite that are written by hand have all calls of fiberrt.h that they are about.

noswitch.cc: each call that may switch, and each case of fiber_select. refused.cc: each call that waits for a thing,
which is one that also exists with `_timeout`; one of the two forms.
"""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs/manual"))
from header import read_header  # noqa: E402

# fiber_once waits inside Things::call_once; a case of kind NONE never completes.
ELSEWHERE = {"fiber_once", "FIBER_CASE_NONE"}
# fiber_cord_join waits for the end of a thread, which each run of the table would have to start.
NOT_REFUSED = {"fiber_cord_join"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="the folder of the sources")
    source = parser.parse_args().source
    header = (source / "include/fiberrt.h").read_text()
    texts = {name: (source / f"tests/conformance/{name}.cc").read_text() for name in ("noswitch", "refused")}
    tables = {name: "".join(re.findall(r"alls\[\] = \{\n.*?^ *};$", text, re.M | re.S)) for name, text in texts.items()}
    tables["refused"] += texts["refused"].partition("\nTEST(")[2]  # some calls have their own scenario
    may_switch = re.findall(r"^#define (FIBER_CASE_\w+)", header, re.M)
    may_switch += [function.name for function in read_header(header).functions
                   if function.may_switch() and not function.macro]
    wrong = []
    if len(may_switch) < 60:
        wrong.append(f"only {len(may_switch)} calls and cases of fiberrt.h may switch: how is it written?")

    def has(table, name):
        return re.search(rf"\b{name}\b", tables[table])

    for name in may_switch:
        plain = name.removesuffix("_timeout")
        if name not in ELSEWHERE and not has("noswitch", name):
            wrong.append(f"{name} may switch, and is not in the table of tests/conformance/noswitch.cc")
        if name != plain and plain not in NOT_REFUSED and not has("refused", name) and not has("refused", plain):
            wrong.append(f"{plain} may wait, and is not in the table of tests/conformance/refused.cc")
    print("\n".join(wrong) or f"{len(may_switch)} calls and cases of fiberrt.h may switch")
    return 1 if wrong else 0


sys.exit(main())
