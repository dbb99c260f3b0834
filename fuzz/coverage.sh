#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Tells how many lines a replayed corpus reaches of the files of src/ that ask for it by a line of their first comment,
# "// fuzz: TARGET N %"; fails if it reaches less than N percent of a file. Prints the lines that were not reached.
# Usage: coverage.sh LLVM_PROFDATA LLVM_COV EXECUTABLE CORPUS TARGET SRC
# Shell, because it is a pipeline of llvm-profdata, llvm-cov and awk.
set -eu
profdata=$1 cov=$2 executable=$3 corpus=$4 target=$5 src=$6
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
LLVM_PROFILE_FILE="$scratch/raw" "$executable" "$corpus"
"$profdata" merge -sparse -o "$scratch/profile" "$scratch/raw"
grep -rnE "^// fuzz: (.*, )?$target [0-9]+ %" "$src" | sort |
    sed -E "s/^([^:]*):.*[ ]$target ([0-9]+) %.*/\1 \2/" >"$scratch/files"
while read -r source least; do
    echo "file ${source##*/src/} $least"
    # A line with code: its number, how often it was reached, the line; between bars.
    "$cov" show "$executable" -instr-profile="$scratch/profile" -show-instantiations=false "$source"
done <"$scratch/files" >"$scratch/lines"
awk -v target="$target" '
    function tell(    percent) {
        if (file == "") return
        percent = count ? 100 * reached / count : 0
        printf "%5.1f %% of %4d lines  %s\n", percent, count, file
        if (percent < least) {
            printf "%s: less than the %d %% that its first comment asks of %s\n", file, least, target
            failed = 1
        }
    }
    /^file / { tell(); file = $2; least = $3; count = reached = 0; files++; next }
    !/^ *[0-9]+\|/ { next }
    {
        split($0, part, "|")
        if (part[2] !~ /[0-9]/) next
        count++
        if (part[2] ~ /^ *0$/) print file ":" $0
        else reached++
    }
    END {
        tell()
        if (!files) print "no file asks for " target
        exit failed || !files
    }' "$scratch/lines"
