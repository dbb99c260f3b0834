# SPDX-License-Identifier: MIT OR Apache-2.0
"""For interpreters in which the package cannot work, its build fails with one sentence that says why."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent
COMPILER = shutil.which(os.environ.get("CXX", "c++").split()[0])

pytestmark = pytest.mark.skipif(not (SOURCES / "src/_fiberrt").is_dir(), reason="the sources are not here")


@pytest.mark.skipif(not COMPILER, reason="there is no compiler")
@pytest.mark.parametrize(
    "version, free_threaded, told",
    [
        ("0x030A0000", False, "3.11 to 3.15"),
        ("0x03100000", False, "3.11 to 3.15"),
        ("0x04000000", False, "3.11 to 3.15"),
        ("0x030D0000", True, "this is a free-threaded build"),
    ],
)
def test_the_compiler_refuses(tmp_path, version, free_threaded, told):
    (tmp_path / "Python.h").write_text(
        f"#define PY_VERSION_HEX {version}\n" + ("#define Py_GIL_DISABLED 1\n" if free_threaded else "")
    )
    done = subprocess.run(
        [COMPILER, "-E", "-x", "c++", "-std=c++20", f"-I{tmp_path}", str(SOURCES / "src/_fiberrt/thread_state.h")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    [error] = re.findall(r"#error (.*)", done.stderr)[:1]
    assert done.returncode != 0 and told in error and error.startswith('"fiberrt ')


# An interpreter that says that it is another one.
PRETENDER = """#!{python} -IS
import sys, sysconfig
version = tuple(map(int, "{version}".split(".")))
class Version(tuple):
    major, minor, micro, releaselevel, serial = *version, "final", 0
sys.version_info = Version((*version, "final", 0))
sys.version = "{version} (main)"
get = sysconfig.get_config_var
sysconfig.get_config_var = lambda name: {variables}.get(name, get(name))
arguments = [argument for argument in sys.argv[1:] if argument not in ("-E", "-s", "-I")]
if arguments[:1] in (["-V"], ["--version"]):
    print("Python {version}")
elif arguments[:1] == ["-c"]:
    sys.argv = ["-c", *arguments[2:]]
    exec(arguments[1])
"""


@pytest.mark.skipif(not shutil.which("cmake"), reason="there is no cmake")
@pytest.mark.parametrize(
    "version, variables, told",
    [
        ("3.10.4", {}, "3.11 to 3.15"),
        ("3.16.0", {}, "3.11 to 3.15"),
        ("3.13.2", {"Py_GIL_DISABLED": 1}, "a free-threaded build"),
    ],
)
def test_cmake_refuses(tmp_path, version, variables, told):
    pretender = tmp_path / "python3"
    pretender.write_text(PRETENDER.format(python=sys.executable, version=version, variables=variables))
    pretender.chmod(0o755)
    done = subprocess.run(
        ["cmake", "-S", str(SOURCES), "-B", str(tmp_path / "build"), f"-DPython_EXECUTABLE={pretender}"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0 and "compiler identification" not in done.stdout  # before it looks for anything else
    [message] = re.findall(r"fiberrt (?:knows|needs) .*?\.\n", done.stderr, re.S)
    assert told in " ".join(message.split())


def test_pip_refuses_older_ones():
    assert re.search(r'^requires-python = ">= 3\.11"$', (SOURCES / "pyproject.toml").read_text(), re.M)
    assert sys.version_info >= (3, 11) and not sysconfig.get_config_var("Py_GIL_DISABLED")
