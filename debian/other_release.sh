#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the library with the compiler of another release of Debian, in a chroot made for it, and runs the conformance
# suite there on io_uring and on libev, and the checks of the exported names. With "packages" it also builds the Debian
# packages there and asks that release's lintian.
# Usage: other_release.sh RELEASE FOLDER [packages]. It needs root, for the chroot.
# CONFORMANCE: the suite's program in this system's build of these sources. It then runs there with that release's
# libraries, and of the suite only the scenarios that depend on the compiler are compiled there, because the suite takes
# longer to compile than the library.
# Exit status 77: that system could not be made here.
# Shell, because it works by mounts, a chroot and commands inside.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname "$here")
. "$here/chroot.sh"
release=$1
mkdir -p "$2"
folder=$(CDPATH='' cd -- "$2" && pwd)
with_packages=${3-} # chroot.sh has its own variable "packages"
did_not_run() {
    echo "other_release.sh: DID NOT RUN: $1"
    exit 77
}
fail() {
    echo "other_release.sh: FAILED on $release: $1" >&2
    exit 1
}
if [ "${4-}" != in-own-mounts ]; then
    can_chroot || did_not_run 'it needs root, and mount'
    in_own_mounts "$here/other_release.sh" "$release" "$folder" "$with_packages" in-own-mounts
    exit # with the status of the chroot's command
fi

system=$folder/system
needs=g++,cmake,ninja-build,pkg-config,liburing-dev,libev-dev,libgtest-dev,python3,binutils
[ -z "$with_packages" ] || needs=$needs,build-essential,debhelper,dh-python,dh-sequence-python3,mandoc,pybind11-dev,python3-dev,lintian
make_chroot "$system" "$folder/mmdebstrap.log" "$release" "$needs" ||
    did_not_run "a system of $release could not be made; see $folder/mmdebstrap.log"
# The tests need terminals and shared memory.
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$system/dev/pts"
ln -sf pts/ptmx "$system/dev/ptmx"
mount -t tmpfs tmpfs "$system/dev/shm"

# The sources as they are, committed or not, without the files that git ignores.
mkdir -p "$system/root/fiberrt"
(
    cd "$root"
    git ls-files -z --cached --others --exclude-standard >"$folder/files"
    tar --null --files-from="$folder/files" --ignore-failed-read -cf "$folder/sources.tar" 2>/dev/null
)
tar -xf "$folder/sources.tar" --no-same-owner -C "$system/root/fiberrt"

# logged NAME COMMAND: runs the command in the chroot, in the folder of the sources.
logged() {
    inside "$system" sh -ec "cd /root/fiberrt && $2" >"$folder/$1.log" 2>&1 || {
        tail -n 40 "$folder/$1.log"
        fail "$1; see $folder/$1.log"
    }
}

options=
programs=build/release/tests/conformance
if [ -n "${CONFORMANCE-}" ]; then
    options='-DFIBERRT_UNITY=ON -DFIBERRT_FEWER_TESTS=ON'
    programs="$programs build/conformance"
    mkdir -p "$system/root/fiberrt/build" "$system$root/docs"
    cp "$CONFORMANCE" "$system/root/fiberrt/build/conformance"
    cp "$root/docs/posix-calls.md" "$system$root/docs/" # a scenario reads it where it was compiled
fi
logged configure "cmake --preset release -DFIBERRT_TESTS=ON -DFIBERRT_EXAMPLES=OFF $options"
logged build 'cmake --build build/release --target fiberrt fiberrt_archive fiberrt_posix conformance tools/all'
! grep -E 'warning: ' "$folder/build.log" || fail 'the compiler warns'
logged names 'ctest --test-dir build/release --output-on-failure --no-tests=error -R "^abi.check_symbols"'
# The two suites run at the same time: they wait most of the time.
on_backend() {
    logged "conformance_on_$1" "
        export FIBERRT_BACKEND=$1 LD_LIBRARY_PATH=/root/fiberrt/build/release
        for program in $programs; do
            ldd \$program | grep -q '=> /root/fiberrt/build/release/libfiberrt.so.1 '
            \$program --gtest_brief=1
        done"
}
on_backend uring &
uring=$!
status=0
on_backend ev || status=$?
wait "$uring" || status=$?
[ "$status" -eq 0 ] || exit "$status"
for backend in uring ev; do
    echo "$release, gcc $(inside "$system" g++ -dumpfullversion), $backend: $(
        sed -n 's/^\[  \(PASSED\|SKIPPED\) *\] \([0-9]* tests\{0,1\}\).*/\1 \2/p' "$folder/conformance_on_$backend.log" | tr '\n' ' ')"
done
if [ -n "$with_packages" ]; then
    # In a fresh copy of the sources: a source package contains every file in its folder.
    mkdir -p "$system/root/packages/fiberrt"
    tar -xf "$folder/sources.tar" --no-same-owner -C "$system/root/packages/fiberrt"
    logged packages 'cd /root/packages/fiberrt && DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" dpkg-buildpackage -us -uc'
    logged lintian 'lintian -i -I --pedantic --fail-on error,warning /root/packages/*.changes'
    echo "$release: packages built, lintian finds nothing"
fi
umount "$system/dev/shm" "$system/dev/pts" "$system/proc"
rm -rf --one-file-system "$system"
