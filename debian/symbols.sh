#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# symbols.sh VERSION HEADER - prints the symbols file of libfiberrt1, as the header says which release brought each of
# its functions. VERSION is that of debian/changelog, and must be the header's.
set -eu
version=${1%%[~+]*} header=$2 # 0.1.0 of 0.1.0~rc1

in_header=$(awk '
    $1 == "#define" && $2 ~ /^FIBERRT_VERSION_(MAJOR|MINOR|PATCH)$/ { printf "%s%s", dot, $3; dot = "." }
' "$header")
if [ "$in_header" != "$version" ]; then
    echo "symbols.sh: debian/changelog is about $version, $header about $in_header" >&2
    exit 1
fi
echo 'libfiberrt.so.1 libfiberrt1 #MINVER#'
echo '* Build-Depends-Package: libfiberrt-dev'
exported=$(awk -f "$(dirname "$0")/../src/exported.awk" "$header")
echo "$exported" | awk '
    !seen[$2]++ { print " FIBERRT_" $2 "@FIBERRT_" $2 " " $2 ".0" }
    { print " " $1 "@FIBERRT_" $2 " " $2 ".0"; print " fiberrt_" $1 "@FIBERRT_" $2 " " $2 ".0" }
'
