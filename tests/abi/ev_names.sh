#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# ev_names.sh BUILD SOURCE - checks programs that export names of libev: functions, variables, and a whole second libev.
# They must not affect the library, shared or as an archive, because it has its own copy of libev. That copy is tried by
# the compiler as CMake calls it, for its target, with its system root: a root without headers, or another target than
# the archive's, must be refused.
# Shell, because it consists of the commands that a user types: compile, link, run, and nm.
. "$(dirname "$0")/common.sh"
use_stage

for library in "$libdir/libfiberrt.so.1" "$libdir/libfiberrt.a"; do
    if nm "$library" 2>/dev/null | grep ' U ev_' || nm -D "$library" 2>/dev/null | grep ' U ev_'; then
        fail "$library asks for these names of libev's"
    fi
done

# All of libev's functions: from its archive, as the library's copy was made.
archive=$(sed -n 's/^FIBERRT_EV_ARCHIVE:[A-Z]*=//p' "$build/CMakeCache.txt")
nm -g --defined-only "$archive" | awk 'NF == 3 && $3 ~ /^ev_/ { print $3 }' | sort -u >"$work/names"
grep -qx ev_run "$work/names" || fail "$archive has no ev_run"
{
    echo '#include <unistd.h>'
    sed 's/.*/void &(void); void &(void) { (void)!write(2, "&\\n", sizeof "&"); _exit(3); }/' "$work/names"
} >"$work/functions.c"
sed 's/.*/extern int &[64]; int &[64];/' "$work/names" >"$work/objects.c"

warnings='-std=c99 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror'
shared=$(staged_pkg_config --libs fiberrt)
static=$(staged_pkg_config --static --libs fiberrt | sed 's/-lfiberrt/-l:libfiberrt.a/')
whole="-DOWN_LIBEV -Wl,--whole-archive $archive -Wl,--no-whole-archive -lm"
FIBERRT_BACKEND=ev
export FIBERRT_BACKEND
for kind in shared static; do
    eval "libs=\$$kind"
    for names in functions objects whole; do
        case $names in whole) with=$whole ;; *) with=$work/$names.c ;; esac
        # shellcheck disable=SC2046,SC2086 # lists of options
        $CC $warnings -rdynamic $(staged_pkg_config --cflags fiberrt) "$here/ev_names.c" $with \
            -o "$work/$names.$kind" $libs -lpthread
        expect 'ev_names: fine' "$work/$names.$kind"
    done
done

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(try C)
set(CMAKE_SYSROOT ${sysroot})
if(target)
    set(CMAKE_C_COMPILER_TARGET ${target})
endif()
include(${source}/src/private_libev.cmake)
private_libev(${archive} made)
message(STATUS "made: ${made}; refused: ${made_refusal}")
END
mkdir "$work/empty"

made() { # made ARGUMENT...: whether a copy could be made
    rm -rf "$work/build"
    "$CMAKE" -S "$work" -B "$work/build" -G "$CMAKE_GENERATOR" "-DCMAKE_C_COMPILER=$CC" "-Dsource=$source" \
        "-Darchive=$(cached FIBERRT_EV_ARCHIVE)" "-DFIBERRT_LD=$(cached FIBERRT_LD)" "$@" >"$work/said" 2>&1 ||
        fail "cmake fails: $(cat "$work/said")"
    grep -q 'made: /' "$work/said"
}

made -Dsysroot=/ || fail "no copy can be made: $(cat "$work/said")"
made "-Dsysroot=$work/empty" && fail "the system root is ignored"
if $CC --version | grep -q clang; then
    made -Dsysroot=/ -Dtarget=wasm32-unknown-unknown && fail "the compiler's target is ignored"
fi
echo 'ok: the copy of libev is tried as CMake compiles'
