/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For switch_test, on RISC-V: a call of a function with known values in the callee-saved registers, which returns the
 * values found afterwards; and a fiber function that stores its registers at entry. */

        .macro  save_integer register, at
        sd      \register, \at(sp)
        .cfi_rel_offset \register, \at
        .endm

        .macro  save_float register, at
        fsd     \register, \at(sp)
        .cfi_rel_offset \register, \at
        .endm

        .macro  restore_integer register, at
        ld      \register, \at(sp)
        .cfi_restore \register
        .endm

        .macro  restore_float register, at
        fld     \register, \at(sp)
        .cfi_restore \register
        .endm

        .macro  get_integer register, at
        ld      \register, \at(a2)
        .endm

        .macro  get_float register, at
        fld     \register, \at(a2)
        .endm

        .macro  put_integer register, at
        sd      \register, \at(a3)
        .endm

        .macro  put_float register, at
        fsd     \register, \at(a3)
        .endm

        .macro  each_register integer, float
        \integer s0, 0
        \integer s1, 8
        \integer s2, 16
        \integer s3, 24
        \integer s4, 32
        \integer s5, 40
        \integer s6, 48
        \integer s7, 56
        \integer s8, 64
        \integer s9, 72
        \integer s10, 80
        \integer s11, 88
        \float  fs0, 96
        \float  fs1, 104
        \float  fs2, 112
        \float  fs3, 120
        \float  fs4, 128
        \float  fs5, 136
        \float  fs6, 144
        \float  fs7, 152
        \float  fs8, 160
        \float  fs9, 168
        \float  fs10, 176
        \float  fs11, 184
        .endm

/*
 * int64_t call_with_registers(void *function, const uint64_t arguments[3], const uint64_t in[24], uint64_t out[24]);
 * The registers are s0-s11, fs0-fs11.
 *
 *      frame, from the stack pointer up
 *      0   s0-s11  fs0-fs11 of the caller
 *      192 out   ra
 */
        .text
        .globl  call_with_registers
        .type   call_with_registers, %function
call_with_registers:
        .cfi_startproc
        addi    sp, sp, -208
        .cfi_adjust_cfa_offset 208
        each_register save_integer, save_float
        sd      a3, 192(sp)
        save_integer ra, 200
        mv      t0, a0
        mv      t1, a1
        each_register get_integer, get_float
        ld      a0, 0(t1)
        ld      a1, 8(t1)
        ld      a2, 16(t1)
        jalr    t0
        ld      a3, 192(sp)
        each_register put_integer, put_float
        each_register restore_integer, restore_float
        restore_integer ra, 200
        addi    sp, sp, 208
        .cfi_adjust_cfa_offset -208
        ret
        .cfi_endproc
        .size   call_with_registers, .-call_with_registers

/*
 * void *entry_probe(uint64_t out[4]): a fiber function that stores its state at entry: the stack pointer; the value
 * that must be zero (the frame pointer); the rounding mode; 0. Returns its argument.
 */
        .globl  entry_probe
        .type   entry_probe, %function
entry_probe:
        .cfi_startproc
        frrm    a1
        sd      sp, 0(a0)
        sd      s0, 8(a0)
        sd      a1, 16(a0)
        sd      zero, 24(a0)
        ret
        .cfi_endproc
        .size   entry_probe, .-entry_probe

        .section .note.GNU-stack, "", %progbits
