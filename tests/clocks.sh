#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks by the objects of the library that only core/environment.cc reads a clock or a random source, so that the
# simulation owns time and chance: what they refer to, whatever their sources look like. Usage: clocks.sh OBJECT...
set -u
sources='clock_gettime|clock_getres|gettimeofday|time|times|clock|ftime|timespec_get|getrandom|getentropy|arc4random[a-z_]*'
sources="$sources|rand|rand_r|random|random_r|srand|srandom|[dejlmn]*rand48(_r)?"
failed=0
looked=0
readers=0
for object; do
    case $object in *.o) ;; *) continue ;; esac
    looked=$((looked + 1))
    found=$(nm -u "$object" | awk '{ print $2 }' | grep -xE "$sources")
    [ -n "$found" ] || continue
    case $object in
        */io/offload.cc.o) ;; # threads that a simulation does not have wait by the real time
        */core/environment.cc.o) readers=$((readers + 1)) ;;
        *)
            echo "$object refers to" $found
            failed=1
            ;;
    esac
done
[ "$looked" -gt 20 ] || { echo "only $looked objects were looked at"; failed=1; }
# It would find one where there is one.
[ "$readers" -gt 0 ] || { echo 'not even core/environment.cc is seen to read a clock'; failed=1; }
[ "$failed" -eq 0 ] && echo "of $looked objects none but core/environment.cc reads a clock or a random source"
exit "$failed"
