#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks that the sources are laid out as .clang-format says, and that a line which is not is found. Checks also that
# no line of CMake's files is longer than 120 columns.
# Usage: format.sh SOURCE_DIR [--mend]: with it they are changed; CLANG_FORMAT: the program, clang-format without it.
# Shell, because it only runs clang-format and awk over files that find lists.
set -eu
cd -- "$1"
# Without git, the files of builds are found too, except those in ./build.
cmake=$(git ls-files '*.cmake' '*CMakeLists.txt' 2>/dev/null || :)
[ -n "$cmake" ] || cmake=$(find . \( -name '*.cmake' -o -name CMakeLists.txt \) ! -path './build/*' -type f)
long=$(echo "$cmake" | xargs awk 'length > 120 { print FILENAME ":" FNR ": longer than 120 columns" }')
[ -z "$long" ] || {
    echo "$long"
    echo 'FAILED: lines of CMake are too long'
    exit 1
}
format=${CLANG_FORMAT:-clang-format}
command -v "$format" >/dev/null || {
    echo "NOT CHECKED: there is no $format (package clang-format)"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Leaves out files that SWIG writes; fiberrt.h, laid out by hand; and frames for examples, which are no programs.
find bench bindings docs/manual/examples examples fuzz include src tests tools -type f \
    \( -name '*.c' -o -name '*.cc' -o -name '*.h' -o -name '*.hpp' \) ! -path '*/raw/raw_wrap.c' \
    ! -path include/fiberrt.h ! -path 'tests/docs/frames/*' ! -path '*/build/*' |
    sort >"$work/files"
count=$(wc -l <"$work/files")
[ "$count" -gt 200 ] || {
    echo "FAILED: found only $count files: is $1 the source tree?"
    exit 1
}

if [ "${2-}" = --mend ]; then
    xargs -n 20 -P "$(nproc)" "$format" -i <"$work/files"
    exit 0
fi

if printf 'int  f( ){return 1 ;}\n' | "$format" --dry-run -Werror --assume-filename=src/core/wrong.cc >"$work/wrong" 2>&1; then
    echo "FAILED: $format does not find a line that is laid out badly"
    exit 1
fi
if ! xargs -n 20 -P "$(nproc)" "$format" --dry-run -Werror <"$work/files" >"$work/found" 2>&1; then
    grep -A 1 'clang-format' "$work/found" | head -n 100
    echo "FAILED: not laid out as .clang-format says; tests/format.sh . --mend does it"
    exit 1
fi
echo "$count files are laid out as .clang-format says"
