#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# whole_program.sh BUILD SOURCE - programs whose blocking calls all wait as fibers: by fiberrt-run, and linked with
# libfiberrt_posix.so. Which programs fiberrt-run refuses; what happens with another libfiberrt.so, or another copy of it.
# Shell, because it compiles, links and runs programs, and compares their output and exit status.
set -u
build=$1
source=$2
here=$source/tests/posix
work=$build/tests/posix_whole_program
: "${CC:=cc}"
rm -rf "$work"
mkdir -p "$work"
unset FIBERRT_POSIX_CORD FIBERRT_POSIX_ALONE FIBERRT_POSIX_LIST LD_PRELOAD LD_LIBRARY_PATH
run=$build/fiberrt-run
library=$build/libfiberrt_posix.so.1

fail() {
    echo "FAILED: $*" >&2
    cat "$work/out" "$work/err" >&2 2>/dev/null
    exit 1
}

# ends STATUS WHAT COMMAND...: the command ends with the status; its output is in out and err.
ends() {
    wanted=$1
    what=$2
    shift 2
    status=0
    timeout 60 "$@" >"$work/out" 2>"$work/err" || status=$?
    [ "$status" = "$wanted" ] || fail "$what: exit status $status, not $wanted"
}
out() { grep -qx -e "$1" "$work/out" || fail "$what: the output is not: $1"; }
err() { grep -q -e "$1" "$work/err" || fail "$what: not on standard error: $1"; }
silent() { [ ! -s "$work/err" ] || fail "$what: there is a message"; }
ok() { echo "ok: $what"; }

flags="-Wall -Wextra -Werror -D_GNU_SOURCE -I$source/include $here/whole_program.c"
# shellcheck disable=SC2086 # a list of options
{
    $CC -DWITH_FIBERS $flags -o "$work/fibers" -L"$build" -lfiberrt -Wl,-rpath,"$build" || fail 'fibers'
    $CC -DWITH_FIBERS -DOWN_ALLOCATOR -fno-builtin $flags -o "$work/allocator" -L"$build" -lfiberrt -Wl,-rpath,"$build" ||
        fail 'allocator'
    $CC -DWITH_FIBERS -DTAKES_ADDRESS -fno-pic -no-pie $flags -o "$work/address" -L"$build" -lfiberrt -Wl,-rpath,"$build" ||
        fail 'address'
    $CC $flags -o "$work/plain" || fail 'plain'
    $CC -DWITH_FIBERS $flags -o "$work/linked" -Wl,--as-needed -L"$build" -Wl,--push-state,--no-as-needed,-lfiberrt_posix,--pop-state \
        -lfiberrt -Wl,-rpath,"$build" || fail 'linked'
}

# fiberrt-run
for backend in uring ev; do
    FIBERRT_BACKEND=$backend
    export FIBERRT_BACKEND
    ends 0 "read waits as a fiber ($backend)" "$run" "$work/fibers" fibers
    out fine && silent && ok
    for call in sleep poll select read stack; do
        ends 0 "a signal handler leaves a wait by siglongjmp ($call, $backend)" "$run" --cord "$work/plain" "$call"
        out fine && silent && ok
    done
    ends 0 "the program closes all numbers ($backend)" "$run" --cord "$work/plain" closes
    out fine && silent && ok
