#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks the manual: that the comments of fiberrt.h have all that its pages need, that mandoc finds nothing wrong with
# these, that each link leads somewhere, that the examples work; and that the checks find mistakes which are planted.
# Each program has a page, too, which names the options that its --help names, and no others.
# Usage: manual.sh SOURCE_DIR BUILD_DIR PROGRAM..., with the compiler in CC.
# Shell, because it is commands one after the other: manual.py, cmake, mandoc, a compiler.
set -eu
source_dir=$1 build_dir=$2
shift 2
for tool in python3 mandoc; do
    command -v "$tool" >/dev/null || {
        echo "the manual is not checked: $tool is missing"
        exit 77
    }
done
header=$source_dir/include/fiberrt.h
manual="python3 $source_dir/docs/manual/manual.py"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

$manual check "$header"
python3 "$source_dir/tests/manual_mistakes.py" "$source_dir"

# Made and installed by CMake; the same sources give the same pages, if the builder sets the day.
SOURCE_DATE_EPOCH=86400
export SOURCE_DATE_EPOCH
{
    cmake -S "$source_dir" -B "$scratch/build" -DFIBERRT_MANUAL=ON -DFIBERRT_TESTS=OFF -DFIBERRT_TOOLS=OFF \
        -DFIBERRT_EXAMPLES=OFF -DCMAKE_INSTALL_PREFIX=/usr &&
        cmake --build "$scratch/build" --target manual &&
        DESTDIR="$scratch/stage" cmake --install "$scratch/build" --component doc
} >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
installed=$scratch/stage/usr/share html=$scratch/stage/usr/share/doc/fiberrt/html
$manual pages "$header" "$scratch/again"
for section in 3 7; do # the pages of the programs are installed with them
    diff -r "$scratch/again/man$section" "$installed/man/man$section"
done
grep -q '^\.Dd January 2, 1970$' "$installed/man/man7/fiberrt.7"
[ -z "$(find "$scratch/stage" -name '*.h' -o -name '*.so*')" ] || { echo "more than the manual is installed"; exit 1; }

# The HTML: each link leads to a place that is there, and the index to every function.
cat "$html"/*.html | grep -o 'href="[^":]*"' | sed 's/href="//; s/"$//' | sort -u >"$scratch/links"
[ "$(grep -c '#' "$scratch/links")" -gt 50 ] || { echo "there are hardly any links in the HTML"; exit 1; }
grep -v '^#' "$scratch/links" >"$scratch/to_files" # those within a page are mandoc's
while IFS='#' read -r file place; do
    [ -e "$html/$file" ] || { echo "a link leads to $file, which there is not"; exit 1; }
    [ -z "$place" ] || grep -q "id=\"$place\"" "$html/$file" || { echo "$file has no place $place"; exit 1; }
done <"$scratch/to_files"
for name in $(awk -f "$source_dir/src/exported.awk" "$header" | cut -d ' ' -f 1); do
    grep -q ">$name</a>" "$html/index.html" || { echo "$name is not in the index"; exit 1; }
done

# The examples, as they stand in the headers and in fiberrt.7.
python3 "$source_dir/tests/manual_examples.py" "$source_dir" "$scratch"
for program in examples fiberrt.7; do
    # shellcheck disable=SC2086
    ${CC:-cc} -std=gnu99 -Wall -Wextra -Werror -Wno-unused-parameter -I "$source_dir/include" -I "$build_dir/include" "$scratch/$program.c" \
        -o "$scratch/$program" -pthread -L "$build_dir" -lfiberrt -Wl,-rpath,"$build_dir"
    "$scratch/$program" || { echo "the example $program ended with $?"; exit 1; }
done

# The examples of the pages.
for source in "$source_dir"/docs/manual/examples/*.c; do
    program=$scratch/example_$(basename "$source" .c)
    ${CC:-cc} -std=gnu99 -Wall -Wextra -Werror -I "$source_dir/include" -I "$build_dir/include" "$source" -o "$program" \
        -pthread -L "$build_dir" -lfiberrt -Wl,-rpath,"$build_dir" -ldl
    "$program" >"$scratch/log" || { cat "$scratch/log"; echo "$source ended with $?"; exit 1; }
done

# The pages of the programs.
for program; do
    page=$source_dir/docs/man1/${program##*/}.1
    mandoc -Tlint -Wwarning "$page"
    in_help=$("$program" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p' | sort)
    in_page=$(sed -n 's/^\.It Fl -\([a-z-]*\).*/--\1/p' "$page" | sort)
    [ -n "$in_help" ] || { echo "FAILED: $program --help names no options"; exit 1; }
    if [ "$in_help" != "$in_page" ]; then
        printf 'FAILED: --help of %s has\n%s\nand its page has\n%s\n' "$program" "$in_help" "$in_page"
        exit 1
    fi
done
[ $# -eq 0 ] || [ "$(find "$source_dir/docs/man1" -name '*.1' | wc -l)" -eq $# ] ||
    { echo "FAILED: a page in $source_dir/docs/man1 has no program"; exit 1; }
