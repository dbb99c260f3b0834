#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the Python package, installs it into a virtual environment of its own, and runs its tests there.
# Shell, because it finds or makes the environment whose Python then runs the tests.
# Usage: test.sh FOLDER [--install | PYTEST-ARGUMENT...]; PYTHON: the interpreter, python3 without it. With --install it runs
# no tests.
# FOLDER is for the environment, the build, and servers of Debian's packages that tests talk to; it may be kept: then the
# next run builds only the parts that have changed. FIBERRT_HTTPD: the example httpd, for a test; FIBERRT_SIM: fiberrt-sim,
# for another; FIBERRT_UNITY=ON: the core is compiled a folder at a time. At the end the script lists the tests that did
# not run because something was missing; they are also in FOLDER/left_out, a line each: the test, a tab, and the reason.
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
# Programs that know nothing of fibers; without them their tests say that they did not run.
"$venv/bin/python" -c 'import requests, redis, pg8000, coverage' 2>/dev/null ||
    "$venv/bin/pip" install requests 'redis >= 5.0' 'pg8000 >= 1.30' 'coverage >= 7.6' >"$folder/pip.log" 2>&1 ||
    tail -n 5 "$folder/pip.log"
# These have parts in C, which may be lacking for a new interpreter.
"$venv/bin/python" -c 'import psycopg2, psycopg' 2>/dev/null ||
    "$venv/bin/pip" install --only-binary :all: 'psycopg2-binary >= 2.9' 'psycopg[binary] >= 3.1' >"$folder/pip.log" 2>&1 ||
    tail -n 5 "$folder/pip.log"
# So may be MarkupSafe, which Flask needs. The extra of kombu keeps redis to versions that kombu knows.
"$venv/bin/python" -c 'import waitress, flask, celery, kombu' 2>/dev/null ||
    "$venv/bin/pip" install --only-binary :all: 'waitress >= 3.0' 'flask >= 3.0' 'celery >= 5.4' 'kombu[redis] >= 5.4' \
        >"$folder/pip.log" 2>&1 ||
    tail -n 5 "$folder/pip.log"
"$venv/bin/pip" install --no-build-isolation --no-deps --force-reinstall -C build-dir="$folder/build" \
    -C cmake.define.FIBERRT_UNITY="${FIBERRT_UNITY:-OFF}" "$here" >"$folder/pip.log" 2>&1 || fail 'the package could not be built'
[ "${1-}" != --install ] || exit 0
cd "$here/tests"
rm -f "$folder/left_out"
status=0
"$venv/bin/python" -X faulthandler -m pytest -q "$@" || status=$?
[ ! -e "$folder/left_out" ] || sort -u "$folder/left_out" | sed 's/\t/: /; s/^/test.sh: DID NOT RUN: /'
exit "$status"
