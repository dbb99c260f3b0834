#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs clang-tidy over the library's sources, as .clang-tidy says, and over a mistake, which it must find.
# Shell, because it is xargs around one tool.
# Usage: tidy.sh SOURCE_DIR BUILD_DIR [--deep]; BUILD_DIR has compile_commands.json. With --deep the analyzer goes through
# calls as far as it likes, which takes three times as long. CLANG_TIDY: the program, clang-tidy without it.
set -eu
source=$(CDPATH='' cd -- "$1" && pwd)
build=$(CDPATH='' cd -- "$2" && pwd)
tidy=${CLANG_TIDY:-clang-tidy}
work=$build/tests/tidy
depth='--extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=mode=shallow'
[ "${3-}" != --deep ] || depth=

command -v "$tidy" >/dev/null || {
    echo "NOT CHECKED: there is no $tidy (package clang-tidy)"
    exit 77
}
[ -e "$build/compile_commands.json" ] || {
    echo "FAILED: $build has no compile_commands.json: configure it with the preset clang"
    exit 1
}

# With the settings of this place, though not one of its sources.
rm -rf "$work"
mkdir -p "$work"
cat >"$work/mistake.cc" <<'END'
#include <stdlib.h>
int twice(int* p) {
    free(p);
    return *p;
}
END
if "$tidy" --quiet --config-file="$source/.clang-tidy" "$work/mistake.cc" -- -std=gnu++20 >"$work/mistake.log" 2>&1 ||
    ! grep -q 'Use of memory after it is freed' "$work/mistake.log"; then
    cat "$work/mistake.log"
    echo "FAILED: $tidy does not find a plain mistake, so it says nothing of the rest"
    exit 1
fi

cd "$source/src"
# What this build compiles of it; the longest first, so that no processor is left alone with one at the end.
ls -S ./*/*.cc | sed 's|^\./||' >"$work/all"
while read -r file; do
    if grep -qF "\"file\": \"$source/src/$file\"" "$build/compile_commands.json"; then
        echo "$file"
    else
        echo "not of this build: src/$file" >&2
    fi
done <"$work/all" >"$work/files"
count=$(wc -l <"$work/files")
[ "$count" -gt 50 ] || {
    echo "FAILED: found only $count sources: is $source the source tree?"
    exit 1
}
# shellcheck disable=SC2086 # a list of options
if ! xargs -n 1 -P "$(nproc)" "$tidy" --quiet -p "$build" $depth <"$work/files" >"$work/found" 2>"$work/log"; then
    cat "$work/found"
    grep -v ' warnings\{0,1\}\( and [0-9]* errors\{0,1\}\)\{0,1\} generated\.$\|^Suppressed \|^Use -header-filter' "$work/log" || :
    echo 'FAILED: clang-tidy has found something; .clang-tidy says what it looks for'
    exit 1
fi
echo "clang-tidy has found nothing in $count sources"
