#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Drives the example httpd with wrk, in three or more rounds of two seconds, until it has answered many requests. Fails
# on any error, on any answer that is not a 2xx, if a descriptor stays open, and if the memory has grown since the first
# round.
#
#     httpd_load.sh HTTPD_BINARY ROOT [REQUESTS [THREADS]]
#
# What is asked for is "/" of ROOT.

set -eu

if [ $# -lt 2 ] || [ $# -gt 4 ]; then
    echo "usage: $0 HTTPD_BINARY ROOT [REQUESTS [THREADS]]" >&2
    exit 1
fi
httpd=$1
root=$2
wanted=${3:-100000}
threads=${4:-1}
connections=100
seconds=2
min_rounds=3
max_rounds=50
slack_kib=$((1024 * threads)) # each thread keeps stacks of its own

if ! command -v wrk >/dev/null 2>&1; then
    echo "httpd_load: wrk is not installed (Debian: apt-get install wrk)" >&2
    exit 1
fi

scratch=$(mktemp -d)
pid=
clean_up() {
    if [ -n "$pid" ]; then
        kill -KILL "$pid" 2>/dev/null || true
    fi
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

fail() {
    echo "httpd_load: $*" >&2
    exit 1
}

resident_kib() {
    sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status"
}

descriptors() {
    ls "/proc/$pid/fd" | wc -l
}

# User and system time in clock ticks. The command's name, in parentheses, comes before the fields that are counted.
cpu_ticks() {
    sed 's/.*) //' "/proc/$pid/stat" | awk '{ print $12 + $13 }'
}

"$httpd" --port 0 --root "$root" --threads "$threads" >"$scratch/out" 2>"$scratch/err" &
pid=$!
tries=0
while ! grep -q '^listening on ' "$scratch/out"; do
    tries=$((tries + 1))
    if [ $tries -gt 100 ] || ! kill -0 "$pid" 2>/dev/null; then
        cat "$scratch/err" >&2
        fail "$httpd does not start"
    fi
    sleep 0.1
done
url=$(sed -n 's/^listening on //p' "$scratch/out")

# Runs wrk for some seconds and leaves the number of answers in count. Waits until the connections are closed again, so
# that the next run's do not come on top of them.
load() {
    if ! wrk -t 1 -c $connections -d "${1}s" "$url" >"$scratch/wrk" 2>&1; then
        cat "$scratch/wrk" >&2
        fail "wrk failed"
    fi
    if grep -E 'Socket errors|Non-2xx' "$scratch/wrk" >&2; then
        fail "wrk saw errors"
    fi
    count=$(sed -n 's/^ *\([0-9]*\) requests in .*/\1/p' "$scratch/wrk")
    [ "${count:-0}" -gt 0 ] || fail "no request was answered"
    kill -0 "$pid" 2>/dev/null || fail "httpd has ended"
    tries=0
    while [ "$(descriptors)" -ne "$descriptors_before" ]; do
        tries=$((tries + 1))
        [ $tries -le 100 ] || fail "$(descriptors) descriptors are open, $descriptors_before were before"
        sleep 0.1
    done
}

descriptors_before=$(descriptors)
load 1 # warms up

round=0
total=0
ticks_before=$(cpu_ticks)
while [ "$total" -lt "$wanted" ] || [ $round -lt $min_rounds ]; do
    round=$((round + 1))
    [ $round -le $max_rounds ] || fail "only $total requests in $max_rounds rounds"
    load $seconds
    total=$((total + count))
    last_kib=$(resident_kib)
    [ $round -gt 1 ] || first_kib=$last_kib
    echo "round $round: $count requests, $last_kib KiB resident"
done
ticks=$(($(cpu_ticks) - ticks_before))

kill -TERM "$pid"
status=0
wait "$pid" || status=$?
pid=
[ $status -eq 0 ] || fail "httpd ended with $status after SIGTERM"
[ ! -s "$scratch/err" ] || fail "httpd complained: $(cat "$scratch/err")"

cpu_us=$(awk "BEGIN { printf \"%.1f\", $ticks / $(getconf CLK_TCK) * 1e6 / $total }")
echo "httpd_load: $total requests on $connections connections, $threads thread(s), without an error, $cpu_us us of CPU each;" \
    "memory $first_kib KiB after the first round, $last_kib KiB at the end"
[ "$last_kib" -le $((first_kib + slack_kib)) ] || fail "memory has grown"
