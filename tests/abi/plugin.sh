#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# plugin.sh BUILD SOURCE - a host that exports a fiber_new of its own: a plugin linked with the library gets the
# library's, the host keeps its own; with the shared library and with the archive.
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
