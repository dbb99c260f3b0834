#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes raw.go and raw_wrap.c from raw.i by SWIG 4.1: what is committed beside it, so that users need no SWIG.
# Usage: swig.sh [--check]; with --check nothing is written, and any difference to what is there is an error.
# SWIG: the program, swig without it.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$here"
# The version is in what is made, and other ones make something else.
case $("${SWIG:-swig}" -version) in
    *'SWIG Version 4.1.'*) ;;
    *) echo 'swig.sh: that needs SWIG 4.1' >&2 && exit 77 ;;
esac
"${SWIG:-swig}" -go -cgo -intgosize 64 -package raw -outdir "$out" -o "$out/raw_wrap.c" raw.i
# What SWIG always puts in and is not used here: how it looks at objects that it has made.
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
