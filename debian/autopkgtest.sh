#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# autopkgtest.sh FOLDER - the tests of debian/tests with the packages of FOLDER/one, in a chroot made for them. Called
# by packages.sh, with mounts of its own.
set -eu
. "$(dirname "$0")/chroot.sh"
folder=$1
system=$folder/system
log=$folder/autopkgtest.log
make_chroot "$system" "$folder/mmdebstrap.log"
rm -rf "$folder/autopkgtest"
status=0
# The packages with debug information hold nothing that a test looks at.
set --
for deb in "$folder"/one/*.deb; do
    case $deb in *-dbgsym_*) ;; *) set -- "$@" "$deb" ;; esac
done
# What the environment here says of compilers is not about that system.
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 autopkgtest --output-dir "$folder/autopkgtest" \
    --no-built-binaries "$folder"/one/*.dsc "$@" -- chroot "$system" >"$log" 2>&1 || status=$?
[ ! -e "$folder/autopkgtest/summary" ] || sed 's/^/   /' "$folder/autopkgtest/summary"
if [ "$status" -ne 0 ]; then
    tail -n 60 "$log"
    exit 1
fi
# A test that skips itself has not passed.
tests=$(sed -n 's/^Tests: //p' "$(dirname "$0")/tests/control" | wc -w)
passed=$(grep -c '^[a-z]* *PASS$' "$folder/autopkgtest/summary" || :)
[ "$passed" -eq "$tests" ] || { echo "autopkgtest.sh: FAILED: of $tests tests $passed have passed" && exit 1; }
umount "$system/proc"
rm -rf --one-file-system "$system"
