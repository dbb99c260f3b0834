#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the Debian packages twice, each time in a copy of the sources and without a network, compares the two builds,
# runs lintian, and runs the packages' tests by autopkgtest in a fresh chroot.
# Usage: packages.sh FOLDER; the packages are in FOLDER/one. Installs nothing; needs root.
# Exit status 77: everything that could run passed, but something did not run.
# Shell, because it strings commands together (dpkg-buildpackage, lintian, autopkgtest, mount) and reads their status.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(dirname "$here")
mkdir -p "$1"
folder=$(CDPATH='' cd -- "$1" && pwd)
. "$here/chroot.sh"

# Runs the tests of debian/tests with the packages of FOLDER/one, in a new chroot.
if [ "${2-}" = in-own-mounts ]; then
    system=$folder/system
    log=$folder/autopkgtest.log
    make_chroot "$system" "$folder/mmdebstrap.log"
    rm -rf "$folder/autopkgtest"
    status=0
    # No test needs the packages with debug information.
    set --
    for deb in "$folder"/one/*.deb; do
        case $deb in *-dbgsym_*) ;; *) set -- "$@" "$deb" ;; esac
    done
    # An empty environment: variables set here, such as CC, must not reach the tests.
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 autopkgtest --output-dir "$folder/autopkgtest" \
        --no-built-binaries "$folder"/one/*.dsc "$@" -- chroot "$system" >"$log" 2>&1 || status=$?
    [ ! -e "$folder/autopkgtest/summary" ] || sed 's/^/   /' "$folder/autopkgtest/summary"
    if [ "$status" -ne 0 ]; then
        tail -n 60 "$log"
        exit 1
    fi
    # A test that skips itself has not passed.
    tests=$(sed -n 's/^Tests: //p' "$here/tests/control" | wc -w)
    passed=$(grep -c '^[a-z]* *PASS$' "$folder/autopkgtest/summary" || :)
    [ "$passed" -eq "$tests" ] || { echo "packages.sh: FAILED: of $tests tests $passed have passed" && exit 1; }
    umount "$system/proc"
    rm -rf --one-file-system "$system"
    exit
fi

if [ "$(id -u)" -ne 0 ]; then
    echo 'packages.sh: DID NOT RUN: it needs root, for builds without a network and for a fresh system'
    exit 77
fi
say() { echo "packages.sh: $1"; }
fail() {
    echo "packages.sh: FAILED: $1" >&2
    exit 1
}

# The sources as they are, committed or not, without the files that git ignores.
(
    cd "$root"
    git ls-files -z --cached --others --exclude-standard >"$folder/files"
    tar --null --files-from="$folder/files" --ignore-failed-read -cf "$folder/sources.tar" 2>/dev/null
)

# build COPY OPTIONS
build() {
    copy=$folder/$1
    log=$folder/$1.log
    rm -rf "$copy"
    mkdir -p "$copy/fiberrt"
    tar -xf "$folder/sources.tar" -C "$copy/fiberrt"
    started=$(date +%s)
    # unshare --net leaves only loopback.
    # shellcheck disable=SC2016 # for the other shell
    (cd "$copy/fiberrt" && DEB_BUILD_OPTIONS="parallel=$(nproc) $2" unshare --net sh -c \
        'ip link set lo up && exec dpkg-buildpackage -us -uc' >"$log" 2>&1) || {
        tail -n 40 "$log"
        fail "the build; see $log"
    }
    say "built $1, in $(($(date +%s) - started)) s"
}

cd "$folder"
rm -f checksums
build one ''
# The second build has another folder, time zone and language, and runs no tests: the result must not change.
(
    export TZ=Pacific/Kiritimati LC_ALL=C.UTF-8
    build two-elsewhere nocheck
)
(cd one && sha256sum -- *.deb *.dsc *.tar.*) >checksums
(cd two-elsewhere && sha256sum -- *.deb *.dsc *.tar.*) >checksums.two
cmp checksums checksums.two || fail "two builds differ: $(diff checksums checksums.two)"
say "two builds are the same, byte by byte: $(grep -c '\.deb$' checksums) packages"

lintian -i -I --pedantic --fail-on error,warning,info,pedantic one/*.changes >lintian.log 2>&1 || {
    cat lintian.log
    fail 'lintian'
}
say 'lintian finds nothing'

if ! can_chroot; then
    echo "packages.sh: DID NOT RUN: the packages' tests in a fresh system: that needs mount"
    exit 77
fi
status=0
in_own_mounts "$here/packages.sh" "$folder" in-own-mounts || status=$?
[ "$status" -eq 0 ] || fail "the packages' tests; see $folder/autopkgtest.log"
say 'their tests pass in a fresh system'
