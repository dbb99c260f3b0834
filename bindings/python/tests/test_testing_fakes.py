# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs simulated_fakes.py, the tests of the fakes of fiberrt.testing, in processes that have no fibers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

GROUPS = ["redis", "http", "postgresql", "page", "not (redis or http or postgresql or page)"]


@pytest.mark.parametrize("group", GROUPS)
def test_the_fakes(group):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "-rs", "-k", group,
         "simulated_fakes.py"],
        cwd=Path(__file__).parent, capture_output=True, text=True, timeout=400,
        env={**os.environ, "no_proxy": "*"},
    )  # fmt: skip
    print(done.stdout, done.stderr)
    assert done.returncode == 0
