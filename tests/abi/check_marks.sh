#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# check_marks.sh BUILD SOURCE - checks the marks of the built objects: no executable stack; IBT, or BTI and PAC, marked
# on our objects; shadow stacks never; and a wait of fibers for each other returns by a jump: with `ret` it is right,
# but slower.
# Shell, because it greps in the output of readelf and objdump.
. "$(dirname "$0")/common.sh"
library=$build/libfiberrt.so.1
archive=$build/libfiberrt.a

readelf -lW "$library" | awk '$1 == "GNU_STACK" { print $(NF - 1) }' >"$work/stack"
[ "$(cat "$work/stack")" = RW ] || fail "the library's GNU_STACK is '$(cat "$work/stack")', not RW"

readelf -SW "$archive" >"$work/sections"
stack_notes=$(grep -c 'note\.GNU-stack' "$work/sections") || fail 'the archive has no .note.GNU-stack'
if grep 'note\.GNU-stack' "$work/sections" | grep -E 'PROGBITS.* [A-Z]*X[A-Z]* +0 '; then
    fail 'an object of the archive asks for an executable stack'
fi
echo "ok: the stack is not executable ($stack_notes notes)"

# Each of our objects. (The archive and the shared library need not have the marks: the copy of libev and the start-up
# files of some distributions carry none, and a mark is kept only if every part has it.)
find "$build/src/CMakeFiles/fiberrt_objects.dir" -name '*.o' >"$work/objects"
[ "$(wc -l <"$work/objects")" -gt 20 ] || fail "there are only $(wc -l <"$work/objects") objects"
readelf -nW "$archive" >"$work/notes"
readelf -hW "$archive" >"$work/header"
case $(sed -n 's/^ *Machine: *//p' "$work/header") in
*X86-64*) marks=IBT pattern='x86 feature:.*IBT' ;;
AArch64) marks='BTI and PAC' pattern='AArch64 feature: BTI, PAC' ;;
RISC-V) marks= ;; # there are none yet
*) fail "which machine is this? $(cat "$work/header")" ;;
esac
if [ -n "$marks" ]; then
    while read -r object; do
        readelf -nW "$object" | grep -q "$pattern" || fail "$object is not marked for $marks"
    done <"$work/objects"
fi
# The switch does not support shadow stacks.
if grep -E 'SHSTK|GCS' "$work/notes"; then fail 'the archive is marked for shadow stacks'; fi
if readelf -nW "$library" | grep -E 'SHSTK|GCS'; then fail 'the library is marked for shadow stacks'; fi
echo "ok: ${marks:-nothing} is marked, shadow stacks are not"

# By gcc for x86-64.
if [ "$marks" = IBT ] && ! $CC --version | grep -q clang; then
    objdump -d --no-show-raw-insn "$library" | awk '/^[0-9a-f]+ </ { inside = /<_ZN7fiberrt7wait_in/ } inside' >"$work/wait_in"
    [ -s "$work/wait_in" ] || fail 'there is no function wait_in'
    grep -q 'jmp .*<__x86_return_thunk' "$work/wait_in" || fail 'wait_in does not end in a jump to __x86_return_thunk'
    if grep -w ret "$work/wait_in"; then fail 'wait_in returns by ret as well'; fi
    echo 'ok: wait_in returns by a jump'
fi
