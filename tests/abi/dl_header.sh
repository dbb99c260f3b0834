#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# dl_header.sh BUILD SOURCE - fiberrt_dl.h has every function of fiberrt.h; programs in C and C++ load the library by it,
# and are told which function a library lacks; one in C loads it without that header, by dlopen.
. "$(dirname "$0")/common.sh"
use_stage

grep -o '(\*fiber_[a-z0-9_]*)' "$prefix/include/fiberrt_dl.h" | tr -d '(*)' | sort >"$work/members"
awk -f "$source/src/exported.awk" "$source/include/fiberrt.h" | cut -d ' ' -f 1 | sort >"$work/exported"
diff "$work/members" "$work/exported" || fail 'the table has not the functions that the library exports'
echo "ok: $(wc -l <"$work/members") functions"

# A library with every function but one.
missing=fiber_join
sed "/^$missing\$/d; s/.*/int fiberrt_&(void);\nint fiberrt_&(void) { return 0; }/" "$work/members" >"$work/stand_in.c"
$CC -shared -fPIC "$work/stand_in.c" -o "$work/stand_in.so"

warnings='-Wall -Wextra -Wpedantic -Werror'
# shellcheck disable=SC2086 # a list of options
{
    $CC -std=c99 $warnings -I"$prefix/include" "$here/dl_table.c" -o "$work/dl_table" -ldl
    $CXX -x c++ -std=c++11 $warnings -I"$prefix/include" "$here/dl_table.c" -o "$work/dl_table_cc" -ldl
}
for program in dl_table dl_table_cc; do
    if readelf -d "$work/$program" | grep fiberrt; then fail 'it is linked with the library'; fi
    expect 'dl_table: fine' "$work/$program" "$libdir/libfiberrt.so.1" "$work/stand_in.so" $missing
done

$CC -std=c99 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -I"$prefix/include" "$here/dlopen_only.c" \
    -o "$work/dlopen_only" -ldl -lpthread
if readelf -d "$work/dlopen_only" | grep fiberrt; then fail 'it is linked with the library'; fi
expect 'dlopen: fine' "$work/dlopen_only" libfiberrt.so.1
