#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the Go module to publish under PATH in the new folder OUT: the sources here with that path, the library as one
# file, libev and liburing. Fetches the sources of the last two into the folder DOWNLOADS, unless they are there.
# Usage: module.sh PATH OUT DOWNLOADS; for example, PATH is github.com/you/fiberrt. Exit status 77: nothing was made,
# because these sources could not be fetched.
# Shell, because it copies and edits files, by commands.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$here/../..
to=${1:-} out=${2:-} downloads=${3:-}
case $to in
    '' | [!A-Za-z0-9]* | */ | *//* | *[!A-Za-z0-9._~/-]*) valid= ;;
    *) valid=${to%%/*} ;;
esac
case $valid in
    *.*) ;;
    *) echo "module.sh: '$to' is no path of a module: host.name/and/so/on" >&2 && exit 2 ;;
esac
[ $# -eq 3 ] || { echo 'module.sh: it takes PATH OUT DOWNLOADS' >&2 && exit 2; }
if [ -d "$out" ] && [ -n "$(ls -A "$out")" ] && ! grep -qs 'made from the sources of libev' "$out/NOTICE"; then
    echo "module.sh: $out has something else than a module" >&2 && exit 2
fi
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)

# First: it tells the next run, if this one is interrupted, that the folder is this script's.
cat >"$out/NOTICE" <<'END'
This module is distributed under the terms of MIT or Apache-2.0, whichever you prefer. In clib, fiberrt_backends.c,
fiberrt_ev.h and fiberrt_liburing.h are made from the sources of libev and liburing, whose terms are in
LICENSES/libev.txt and LICENSES/liburing.txt.
END

cp -R "$here/." "$out"
rm -f "$out"/*.sh "$out"/*.py "$out/mutants.txt" "$out/internal/raw/swig.sh"
python3 -B "$root/tools/amalgamate" "$out/clib"
python3 -B "$root/tools/amalgamate/backends.py" "$out/clib" "$downloads" || {
    status=$?
    rm -rf "$out"
    exit $status
}
rm "$out/clib/README.md"
mv "$out/clib/LICENSES" "$out/LICENSES"
for file in fiberrt.cc fiberrt_backends.c fiberrt_switch.S; do
    { printf '//go:build !fiberrt_system\n\n' && cat "$out/clib/$file"; } >"$out/clib/new"
    mv "$out/clib/new" "$out/clib/$file"
done

cd "$out"
from=$(sed -n 's/^module //p' go.mod)
quoted=$(printf '%s' "$from" | sed 's/[.]/[.]/g')
find . -type f \( -name '*.go' -o -name go.mod -o -name '*.i' -o -name '*.c' -o -name '*.md' \) \
    -exec grep -lF "$from" {} + | while IFS= read -r file; do
    sed -i "s,$quoted,$to,g" "$file"
done
! command -v gofmt >/dev/null || gofmt -w . # imports are sorted by their paths
echo "$to instead of $from, in $out"
