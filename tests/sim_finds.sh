#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks that fiberrt-sim finds the bug of a program within 1,000 seeds, and shrinks the choices to at most so many;
# that the program fails by these, as the printed command says; and not by none. Usage: sim_finds.sh FIBERRT_SIM MOST
# PROGRAM...
set -u
sim=$1 most=$2
shift 2
fail() {
    printf '%s\n' "$report"
    echo "sim_finds.sh: $*"
    exit 1
}
status=0
report=$("$sim" --timeout 60 --seeds 1-1000 -- "$@" 2>&1) || status=$?
[ "$status" -eq 1 ] || fail "fiberrt-sim exited with $status, but should have found a bug"
choices=$(printf '%s\n' "$report" | sed -n 's/^choices that make it fail: \([0-9]*\) of.*/\1/p')
[ -n "$choices" ] || fail 'it does not say how many choices suffice'
[ "$choices" -le "$most" ] || fail "$choices choices suffice, and should be at most $most"
again=$(printf '%s\n' "$report" | sed -n 's/^again:  \(.*FIBERRT_SIM_REPLAY.*\)/\1/p')
[ -n "$again" ] || fail 'it does not say how to run it again'
if sh -c "$again" >/dev/null 2>&1; then fail "does not fail again: $again"; fi
FIBERRT_BACKEND=sim FIBERRT_SIM_REPLAY='' "$@" >/dev/null 2>&1 || fail 'it fails without any choice: that finds nothing'
printf '%s\n' "$report"
