#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Whether the target `api` calls every function of fiberrt.h. Usage: api_complete.sh SOURCE_DIR TARGET_SOURCE
# Left out: fiber_process_wait, which sends signals to the process whose number it gets.
set -eu
missing=0 count=0
functions=$(awk -f "$1/src/exported.awk" "$1/include/fiberrt.h" | cut -d ' ' -f 1)
for function in $functions; do
    count=$((count + 1))
    [ "$function" != fiber_process_wait ] || continue
    grep -q "[ (]$function[,()]" "$2" || {
        echo "$2 does not call $function"
        missing=1
    }
done
echo "$count functions"
exit $missing
