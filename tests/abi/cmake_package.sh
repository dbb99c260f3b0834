#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# cmake_package.sh BUILD SOURCE - builds and runs a project that finds the installed library by find_package.
. "$(dirname "$0")/common.sh"
use_stage

"$CMAKE" -S "$here/consumer" -B "$work/build" -DCMAKE_C_COMPILER="$CC" -DCMAKE_BUILD_TYPE=Release \
    -Dfiberrt_DIR="$libdir/cmake/fiberrt" -DCONSUMER_SOURCE="$here/consumer.c" >"$work/log" 2>&1 ||
    fail "$(cat "$work/log")"
"$CMAKE" --build "$work/build" >>"$work/log" 2>&1 || fail "$(cat "$work/log")"
expect 'consumer: fine' "$work/build/consumer"

# The library that adopts the whole program: its calls of read and write wait as fibers.
"$CMAKE" -S "$here/consumer" -B "$work/posix" -DCMAKE_C_COMPILER="$CC" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_FLAGS='-DWITH_FIBERS -Wl,--as-needed' -Dfiberrt_DIR="$libdir/cmake/fiberrt" \
    -DCONSUMER_SOURCE="$source/tests/posix/whole_program.c" -DCONSUMER_TARGET=fiberrt::posix >"$work/log" 2>&1 ||
    fail "$(cat "$work/log")"
"$CMAKE" --build "$work/posix" >>"$work/log" 2>&1 || fail "$(cat "$work/log")"
expect fine "$work/posix/consumer" fibers

# A version that this library does not offer must be refused.
sed 's/fiberrt 0\.1 REQUIRED/fiberrt 99.0 REQUIRED/' "$here/consumer/CMakeLists.txt" >"$work/CMakeLists.txt"
if "$CMAKE" -S "$work" -B "$work/refused" -DCMAKE_C_COMPILER="$CC" -Dfiberrt_DIR="$libdir/cmake/fiberrt" \
    -DCONSUMER_SOURCE="$here/consumer.c" >"$work/refusal" 2>&1; then
    fail 'a project that wants version 99 was content'
fi
grep -q 'requested version "99' "$work/refusal" || fail "refused for another reason: $(cat "$work/refusal")"
echo 'ok: version 99 is refused'
