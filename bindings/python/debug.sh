#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the Python package for Debian's debug interpreter, whose assertions look at what a fiber's switch exchanges, and
# runs those tests with it that are about the interpreter.
# Usage: debug.sh FOLDER [PYTEST-ARGUMENT...]: FOLDER is test.sh's, which was run before; the environment there has pytest
# and pybind11, which are the same for any interpreter. The interpreter is of Debian's packages, unpacked under
# FOLDER/debug, not installed. It ends with 77 if there is none to be had. FIBERRT_BUILD: where the project was built with
# a shared library, which is used then; without it the core is compiled in.
# Shell, because it unpacks packages, and no Python of this system is the one that it builds for.
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
    echo "debug.sh: $1; $log tells more" >&2
    exit 1
}

not_to_be_had() {
    [ ! -s "$log" ] || tail -n 5 "$log"
    echo "debug.sh: DID NOT RUN: $1"
    exit 77
}

# apt PROGRAM ARGUMENT...: with the lists of packages that the system has, or else with lists of its own.
apt() {
    if [ -d "$folder/apt" ]; then
        "$@" -o Dir::State="$folder/apt" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$folder/apt/cache" \
            -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)"
    else
        "$@"
    fi
}

# The package of which python3-dbg is only another name.
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
    mv tree "$folder/tree" # all or nothing
    cd "$folder"
    rm -rf "$folder/fetching"
}

: >"$log"
[ -x "$venv/bin/python" ] || not_to_be_had 'test.sh has made no environment'
python() { echo "$folder"/tree/usr/bin/python3.*d; }
if ! [ -x "$(python)" ]; then
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || not_to_be_had "there is no apt-get, and so no debug interpreter of Debian's"
    (fetch) >>"$log" 2>&1 || not_to_be_had "Debian's package python3-dbg could not be fetched; $log tells more"
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
# Hardly optimised: it is to be built soon. The interpreter's headers are links to those of the ordinary one: gcc would
# follow them, and find that one's pyconfig.h beside them, without Py_DEBUG. Its own is found from usr/include.
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
[ $# -gt 0 ] || set -- test_fiber.py test_scopes.py test_interpreter.py test_tools.py test_end.py test_hostile.py
PYTHONPATH=$folder/package "$python" -c 'import fiberrt' >>"$log" 2>&1 || fail 'the package cannot be imported'
# What Py_DECREF calls in code that is compiled with Py_DEBUG alone.
nm -D --undefined-only "$folder"/package/fiberrt/_fiberrt*.so | grep -q _Py_NegativeRefcount ||
    fail 'the package was built without Py_DEBUG'
PYTHONPATH=$folder/package:$(echo "$venv"/lib/python3*/site-packages) PYTHONDONTWRITEBYTECODE=1 \
    "$python" -X faulthandler -m pytest -q -rs "$@"
