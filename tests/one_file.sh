#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# one_file.sh SOURCE BUILD WORK [--whole] - makes the amalgamation (tools/amalgamate), and checks that it is the
# library: gcc and clang compile it without a special option and without a warning; programs in C99 and C++ work with
# it; a shared library made of it exports what libfiberrt.so exports, and passes the conformance suite: a sample, or
# with --whole all of it. CC, CXX: gcc. FIBERRT_BACKENDS: the backends of the build, "uring ev".
# Shell, because it is the commands that a user types.
set -eu
source=$1 build=$2 work=$3 whole=${4-}
: "${CC:=gcc}" "${CXX:=g++}" "${FIBERRT_BACKENDS=uring ev}"
LC_ALL=C
export LC_ALL

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# quiet COMMAND...: succeeds, and prints nothing.
quiet() {
    "$@" >"$work/printed" 2>&1 || fail "$*: $(cat "$work/printed")"
    [ ! -s "$work/printed" ] || fail "$* printed: $(cat "$work/printed")"
    echo "ok: $*"
}

rm -rf "$work"
mkdir -p "$work/again"
here=$work/one_file
python3 -B "$source/tools/amalgamate" "$here"
(cd "$work/again" && TZ=Pacific/Auckland PYTHONHASHSEED=7 python3 -B "$source/tools/amalgamate" out)
diff -r "$here" "$work/again/out" || fail 'it differs when it is made again'
cmp "$here/fiberrt.h" "$source/include/fiberrt.h"
cd "$here"

macros='' libraries=''
for backend in $FIBERRT_BACKENDS; do
    macros="$macros -DFIBERRT_WITH_$(echo "$backend" | tr a-z A-Z)" libraries="$libraries -l$backend"
done
# clang optimises it in the whole run only, to save time: it gives the same warnings.
optimised=
[ -z "$whole" ] || optimised=-O2
# The object of gcc is position-independent, so that the shared library is made of it, too.
# shellcheck disable=SC2086 # lists of options
quiet "$CXX" -std=c++20 -O2 -Wall -Wextra -fPIC $macros -c fiberrt.cc
[ -z "$macros" ] || quiet "$CXX" -std=c++20 -Wall -Wextra -fsyntax-only fiberrt.cc
quiet "$CC" -c fiberrt_switch.S
if command -v clang++ >/dev/null; then
    # shellcheck disable=SC2086
    quiet clang++ -std=c++20 $optimised -Wall -Wextra -fPIC -DFIBERRT_PRIVATE -c fiberrt.cc -o clang.o
    # shellcheck disable=SC2086
    [ -z "$macros" ] || quiet clang++ -std=c++20 -Wall -Wextra $macros -fsyntax-only fiberrt.cc
    quiet clang -c fiberrt_switch.S -o clang_switch.o
    quiet clang -shared clang.o clang_switch.o -lstdc++ -o private.so
    if nm -D --defined-only private.so | grep ' T '; then fail 'FIBERRT_PRIVATE: a shared object exports these'; fi
else
    echo 'left out: clang++, which is not installed'
fi

# The switch moves no shadow stack, so its object must not say so, also where that is the compiler's default.
if [ "$(uname -m)" = x86_64 ]; then
    quiet "$CC" -fcf-protection=full -c fiberrt_switch.S -o full.o
    readelf -nW full.o | grep -q 'x86 feature: IBT$' || fail "the object of the switch says: $(readelf -nW full.o)"
fi

