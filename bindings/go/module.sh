#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Changes the path of the module, in all files here that name it, to the one under which you publish it.
# Usage: module.sh PATH; for example, PATH is github.com/you/fiberrt/bindings/go
set -eu
cd -- "$(dirname -- "$0")"
to=${1:-}
case $to in
    '' | [!A-Za-z0-9]* | */ | *//* | *[!A-Za-z0-9._~/-]*) valid= ;;
    *) valid=${to%%/*} ;;
esac
case $valid in
    *.*) ;;
    *) echo "module.sh: '$to' is no path of a module: host.name/and/so/on" >&2 && exit 2 ;;
esac
from=$(sed -n 's/^module //p' go.mod)
quoted=$(printf '%s' "$from" | sed 's/[.]/[.]/g')
find . -type f \( -name '*.go' -o -name go.mod -o -name '*.i' -o -name '*.c' -o -name '*.md' \) \
    -exec grep -lF "$from" {} + | while IFS= read -r file; do
    sed -i "s,$quoted,$to,g" "$file"
done
! command -v gofmt >/dev/null || gofmt -w . # imports are sorted by their paths
echo "$to instead of $from"
