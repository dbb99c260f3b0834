#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# pkg_config.sh BUILD SOURCE - builds a C99 program by pkg-config against the installed library, shared, with the
# archive, and fully static, and runs it; and a C++17 program, shared.
# Shell, because it consists of the commands that a user types: compile, link by pkg-config, run.
. "$(dirname "$0")/common.sh"
use_stage

warnings='-std=c99 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror'
# shellcheck disable=SC2046,SC2086 # lists of options
$CC $warnings "$here/consumer.c" -o "$work/shared" $(staged_pkg_config --cflags --libs fiberrt)
expect 'consumer: fine' "$work/shared"
ldd "$work/shared" | grep -q 'libfiberrt\.so\.1' || fail 'the shared program does not use libfiberrt.so.1'

# shellcheck disable=SC2046
$CXX -std=c++17 -Wall -Wextra -Wpedantic -Werror "$here/consumer.cc" -o "$work/cxx" \
    $(staged_pkg_config --cflags --libs fiberrt)
expect 'consumer: fine' "$work/cxx"

# The library that adopts the whole program, although the program names nothing in it.
# shellcheck disable=SC2046,SC2086
$CC $warnings -DWITH_FIBERS "$source/tests/posix/whole_program.c" -o "$work/posix" -Wl,--as-needed \
    $(staged_pkg_config --cflags --libs fiberrt-posix)
expect fine "$work/posix" fibers
ldd "$work/posix" | grep -q 'libfiberrt_posix\.so\.1' || fail 'the program is not linked with libfiberrt_posix.so.1'

# It must not need the .pc files of libraries that only the archive needs.
PKG_CONFIG_LIBDIR=$(dirname "$(find "$stage" -name fiberrt.pc)") pkg-config --cflags fiberrt >/dev/null ||
    fail 'pkg-config wants more than fiberrt.pc'

# The archive in place of the shared library; the rest stays shared.
libs=$(staged_pkg_config --static --libs fiberrt | sed 's/-lfiberrt/-l:libfiberrt.a/')
# shellcheck disable=SC2046,SC2086
$CC $warnings $(staged_pkg_config --cflags fiberrt) "$here/consumer.c" -o "$work/archive" $libs
expect 'consumer: fine' "$work/archive"
if ldd "$work/archive" | grep libfiberrt; then fail 'the program with the archive still uses the shared library'; fi

# Fully static, where the system has all the archives for it.
echo 'int main(void) { return 0; }' >"$work/empty.c"
# shellcheck disable=SC2046,SC2086
if $CC -static "$work/empty.c" -o "$work/empty" -lc 2>/dev/null &&
    $CC -static "$work/empty.c" -o "$work/empty" \
        $(staged_pkg_config --static --libs-only-l fiberrt | sed 's/-lfiberrt//') 2>/dev/null; then
    $CC $warnings -static "$here/consumer.c" -o "$work/static" $(staged_pkg_config --static --cflags --libs fiberrt)
    expect 'consumer: fine' "$work/static"
    if readelf -lW "$work/static" | grep INTERP; then fail 'the static program asks for a loader'; fi
else
    echo 'LEFT OUT: the fully static program: no static libc or liburing here'
fi
