#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests the Go module in both its forms: as it is published, with the library in it, and with an installed library.
# Usage: test.sh FOLDER [--all] [ARGUMENT-OF-GO-TEST...]; --all: also with the race detector, cgo's checks, and 1 to 4
# processors. With arguments of go test, only with an installed library. FIBERRT_BUILD: a built tree of the library,
# build/release for example, which is installed below FOLDER; without it one is made in FOLDER.
# SWIG: SWIG 4.1, by which internal/raw is made again and compared; swig without it.
# FOLDER may be kept. The tests that could not run are listed at the end and in FOLDER/left_out: in each line a name, a
# tab and the reason. Exit status 77: no test ran.
# Shell, because it runs the commands of a Go developer in a prepared environment.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
folder=$(CDPATH='' cd -- "$1" && pwd)
shift
all=
if [ "${1:-}" = --all ]; then all=yes && shift; fi
rm -f "$folder/left_out"

not_to_be_had() {
    echo "test.sh: DID NOT RUN: the Go package's tests: $1"
    exit 77
}

leave_out() { printf '%s\t%s\n' "$1" "$2" >>"$folder/left_out"; }

cd "$here"
goroot=$(./toolchain.sh "$folder") || not_to_be_had "$goroot"
PATH=$goroot/bin:$PATH
export GOTOOLCHAIN=local

badly=$(gofmt -l .)
[ -z "$badly" ] || { echo "test.sh: not as gofmt formats: $badly" && exit 1; }
status=0
internal/raw/swig.sh --check 2>"$folder/swig.log" || status=$?
case $status in
    0) ;;
    77 | 127) leave_out "the comparison of internal/raw with what SWIG makes" 'there is no SWIG 4.1' ;;
    *) cat "$folder/swig.log" && exit 1 ;;
esac
for wrong in '' nodots/x go.example/ 'go.example/a b' -x.y/z; do
    if ./module.sh "$wrong" "$folder/none" "$folder/downloads" 2>/dev/null; then
        echo "test.sh: module.sh takes '$wrong'" && exit 1
    fi
done
status=0
[ $# -gt 0 ] || ./module.sh go.other.example/of/fiberrt "$folder/module" "$folder/downloads" || status=$?
case $status in
    0) [ $# -gt 0 ] || python3 -B published.py "$folder" ${all:+--all} ;;
    77) leave_out 'the Go module with the library in it' "the sources of libev and liburing could not be fetched" ;;
    *) exit 1 ;;
esac

# With an installed library.
command -v pkg-config >/dev/null || not_to_be_had 'there is no pkg-config'
if [ -z "${FIBERRT_BUILD:-}" ]; then
    FIBERRT_BUILD=$folder/build
    cmake -S "$here/../.." -B "$FIBERRT_BUILD" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DFIBERRT_TESTS=OFF \
        -DFIBERRT_EXAMPLES=OFF -DFIBERRT_TOOLS=OFF >"$folder/build.log"
    cmake --build "$FIBERRT_BUILD" >>"$folder/build.log" || { tail "$folder/build.log" && exit 1; }
fi
rm -rf "$folder/root"
DESTDIR=$folder/root cmake --install "$FIBERRT_BUILD/src" --prefix /usr >"$folder/install.log" 2>&1 ||
    { tail "$folder/install.log" && exit 1; }
PKG_CONFIG_PATH=$(dirname "$(find "$folder/root" -name fiberrt.pc)")
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH LD_LIBRARY_PATH PKG_CONFIG_SYSROOT_DIR="$folder/root"
# Go does not notice changes of headers outside the module, so the flags contain the header's checksum.
CGO_CPPFLAGS=-DFIBERRT_HEADER=$(cksum <"$folder/root/usr/include/fiberrt.h" | cut -d' ' -f1)
export CGO_CPPFLAGS

export GOFLAGS="-tags=fiberrt_system ${GOFLAGS:-}"
[ $# -gt 0 ] || python3 -B older.py "$LD_LIBRARY_PATH/libfiberrt.so.1" "$FIBERRT_BUILD/src/libfiberrt.map" "$folder/older"
# The tests of golang.org/x/net/nettest are a separate module, because the package itself does not need that module.
modules=.
if (cd internal/nettest && go mod download) >"$folder/nettest.log" 2>&1; then
    modules='. internal/nettest'
else
    leave_out "nettest's tests of connections" "golang.org/x/net could not be fetched: see $folder/nettest.log"
fi
for module in $modules; do
    (
        cd "$module"
        go vet ./...
        go test -count=1 "$@" ./...
        [ -n "$all" ] || exit 0
        go test -count=1 -cpu 1,2,4 "$@" ./...
        go test -count=1 -race "$@" ./...
        GODEBUG=cgocheck=1 GOEXPERIMENT=cgocheck2 go test -count=1 "$@" ./...
    )
done
[ ! -e "$folder/left_out" ] || sed 's/\t/: /; s/^/test.sh: DID NOT RUN: /' "$folder/left_out"
