#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the Python package, installs it into a virtual environment of its own, and runs its tests there.
# Usage: test.sh FOLDER [PYTEST-ARGUMENT...]; PYTHON: the interpreter, python3 without it.
# FOLDER is for the environment and the build, and may be kept: then the next run builds what has changed.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
folder=$(CDPATH='' cd -- "$1" && pwd)
shift
venv=$folder/venv

fail() {
    tail -n 40 "$folder/pip.log"
    echo "test.sh: $1; $folder/pip.log tells more" >&2
    exit 1
}

# Nothing can be said of the package then.
not_to_be_had() {
    tail -n 5 "$folder/pip.log"
    echo "test.sh: DID NOT RUN: $1; $folder/pip.log tells more"
    exit 77
}

if ! [ -x "$venv/bin/python" ]; then
    "${PYTHON:-python3}" -m venv "$venv" >"$folder/pip.log" 2>&1 || not_to_be_had 'there is no virtual environment to be had'
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1
# What builds the package, and what its tests use. Found once, it is not asked for again.
"$venv/bin/python" -c 'import scikit_build_core, pybind11, pytest, greenlet' 2>/dev/null ||
    "$venv/bin/pip" install 'scikit-build-core >= 0.10' 'pybind11 >= 2.13' 'pytest >= 7.4' 'greenlet >= 3.0' \
        >"$folder/pip.log" 2>&1 ||
    not_to_be_had 'the packages that the build and the tests need are not to be had'
"$venv/bin/pip" install --no-build-isolation --no-deps --force-reinstall -C build-dir="$folder/build" "$here" \
    >"$folder/pip.log" 2>&1 || fail 'the package could not be built'
cd "$here/tests"
exec "$venv/bin/python" -X faulthandler -m pytest -q "$@"