# Programs: README.md's example in C99, and the same in C++.
awk '/^```c$/ && !found { on = found = 1; next } /^```$/ { on = 0 } on' "$source/README.md" >program.c
sed 's/, "/, (void *)"/g' program.c >program.cc
greets() {
    "$1" >out || fail "$1 ended with $?"
    [ "$(sort out)" = 'hello from another
hello from one fiber' ] || fail "$1 printed: $(cat out)"
    echo "ok: $1"
    rm "$1"
}
strict='-std=c99 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -I.'
# shellcheck disable=SC2086
quiet "$CC" $strict program.c fiberrt.o fiberrt_switch.o $libraries -lstdc++ -o program
greets ./program
if [ -f clang.o ]; then
    # shellcheck disable=SC2086
    quiet clang $strict program.c clang.o clang_switch.o -lstdc++ -o program
    greets ./program
fi

# For other processors, without a backend: their systems have no liburing here.
if [ -n "$whole" ]; then
    for processor in aarch64 riscv64; do
        if ! command -v $processor-linux-gnu-g++ >/dev/null || ! command -v qemu-$processor >/dev/null; then
            echo "left out: $processor, whose compiler or qemu is not installed"
            continue
        fi
        quiet $processor-linux-gnu-g++ -std=c++20 -O2 -Wall -Wextra -c fiberrt.cc -o other.o
        quiet $processor-linux-gnu-gcc -I. program.c other.o fiberrt_switch.S -lstdc++ -o other
        printf '#!/bin/sh\nexec qemu-%s -L /usr/%s-linux-gnu ./other\n' $processor $processor >program
        chmod +x program
        greets ./program
    done
fi

# The commands of the amalgamation's README.md: the one of C++, the second line for C with the object from above, and
# gcc's for C, which warns that -std=c++20 is not for C. Not optimised, to save time.
readme() { # PATTERN [LIBRARIES]: runs the command, with these libraries.
    command=$(sed -n "s/^    $1/&/p" README.md)
    [ "$(printf '%s\n' "$command" | wc -l)" -eq 1 ] && [ -n "$command" ] || fail "README.md has not one command: $1"
    command=$(printf '%s\n' "$command" |
        sed "s| program\.c| -I.&|; s/-O2/-O0/; s/-luring/${2--luring}/; s|^ *c++ |$CXX |; s|^ *g*cc |$CC |")
    sh -c "$command" >printed 2>&1 || fail "$command: $(cat printed)"
    if grep -v "std=c++20.* is valid for C++" printed; then fail "$command printed: $(cat printed)"; fi
    echo "ok: $command"
    greets ./program
}
case " $FIBERRT_BACKENDS " in
*' uring '*)
    readme 'c++ .* program\.cc '
    grep -qx '    c++ -std=c++20 -O2 -DFIBERRT_WITH_URING -c fiberrt\.cc' README.md ||
        fail 'README.md has another command to compile the library'
    readme 'cc .* program\.c fiberrt\.o ' "$libraries"
    readme 'gcc .* program\.c fiberrt\.cc '
    ;;
*) echo 'left out: the commands of README.md, which are for io_uring' ;;
esac

# The shared library.
# shellcheck disable=SC2086
"$CC" -shared -Wl,-soname,libfiberrt.so.1 -Wl,--version-script="$build/src/libfiberrt.map" \
    -Wl,@"$build/src/plain-names.txt" -Wl,-Bsymbolic-functions -Wl,-z,defs -Wl,-z,nodelete -Wl,-z,now \
    fiberrt.o fiberrt_switch.o $libraries -lstdc++ -o libfiberrt.so.1
exports() { nm -D --defined-only "$1" | awk '{ print $2, $3 }' | sort; }
exports libfiberrt.so.1 >exports
exports "$build/libfiberrt.so.1" >exports_of_build
diff exports_of_build exports || fail 'libfiberrt.so (< the former) exports other names'
[ "$(wc -l <exports)" -gt 400 ] || fail "it exports $(wc -l <exports) names"
echo "ok: $(wc -l <exports) names are exported, the same as of libfiberrt.so"
if readelf -SW fiberrt.o | grep -E ' \.(init_array|ctors)'; then fail 'fiberrt.o has constructors'; fi
if readelf -dW libfiberrt.so.1 | grep -w TEXTREL; then fail 'libfiberrt.so.1 has text relocations'; fi

export LD_LIBRARY_PATH="$here${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
conformance=$build/tests/conformance
linked=$(ldd "$conformance")
case $linked in *"=> $here/libfiberrt.so.1 "*) ;; *) fail "$conformance runs with another library: $linked" ;; esac
parts=40
[ -z "$whole" ] || parts=1
for backend in $FIBERRT_BACKENDS sim; do
    # -k: a part that hangs does not keep the machine.
    FIBERRT_BACKEND=$backend GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$((parts / 2)) \
        "$conformance" --gtest_brief=1 >"conformance.$backend" 2>&1 || fail "$(cat "conformance.$backend")"
    echo "ok: conformance on $backend: $(grep PASSED "conformance.$backend" | tail -n 1)"
done
