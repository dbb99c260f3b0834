#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# check_header.sh BUILD SOURCE - the headers of C compile without a warning in every dialect, by gcc and by clang.
# Shell, because it is one command line of a compiler after the other.
. "$(dirname "$0")/common.sh"

options="-Wall -Wextra -Wpedantic -Wshadow -Wundef -Werror -fsyntax-only -I$source/include -I$build/include"
compiled=0
for pair in 'gcc g++' 'clang clang++'; do
    [ -z "${FIBERRT_ONLY_CLANG-}" ] || [ "$pair" = 'clang clang++' ] || continue
    c=${pair% *}
    cxx=${pair#* }
    if command -v "$c" >"$work/where"; then
        for standard in c99 gnu99 c11 c17 gnu17; do
            # shellcheck disable=SC2086 # a list of options
            "$c" -std=$standard $options -Wstrict-prototypes "$here/header_use.c" "$here/dl_table.c" || fail "$c -std=$standard"
            compiled=$((compiled + 1))
        done
    else
        echo "LEFT OUT: there is no $c here"
    fi
    if command -v "$cxx" >"$work/where"; then
        for standard in c++11 c++14 c++17 c++20 gnu++20; do
            # shellcheck disable=SC2086
            "$cxx" -x c++ -std=$standard $options "$here/header_use.c" "$here/dl_table.c" || fail "$cxx -std=$standard"
            compiled=$((compiled + 1))
        done
    else
        echo "LEFT OUT: there is no $cxx here"
    fi
done
[ "$compiled" -gt 0 ] || fail 'neither gcc nor clang was found'
# The compiler of this build, whatever its name.
# shellcheck disable=SC2086
$CC -std=c99 $options "$here/header_use.c" "$here/dl_table.c" || fail "$CC -std=c99"
echo "ok: compiled in $compiled ways"

# A dropped result is warned of, in C and in C++, unless the program does not want that.
for call in 'fiber_mutex_lock((fiber_mutex_t *)0)' 'fiber_join(fiber, (void **)0)' 'fiber_await(fiber)' \
    'fiber_pool_close(pool)'; do
    printf '#include <fiberrt.h>\nvoid f(fiber_t fiber, fiber_pool_t pool);\nvoid f(fiber_t fiber, fiber_pool_t pool) {
    (void)fiber, (void)pool;\n    %s;\n}\n' "$call" >"$work/drops.c"
    for language in c c++; do
        # Compiled, as gcc warns only then.
        compile="$CC -x $language -Wall -Werror -I$source/include -c -o $work/drops.o"
        if $compile "$work/drops.c" 2>"$work/said"; then fail "nothing is said of a dropped $call"; fi
        grep -q 'unused-result' "$work/said" || fail "something else is said of a dropped $call: $(cat "$work/said")"
        $compile -DFIBERRT_CHECK_RESULT= "$work/drops.c" || fail "the compiler still warns of a dropped $call"
    done
done
echo 'ok: a dropped result is warned of'
