#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the Python package, installs it into a new virtual environment, and runs its tests there.
# Shell, because it finds or makes the environment whose Python then runs the tests.
# Usage: test.sh FOLDER [--install | PYTEST-ARGUMENT...]; with --install it runs no tests. PYTHON: the interpreter,
# python3 by default. FIBERRT_HTTPD: the example httpd, for a test. FIBERRT_SIM: fiberrt-sim, for another test.
# FIBERRT_UNITY=ON: compile the core a folder at a time.
# FOLDER contains the environment, the build, and the servers (from Debian's packages) that tests talk to. If it is
# kept, the next run builds only the changed parts. At the end, the script lists the tests that could not run. They are
# also in FOLDER/left_out: in each line a test, a tab and the reason.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
folder=$(CDPATH='' cd -- "$1" && pwd)
shift
venv=$folder/venv

fail() {
    tail -n 40 "$folder/pip.log"
    echo "test.sh: $1; see $folder/pip.log" >&2
    exit 1
}

# Ends the script with 77: the package could not be tested.
not_to_be_had() {
    tail -n 5 "$folder/pip.log"
    echo "test.sh: DID NOT RUN: $1; see $folder/pip.log"
    exit 77
}

if ! [ -x "$venv/bin/python" ]; then
    "${PYTHON:-python3}" -m venv "$venv" >"$folder/pip.log" 2>&1 || not_to_be_had 'no virtual environment could be made'
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1
# The packages for the build and the tests. Once installed, they are not looked up again.
"$venv/bin/python" -c 'import scikit_build_core, pybind11, pytest, pytest_rerunfailures, greenlet' 2>/dev/null ||
    "$venv/bin/pip" install 'scikit-build-core >= 0.10' 'pybind11 >= 2.13' 'pytest >= 7.4' 'pytest-rerunfailures >= 13' \
        'greenlet >= 3.0' >"$folder/pip.log" 2>&1 ||
    not_to_be_had 'the packages that the build and the tests need are not available'
# Libraries and programs that were not written for fibers. Without them, their tests report that they did not run.
"$venv/bin/python" -c 'import requests, redis, pg8000, coverage' 2>/dev/null ||
    "$venv/bin/pip" install requests 'redis >= 5.0' 'pg8000 >= 1.30' 'coverage >= 7.6' >"$folder/pip.log" 2>&1 ||
    tail -n 5 "$folder/pip.log"
# Tools for tests, which fiberrt.testing works with.
"$venv/bin/python" -c 'import hypothesis, xdist' 2>/dev/null ||
    "$venv/bin/pip" install --only-binary :all: 'hypothesis >= 6.100' 'pytest-xdist >= 3.5' >"$folder/pip.log" 2>&1 ||
    tail -n 5 "$folder/pip.log"
# These have parts in C, and may not be available for a new interpreter.
"$venv/bin/python" -c 'import psycopg2, psycopg' 2>/dev/null ||
    "$venv/bin/pip" install --only-binary :all: 'psycopg2-binary >= 2.9' 'psycopg[binary] >= 3.1' >"$folder/pip.log" 2>&1 ||
    tail -n 5 "$folder/pip.log"
# Others that fiberrt.native adopts. MySQLdb is compiled, and needs libmariadb-dev.
"$venv/bin/python" -c 'import pycurl, pymssql, lxml, confluent_kafka' 2>/dev/null ||
    "$venv/bin/pip" install --only-binary :all: pycurl pymssql lxml confluent-kafka >"$folder/pip.log" 2>&1 ||
    tail -n 5 "$folder/pip.log"
"$venv/bin/python" -c 'import MySQLdb' 2>/dev/null || "$venv/bin/pip" install mysqlclient >"$folder/pip.log" 2>&1 ||
    tail -n 5 "$folder/pip.log"
# Neither may MarkupSafe, which Flask needs. The extra of kombu restricts redis to versions that kombu supports.
"$venv/bin/python" -c 'import waitress, flask, celery, kombu' 2>/dev/null ||
    "$venv/bin/pip" install --only-binary :all: 'waitress >= 3.0' 'flask >= 3.0' 'celery >= 5.4' 'kombu[redis] >= 5.4' \
        >"$folder/pip.log" 2>&1 ||
    tail -n 5 "$folder/pip.log"
# For asyncio.
"$venv/bin/python" -c 'import aiohttp, httpx, websockets, uvicorn, asyncpg, hypercorn' 2>/dev/null ||
    "$venv/bin/pip" install --only-binary :all: aiohttp httpx 'websockets >= 13' 'uvicorn >= 0.36' asyncpg hypercorn \
        >"$folder/pip.log" 2>&1 || tail -n 5 "$folder/pip.log"
"$venv/bin/python" -c 'import gunicorn, h11, django, fastapi, multipart, trio, anyio, opentelemetry.sdk' 2>/dev/null ||
    "$venv/bin/pip" install --only-binary :all: 'gunicorn >= 22' 'h11 >= 0.14' 'django >= 4.2' fastapi python-multipart \
        trio anyio opentelemetry-sdk >"$folder/pip.log" 2>&1 || tail -n 5 "$folder/pip.log"
# gevent, and packages that import it: fiberrt.compat.gevent takes its place. locust brings gevent and pyzmq.
"$venv/bin/python" -c 'import gevent, geventhttpclient, zmq, flask_socketio, simple_websocket, websocket, geventwebsocket' \
    2>/dev/null ||
    "$venv/bin/pip" install --only-binary :all: locust flask-socketio 'python-socketio[client]' simple-websocket \
        gevent-websocket >"$folder/pip.log" 2>&1 || tail -n 5 "$folder/pip.log"
"$venv/bin/pip" install --no-build-isolation --no-deps --force-reinstall -C build-dir="$folder/build" \
    -C cmake.define.FIBERRT_UNITY="${FIBERRT_UNITY:-OFF}" "$here" >"$folder/pip.log" 2>&1 || fail 'the package could not be built'
[ "${1-}" != --install ] || exit 0
cd "$here/tests"
rm -f "$folder/left_out"
status=0
# A second and a third chance, for machines with other work to do; pytest names the tests that needed one. After a timeout
# or a crash there is none. With xdist, pytest-rerunfailures would start a thread in the process of the tests.
"$venv/bin/python" -X faulthandler -m pytest -q -rR -p no:xdist --reruns 2 --reruns-delay 2 \
    --rerun-except 'Timeout|Fatal Python error' "$@" || status=$?
[ ! -e "$folder/left_out" ] || sort -u "$folder/left_out" | sed 's/\t/: /; s/^/test.sh: DID NOT RUN: /'
exit "$status"
