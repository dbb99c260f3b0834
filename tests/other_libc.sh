#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# other_libc.sh SOURCE WORK LIBC [--whole] - builds the library and its programs for a C library that this system does
# not have, and runs the conformance suite on io_uring, on libev and in simulation: a sample of scenarios, or with
# --whole all. LIBC: musl, or glibc-2.28, the oldest that is supported; with "aarch64-" before it, for that processor,
# under qemu and on libev alone. The compiler is zig's (clang, with the headers and libraries of both), from PyPI. The
# programs for musl are static. Those for glibc run with the glibc of this system.
# FIBERRT_NO_URING: why the kernel refuses io_uring; then nothing runs on it.
# Exit status 77: the compiler or a source could not be fetched.
# Shell, because it runs compilers and a program, and checks their output.
set -eu
source=$(CDPATH='' cd -- "$1" && pwd)
mkdir -p "$2"
work=$(CDPATH='' cd -- "$2" && pwd)
libc=$3 whole=${4-}

did_not_run() {
    echo "other_libc.sh: DID NOT RUN: $1"
    exit 77
}
fail() {
    echo "other_libc.sh: FAILED for $libc: $1" >&2
    exit 1
}
processor=x86_64 emulator='' prefix='' backends='uring ev sim'
case $libc in
aarch64-*)
    processor=aarch64 prefix=aarch64-linux-gnu- backends=ev # qemu has no io_uring
    emulator="$source/tests/under_qemu.sh qemu-aarch64 /usr/aarch64-linux-gnu"
    command -v qemu-aarch64 >/dev/null && command -v ${prefix}objcopy >/dev/null ||
        did_not_run 'qemu-user or binutils-aarch64-linux-gnu is missing'
    ;;
esac
case $libc in
*musl) target=$processor-linux-musl ;;
*glibc-*) target=$processor-linux-gnu.${libc#*glibc-} ;;
*) fail 'it is neither musl nor glibc-VERSION' ;;
esac
command -v make >/dev/null || did_not_run 'there is no make'
[ -e /usr/src/googletest/googletest/CMakeLists.txt ] || did_not_run 'there are no sources of GoogleTest (googletest)'
if [ -n "${FIBERRT_NO_URING-}" ]; then
    echo "other_libc.sh: DID NOT RUN: the suite on io_uring: $FIBERRT_NO_URING"
    backends=${backends#uring }
fi
here=$work/$libc
mkdir -p "$here"

# logged NAME COMMAND...: runs the command, with its output in a file.
logged() {
    name=$1
    shift
    "$@" >"$here/$name.log" 2>&1 || {
        tail -n 40 "$here/$name.log"
        fail "$name; see $here/$name.log"
    }
}

zig=$work/zig/bin/python-zig
if [ ! -x "$zig" ]; then
    { python3 -m venv "$work/zig" && "$work/zig/bin/pip" install --disable-pip-version-check ziglang==0.17.1; } \
        >"$work/zig.log" 2>&1 || did_not_run "zig could not be fetched; see $work/zig.log"
fi
for package in libev liburing; do
    [ -d "$work/$package" ] || {
        cmake -D package=$package -D source="$work/new" -D downloads="$work/downloads" \
            -P "$source/cmake/download.cmake" >"$work/$package.log" 2>&1 ||
            did_not_run "the sources of $package could not be fetched; see $work/$package.log"
        mv "$work/new" "$work/$package"
    }
done

# What CMake and liburing's Makefile call.
mkdir -p "$here/bin" "$here/lib" "$here/include"
for tool in cc c++; do
    printf '#!/bin/sh\nexec "%s" %s -target %s "$@"\n' "$zig" $tool "$target" >"$here/bin/$tool"
done
for tool in ar ranlib; do
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" $tool >"$here/bin/$tool"
done
chmod +x "$here/bin/"*
cat >"$here/toolchain.cmake" <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $processor)
set(CMAKE_C_COMPILER "$here/bin/cc")
set(CMAKE_CXX_COMPILER "$here/bin/c++")
set(CMAKE_AR "$here/bin/ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "$here/bin/ranlib" CACHE FILEPATH "")
set(CMAKE_NM ${prefix}nm CACHE FILEPATH "")
set(CMAKE_OBJCOPY ${prefix}objcopy CACHE FILEPATH "")
set(FIBERRT_LD ${prefix}ld CACHE FILEPATH "")
set(CMAKE_FIND_ROOT_PATH "$here")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} "$here/lib/pkgconfig")
END

