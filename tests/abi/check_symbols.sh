#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# check_symbols.sh BUILD SOURCE - checks the symbols that the shared library and the archive export and import.
# Shell, because it is pipelines of nm, readelf and sort; and it runs where Debian packages are built.
. "$(dirname "$0")/common.sh"
library=$build/libfiberrt.so.1
archive=$build/libfiberrt.a
header=$source/include/fiberrt.h
LC_ALL=C
export LC_ALL

# same WHAT FILE FILE: two sorted lists are equal and not empty.
same() {
    [ -s "$2" ] || fail "$1: nothing was found"
    diff "$2" "$3" >"$work/diff" || fail "$1 (< the former, > the latter):
$(cat "$work/diff")"
    echo "ok: $1 ($(wc -l <"$2") names)"
}

# The header: no declaration is overlooked, and the build names each mistake in it in one sentence.
awk -f "$source/src/exported.awk" "$header" >"$work/exported" || fail 'the header has mistakes'
[ "$(wc -l <"$work/exported")" = "$(grep -c '^FIBERRT_API ' "$header")" ] || fail 'a declaration of the header is not read'
mistaken() { # WHAT SED-EXPRESSION: it is told.
    sed "$2" "$header" >"$work/mistaken.h"
    if awk -f "$source/src/exported.awk" "$work/mistaken.h" >"$work/none" 2>"$work/told"; then fail "not noticed: $1"; fi
    grep -q "$1" "$work/told" || fail "not told of: $1"
}
mistaken 'fiber_detach is declared with the linker name of fiber_exit' 's/LINKNAME(fiber_detach)/LINKNAME(fiber_exit)/'
mistaken 'has no FIBERRT_LINKNAME' 's/ FIBERRT_LINKNAME(fiber_detach)//'
mistaken 'fiber_detach is declared twice' '/LINKNAME(fiber_detach)/{p}'
mistaken 'fiber_set_fork_policy: no "Since:" says' '/neither of the two\. Since: /s/Since: .*/Since ever/'
# Debian's symbols file: until 1.0 a package needs exactly the 0.y that it was built with.
debian_symbols() { # MAJOR MINOR DEPENDENCY RELEASE: the file has this dependency, and this release for every name
    sed "/define FIBERRT_VERSION_MAJOR /s/[0-9]*$/$1/; /define FIBERRT_VERSION_MINOR /s/[0-9]*$/$2/
        /define FIBERRT_VERSION_PATCH /s/[0-9]*$/0/" "$header" >"$work/versioned.h"
    awk -v form=symbols -v version="$1.$2.0" -f "$source/src/exported.awk" "$work/versioned.h" >"$work/symbols"
    [ "$(head -n 1 "$work/symbols")" = "libfiberrt.so.1 libfiberrt1 $3" ] &&
        [ -z "$(sed "1,2d; / $4\$/d" "$work/symbols")" ] ||
        fail "Debian's symbols file of $1.$2: $(head -n 4 "$work/symbols")"
}
debian_symbols 0 7 '#MINVER#, libfiberrt1 (<< 0.8~)' 0.7.0
debian_symbols 1 2 '#MINVER#' '0\.[0-9]*\.0'
sed 's/ /@@FIBERRT_/; p; s/^/fiberrt_/' "$work/exported" | sort >"$work/header.names"

nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >"$work/library.names"
same 'the shared library exports both names of every function in the header, of its release' "$work/header.names" \
    "$work/library.names"

nm -g --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort >"$work/archive.names"
sed -n 's/^\(fiberrt_.*\)@@.*/\1/p' "$work/header.names" | sort >"$work/linker.names"
same 'the archive exports the linker names alone' "$work/archive.names" "$work/linker.names"

# The plain name and the linker name are one function.
nm -D --defined-only "$library" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3, $1 }' | sort >"$work/addresses"
while read -r name address; do
    case $name in
    fiberrt_*) ;;
    *) grep -qx "fiberrt_$name $address" "$work/addresses" || fail "$name and fiberrt_$name differ" ;;
    esac
done <"$work/addresses"
echo 'ok: the two names of a function have one address'

