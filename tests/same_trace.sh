#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks that two builds of one program make the same traces of the same seeds; or the same program with another
# environment, which the variable OF_OTHER has as NAME=VALUE words.
# Usage: same_trace.sh SEEDS ONE OTHER [ARGUMENT]...
set -u
seeds=$1 one=$2 other=$3
shift 3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
run() { # TRACE PROGRAM [ARGUMENT]...: its output goes to a file, as to a pipe the simulation could not write
    trace=$1
    shift
    env FIBERRT_BACKEND=sim FIBERRT_SEED=$seed FIBERRT_SIM_FAULTS=$faults FIBERRT_SIM_TRACE="$trace" $more "$@" \
        >"$scratch/output" 2>&1 ||
        { cat "$scratch/output"; echo "$1 fails by seed $seed, faults $faults"; exit 1; }
    [ -s "$trace" ] || { echo "$1 made no trace"; exit 1; }
}
seed=0
while [ "$seed" -lt "$seeds" ]; do
    seed=$((seed + 1))
    for faults in 0 1 2; do
        more=
        run "$scratch/one" "$one" "$@"
        more=${OF_OTHER-}
        run "$scratch/other" "$other" "$@"
        cmp "$scratch/one" "$scratch/other" || { echo "seed $seed, faults $faults"; exit 1; }
    done
done
echo "$((3 * seeds)) traces are the same to the byte, the last one of $(wc -l <"$scratch/one") lines"
