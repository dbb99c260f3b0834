#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Checks that every file that repeats the version has that of include/fiberrt.h, which is the one place for it: CMake,
# pkg-config, the Python package and the library itself read it there. Then checks, with a copy of these files and
# another version, that it reports a forgotten file.
# Usage: version.sh SOURCE_DIR FOLDER
# Shell, because it compares lines that sed finds, and must run where there is no Python.
set -eu
source=$1
folder=$2
exported=$(cd "$source" && pwd)/src/exported.awk

recipes=$(cd "$source" && ls packaging/rpm/*.spec packaging/conan/conanfile.py packaging/vcpkg/vcpkg.json \
    packaging/nix/package.nix packaging/alpine/APKBUILD)

# check DIR: a line for each place that says another version than the header; 1 if there is any.
check() (
    cd "$1"
    failed=0
    wrong() {
        echo "$1"
        failed=1
    }
    part() { sed -n "s/^#define FIBERRT_VERSION_$1 \([0-9][0-9]*\)\$/\1/p" include/fiberrt.h; }
    release=$(part MAJOR).$(part MINOR)
    version=$release.$(part PATCH)
    case $version in
        [0-9]*.[0-9]*.[0-9]*) ;;
        *) echo "include/fiberrt.h: no version, but '$version'" && return 1 ;;
    esac
    # The newest release of each list of changes is on top.
    for changes in CHANGELOG.md $(ls bindings/*/CHANGELOG.md 2>/dev/null); do
        top=$(sed -n 's/^## \([^ ]*\).*/\1/p' "$changes" | head -n 1)
        [ "$top" = "$version" ] || wrong "$changes: begins with $top, not $version"
    done
    # No function comes with a release that is still to come.
    newest=$(awk -f "$exported" include/fiberrt.h | cut -d ' ' -f 2 | sort -V | tail -n 1)
    [ "$(printf '%s\n' "$newest" "$release" | sort -V | tail -n 1)" = "$release" ] ||
        wrong "include/fiberrt.h: a function is said to be of release $newest, and the release is $release"
    said=$(sed -n 's/^This is release \([0-9]*\.[0-9]*\).*/\1/p' README.md)
    [ "$said" = "$release" ] || wrong "README.md: This is release $said, not $release"
    # Debian's version has its revision, and an unreleased version may say so: 0.1.0~rc1-1.
    if [ -e debian/changelog ]; then
        said=$(sed -n '1s/^[^(]*(\([^-~+)]*\).*/\1/p' debian/changelog)
        [ "$said" = "$version" ] || wrong "debian/changelog: begins with $said, not $version"
    fi
    # In each recipe, a line like `Version: 0.1.0`.
    for file in $recipes; do
        said=$(sed -nE 's/^ *"?(Version|version|pkgver)"? *[:=] *"?([0-9][0-9.]*).*/\2/p' "$file")
        [ "$said" = "$version" ] || wrong "$file: says $said, not $version"
    done
    # These have no version.
    for file in CMakeLists.txt bindings/python/pyproject.toml bindings/python/src/fiberrt/__init__.py; do
        if grep -nE "^ *(project\(fiberrt VERSION|version *=|__version__ *=) *\"?[0-9]" "$file"; then
            wrong "$file: has its own version"
        fi
    done
    return "$failed"
)

check "$source" || exit 1

# As if a contributor had raised the version only in the header, and had written it where it must not stand.
rm -rf "$folder"
mkdir -p "$folder"
copy() { # FILE...
    for file; do
        mkdir -p "$folder/$(dirname "$file")"
        cp "$source/$file" "$folder/$file"
    done
}
others="CHANGELOG.md README.md $recipes"
[ ! -e "$source/debian/changelog" ] || others="$others debian/changelog"
own='CMakeLists.txt bindings/python/pyproject.toml bindings/python/src/fiberrt/__init__.py'
# shellcheck disable=SC2086 # lists
copy include/fiberrt.h $others $own
sed -i 's/^\(#define FIBERRT_VERSION_MINOR\) .*/\1 9999/' "$folder/include/fiberrt.h"
echo 'project(fiberrt VERSION 0.1.0)' >>"$folder/CMakeLists.txt"
echo 'version = "0.1.0"' >>"$folder/bindings/python/pyproject.toml"
echo '__version__ = "0.1.0"' >>"$folder/bindings/python/src/fiberrt/__init__.py"
if check "$folder" >"$folder/told"; then
    echo 'a version raised in the header alone is not found'
    exit 1
fi
for file in $others $own; do
    grep -q "^$file: " "$folder/told" || {
        echo "a wrong version in $file is not found"
        exit 1
    }
done
echo "all say the version of include/fiberrt.h"
