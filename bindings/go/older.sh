#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# older.sh LIBRARY MAP WORK - checks that an installed library without a function that the Go package needs is refused
# by that function's name: when Go links the program, and when a program starts that another library was linked to.
# LIBRARY: libfiberrt.so.1. MAP: the version script that it was linked with. The environment is that of test.sh.
set -eu
library=$1 map=$2 work=$3
lacking=fiberrt_fiber_exchange # its name for the linker
cd "$(dirname -- "$0")"

fail() {
    echo "older.sh: FAILED: $*" >&2
    exit 1
}

rm -rf "$work"
mkdir -p "$work"
nm -D --defined-only "$library" | sed -n 's/.* T \([a-z0-9_]*\).*/void \1(void) {}/p' >"$work/all.c"
grep -vw "$lacking" "$work/all.c" >"$work/older.c"
[ "$(wc -l <"$work/all.c")" -eq "$(($(wc -l <"$work/older.c") + 1))" ] || fail "$library has no $lacking"
${CC:-gcc} -shared -fPIC -w -Wl,-soname,libfiberrt.so.1 -Wl,--version-script="$map" "$work/older.c" \
    -o "$work/libfiberrt.so.1"
ln -s libfiberrt.so.1 "$work/libfiberrt.so"

if CGO_LDFLAGS=-L$work go build -o "$work/linked" ./examples/pipeline 2>"$work/said"; then fail 'Go links it'; fi
grep -q "undefined reference to .$lacking'" "$work/said" || fail "when it is linked, Go says: $(cat "$work/said")"
echo "ok: linked with an older library: $(grep -o -m 1 'undefined reference.*' "$work/said")"

go build -o "$work/program" ./examples/pipeline
status=0
LD_LIBRARY_PATH=$work "$work/program" fiber README.md >"$work/said" 2>&1 || status=$?
[ $status -eq 127 ] && grep -q "undefined symbol: $lacking, version FIBERRT_" "$work/said" && [ "$(wc -l <"$work/said")" -eq 1 ] ||
    fail "with an older library a program ends with $status: $(cat "$work/said")"
echo "ok: run with an older library: $(sed 's/.*: undefined/undefined/' "$work/said")"
