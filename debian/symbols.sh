#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# symbols.sh MAP VERSION HEADER - prints the symbols file of libfiberrt1: the linker's map says all that there is to
# say, as the name of each of its nodes is the release that brought its functions. VERSION is that of
# debian/changelog, and must be the header's.
set -eu
map=$1 version=${2%%[~+]*} header=$3 # 0.1.0 of 0.1.0~rc1

in_header=$(awk '
    $1 == "#define" && $2 ~ /^FIBERRT_VERSION_(MAJOR|MINOR|PATCH)$/ { printf "%s%s", dot, $3; dot = "." }
' "$header")
if [ "$in_header" != "$version" ]; then
    echo "symbols.sh: debian/changelog is about $version, $header about $in_header" >&2
    exit 1
fi
echo 'libfiberrt.so.1 libfiberrt1 #MINVER#'
echo '* Build-Depends-Package: libfiberrt-dev'
awk '
    /^FIBERRT_[0-9.]+ *\{/ {
        node = $1
        since = substr(node, 9)
        if (split(since, parts, ".") == 2) since = since ".0"
        print " " node "@" node " " since
    }
    /^ +fiber[a-z0-9_]*;/ { name = $1; sub(/;/, "", name); print " " name "@" node " " since; count++ }
    END { exit count == 0 }
' "$map"
