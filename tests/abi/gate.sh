#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# gate.sh BUILD SOURCE - checks that the binary interface of the built library is the one committed under abi/, and,
# with a small library, that this test notices every kind of change.
# Shell, because it runs sed, a compiler and abidiff, each change a line.
. "$(dirname "$0")/common.sh"

for tool in abidw abidiff; do
    if ! command -v "$tool" >"$work/where"; then
        echo "THE BINARY INTERFACE WAS NOT COMPARED with abi/: there is no $tool here (package abigail-tools)"
        exit 77
    fi
done

# differs OLD NEW: whether two records differ; $work/changes lists the differences.
differs() {
    status=0
    sh "$here/record.sh" --compare "$1.abi" "$2.abi" >"$work/changes" 2>&1 || status=$?
    [ "$status" -le 1 ] || fail "$(cat "$work/changes")"
    [ "$status" -ne 0 ]
}

# subject NAME [FILE SED-SCRIPT]...: makes the small library, changed so, and its record in $work/NAME.
subject() {
    name=$1
    shift
    mkdir "$work/$name"
    cp "$here/gate_subject.h" "$work/$name/fiberrt.h"
    cp "$here/gate_subject.c" "$work/$name/subject.c"
    echo 'SUBJECT_1 { global: fiber_*; local: *; };' >"$work/$name/map"
    while [ $# -gt 0 ]; do
        cp "$work/$name/$1" "$work/before"
        sed -i "$2" "$work/$name/$1"
        ! cmp -s "$work/before" "$work/$name/$1" || fail "$name: nothing in $1 was changed by $2"
        shift 2
    done
    "$CC" -std=c99 -g -shared -fPIC -I"$work/$name" -Wl,-soname,"$soname" -Wl,--version-script="$work/$name/map" \
        "$work/$name/subject.c" -o "$work/$name/subject.so" || fail "$name does not compile"
    sh "$here/record.sh" "$work/$name/subject.so" "$work/$name" "$work/$name/record"
}

# noticed NAME [FILE SED-SCRIPT]...: such a change must be noticed.
noticed() {
    subject "$@"
    differs "$work/first/record" "$work/$1/record" || fail "a change was not noticed: $1"
    tried=$((tried + 1))
}

unnoticed() {
    subject "$@"
    if differs "$work/first/record" "$work/$1/record"; then fail "no change: $1: $(cat "$work/changes")"; fi
    tried=$((tried + 1))
}

tried=0
soname=libsubject.so.1
subject first
unnoticed the-same
unnoticed what-is-opaque subject.c 's/    size_t bytes;/    size_t bytes, more[3];/'
unnoticed what-is-inside subject.c 's/out->id = /out->id = 1 + /'
noticed a-member-more fiberrt.h 's/    uint64_t reserved/    uint64_t more;\n&/'
noticed a-member-wider fiberrt.h 's/uint32_t state/uint64_t state/'
noticed a-member-of-the-reserved fiberrt.h 's/    uint64_t reserved.2./    uint64_t used, reserved[1]/'
noticed members-in-other-order fiberrt.h \
    's/uint32_t state/uint32_t swap/; s/uint32_t flags/uint32_t state/; s/swap/flags/'
noticed a-parameter-wider fiberrt.h 's/size_t size/uint32_t size/' subject.c 's/size_t size/uint32_t size/'
noticed a-parameter-more fiberrt.h 's/size_t bytes)/size_t bytes, int more)/' \
    subject.c 's/size_t bytes)/size_t bytes, int more)/'
noticed a-handle-other fiberrt.h 's/uint64_t id/uint64_t id, more/'
noticed a-result-wider fiberrt.h 's/^int fiber_info/int64_t fiber_info/' \
    subject.c 's/^int fiber_info/int64_t fiber_info/'
noticed a-callback-other fiberrt.h 's/typedef int (/typedef int64_t (/' \
    subject.c 's/return function(out)/return (int)function(out)/'
noticed a-function-less map 's/fiber_\*/fiber_new; fiber_info/'
noticed a-function-more subject.c '$s/$/\nint fiber_more(void) { return 0; }/'
noticed a-version-other map 's/SUBJECT_1/SUBJECT_2/'
noticed a-constant-other fiberrt.h 's/FIBER_LIMIT 32/FIBER_LIMIT 33/'
noticed a-constant-more fiberrt.h 's/.*FIBER_LIMIT 32/&\n#define FIBER_MORE 1/'
noticed a-constant-less fiberrt.h '/FIBER_LIMIT 32/d'
soname=libsubject.so.2
noticed the-soname-other
echo "ok: $tried libraries that were changed, or not"

# No function may be missing from the record: it has all functions that the linker and the debug information know.
recorded=$source/abi/libfiberrt-x86_64
known=$(grep -c "<elf-symbol name='fiberrt_" "$recorded.abi")
described=$(grep -c "<function-decl .* elf-symbol-id='fiberrt_" "$recorded.abi")
[ "$known" -gt 0 ] && [ "$known" -eq "$described" ] || fail "the record has $known functions, and describes $described"
if grep -nE "='/|$source|$build" "$recorded.abi"; then fail 'the record has paths of the machine that made it'; fi

sh "$here/record.sh" "$build/libfiberrt.so.1" "$source/include" "$work/now"
if differs "$recorded" "$work/now"; then
    fail "the binary interface is not the one of abi/; if that is meant, see docs/abi.md, and: ./dev abi-record
$(cat "$work/changes")"
fi
echo "ok: $known functions, as they are recorded in abi/"
