#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the HTML site of all documentation in OUT. MkDocs and its theme are installed in the virtual environment TOOLS,
from PyPI, with the versions in requirements.txt. A link or an anchor that leads nowhere is an error.

Usage: build.py OUT TOOLS

Exit status: 77 if there is no mandoc, the Python is too old, or the package index cannot be reached; otherwise 1 after
an error.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST = (3, 11)  # the Python that the versions in requirements.txt need
# pip's messages if it gets no answer from the index.
NOT_REACHED = ("Failed to establish a new connection", "NameResolutionError", "Name or service not known",
               "Temporary failure in name resolution", "Cannot connect to proxy", "timed out")  # fmt: skip


def cannot(reason: str) -> None:
    print(f"NOT CHECKED: the site is not made: {reason}")
    sys.exit(77)


def install(tools: Path) -> Path:
    """Returns the Python of the environment. Makes the environment, unless these requirements are installed in it."""
    python, requirements, installed = tools / "bin/python", HERE / "requirements.txt", tools / "requirements.txt"
    if python.exists() and installed.exists() and installed.read_text() == requirements.read_text():
        return python
    if sys.version_info < OLDEST:
        cannot(f"its generator needs Python {'.'.join(map(str, OLDEST))}")
    log = tools.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(tools, ignore_errors=True)
    # pip says that it cannot reach the index only when it tries again.
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile", "--retries", "3", "-r",
           requirements]  # fmt: skip
    with log.open("w") as file:
        for command in ([sys.executable, "-m", "venv", tools], pip):
            if subprocess.run(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL).returncode != 0:
                if any(text in log.read_text(errors="replace") for text in NOT_REACHED):
                    cannot(f"the package index cannot be reached; see {log}")
                sys.exit(f"FAILED: the generator of the site could not be installed; see {log}")
    installed.write_text(requirements.read_text())
    return python


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    out, tools = (Path(argument).resolve() for argument in sys.argv[1:])
    if not shutil.which("mandoc"):
        cannot("there is no mandoc")
    python = install(tools)
    shutil.rmtree(out, ignore_errors=True)
    # NO_MKDOCS_2_WARNING: the theme prints an opinion about MkDocs at each build.
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "NO_MKDOCS_2_WARNING": "1"}
    command = [python, "-m", "mkdocs", "build", "--strict", "-f", HERE / "mkdocs.yml", "-d", out]
    sys.exit(subprocess.run(command, env=env).returncode != 0)


main()
