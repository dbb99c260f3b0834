# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by what needs a Debian made from nothing. Its mounts are made in a namespace that nobody else sees, so that
# they end with the script, however that ends.
# Shell, because mounts, namespaces and chroots are commands.

can_chroot() { [ "$(id -u)" -eq 0 ] && unshare --mount true 2>/dev/null; }

in_own_mounts() { unshare --mount --propagation private "$@"; }

# make_chroot FOLDER LOG [RELEASE PACKAGES]: makes a minimal system in FOLDER. Without a release it is the one that runs
# here, from where its packages come from; another one comes from mmdebstrap's own mirror, with PACKAGES (a list with
# commas) installed.
make_chroot() {
    # An older one; never through a mount.
    ! grep -q " $1/" /proc/mounts || { echo "chroot.sh: there are mounts below $1" >&2 && return 1; }
    rm -rf --one-file-system "$1"
    release=${3-} packages=${4-} sources=
    if [ -z "$release" ]; then
        release=$(. /etc/os-release && echo "${VERSION_CODENAME:?}")
        for sources in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list -; do
            [ ! -s "$sources" ] || break
        done
        [ "$sources" != - ] || sources= # where mmdebstrap looks by itself
    fi
    # A mirror that stands still serves lists of unstable that have expired; their signatures are still checked.
    # shellcheck disable=SC2086
    mmdebstrap --variant=apt --skip=cleanup/apt/lists --dpkgopt=force-unsafe-io ${packages:+--include=$packages} \
        --aptopt='Acquire::Check-Valid-Until "false"' "$release" "$1" $sources \
        >"$2" 2>&1 || { tail -n 20 "$2" && return 1; }
    mount -t proc proc "$1/proc" || return 1 # said here, as what is part of a condition does not end by itself
    # Programs of tests are not to be started as daemons by packages.
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
    chmod +x "$1/usr/sbin/policy-rc.d"
}

# inside FOLDER COMMAND...: with an environment as a new user of that system has.
inside() {
    system=$1
    shift
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        chroot "$system" "$@"
}
