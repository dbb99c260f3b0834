#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# toolchain.sh FOLDER - prints the folder of a cargo, of a Rust as new as the crates require: the installed one, or
# else one that rustup installs. FOLDER is for a log. If there is no such cargo, prints the reason and exits with 77.
set -eu
folder=$1
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$here/fiberrt/Cargo.toml")

new_enough() { # FOLDER
    version=$("$1/rustc" --version 2>"$folder/toolchain.log" | sed -n 's/^rustc \([0-9.]*\).*/\1/p')
    [ -n "$version" ] && [ "$(printf '%s\n' "$oldest" "$version" | sort -V | head -n 1)" = "$oldest" ]
}

PATH=$PATH:${CARGO_HOME:-${HOME:-/}/.cargo}/bin
if ! command -v cargo >/dev/null; then
    echo 'there is no cargo' && exit 77
elif new_enough "$(dirname "$(command -v cargo)")"; then
    dirname "$(command -v cargo)"
elif command -v rustup >/dev/null && rustup toolchain install stable --profile minimal --component clippy,rustfmt \
    >"$folder/toolchain.log" 2>&1 && new_enough "$(dirname "$(rustup which --toolchain stable cargo)")"; then
    dirname "$(rustup which --toolchain stable cargo)"
else
    echo "Rust is older than $oldest, and no newer one could be fetched" && exit 77
fi
