#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# readme_by_clang.sh BUILD SOURCE - the README's C++ program, compiled by its command line with clang++ in the place of
# c++, and run. (The test docs does this with the compiler of the build.)
set -eu
build=$1
source=$2
work=$build/tests/docs/readme_by_clang
compiler=
for name in clang++-14 clang++; do
    if command -v "$name" >/dev/null; then
        compiler=$name
        break
    fi
done
[ -n "$compiler" ] || {
    echo 'LEFT OUT: there is no clang++'
    exit 77
}
rm -rf "$work"
mkdir -p "$work/lib/pkgconfig"
sed -n '/^<!-- file: sum.cc -->$/,/^```$/p' "$source/README.md" | sed '1,2d; $d' >"$work/sum.cc"
command_line=$(grep '^c++ .*sum\.cc' "$source/README.md")
[ -s "$work/sum.cc" ] && [ -n "$command_line" ] || {
    echo "FAILED: README.md has no sum.cc, or no command line for it"
    exit 1
}
cat >"$work/lib/pkgconfig/fiberrt.pc" <<END
Name: fiberrt
Description: as it is built
Version: 0
Cflags: -I$source/include
Libs: -L$build -lfiberrt
END
cd "$work"
PKG_CONFIG_PATH=$work/lib/pkgconfig sh -eu -c "$compiler -Wall -Wextra -Werror ${command_line#c++ }"
sum=$(LD_LIBRARY_PATH=$build ./sum)
[ "$sum" = 10 ] || {
    echo "FAILED: it printed $sum"
    exit 1
}
echo "ok: $compiler ${command_line#c++ }"
