#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# private_libev.sh BUILD SOURCE - the copy of libev is tried by the compiler as CMake calls it: for its target, with its
# system root. A root without headers, or another target than the archive's, must be refused.
. "$(dirname "$0")/common.sh"

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
echo fine
