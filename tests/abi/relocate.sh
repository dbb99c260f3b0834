#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# relocate.sh BUILD SOURCE - checks the output of pkg-config for a library installed elsewhere than configured, and for
# one configured for folders with a space in their names.
# Shell, because it consists of the commands that a user types: move, compile, link, run.
. "$(dirname "$0")/common.sh"

# build_with PC-FOLDER: builds and runs a program by the .pc file in that folder.
build_with() {
    # The output of pkg-config is meant for a shell to read.
    eval "set -- $(PKG_CONFIG_PATH=$1 pkg-config --cflags --libs fiberrt)"
    "$CC" -std=c99 -D_GNU_SOURCE "$here/consumer.c" -o "$work/program" "$@" || fail "does not build with $*"
    expect 'consumer: fine' "$work/program"
}

"$CMAKE" --install "$build" --prefix "$work/to a place" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
pc=$(find "$work/to a place" -name fiberrt.pc)
libdir=$(dirname "$(dirname "$pc")")
if grep -qF 'prefix=${pcfiledir}' "$pc"; then
    LD_LIBRARY_PATH=$libdir
    export LD_LIBRARY_PATH
    build_with "$libdir/pkgconfig"
    mv "$work/to a place" "$work/moved"
    LD_LIBRARY_PATH=$work/moved/${libdir#"$work/to a place/"}
    build_with "$LD_LIBRARY_PATH/pkgconfig"
else
    echo 'LEFT OUT: moving it: this build is configured for a fixed folder of libraries'
fi

# A fixed folder of libraries, which cannot be moved.
fixed="$work/a fixed place"
for where in "$fixed/lib" lib; do
    rm -rf "$work/build"
    "$CMAKE" -S "$source" -B "$work/build" -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" -DFIBERRT_TESTS=OFF \
        -DFIBERRT_EXAMPLES=OFF -DFIBERRT_BENCH=OFF -DCMAKE_INSTALL_PREFIX="$fixed" -DCMAKE_INSTALL_LIBDIR="$where" \
        >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    mkdir -p "$fixed/lib/pkgconfig"
    cp "$work/build/src/fiberrt.pc" "$fixed/lib/pkgconfig"
    eval "set -- $(PKG_CONFIG_PATH=$fixed/lib/pkgconfig pkg-config --cflags --libs fiberrt)"
    [ $# -eq 3 ] || fail "$# options with $where: $*"
    for option; do
        folder=${option#-[IL]}
        case $option in
            -I*) [ "$(realpath -m "$folder")" = "$fixed/include" ] || fail "$option" ;;
            -L*) [ "$(realpath -m "$folder")" = "$fixed/lib" ] || fail "$option" ;;
        esac
    done
    echo "ok: configured for $where"
done
