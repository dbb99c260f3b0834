#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# compare_traces.sh CONFORMANCE FILTER BACKEND... - the traces of scenarios on the first backend and on each of the
# others: a scenario that ran on both has the same.
set -eu
program=$1 filter=$2 first=$3
shift 3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trace() {
    FIBERRT_BACKEND=$1 "$program" --trace --gtest_filter="$filter" >"$scratch/output" || {
        grep -Ev '^(trace |\[ RUN |\[       OK |\[---)' "$scratch/output" || true
        echo "scenarios fail on $1"
        exit 1
    }
    sed -n 's/^trace //p' "$scratch/output" | LC_ALL=C sort -k 1,1 >"$scratch/$1"
}
trace "$first"
for other; do
    trace "$other"
    # The scenario is the first word.
    LC_ALL=C join "$scratch/$first" "$scratch/$other" -o 0 >"$scratch/both"
    [ -s "$scratch/both" ] || { echo "no scenario left a trace on both $first and $other" && exit 1; }
    for backend in "$first" "$other"; do
        LC_ALL=C join "$scratch/both" "$scratch/$backend" >"$scratch/$backend.common"
    done
    diff "$scratch/$first.common" "$scratch/$other.common"
    echo "$(wc -l <"$scratch/both") traces are the same on $first and $other"
done
