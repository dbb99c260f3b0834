#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# package.sh FOLDER AMALGAMATION - makes FOLDER/crates: fiberrt-sys with the library's single file, which the folder
# AMALGAMATION has (./dev amalgamate makes one), and fiberrt; then FOLDER/*.crate, as `cargo publish` would send them.
# Exit status 77, and the reason: cargo is too old to package a crate whose dependency is not published.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
folder=$(CDPATH='' cd -- "$1" && pwd)
amalgamation=$(CDPATH='' cd -- "$2" && pwd)

rm -rf "$folder/crates" "$folder"/*.crate
mkdir "$folder/crates"
cp -R "$here/Cargo.toml" "$here/fiberrt" "$here/fiberrt-sys" "$folder/crates"
cd "$folder/crates"
mkdir fiberrt-sys/amalgamation
cp "$amalgamation/fiberrt.cc" "$amalgamation/fiberrt.h" "$amalgamation/fiberrt_switch.S" fiberrt-sys/amalgamation
cp -R "$here/../../LICENSES" fiberrt
cp -R "$here/../../LICENSES" fiberrt-sys

for file in amalgamation/fiberrt.cc amalgamation/fiberrt.h amalgamation/fiberrt_switch.S build.rs src/bindings.rs \
    LICENSES/MIT.txt README.md; do
    cargo package --list --allow-dirty -p fiberrt-sys | grep -qx "$file" ||
        { echo "package.sh: the crate fiberrt-sys lacks $file" && exit 1; }
done
for file in src/lib.rs examples/echo.rs LICENSES/MIT.txt README.md; do
    cargo package --list --allow-dirty -p fiberrt | grep -qx "$file" ||
        { echo "package.sh: the crate fiberrt lacks $file" && exit 1; }
done
cargo package --help | grep -q -- --workspace || { echo 'cargo is older than 1.90' && exit 77; }
CARGO_TARGET_DIR=$folder/package cargo package --workspace --no-verify --allow-dirty
cp "$folder"/package/package/*.crate "$folder"
