#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tells how many lines of certain sources a replayed corpus reaches; fails if that is less than PERCENT of them.
# Usage: coverage.sh LLVM_PROFDATA LLVM_COV EXECUTABLE CORPUS PERCENT LEFT_OUT SOURCE...
# LEFT_OUT: names of functions of these sources that are not counted, separated by commas. The lines that were not
# reached are printed, so that they can be read beside the number.
# Shell, because it is a pipeline of llvm-profdata, llvm-cov and awk.
set -eu
profdata=$1 cov=$2 executable=$3 corpus=$4 percent=$5 left_out=$6
shift 6
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
LLVM_PROFILE_FILE="$scratch/raw" "$executable" "$corpus"
"$profdata" merge -sparse -o "$scratch/profile" "$scratch/raw"
for source; do
    echo "file ${source##*/src/}"
    # A line with code: its number, how often it was reached, the line; between bars.
    "$cov" show "$executable" -instr-profile="$scratch/profile" "$source"
done >"$scratch/lines"
awk -v percent="$percent" -v left_out="$left_out" '
    function tell(file, reached, count) { printf "%5.1f %% of %4d lines  %s\n", 100 * reached / count, count, file }
    BEGIN { functions = split(left_out, names, ",") }
    /^file / { file = $2; files[++file_count] = file; skipping = 0; next }
    !/^ *[0-9]+\|/ { next }
    {
        split($0, part, "|")
        code = substr($0, length(part[1]) + length(part[2]) + 3)
        # A function begins at the left margin and ends with a brace there.
        if (!skipping && code ~ /^[^ \t#}\/].*\(/)
            for (i = 1; i <= functions; i++)
                if (code ~ ("(^|[^a-z_0-9])" names[i] "\\(")) { skipping = 1; used[i] = 1 }
        if (part[2] ~ /[0-9]/ && !skipping) {
            count[file]++
            if (part[2] ~ /^ *0$/) print file ":" $0
            else reached[file]++
        }
        if (skipping && (code ~ /^}/ || code ~ /^[^ ].*[;}]$/)) skipping = 0
    }
    END {
        for (i = 1; i <= file_count; i++) {
            tell(files[i], reached[files[i]], count[files[i]] ? count[files[i]] : 1)
            all += count[files[i]]
            all_reached += reached[files[i]]
        }
        if (all) tell("all", all_reached, all)
        for (i = 1; i <= functions; i++)
            if (!used[i]) { print "there is no function " names[i] " to leave out"; failed = 1 }
        if (!all || all_reached * 100 < percent * all) { print "less than " percent " %"; failed = 1 }
        exit failed
    }' "$scratch/lines"
