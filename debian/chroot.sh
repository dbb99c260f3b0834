# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by scripts that need a newly made Debian system. The script runs in its own mount namespace, so its mounts end
# with it, even if it is killed.
# Shell, because mounts, namespaces and chroots are commands.

can_chroot() { [ "$(id -u)" -eq 0 ] && unshare --mount true 2>/dev/null; }

in_own_mounts() { unshare --mount --propagation private "$@"; }

# make_chroot FOLDER LOG [RELEASE PACKAGES]: makes a minimal system in FOLDER. Without RELEASE it has the release and
# the package sources of this machine. Another RELEASE comes from mmdebstrap's default mirror; PACKAGES, a list
# separated by commas, are installed too.
make_chroot() {
    # Remove an older system, but never through a mount.
    ! grep -q " $1/" /proc/mounts || { echo "chroot.sh: there are mounts below $1" >&2 && return 1; }
    rm -rf --one-file-system "$1"
    release=${3-} packages=${4-} sources=
    if [ -z "$release" ]; then
        release=$(. /etc/os-release && echo "${VERSION_CODENAME:?}")
        for sources in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list -; do
            [ ! -s "$sources" ] || break
        done
        [ "$sources" != - ] || sources= # mmdebstrap's default mirror
    fi
    # A mirror that is no longer updated serves expired lists of unstable. The signatures are still checked.
    # shellcheck disable=SC2086
    mmdebstrap --variant=apt --skip=cleanup/apt/lists --dpkgopt=force-unsafe-io ${packages:+--include=$packages} \
        --aptopt='Acquire::Check-Valid-Until "false"' "$release" "$1" $sources \
        >"$2" 2>&1 || { tail -n 20 "$2" && return 1; }
    mount -t proc proc "$1/proc" || return 1 # explicit, because set -e has no effect in a condition
    # Keeps packages from starting daemons.
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
    chmod +x "$1/usr/sbin/policy-rc.d"
}

# inside FOLDER COMMAND...: runs the command in the chroot, with the environment of a new user.
inside() {
    system=$1
    shift
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        chroot "$system" "$@"
}
