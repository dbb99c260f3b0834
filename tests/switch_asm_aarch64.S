/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For switch_test, on AArch64: a call of a function with known values in the callee-saved registers, which returns the
 * values found afterwards; and a fiber function that stores its registers at entry. */

        .macro  save first, second, at
        stp     \first, \second, [sp, #\at]
        .cfi_rel_offset \first, \at
        .cfi_rel_offset \second, \at + 8
        .endm

        .macro  restore first, second, at
        ldp     \first, \second, [sp, #\at]
        .cfi_restore \first
        .cfi_restore \second
        .endm

        .macro  get first, second, at
        ldp     \first, \second, [x2, #\at - 16]
        .endm

        .macro  put first, second, at
        stp     \first, \second, [x3, #\at - 16]
        .endm

        .macro  each_pair do
        \do     x19, x20, 16
        \do     x21, x22, 32
        \do     x23, x24, 48
        \do     x25, x26, 64
        \do     x27, x28, 80
        \do     d8, d9, 96
        \do     d10, d11, 112
        \do     d12, d13, 128
        \do     d14, d15, 144
        .endm

/*
 * int64_t call_with_registers(void *function, const uint64_t arguments[3], const uint64_t in[19], uint64_t out[19]);
 * The registers are x19-x28, d8-d15, x29.
 *
 *      frame, from the stack pointer up
 *      0   x29  x30  x19-x28  d8-d15 of the caller
 *      160 out
 */
        .text
        .globl  call_with_registers
        .type   call_with_registers, %function
call_with_registers:
        .cfi_startproc
        hint    #34 /* bti c */
        stp     x29, x30, [sp, #-176]!
        .cfi_adjust_cfa_offset 176
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        each_pair save
        str     x3, [sp, #160]
        mov     x9, x0
        mov     x10, x1
        each_pair get
        ldr     x29, [x2, #144]
        ldp     x0, x1, [x10]
        ldr     x2, [x10, #16]
        blr     x9
        ldr     x3, [sp, #160]
        each_pair put
        str     x29, [x3, #144]
        each_pair restore
        ldp     x29, x30, [sp], #176
        .cfi_adjust_cfa_offset -176
        .cfi_restore x29
        .cfi_restore x30
        ret
        .cfi_endproc
        .size   call_with_registers, .-call_with_registers

/*
 * void *entry_probe(uint64_t out[4]): a fiber function that stores its state at entry: the stack pointer; the value
 * that must be zero (the frame pointer); FPCR; 0. Returns its argument.
 */
        .globl  entry_probe
        .type   entry_probe, %function
entry_probe:
        .cfi_startproc
        hint    #34 /* bti c */
        mov     x1, sp
        mrs     x2, fpcr
        stp     x1, x29, [x0]
        stp     x2, xzr, [x0, #16]
        ret
        .cfi_endproc
        .size   entry_probe, .-entry_probe

        .section .note.GNU-stack, "", %progbits
