# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by the scripts of this folder, which are called with the build folder and the source folder.
# Sets $build, $source, $here, $work (a fresh folder for the script), and $stage, where install.sh installs.
# CC, CXX and CMAKE may be given by the environment.
# Shell, because the scripts that source it are.
set -eu

build=$1
source=$2
here=$source/tests/abi
stage=$build/tests/abi/stage
work=$build/tests/abi/$(basename "$0" .sh)
: "${CC:=cc}" "${CXX:=c++}" "${CMAKE:=cmake}"

rm -rf "$work"
mkdir -p "$work"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# expect TEXT COMMAND...: runs a command that must succeed and print this line.
expect() {
    wanted=$1
    shift
    output=$("$@") || fail "$* ended with $?: $output"
    printf '%s\n' "$output" | grep -qxF "$wanted" || fail "$* printed: $output"
    echo "ok: $*"
}

# The installed library's folder, and a pkg-config that finds it where it was staged.
use_stage() {
    pc=$(find "$stage" -name fiberrt.pc)
    [ -n "$pc" ] || fail "nothing is installed under $stage"
    libdir=$(dirname "$(dirname "$pc")")
    # Next to the staged files the system's search path stays, for the libraries that ours requires.
    PKG_CONFIG_PATH=$(dirname "$pc")
    export PKG_CONFIG_PATH
    prefix=$(pkg-config --variable=prefix fiberrt)
    case $prefix in "$stage"/*) ;; *) prefix=$stage$prefix ;; esac # it names itself, or where it is to be
    [ -f "$prefix/include/fiberrt.h" ] || fail "no header under $prefix/include"
    export LD_LIBRARY_PATH="$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

# The staged fiberrt.pc, asked as if it were installed where it says.
staged_pkg_config() {
    pkg-config --define-variable=prefix="$prefix" "$@"
}
