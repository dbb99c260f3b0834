#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs a fuzz target from its committed corpus and reports how far it got.
# Usage: run.sh EXECUTABLE CORPUS SCRATCH SECONDS [none|find]
# none (the default): fails if a bug is found; says how to replay it. find: a bug is planted; fails if it is not found.
# New inputs and crashes go to the folder SCRATCH; inputs already there are used too, unless it is `find`.
# Shell, because it runs one program with its options and interprets its exit status.
set -eu
executable=$1 corpus=$2 scratch=$3 seconds=$4 expected=${5-none}

[ "$expected" = none ] || rm -rf "$scratch"
mkdir -p "$scratch/corpus" "$scratch/crashes"
log=$scratch/log

fuzzer=
trap '[ -z "$fuzzer" ] || kill "$fuzzer" 2>/dev/null || :' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

progress() { # the last line of libFuzzer's that counts
    awk '/^#[0-9]+\t/ { runs = substr($1, 2); for (i = 2; i < NF; i++) { if ($i == "cov:") edges = $(i + 1)
        if ($i == "exec/s:") rate = $(i + 1) } }
        /inline 8-bit counters/ && match($0, /\([0-9]+ inline/) { all = substr($0, RSTART + 1, RLENGTH - 8) }
        END { printf "%d inputs run, %d per second, %d of %d edges", runs, rate, edges, all }' "$log"
}

# An input runs for less than a millisecond: one that takes 10 seconds hangs.
"$executable" -max_total_time="$seconds" -timeout=10 -max_len=512 -print_final_stats=0 \
    -artifact_prefix="$scratch/crashes/" "$scratch/corpus" "$corpus" >"$log" 2>&1 &
fuzzer=$!
if [ -t 1 ]; then
    second=0
    while kill -0 "$fuzzer" 2>/dev/null; do
        printf '\r   %d of %d s: %s ' "$second" "$seconds" "$(progress)"
        sleep 1
        second=$((second + 1))
    done
    echo
fi
status=0
wait "$fuzzer" || status=$?
fuzzer=
if [ "$expected" = find ]; then
    if [ "$status" -ne 0 ] && [ -n "$(ls "$scratch/crashes")" ]; then
        echo "   the planted bug was found:"
        grep -m 1 -E ': not so: |, expected |ERROR: |runtime error: ' "$log"
        exit 0
    fi
    tail -n 20 "$log"
    echo "   the planted bug was not found in $seconds seconds"
    exit 1
fi
[ -t 1 ] || echo "   $(progress)"
[ "$status" -ne 0 ] || exit 0
grep -v -E '^#[0-9]+|NEW_FUNC' "$log" | tail -n 60
found=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
echo "   To replay it:  $executable ${found:-(see $log)}"
echo "   what its fibers do, line by line, for switch and waiting:  FUZZ_TRACE=1 $executable ${found:-...}"
echo "   Mended, it belongs into $corpus."
exit 1
