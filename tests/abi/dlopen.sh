#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# dlopen.sh BUILD SOURCE - a program that is not linked with the library loads it at run time.
. "$(dirname "$0")/common.sh"
use_stage

$CC -std=c99 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -I"$prefix/include" "$here/dlopen_only.c" \
    -o "$work/dlopen_only" -ldl -lpthread
if readelf -d "$work/dlopen_only" | grep fiberrt; then fail 'it is linked with the library'; fi
expect 'dlopen: fine' "$work/dlopen_only" libfiberrt.so.1
