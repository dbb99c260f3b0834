#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Plants a bug in a copy of a source file. Usage: plant.sh SOURCE COPY SED_EXPRESSION
set -eu
mkdir -p "$(dirname "$2")"
sed "$3" "$1" >"$2"
if cmp -s "$1" "$2"; then
    rm "$2"
    echo "plant.sh: the source has changed: \"$3\" does not fit $1 any more (see fuzz/CMakeLists.txt)" >&2
    exit 1
fi
