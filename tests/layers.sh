#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks that the data's way through the code goes down only: api -> sync, io, core -> io/backend.h, arch, base.
# Usage: layers.sh SOURCE_DIR
cd "$1/src" || exit 1
failed=0
checked=0
# allow FOLDER PATTERN: files of FOLDER include from src/ only what matches the pattern.
allow() {
    for file in "$1"/*; do
        [ -f "$file" ] || continue
        checked=$((checked + 1))
        wrong=$(sed -n 's/^#include "\([a-z_0-9]*\/[^"]*\)".*/\1/p' "$file" | grep -Ev "$2")
        if [ -n "$wrong" ]; then
            echo "$file may not include: $wrong"
            failed=1
        fi
    done
}
allow base '^base/'
allow arch '^arch/'
allow core '^(core|base|arch)/|^io/backend\.h$'
allow io '^(io|core|base)/'
allow sync '^(sync|core|base)/'
allow api '^(api|sync|io|core|base)/'
if grep -nE 'clock_gettime|gettimeofday|rdtsc|getrandom|[^a-z_]rand\(' -r base arch core sync api 2>/dev/null; then
    echo "only io/ may read a clock or a random source"
    failed=1
fi
[ "$checked" -gt 20 ] || { echo "found only $checked files: is $1 the source tree?"; failed=1; }
[ "$failed" -eq 0 ] && echo "$checked files include downwards only"
exit "$failed"
