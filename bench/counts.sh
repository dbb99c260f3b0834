#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Counts the instructions per yield, wake and spawn by Callgrind, and compares them with those recorded in counts.json:
# more than 5 % away, either way, is a failure, so that what was gained is recorded too.
# Usage: counts.sh COUNTS          COUNTS is the program made of counts.c (build/release/tests/counts)
#        counts.sh COUNTS record   writes counts.json anew
# Ends with 77 if the program was made otherwise than the recorded one: then the figures cannot be compared.
set -eu

program=$1
action=${2-compare}
recorded=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/counts.json
few=2000
many=22000

command -v valgrind >/dev/null 2>&1 || { echo 'FAILED: valgrind is not here, so nothing was counted' && exit 1; }

# instructions SHAPE N: of the whole process.
instructions() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" "$2" 2>&1 |
        sed -n 's/^==[0-9]*== Collected : \([0-9]*\)$/\1/p'
}

# per_unit SHAPE: the difference of two runs, so that start and end count for nothing.
per_unit() {
    long=$(instructions "$1" "$many")
    short=$(instructions "$1" "$few")
    [ -n "$long" ] && [ -n "$short" ] || { echo "FAILED: valgrind counted nothing for $1" >&2 && return 1; }
    awk -v d="$((long - short))" -v n="$((many - few))" 'BEGIN { printf "%.2f", d / n }'
}

# field NAME: of the record, which has one a line.
field() { sed -n "s/^ *\"$1\": \"\{0,1\}\([^\"]*[^\",]\)\"\{0,1\},\{0,1\}\$/\1/p" "$recorded"; }

made_with=$("$program" made-with)

if [ "$action" = record ]; then
    yield=$(per_unit yield)
    wake=$(per_unit wake)
    spawn=$(per_unit spawn)
    cat >"$recorded" <<END
{
  "license": [
    "SPDX-License-Identifier: MIT OR Apache-2.0"
  ],
  "about": "instructions of this process per unit, by Callgrind; made by: bench/counts.sh build/release/tests/counts record",
  "made with": "$made_with",
  "yield": $yield,
  "wake": $wake,
  "spawn": $spawn
}
END
    cat "$recorded"
    exit 0
fi

if [ "$made_with" != "$(field 'made with')" ]; then
    echo "NOT COMPARED: made with $made_with, but the figures were recorded with $(field 'made with')"
    exit 77
fi
status=0
for shape in yield wake spawn; do
    now=$(per_unit "$shape")
    awk -v shape="$shape" -v now="$now" -v was="$(field "$shape")" 'BEGIN {
        if (was <= 0) { print "FAILED: no figure is recorded for " shape; exit 1 }
        far = now > was * 1.05 || now < was * 0.95
        printf "%s %s: %s instructions, recorded %s (%+.1f %%)\n", far ? "FAILED" : "passed", shape, now, was,
            (now / was - 1) * 100
        exit far
    }' || status=1
done
[ "$status" -eq 0 ] || echo "If that is meant: bench/counts.sh build/release/tests/counts record"
exit "$status"