done
unset FIBERRT_BACKEND
ends 0 'a program without fibers runs' "$run" -- "$work/plain" nothing
out fine && silent && ok
ends 0 'its first thread has no cord' "$run" "$work/plain" cord
out 'no fiber' && ok
ends 0 'with --cord it has one' "$run" --cord "$work/plain" cord
out 'a fiber' && silent && ok
ends 0 'children inherit it' "$run" "$work/plain" children
out "inherited: $library " && ok
ends 0 'with --alone they do not' "$run" --alone "$work/plain" children
out 'inherited:  ' && ok
LD_PRELOAD=libm.so.6
export LD_PRELOAD
ends 0 'other libraries stay preloaded' "$run" "$work/plain" children
out "inherited: $library:libm.so.6 " && ok
ends 0 'also with --alone' "$run" --alone "$work/plain" children
out 'inherited: libm.so.6 ' && ok
unset LD_PRELOAD
ends 0 '--list' "$run" --list "$work/fibers" fibers
out fine
err "fibers: .*read" && ok
ends 0 'a program that contains its allocator' "$run" --list "$work/allocator" fibers
out fine
err 'allocator:.* read'
if grep -q 'allocator:.*pthread_mutex_lock' "$work/err"; then fail "$what: its locks are adopted, too"; fi
ok
ends 0 "a program at a fixed address that takes malloc's" "$run" --list "$work/address" fibers
out fine
err 'address:.* read' && err 'address:.* pthread_mutex_lock' && ok
# A wrapper has no versions of symbols, and the functions that it wraps are bound to it when the program starts.
cat >"$work/wrapper.c" <<'END'
#include <dlfcn.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>
ssize_t read(int fd, void *to, size_t count) {
    static ssize_t (*next)(int, void *, size_t);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "read");
    if (fd > 2) (void)!write(2, "wrapped\n", 8);
    return next(fd, to, count);
}
END
# shellcheck disable=SC2086
{
    $CC -D_GNU_SOURCE -shared -fPIC "$work/wrapper.c" -o "$work/wrapper.so" || fail 'wrapper'
    $CC -DWITH_FIBERS $flags -o "$work/bound" -Wl,-z,now -L"$build" -lfiberrt -Wl,-rpath,"$build" || fail 'bound'
}
ends 0 'calls that go through a preloaded wrapper wait, too' env LD_PRELOAD="$work/wrapper.so" \
    "$run" --list "$work/bound" fibers
out fine
err 'bound:.* read' && ok
printf '#!%s fibers\n' "$work/fibers" >"$work/script"
chmod +x "$work/script"
ends 0 'a script: its interpreter' "$run" "$work/script"
out fine && ok
printf 'echo "without an interpreter, $1"\n' >"$work/script"
ends 0 'a script without #!' "$run" "$work/script" word
out 'without an interpreter, word' && ok
ends 3 "the program's exit status" "$run" sh -c 'exit 3'
ok
ends 0 '--help' "$run" --help
grep -q '^Usage: fiberrt-run' "$work/out" || fail 'no usage'
ok
ends 0 '--version' "$run" --version
grep -qx 'fiberrt-run [0-9.]*' "$work/out" || fail 'no version'
ok
ends 125 'an unknown option' "$run" --wrong
err 'Usage:' && ok
ends 125 'no program' "$run"
err 'there is no program' && ok
ends 127 'a program that does not exist' "$run" no-such-program-of-ours
err 'No such file' && ok
ends 127 'a path that does not exist' "$run" "$work/none"
err 'No such file' && ok
: >"$work/file"
ends 126 'a file that is no program' "$run" "$work/file"
err 'Permission denied' && ok

# What it refuses.
for option in --alone --cord; do
    ends 125 "a backend that libfiberrt does not know ($option)" env FIBERRT_BACKEND=wrong "$run" "$option" "$work/plain" nothing
    err '^fiberrt-run: FIBERRT_BACKEND is "wrong", but' && ok
done
ends 0 'no name of a backend' env FIBERRT_BACKEND= "$run" "$work/fibers" fibers
out fine && silent && ok
mkdir -p "$work/elsewhere"
cp "$run" "$work/elsewhere/"
: >"$work/elsewhere/libfiberrt_posix.so.1"
ends 125 'a library that cannot be loaded' "$work/elsewhere/fiberrt-run" "$work/plain" nothing
err '^fiberrt-run: libfiberrt_posix.so cannot be loaded: .*file too short' && ok
rm "$work/elsewhere/libfiberrt_posix.so.1"
ends 0 'a library that the dynamic linker finds' env LD_LIBRARY_PATH="$build" "$work/elsewhere/fiberrt-run" --cord --list "$work/plain" cord
out 'a fiber' && err ' read ' && ok
status=0
timeout 60 "$work/elsewhere/fiberrt-run" --list "$work/plain" nothing >"$work/out" 2>"$work/err" || status=$?
what='no library'
if [ "$status" = 0 ]; then
    out fine && err ' read '
    echo 'LEFT OUT: no libfiberrt_posix.so.1: the system has one'
