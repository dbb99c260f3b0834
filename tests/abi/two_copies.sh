#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# two_copies.sh BUILD SOURCE - two copies of the library in one process: two files, and the archive that a program is
# linked with, whose names it exports, beside the shared library.
. "$(dirname "$0")/common.sh"
use_stage

warnings='-std=c99 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror'
# shellcheck disable=SC2046,SC2086 # lists of options
{
    $CC $warnings -I"$prefix/include" "$here/two_copies.c" -o "$work/two_files" -ldl -lpthread
    $CC $warnings -DLINKED -rdynamic $(staged_pkg_config --cflags fiberrt) "$here/two_copies.c" -o "$work/linked" \
        $(staged_pkg_config --static --libs fiberrt | sed 's/-lfiberrt/-l:libfiberrt.a/') -ldl -lpthread
}
cp "$libdir/libfiberrt.so.1" "$work/copy.so"
expect 'two_copies: fine' "$work/two_files" "$libdir/libfiberrt.so.1" "$work/copy.so"
expect 'two_copies: fine' "$work/two_files" "$work/copy.so" "$libdir/libfiberrt.so.1"
expect 'two_copies: fine' "$work/linked" "$work/copy.so"