if [ ! -e "$here/lib/libev.a" ]; then
    rm -rf "$here/liburing"
    cp -r "$work/liburing" "$here/liburing"
    for_make="ENABLE_SHARED=0 AR=$here/bin/ar RANLIB=$here/bin/ranlib"
    # shellcheck disable=SC2086 # a list of variables
    logged liburing sh -ec "
        cd '$here/liburing'
        ./configure --prefix='$here' --cc='$here/bin/cc' --cxx='$here/bin/c++'
        make -C src $for_make CFLAGS='-O2 -w -fPIC' install
        make liburing.pc
        mkdir -p '$here/lib/pkgconfig'
        cp liburing.pc '$here/lib/pkgconfig'"
    cp "$work/libev/ev.h" "$here/include"
    logged libev sh -ec "
        '$here/bin/cc' -O2 -w -fPIC -DEV_STANDALONE=1 -DEV_USE_EPOLL=1 -DEV_USE_EVENTFD=1 -c -o '$here/ev.o' \\
            '$work/libev/ev.c' # libev's own choice would leave them out for musl
        '$here/bin/ar' rcs '$here/lib/libev.a' '$here/ev.o'"
fi

# The whole run compiles file by file, and the programs, too.
together=ON sample=ON
[ -z "$whole" ] || together=OFF sample=OFF
logged configure cmake -S "$source" -B "$here/library" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$here/toolchain.cmake" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS=-Werror -DFIBERRT_TESTS=OFF -DFIBERRT_EXAMPLES=OFF \
    -DFIBERRT_MANUAL=OFF -DFIBERRT_WITH_URING=ON -DFIBERRT_WITH_EV=ON -DFIBERRT_UNITY=$together \
    -DFIBERRT_TOOLS=ON
# Without the shared library: zig does not pass the linker the options that it needs.
programs='fiberrt-doctor fiberrt_sim fiberrt_top'
[ -n "$whole" ] || programs=
# shellcheck disable=SC2086 # a list of targets
logged build cmake --build "$here/library" --target fiberrt_archive $programs
logged configure_suite cmake -S "$source/tests/other_libc" -B "$here/suite" -G Ninja \
    -DCMAKE_TOOLCHAIN_FILE="$here/toolchain.cmake" -DLIBRARY="$here/library" \
    -DBACKENDS="$here/lib/liburing.a;$here/lib/libev.a" -DSAMPLE=$sample
logged build_suite cmake --build "$here/suite" --target conformance

left_out=
case $libc in
*musl) left_out=$(sed -n '/^[^#]/s/ .*//p' "$source/tests/musl-leaves-out.txt" | tr '\n' ':') ;;
esac
# -k: a scenario that hangs does not keep the machine.
status=0
for backend in $backends; do
    log=$here/conformance_on_$backend.log
    # shellcheck disable=SC2086 # a command and its arguments
    FIBERRT_BACKEND=$backend timeout -k 10 1200 $emulator "$here/suite/conformance" --gtest_brief=1 \
        --gtest_filter="-$left_out" >"$log" 2>&1 || {
        grep -E '^\[  FAILED|Failure$' -A 6 "$log" || tail -n 20 "$log"
        status=1
    }
    # The reason follows the line that tells of a skip.
    sed -n '/: Skipped$/{n;s/^/did not run, because /p}' "$log" | sort | uniq -c
    echo "$libc, zig's clang, $processor, $backend: $(
        sed -n 's/^\[  \(PASSED\|SKIPPED\) *\] \([0-9]* tests\{0,1\}\).*/\1 \2/p' "$log" | tr '\n' ' ')"
done
[ "$status" -eq 0 ] || fail "conformance; see $here/conformance_on_*.log"
