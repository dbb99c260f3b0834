#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# record.sh LIBRARY INCLUDE-FOLDER OUT - writes down the binary interface of a shared library with debug information:
# OUT.abi has its symbols, their versions, the functions and the types of the folder's headers, as abidw reads them from
# the debug information; and, in a comment, the values of the constants and the sizes of the types of fiberrt.h, which
# programs are compiled with. ./dev abi-record calls this, and so does gate.sh.
# record.sh --compare OLD NEW - prints the differences of two records, except those of order. Ends with 0 if they do not
# differ, with 1 if they do, and with 2 if they cannot be read. Nothing is suppressed: a change that abidiff considers
# harmless counts, too.
# Shell, because it is a pipeline around abidw.
set -eu
LC_ALL=C
export LC_ALL
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ "$1" = --compare ]; then
    status=0
    abidiff --no-default-suppression --harmless "$2" "$3" >"$scratch/changes" 2>&1 || status=$?
    if [ $((status & 3)) -ne 0 ]; then
        echo "abidiff ended with $status: $(cat "$scratch/changes")"
        exit 2
    fi
    constants() { sed -n '/<!-- What of fiberrt.h/,/-->/p' "$1"; }
    constants "$2" >"$scratch/old"
    constants "$3" >"$scratch/new"
    diff "$scratch/old" "$scratch/new" >>"$scratch/changes" || status=1
    [ "$status" -ne 0 ] || exit 0
    cat "$scratch/changes"
    exit 1
fi
library=$1 include=$2 out=$3
: "${CC:=cc}"
licence='SPDX-License-''Identifier: MIT OR Apache-2.0' # of what is written, not of this line

# Leaves out the part that differs from machine to machine: the paths of files.
abidw --headers-dir "$include" --drop-private-types --exported-interfaces-only --no-show-locs --no-corpus-path \
    --no-comp-dir-path --no-elf-needed --type-id-style hash --out-file "$scratch/abi" "$library"

# Macros without parameters that stand for a value, the durations, and the types that are not opaque.
echo '#include <fiberrt.h>' | "$CC" -I"$include" -E -dM -x c - | sort >"$scratch/macros"
{
    cat <<'END'
#include <fiberrt.h>
#include <stdio.h>
#define CONSTANT(name) printf("%s %lld\n", #name, (long long)(name));
#define SIZE(type) printf("sizeof(%s) %zu\n", #type, sizeof(type));
int main(void) {
END
    sed -n 's/^#define \(FIBER_[A-Z0-9_]*\) [^{].*/CONSTANT(\1)/p' "$scratch/macros" # no initialiser, which has braces
    sed -n 's/^#define \(FIBER_[MU]*SEC\)(n) .*/CONSTANT(\1(1))/p' "$scratch/macros"
    sed -n 's/^} *\(fiber_[a-z0-9_]*_t\);.*/SIZE(\1)/p; s/^typedef struct {.*} *\(fiber_[a-z0-9_]*\);.*/SIZE(\1)/p' \
        "$include/fiberrt.h" | sort
    echo 'return 0; }'
} >"$scratch/constants.c"
"$CC" -std=c99 -I"$include" "$scratch/constants.c" -o "$scratch/constants"
# (The comments come after the first element, as abidiff knows such files by their first bytes.)
{
    head -n 1 "$scratch/abi"
    echo "  <!-- $licence -->"
    echo '  <!-- The binary interface of the shared library, as tests/abi/record.sh reads it; docs/abi.md tells of it. -->'
    echo '  <!-- What of fiberrt.h is compiled into programs:'
    "$scratch/constants"
    echo '  -->'
    sed "1d; s|path='[^']*/src/|path='src/|" "$scratch/abi"
} >"$out.abi"
