/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For switch_test, on x86-64: a call of a function with known values in the callee-saved registers, which returns the
 * values found afterwards; and a fiber function that stores its registers at entry. */

/*
 * int64_t call_with_registers(void *function, const uint64_t arguments[3], const uint64_t in[6], uint64_t out[6]);
 *
 *      frame, from the stack pointer up, which is aligned to 16 at the call
 *      0   out
 *      8   r15  r14  r13  r12  rbp  rbx of the caller
 *      56  return address
 */
        .text
        .globl  call_with_registers
        .type   call_with_registers, @function
call_with_registers:
        .cfi_startproc
        endbr64
        pushq   %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbx, 0
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbp, 0
        pushq   %r12
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r12, 0
        pushq   %r13
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r13, 0
        pushq   %r14
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r14, 0
        pushq   %r15
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r15, 0
        pushq   %rcx
        .cfi_adjust_cfa_offset 8

        movq    %rdi, %rax
        movq    %rsi, %r10
        movq    0(%rdx), %rbx
        movq    8(%rdx), %rbp
        movq    16(%rdx), %r12
        movq    24(%rdx), %r13
        movq    32(%rdx), %r14
        movq    40(%rdx), %r15
        movq    0(%r10), %rdi
        movq    8(%r10), %rsi
        movq    16(%r10), %rdx
        call    *%rax

        movq    (%rsp), %rcx
        movq    %rbx, 0(%rcx)
        movq    %rbp, 8(%rcx)
        movq    %r12, 16(%rcx)
        movq    %r13, 24(%rcx)
        movq    %r14, 32(%rcx)
        movq    %r15, 40(%rcx)

        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %r15
        .cfi_adjust_cfa_offset -8
        .cfi_restore r15
        popq    %r14
        .cfi_adjust_cfa_offset -8
        .cfi_restore r14
        popq    %r13
        .cfi_adjust_cfa_offset -8
        .cfi_restore r13
        popq    %r12
        .cfi_adjust_cfa_offset -8
        .cfi_restore r12
        popq    %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbp
        popq    %rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbx
        ret
        .cfi_endproc
        .size   call_with_registers, .-call_with_registers

/*
 * void *entry_probe(uint64_t out[4]): a fiber function that stores its state at entry: the stack pointer; the value
 * that must be zero (the frame pointer); MXCSR, and above it the direction flag, zero too; the x87 control word.
 * Returns its argument.
 */
        .globl  entry_probe
        .type   entry_probe, @function
entry_probe:
        .cfi_startproc
        endbr64
        movq    %rsp, 0(%rdi)
        pushfq
        .cfi_adjust_cfa_offset 8
        popq    %rax
        .cfi_adjust_cfa_offset -8
        andq    $1024, %rax
        movq    %rbp, 8(%rdi)
        movl    %eax, 20(%rdi)
        stmxcsr 16(%rdi)
        movq    $0, 24(%rdi)
        fnstcw  24(%rdi)
        movq    %rdi, %rax
        ret
        .cfi_endproc
        .size   entry_probe, .-entry_probe

        .section .note.GNU-stack, "", @progbits
