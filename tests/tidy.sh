#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs clang-tidy over the library's sources, as .clang-tidy says, and over a mistake, which it must find.
# Shell, because it is xargs around one tool.
# Usage: tidy.sh SOURCE_DIR BUILD_DIR [--deep]; BUILD_DIR has compile_commands.json. It checks files together that the
# build compiles together. With --deep the analyzer goes through calls as far as it likes, which takes three times as
# long. CLANG_TIDY: the program, clang-tidy without it.
set -eu
source=$(CDPATH='' cd -- "$1" && pwd)
build=$(CDPATH='' cd -- "$2" && pwd)
tidy=${CLANG_TIDY:-clang-tidy}
work=$build/tests/tidy
depth='--extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=mode=shallow'
[ "${3-}" != --deep ] || depth=
# For files that are compiled together: the analyzer goes through included files, and a report in one file that is due
# to another file is no mistake.
at_once='--checks=-bugprone-suspicious-include,-readability-redundant-declaration'
at_once="$at_once --extra-arg=-Xclang --extra-arg=-analyzer-opt-analyze-headers"

command -v "$tidy" >/dev/null || {
    echo "NOT CHECKED: there is no $tidy (package clang-tidy)"
    exit 77
}
[ -e "$build/compile_commands.json" ] || {
    echo "FAILED: $build has no compile_commands.json: configure it with the preset clang"
    exit 1
}

# With the settings of this folder, although the file is not among the sources.
rm -rf "$work"
mkdir -p "$work/src"
echo '#include "src/mistake.cc"' >"$work/all.cc"
cat >"$work/src/mistake.cc" <<'END'
#include <stdlib.h>
int twice(int* p) {
    free(p);
    return *p;
}
END
# shellcheck disable=SC2086 # a list of options
if "$tidy" --quiet --config-file="$source/.clang-tidy" $at_once "$work/all.cc" -- -std=gnu++20 >"$work/mistake.log" 2>&1 ||
    ! grep -q 'Use of memory after it is freed' "$work/mistake.log"; then
    cat "$work/mistake.log"
    echo "FAILED: $tidy does not find a plain mistake, so it says nothing of the rest"
    exit 1
fi

cd "$source/src"
# The files that this build compiles; the longest first, so that no processor is left alone with one at the end.
sed -n 's|^ *"file": "\(.*\.c[cx]*\)".*|\1|p' "$build/compile_commands.json" |
    grep -e "^$source/src/" -e '/fiberrt_objects\.dir/Unity/' | sort -u | xargs ls -S >"$work/files"
xargs sed -n 's|^#include "\(/.*\.cc\)"$|\1|p' <"$work/files" | cat - "$work/files" | sed -n "s|^$source/src/||p" |
    sort >"$work/sources"
ls ./*/*.cc | sed 's|^\./||' | sort | comm -23 - "$work/sources" | sed 's|^|not of this build: src/|' >&2
count=$(wc -l <"$work/sources")
[ "$count" -gt 50 ] || {
    echo "FAILED: found only $count sources: is $source the source tree?"
    exit 1
}
grep -q /Unity/ "$work/files" || at_once=
# shellcheck disable=SC2086 # lists of options
if ! xargs -n 1 -P "$(nproc)" "$tidy" --quiet --config-file="$source/.clang-tidy" $at_once $depth -p "$build" <"$work/files" >"$work/found" 2>"$work/log"; then
    cat "$work/found"
    grep -v ' warnings\{0,1\}\( and [0-9]* errors\{0,1\}\)\{0,1\} generated\.$\|^Suppressed \|^Use -header-filter' "$work/log" || :
    echo 'FAILED: clang-tidy has found something; .clang-tidy lists the checks'
    exit 1
fi
echo "clang-tidy has found nothing in $count sources"
