#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks the manual: that the comments of fiberrt.h have all that its pages need, that mandoc finds nothing wrong with these,
# that each link leads somewhere, that the examples work; and that the checks find mistakes which are planted.
# Usage: manual.sh SOURCE_DIR BUILD_DIR, with the compiler in CC.
set -eu
source_dir=$1 build_dir=$2
for tool in python3 mandoc; do
    command -v "$tool" >/dev/null || {
        echo "the manual is not checked: $tool is missing"
        exit 77
    }
done
header=$source_dir/include/fiberrt.h map=$source_dir/src/libfiberrt.map
manual="python3 $source_dir/docs/manual/manual.py"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

$manual check "$header" "$map"
python3 "$source_dir/tests/manual_mistakes.py" "$source_dir"

# The HTML: each link leads to a file that is there, and the index to every function.
$manual html "$header" "$scratch/html"
cat "$scratch"/html/*.html | grep -o 'href="[^"#:]*[#"]' | sed 's/href="//; s/[#"]$//' | sort -u >"$scratch/links"
[ "$(wc -l <"$scratch/links")" -gt 50 ] || { echo "there are hardly any links in the HTML"; exit 1; }
while read -r file; do
    [ -z "$file" ] || [ -e "$scratch/html/$file" ] || { echo "a link leads to $file, which there is not"; exit 1; }
done <"$scratch/links"
for name in $(sed -n 's/^ *\(fiber_[a-z0-9_]*\);$/\1/p' "$map"); do
    grep -q ">$name</a>" "$scratch/html/index.html" || { echo "$name is not in the index"; exit 1; }
done

# The same sources give the same pages, if who builds says of which day.
for run in 1 2; do
    SOURCE_DATE_EPOCH=86400 $manual pages "$header" "$scratch/run$run"
done
diff -r "$scratch/run1" "$scratch/run2"
grep -q '^\.Dd January 2, 1970$' "$scratch/run1/man7/fiberrt.7"

# The examples, as they stand in the header and in fiberrt.7.
python3 "$source_dir/tests/manual_examples.py" "$source_dir" "$scratch"
for program in examples fiberrt.7; do
    # shellcheck disable=SC2086
    ${CC:-cc} -std=gnu99 -Wall -Wextra -Werror -Wno-unused-parameter -I "$source_dir/include" "$scratch/$program.c" \
        -o "$scratch/$program" -pthread -L "$build_dir" -lfiberrt -Wl,-rpath,"$build_dir"
    "$scratch/$program" || { echo "the example $program ended with $?"; exit 1; }
done
