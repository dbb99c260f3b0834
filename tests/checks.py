# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a test program that makes many checks prints of each, and how it ends."""

failures = []


def check(what, good, shown=""):
    """Prints whether the check holds, and `shown` if it does not."""
    print(("ok: " if good else "FAILED: ") + what, flush=True)
    if not good:
        failures.append(what)
        print(shown)


def report():
    """Prints the outcome of all checks; returns the program's exit code."""
    print(f"{len(failures)} checks failed" if failures else "all checks passed")
    return 1 if failures else 0
