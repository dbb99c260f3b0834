#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# check_hpp.sh BUILD SOURCE - fiberrt.hpp compiles by itself and without a warning, by gcc and by clang, and so do the
# examples in its comments; without exceptions, and before C++17, it says that it is not for that.
# Shell, because it is one command line of a compiler after the other.
. "$(dirname "$0")/common.sh"

options="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wnon-virtual-dtor -Werror
    -fsyntax-only -I$source/include"
header=$source/include/fiberrt.hpp

echo '#include <fiberrt.hpp>' >"$work/alone.cc"
# Twice, and in two files that are linked: nothing is defined twice.
printf '#include <fiberrt.hpp>\n#include <fiberrt.hpp>\nint main() {}\n' >"$work/twice.cc"

# examples FROM TO: the code in the comments of these lines of the header, each block in its own function, after the
# declarations that the examples assume.
examples() {
    cat <<'END'
#include <fcntl.h>
#include <fiberrt.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
using namespace fiberrt;
using namespace std::chrono_literals;
extern fiberrt::channel<int> numbers;
extern int fd, listener;
void work();
void greet(std::string& name);
END
    awk -v name="$header" -v from="$1" -v to="$2" '
        NR < from || NR > to { next }
        match($0, /^ *\/\/\/?     /) {
            if (!open) printf "void example_%d();\nvoid example_%d() { // %s:%d\n", NR, NR, name, NR
            open = 1
            print substr($0, RLENGTH + 1)
            next
        }
        /^ *\/\/\/? *$/ && open { print ""; next }
        open { print "}"; open = 0 }
        END { if (open) print "}" }' "$header"
}
later=$(grep -n '^#if.*__cpp_impl_coroutine' "$header" | head -n 1 | cut -d: -f1)
: "${later:=1000000}"
examples 1 "$later" >"$work/examples.cc"
examples "$later" 1000000 >"$work/examples_20.cc"
[ "$(grep -c '^void example_.* { ' "$work/examples.cc")" -gt 20 ] || fail 'the examples were not found'

compiled=0
for cxx in g++ clang++; do
    [ -z "${FIBERRT_ONLY_CLANG-}" ] || [ "$cxx" = clang++ ] || continue
    if ! command -v "$cxx" >"$work/where"; then
        echo "LEFT OUT: there is no $cxx here"
        continue
    fi
    for standard in c++17 c++20; do
        for file in alone twice; do
            # shellcheck disable=SC2086 # a list of options
            "$cxx" -std=$standard $options "$work/$file.cc" || fail "$cxx -std=$standard $file.cc"
        done
        # shellcheck disable=SC2086
        "$cxx" -std=$standard -fno-rtti $options "$work/alone.cc" || fail "$cxx -std=$standard -fno-rtti"
        # shellcheck disable=SC2086 # variables that an example names and does not use
        "$cxx" -std=$standard $options -Wno-unused-variable -Wno-unused-but-set-variable "$work/examples.cc" ||
            fail "$cxx -std=$standard: the examples"
        compiled=$((compiled + 1))
    done
    if echo __cpp_impl_coroutine | "$cxx" -std=c++20 -E -x c++ - | grep -q '^20'; then
        # shellcheck disable=SC2086
        "$cxx" -std=c++20 $options -Wno-unused-variable -Wno-unused-but-set-variable "$work/examples_20.cc" ||
            fail "$cxx -std=c++20: the examples of coroutines"
    else
        echo "LEFT OUT: the examples of coroutines: this $cxx has none of C++20"
    fi
    for wrong in '-std=c++17 -fno-exceptions:without them use fiberrt.h' '-std=c++14:is C++17'; do
        # shellcheck disable=SC2086
        if "$cxx" ${wrong%%:*} -fsyntax-only -I"$source/include" "$work/alone.cc" 2>"$work/log"; then
            fail "$cxx ${wrong%%:*} compiles it"
        fi
        grep -q "${wrong#*:}" "$work/log" || fail "$cxx ${wrong%%:*}: $(head -n 5 "$work/log")"
    done
done
[ "$compiled" -gt 0 ] || fail 'neither g++ nor clang++ was found'
echo "ok: compiled in $compiled ways"
