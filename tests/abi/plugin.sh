#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# plugin.sh BUILD SOURCE - checks a plugin in a host that exports a fiber_new of its own: the plugin, linked with the
# shared library or the archive, calls the library's, and the host keeps its own. The script also checks two copies of
# the library in one process: two shared files, or a shared file next to the archive of a program that exports the
# archive's names.
. "$(dirname "$0")/common.sh"
use_stage

warnings='-std=c99 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror'
# shellcheck disable=SC2046,SC2086 # lists of options
{
    $CC $warnings -fPIC -shared "$here/plugin.c" -o "$work/plugin.so" $(staged_pkg_config --cflags --libs fiberrt)
    $CC $warnings -rdynamic "$here/host.c" -o "$work/host" -ldl
    libs=$(staged_pkg_config --static --libs fiberrt | sed 's/-lfiberrt/-l:libfiberrt.a/')
    $CC $warnings -rdynamic -DSTATIC_PLUGIN $(staged_pkg_config --cflags fiberrt) "$here/host.c" "$here/plugin.c" \
        -o "$work/host_static" $libs -ldl
}
expect 'host: fine' "$work/host" "$work/plugin.so"
expect 'host: fine' "$work/host_static"

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