# Imports.
grep -v '^#' "$here/allowed-imports.txt" | grep . >"$work/allowed"
[ -s "$work/allowed" ] || fail 'no list of allowed imports'
nm -D -u "$library" | awk '{ print $1, $2 }' | sort >"$work/imports"
[ -s "$work/imports" ] || fail 'nm -u shows nothing'
while read -r kind name; do
    case $kind in v) kind=w ;; esac
    plain=${name%%@*}
    found=no
    while read -r allowed_kind pattern; do
        # shellcheck disable=SC2254 # it is a pattern
        case $kind/$plain in
        $allowed_kind/$pattern) found=yes ;;
        esac
    done <"$work/allowed"
    [ "$found" = yes ] || fail "the library imports $kind $name, which tests/abi/allowed-imports.txt does not list"
    # None of these may get in by a pattern either: they mean dynamic TLS, C++ allocation, exceptions within.
    case $plain in
    __tls_get_addr | _Zn[wa]* | _Zd[la]* | __gxx_personality* | __cxa_throw | __cxa_pure_virtual)
        fail "the library imports $name"
        ;;
    esac
done <"$work/imports"
echo "ok: $(wc -l <"$work/imports") imports, all of them allowed"

newest=$(printf '%s\n' 2.34 $(sed -n 's/.*@GLIBC_\([0-9.]*\)$/\1/p' "$work/imports") | sort -V | tail -n 1)
[ "$newest" = 2.34 ] || fail "a symbol of GLIBC_$newest is needed: $(grep "GLIBC_$newest\$" "$work/imports")"
if grep GLIBC_PRIVATE "$work/imports"; then fail 'a private symbol of glibc is needed'; fi
echo 'ok: no symbol newer than GLIBC_2.34'

# The dynamic section.
readelf -dW "$library" >"$work/dynamic"
grep -q 'SONAME.*\[libfiberrt\.so\.1\]' "$work/dynamic" || fail 'the SONAME is not libfiberrt.so.1'
grep -q 'NODELETE' "$work/dynamic" || fail 'the library can be unloaded under its threads'
if grep TEXTREL "$work/dynamic"; then fail 'the library has text relocations'; fi
# One entry is the compiler's own start-up code; another would be a constructor.
bytes=$(sed -n 's/.*(INIT_ARRAYSZ) *\([0-9]*\) .*/\1/p' "$work/dynamic")
[ "${bytes:-0}" -le 8 ] || fail 'the library has constructors'
echo 'ok: SONAME, NODELETE, no constructors'

# The library that adopts a whole program: one exported name, and it is not linked with libfiberrt.so, so that it can
# tell of a release that does not fit.
posix=$build/libfiberrt_posix.so.1
nm -D --defined-only "$posix" | awk '$2 != "A" { print $3 }' >"$work/posix.names"
[ "$(cat "$work/posix.names")" = fiberrt_posix_release@@FIBERRT_POSIX_0.1 ] ||
    fail "libfiberrt_posix.so exports: $(cat "$work/posix.names")"
readelf -dW "$posix" >"$work/posix.dynamic"
grep -q 'SONAME.*\[libfiberrt_posix\.so\.1\]' "$work/posix.dynamic" || fail 'the SONAME is not libfiberrt_posix.so.1'
grep -q 'NODELETE' "$work/posix.dynamic" || fail 'libfiberrt_posix.so can be unloaded'
if grep 'NEEDED.*libfiberrt\.so' "$work/posix.dynamic"; then fail 'libfiberrt_posix.so needs libfiberrt.so'; fi
if grep -E 'NEEDED.*libstdc|TEXTREL' "$work/posix.dynamic"; then fail 'libfiberrt_posix.so is not plain'; fi
nm -D -u "$posix" | sed -n 's/.*@GLIBC_\([0-9.]*\)$/\1/p' | sort -V | tail -n 1 >"$work/posix.newest"
[ "$(printf '%s\n' 2.34 "$(cat "$work/posix.newest")" | sort -V | tail -n 1)" = 2.34 ] ||
    fail "libfiberrt_posix.so needs GLIBC_$(cat "$work/posix.newest")"
echo 'ok: libfiberrt_posix.so exports one name, and needs the C library alone'
