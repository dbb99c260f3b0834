#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# How fiberrt-sim ends: a signal ends it; on SIGHUP it goes on under nohup; when its output cannot be written it fails.
# Usage: sim_signals.sh FIBERRT_SIM
# Shell, because it tests what a shell does: background, signals, nohup, /dev/full.
set -u
sim=$1
TMPDIR=$(mktemp -d) || exit 1
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
fail() {
    echo "sim_signals.sh: $*"
    exit 1
}

# The program prints its number, and waits for permission to go on.
program='echo $$ >"$TMPDIR/running.new"; mv "$TMPDIR/running.new" "$TMPDIR/running"; while [ ! -e "$TMPDIR/go" ]; do sleep 0.05; done'

# begin [COMMAND...]: starts a run, and returns when the program runs.
begin() {
    rm -f "$TMPDIR/running" "$TMPDIR/go"
    "$@" "$sim" --seeds 1-1 --timeout 100 -- /bin/sh -c "$program" >"$TMPDIR/said" 2>&1 &
    run=$!
    while [ ! -e "$TMPDIR/running" ]; do
        kill -0 "$run" 2>/dev/null || fail "it ended before its program ran: $(cat "$TMPDIR/said")"
        sleep 0.05
    done
}

begin env
kill -TERM "$run"
wait "$run"
status=$?
[ "$status" -eq 143 ] || fail "after SIGTERM it exited with $status"
looks=0
while case $(sed 's/.*) //' "/proc/$(cat "$TMPDIR/running")/stat" 2>/dev/null) in
    '' | Z*) false ;; # one for whom nobody has waited yet has ended, too
    esac; do
    looks=$((looks + 1))
    [ "$looks" -lt 600 ] || fail 'it left its program running'
    sleep 0.05
done
[ -z "$(find "$TMPDIR" -name 'fiberrt-sim-*')" ] || fail 'it left files behind'

begin nohup
kill -HUP "$run"
: >"$TMPDIR/go"
wait "$run"
status=$?
[ "$status" -eq 0 ] || fail "after SIGHUP, under nohup, it exited with $status: $(cat "$TMPDIR/said")"

"$sim" --seeds 1-2 -- /bin/true >/dev/full 2>"$TMPDIR/said"
status=$?
[ "$status" -eq 2 ] || fail "it exited with $status though nothing could be written"
grep -q 'cannot be written' "$TMPDIR/said" || fail "it does not say that nothing could be written"
