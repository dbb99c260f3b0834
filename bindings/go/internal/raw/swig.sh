#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes raw.go and raw_wrap.c from raw.i by SWIG 4.1. Both files are committed, so that users need no SWIG.
# Usage: swig.sh [--check]; with --check it writes nothing, and fails if the committed files differ.
# The variable SWIG names the program; the default is swig.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$here"
# The output contains the version, and other versions of SWIG make other code.
case $("${SWIG:-swig}" -version) in
    *'SWIG Version 4.1.'*) ;;
    *) echo 'swig.sh: that needs SWIG 4.1' >&2 && exit 77 ;;
esac
"${SWIG:-swig}" -go -cgo -intgosize 64 -package raw -outdir "$out" -o "$out/raw_wrap.c" raw.i
# Remove a function that SWIG always adds and that is not used here.
sed -i '/^func getSwigcptr/,/^}/d; s/[ \t]*$//' "$out/raw.go"
sed -i 's/[ \t]*$//; /^ \* Version 4\.1\./s/4\.1\.[0-9]*/4.1/' "$out/raw.go" "$out/raw_wrap.c"
gofmt -w "$out/raw.go"
for file in raw.go raw_wrap.c; do
    if [ "${1:-}" = --check ]; then
        diff -u "$file" "$out/$file" || { echo "swig.sh: $file is not what SWIG makes of raw.i: run swig.sh" >&2 && exit 1; }
    else
        cp "$out/$file" "$file"
    fi
done
