#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# install.sh BUILD SOURCE - installs the build below a stage folder, as a packager does, and checks what came.
. "$(dirname "$0")/common.sh"

rm -rf "$stage"
DESTDIR=$stage "$CMAKE" --install "$build" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
use_stage
for file in libfiberrt.so libfiberrt.so.1 libfiberrt.a pkgconfig/fiberrt.pc cmake/fiberrt/fiberrt-config.cmake \
    cmake/fiberrt/fiberrt-config-version.cmake; do
    [ -e "$libdir/$file" ] || fail "$file is not installed"
done
[ -x "$prefix/bin/fiberrt-sim" ] || fail 'fiberrt-sim is not installed'
for header in fiberrt.h fiberrt.hpp fiberrt_dl.h; do
    cmp "$source/include/$header" "$prefix/include/$header" || fail "the installed $header differs"
done
[ ! -e "$build/tools/fiberrt-doctor" ] || "$prefix/bin/fiberrt-doctor" --help >"$work/help" || fail 'the doctor does not run'
[ -e "$prefix/share/fiberrt/fiberrt-gdb.py" ] || fail 'the script for gdb is not installed'
loader=$(find "$prefix/share/gdb/auto-load" -name 'libfiberrt.so.*-gdb.py')
[ "$(basename "$loader")" = "$(basename "$(realpath "$libdir/libfiberrt.so")")-gdb.py" ] || fail "gdb would not load $loader"
if command -v gdb >"$work/gdb"; then
    gdb -nx -batch -ex "source $loader" -ex 'help info fibers' >"$work/help" 2>&1 || fail "gdb: $(cat "$work/help")"
    grep -q 'Every fiber: its number' "$work/help" || fail "gdb does not load its script: $(cat "$work/help")"
else
    echo 'LEFT OUT: loading the script for gdb: there is no gdb'
fi
# What is installed must not point back to where it was built.
for file in "$libdir/pkgconfig/fiberrt.pc" "$libdir"/cmake/fiberrt/*.cmake; do
    if grep -nF -e "$build" -e "$source" "$file"; then fail "$file names the build or source folder"; fi
done
if readelf -d "$libdir/libfiberrt.so.1" | grep -E 'RPATH|RUNPATH'; then fail 'the library has a run path'; fi
echo "ok: installed below $stage"
