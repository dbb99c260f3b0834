#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# install.sh BUILD SOURCE - installs the build below a stage folder, as a packager does, and checks the installed files.
# Shell, because it consists of the commands that a packager types, and of file checks.
. "$(dirname "$0")/common.sh"

rm -rf "$stage"
DESTDIR=$stage "$CMAKE" --install "$build" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
use_stage
for file in libfiberrt.so libfiberrt.so.1 libfiberrt.a pkgconfig/fiberrt.pc libfiberrt_posix.so \
    libfiberrt_posix.so.1 pkgconfig/fiberrt-posix.pc cmake/fiberrt/fiberrt-config.cmake \
    cmake/fiberrt/fiberrt-config-version.cmake; do
    [ -e "$libdir/$file" ] || fail "$file is not installed"
done
[ -x "$prefix/bin/fiberrt-sim" ] || fail 'fiberrt-sim is not installed'
# The installed fiberrt-run finds the installed library.
env -u LD_LIBRARY_PATH "$prefix/bin/fiberrt-run" --list cat /dev/null 2>"$work/list" || fail "fiberrt-run: $(cat "$work/list")"
grep -q 'cat: .*read' "$work/list" || fail "fiberrt-run has not adopted cat: $(cat "$work/list")"
for header in "$source/include/fiberrt.h" "$source/include/fiberrt.hpp" "$build/include/fiberrt_dl.h"; do
    cmp "$header" "$prefix/include/$(basename "$header")" || fail "the installed $(basename "$header") differs"
done
[ ! -e "$build/tools/fiberrt-doctor" ] || "$prefix/bin/fiberrt-doctor" --help >"$work/help" || fail 'the doctor does not run'
[ -e "$prefix/share/fiberrt/fiberrt-gdb.py" ] || fail 'the script for gdb is not installed'
# Below another prefix gdb loads the script from the library's folder; below /usr from gdb's folder, whose paths are those
# of the libraries.
DESTDIR=$work/own "$CMAKE" --install "$build" --prefix /opt/fiberrt >"$work/log" 2>&1 || fail "$(cat "$work/log")"
DESTDIR=$work/system "$CMAKE" --install "$build" --prefix /usr >"$work/log" 2>&1 || fail "$(cat "$work/log")"
loader=$(find "$work/own" -name 'libfiberrt.so.*-gdb.py')
library=$(realpath "$(find "$work/own" -name libfiberrt.so)")
[ "$loader" = "$library-gdb.py" ] || fail "gdb would not load $loader for $library"
below_usr=$(find "$work/system" -name 'libfiberrt.so.*-gdb.py')
library_below_usr=$(realpath "$(find "$work/system" -name libfiberrt.so)")
[ "$below_usr" = "$work/system/usr/share/gdb/auto-load${library_below_usr#"$work/system"}-gdb.py" ] ||
    fail "gdb would not load $below_usr for $library_below_usr"
if command -v gdb >"$work/gdb"; then
    gdb -nx -batch -iex "add-auto-load-safe-path $work/own" -ex 'help info fibers' "$library" >"$work/help" 2>&1 ||
        fail "gdb: $(cat "$work/help")"
    grep -q 'Lists every cord and its fibers' "$work/help" || fail "gdb does not load its script: $(cat "$work/help")"
    gdb -nx -batch -ex "source $below_usr" -ex 'help info fibers' >"$work/help" 2>&1 || fail "gdb: $(cat "$work/help")"
    grep -q 'Lists every cord and its fibers' "$work/help" || fail "gdb does not load its script: $(cat "$work/help")"
else
    echo 'LEFT OUT: loading the script for gdb: there is no gdb'
fi
# The man pages, where they could be made.
if grep -q '^Python3_EXECUTABLE\|^_Python3_EXECUTABLE' "$build/CMakeCache.txt" &&
    ! grep -q '^FIBERRT_MANUAL:[A-Z]*=OFF' "$build/CMakeCache.txt"; then
    for page in man3/fiber_spawn.3 man3/fiber_await.3 man7/fiberrt.7; do
        [ -s "$prefix/share/man/$page" ] || fail "$page is not installed"
    done
else
    echo 'LEFT OUT: the man pages of sections 3 and 7: they are not made, as FIBERRT_MANUAL is OFF or there is no python3'
fi
# Installed files must not point back to the build folder.
for file in "$libdir"/pkgconfig/fiberrt*.pc "$libdir"/cmake/fiberrt/*.cmake; do
    if grep -nF -e "$build" -e "$source" "$file"; then fail "$file names the build or source folder"; fi
done
for file in libfiberrt.so.1 libfiberrt_posix.so.1; do
    if readelf -d "$libdir/$file" | grep -E 'RPATH|RUNPATH'; then fail "$file has a run path"; fi
done
echo "ok: installed below $stage"