else
    [ "$status" = 125 ] || fail "$what: exit status $status, not 125"
    err '^fiberrt-run: libfiberrt_posix.so cannot be loaded: ' && ok
fi
# shellcheck disable=SC2086
if $CC -static $flags -o "$work/static" 2>"$work/static.log"; then
    ends 126 'a static program is refused' "$run" "$work/static"
    err 'is a static program' && ok
    printf '#!%s\n' "$work/static" >"$work/script"
    ends 126 'a script of a static program is refused' "$run" "$work/script"
    err 'is a static program' && ok
else
    echo 'LEFT OUT: a static program: there is no static C library'
fi
cp "$work/plain" "$work/setuid"
if [ "$(id -u)" = 0 ] && chown 65534 "$work/setuid" && chmod 4755 "$work/setuid"; then
    ends 126 'a program with other rights is refused' "$run" "$work/setuid"
    err 'has other rights than its user' && ok
else
    echo 'LEFT OUT: a program with other rights than its user: only root can make one'
fi
cp "$work/plain" "$work/foreign"
printf '\267' | dd of="$work/foreign" bs=1 seek=18 conv=notrunc 2>/dev/null # e_machine: AArch64
[ "$(uname -m)" = aarch64 ] && printf '\076' | dd of="$work/foreign" bs=1 seek=18 conv=notrunc 2>/dev/null
ends 126 'a program for another processor is refused' "$run" "$work/foreign"
err 'is for another processor' && ok

# Linked.
ends 0 'linked with -lfiberrt_posix, under --as-needed' "$work/linked" fibers
out fine && silent && ok
ends 0 'linked and under fiberrt-run' "$run" "$work/linked" fibers
out fine && silent && ok

# Another libfiberrt.so.1, or none.
other() { # NAME OPTIONS...
    mkdir -p "$work/$1"
    cp "$library" "$work/$1/"
    name=$1
    shift
    [ "$#" = 0 ] || $CC -shared -fPIC -Wl,-soname,libfiberrt.so.1 "$@" "$here/other_core.c" -o "$work/$name/libfiberrt.so.1" ||
        fail "$name"
}
other newer -DOTHER_VERSION=99900
ends 0 'with a newer library' env LD_PRELOAD="$work/newer/libfiberrt_posix.so.1" "$work/plain" nothing
out fine && err 'but the program.s libfiberrt.so is of release 9.99; calls block' && ok
ends 0 'and --alone' env LD_PRELOAD="$work/newer/libfiberrt_posix.so.1" FIBERRT_POSIX_ALONE=1 "$work/plain" children
out 'inherited:  ' && err 'calls block' && ok
other older -DOTHER_VERSION=1
ends 0 'with an older library' env LD_PRELOAD="$work/older/libfiberrt_posix.so.1" "$work/plain" nothing
out fine && err 'but the program.s libfiberrt.so is of release 0.0; calls block' && ok
other unknown -fno-common
ends 0 'with another library of that name' env LD_PRELOAD="$work/unknown/libfiberrt_posix.so.1" "$work/plain" nothing
out fine && err 'is another library; calls block' && ok
other none
ends 0 'without a library' env LD_PRELOAD="$work/none/libfiberrt_posix.so.1" "$work/plain" nothing
if [ -s "$work/err" ]; then
    out fine && err 'libfiberrt.so.1 was not found: .*; calls block' && ok
else
    echo 'LEFT OUT: no libfiberrt.so.1: the system has one'
fi

# A program with another copy of the library: its fibers block, as a sentence says.
# shellcheck disable=SC2086
if $CC -DWITH_FIBERS $flags -o "$work/copy" "$build/libfiberrt.a" $(sed -n 's/^Libs.private: //p' "$build/src/fiberrt.pc"); then
    ends 0 'a program that contains a copy' "$run" "$work/copy" nothing
    out fine && err "copy contains another copy of the library" && ok
else
    fail 'the program with a copy'
fi
