#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the Python package for Debian's debug interpreter, whose assertions check the state that a switch of fibers
# exchanges, and runs the tests that concern the interpreter.
# Usage: debug.sh FOLDER [PYTEST-ARGUMENT...]: FOLDER is the folder of test.sh, which must have run before; its
# environment has pytest and pybind11. The interpreter comes from Debian's packages, unpacked under FOLDER/debug, not
# installed. Exits with 77 if it is not available. FIBERRT_BUILD: a build tree whose shared library is used; by default
# the core is compiled in.
# Shell, because it unpacks packages, and the interpreter is none of this system's.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
folder=$(CDPATH='' cd -- "$1" && pwd)/debug
venv=$folder/../venv
shift
mkdir -p "$folder"
log=$folder/log

fail() {
    tail -n 40 "$log"
    echo "debug.sh: $1; see $log" >&2
    exit 1
}

not_to_be_had() {
    [ ! -s "$log" ] || tail -n 5 "$log"
    echo "debug.sh: DID NOT RUN: $1"
    exit 77
}

# apt PROGRAM ARGUMENT...: uses the system's package lists or, if there are none, lists in FOLDER.
apt() {
    if [ -d "$folder/apt" ]; then
        "$@" -o Dir::State="$folder/apt" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$folder/apt/cache" \
            -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)"
    else
        "$@"
    fi
}

# The package that python3-dbg depends on.
interpreter_package() { apt apt-cache depends python3-dbg 2>/dev/null | sed -n 's/.*Depends: \(python3\.[0-9]*-dbg\)$/\1/p'; }

fetch() {
    rm -rf "$folder/apt" "$folder/fetching"
    mkdir -p "$folder/fetching"
    cd "$folder/fetching"
    package=$(interpreter_package)
    if [ -z "$package" ]; then
        mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
        apt apt-get update || return 1
        package=$(interpreter_package)
        [ -n "$package" ] || return 1
    fi
    version=${package%-dbg}
    apt apt-get download "$package" "lib$version-dbg" "lib$version-dev" "lib$version-stdlib" "lib$version-minimal" || return 1
    for deb in *.deb; do
        dpkg -x "$deb" tree || return 1
    done
    rm -rf "$folder/tree"
    mv tree "$folder/tree" # the tree appears only when it is complete
    cd "$folder"
    rm -rf "$folder/fetching"
}

: >"$log"
[ -x "$venv/bin/python" ] || not_to_be_had 'test.sh has made no environment'
python() { echo "$folder"/tree/usr/bin/python3.*d; }
if ! [ -x "$(python)" ]; then
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || not_to_be_had "there is no apt-get, and so no debug interpreter of Debian's"
    (fetch) >>"$log" 2>&1 || not_to_be_had "Debian's package python3-dbg could not be fetched; see $log"
fi
python=$(python)
"$python" -c 'import sys; sys.gettotalrefcount()' >>"$log" 2>&1 || not_to_be_had 'the debug interpreter does not start'

core=
if [ -n "${FIBERRT_BUILD-}" ]; then
    rm -rf "$folder/core"
    cmake --install "$FIBERRT_BUILD" --prefix "$folder/core" >>"$log" 2>&1 || fail 'the shared library could not be installed'
    core=$(find "$folder/core" -name fiberrt-config.cmake)
fi
generator=
! command -v ninja >/dev/null || generator=-GNinja
# Little optimization, for a fast build. The debug interpreter's headers are links to those of the ordinary one. gcc
# would follow them and find the ordinary pyconfig.h next to them, without Py_DEBUG; usr/include leads to the right one.
flags="-O0 -isystem $folder/tree/usr/include"
case $("${CXX:-c++}" -fno-canonical-system-headers -fsyntax-only -x c++ /dev/null 2>&1) in
'') flags="$flags -fno-canonical-system-headers" ;;
esac
cmake -S "$here" -B "$folder/build" ${generator:+"$generator"} -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="$flags" \
    -DCMAKE_INSTALL_RPATH_USE_LINK_PATH=ON ${core:+-DFIBERRT_PYTHON_SHARED=ON "-Dfiberrt_DIR=${core%/*}"} \
    -DPython_EXECUTABLE="$python" -Dpybind11_DIR="$("$venv/bin/python" -m pybind11 --cmakedir)" >>"$log" 2>&1 ||
    fail 'the package could not be configured'
cmake --build "$folder/build" --target _fiberrt --parallel >>"$log" 2>&1 || fail 'the package could not be built'
rm -rf "$folder/package"
mkdir -p "$folder/package"
cp -R "$here/src/fiberrt" "$folder/package/"
cmake --install "$folder/build" --component python --prefix "$folder/package/fiberrt" >>"$log" 2>&1 || fail 'no install'

cd "$here/tests"
[ $# -gt 0 ] || set -- test_fiber.py test_scopes.py test_interpreter.py test_tools.py test_end.py test_hostile.py test_aio.py \
    test_aio_streams.py test_aio_coroutines.py
PYTHONPATH=$folder/package "$python" -c 'import fiberrt' >>"$log" 2>&1 || fail 'the package cannot be imported'
# Py_DECREF calls this function only in code compiled with Py_DEBUG.
nm -D --undefined-only "$folder"/package/fiberrt/_fiberrt*.so | grep -q _Py_NegativeRefcount ||
    fail 'the package was built without Py_DEBUG'
PYTHONPATH=$folder/package:$(echo "$venv"/lib/python3*/site-packages) PYTHONDONTWRITEBYTECODE=1 \
    "$python" -X faulthandler -m pytest -q -rsR -p no:xdist --reruns 2 --reruns-delay 2 --rerun-except 'Timeout|Fatal Python error' "$@"
