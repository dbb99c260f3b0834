#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes a virtual environment with the Python package of these sources and what it is compared with.
# Usage: install.sh FOLDER; PYTHON: the interpreter, python3 without it. What is not to be had is said, and left out.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
folder=$(CDPATH='' cd -- "$1" && pwd)
venv=$folder/venv
log=$folder/log
: >"$log"
export PIP_DISABLE_PIP_VERSION_CHECK=1
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv" >>"$log" 2>&1
"$venv/bin/python" -c 'import scikit_build_core, pybind11' 2>/dev/null ||
    "$venv/bin/pip" install 'scikit-build-core >= 0.10' 'pybind11 >= 2.13' >>"$log" 2>&1
for peer in greenlet gevent uvloop; do
    "$venv/bin/python" -c "import $peer" 2>/dev/null || "$venv/bin/pip" install "$peer" >>"$log" 2>&1 ||
        echo "LEFT OUT: $peer (Python) is not to be had; $log tells more"
done
"$venv/bin/pip" install --no-build-isolation --no-deps --force-reinstall -C build-dir="$folder/build" \
    "$here/../../bindings/python" >>"$log" 2>&1 || {
    tail -n 20 "$log"
    exit 1
}
