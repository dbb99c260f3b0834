#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Whether the target `api` calls every function that the library exports. Usage: api_complete.sh MAP TARGET_SOURCE
# Left out: fiber_process_wait, which sends signals to what it is given the number of.
set -eu
missing=0 count=0
for function in $(sed -n 's/^ *\(fiber_[a-z0-9_]*\);/\1/p' "$1"); do
    count=$((count + 1))
    [ "$function" != fiber_process_wait ] || continue
    grep -q "[ (]$function[,()]" "$2" || {
        echo "$2 does not call $function"
        missing=1
    }
done
[ "$count" -gt 100 ] || { # else the map is not read as it should be
    echo "$1 has only $count functions"
    exit 1
}
echo "$count functions"
exit $missing
