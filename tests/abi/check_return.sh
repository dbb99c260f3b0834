#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# check_return.sh BUILD SOURCE - a wait of fibers for each other returns by a jump: with `ret` it is right, but slower.
. "$(dirname "$0")/common.sh"
library=$build/libfiberrt.so.1

objdump -d --no-show-raw-insn "$library" | awk '/^[0-9a-f]+ </ { inside = /<_ZN7fiberrt7wait_in/ } inside' >"$work/wait_in"
[ -s "$work/wait_in" ] || fail 'there is no function wait_in'
grep -q 'jmp .*<__x86_return_thunk' "$work/wait_in" || fail 'wait_in does not end in a jump to __x86_return_thunk'
if grep -w ret "$work/wait_in"; then fail 'wait_in returns by ret as well'; fi
echo 'ok: wait_in returns by a jump'
