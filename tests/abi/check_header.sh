#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# check_header.sh BUILD SOURCE - the headers of C compile without a warning in every dialect, by gcc and by clang.
. "$(dirname "$0")/common.sh"

options="-Wall -Wextra -Wpedantic -Wshadow -Wundef -Werror -fsyntax-only -I$source/include"
compiled=0
for pair in 'gcc g++' 'clang clang++'; do
    c=${pair% *}
    cxx=${pair#* }
    if command -v "$c" >"$work/where"; then
        for standard in c99 gnu99 c11 c17 gnu17; do
            # shellcheck disable=SC2086 # a list of options
            "$c" -std=$standard $options -Wstrict-prototypes "$here/header_use.c" "$here/dl_table.c" || fail "$c -std=$standard"
            compiled=$((compiled + 1))
        done
    else
        echo "LEFT OUT: there is no $c here"
    fi
    if command -v "$cxx" >"$work/where"; then
        for standard in c++11 c++14 c++17 c++20 gnu++20; do
            # shellcheck disable=SC2086
            "$cxx" -x c++ -std=$standard $options "$here/header_use.c" "$here/dl_table.c" || fail "$cxx -std=$standard"
            compiled=$((compiled + 1))
        done
    else
        echo "LEFT OUT: there is no $cxx here"
    fi
done
[ "$compiled" -gt 0 ] || fail 'neither gcc nor clang was found'
# The compiler of this build, whatever its name.
# shellcheck disable=SC2086
$CC -std=c99 $options "$here/header_use.c" "$here/dl_table.c" || fail "$CC -std=c99"
echo "ok: compiled in $compiled ways"
