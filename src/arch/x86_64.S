/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The switch for x86-64 (System V ABI): the state that a parked fiber keeps, and how the fiber continues.
 * core/switch.h declares the four functions.
 *
 * A parked fiber's stack ends, towards low addresses, with this frame; Fiber.sp points to its low end:
 *
 *     (-16  the caught C++ exceptions (8 bytes)   -8  the count of uncaught ones (4): only if marked so)
 *      +0   r15    +8  r14    +16 r13    +24 r12    +32 rbx    +40 rbp
 *      +48  the address to continue at: the return address of the call that gave way
 *
 * The rest is in the Fiber's first cache line, which a switch needs anyway, at FIBER_CONTROLS:
 *
 *      +0   MXCSR (4 bytes)   +4  x87 control word (2)   +8  errno (4)
 *
 * The state of C++ exceptions (the list of caught ones and the count of uncaught ones) is moved only if it is not zero.
 * A switch then stores the leaving fiber's state below the frame, where nothing else writes while the fiber is parked,
 * clears the thread's state, and marks the fiber. When a marked fiber continues, its state is put back. A fiber that
 * continues clears all its marks: debug/look.h has another one.
 *
 * How a fiber continues: if its address equals the one that the leaving fiber was called from, by `ret`, which the
 * processor predicts rightly. Otherwise that prediction would be wrong, and an indirect jump, which the processor
 * predicts by a separate history, does better. (notrack: the target is a return address, which has no landing pad.)
 *
 * The frame has the same shape on both stacks, so the CFI stays true across the change of the stack pointer.
 */
#include "arch/offsets.h"
#include "base/planted.h"

/* Marks the object for IBT, as the compiler marks the library's other objects. Never for shadow stacks, which the
 * switch does not move: some compilers ask for both (-fcf-protection=full). */
#if defined __CET__ && __CET__ & 1
#undef __CET__
#define __CET__ 1
#include <cet.h>
#endif

	.text

/* Saves the frame of the caller of the function. In: rdi cord, rdx from. Leaves errno's address in r9, the address of
 * the thread's exception state in r11 and the return address in r8. Uses rax, r10. The user of the macro stores rsp,
 * after it has loaded the next stack pointer. */
	.macro save_frame
	movq	(%rsp), %r8
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	pushq	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	pushq	%r13
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r13, 0
	pushq	%r14
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r14, 0
	pushq	%r15
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r15, 0
	stmxcsr	FIBER_CONTROLS(%rdx)
	fnstcw	FIBER_CONTROLS+4(%rdx)
	movq	CORD_ERRNO(%rdi), %r9
	movl	(%r9), %r10d
	movl	%r10d, FIBER_CONTROLS+8(%rdx)
	movq	CORD_EXCEPTIONS(%rdi), %r11
	movl	8(%r11), %r10d
	orq	(%r11), %r10
	jnz	80f
81:
	.endm

/* The rare half of save_frame, placed after the function's end. */
	.macro save_exceptions
80:
	movq	(%r11), %rax
	movq	%rax, -16(%rsp)
	movl	8(%r11), %eax
	movl	%eax, -8(%rsp)
	movb	$1, FIBER_MARKS(%rdx)
	xorl	%eax, %eax
	movq	%rax, (%r11)
	movl	%eax, 8(%r11)
	jmp	81b
	.endm

/* Loads the state of the fiber whose frame rsp points to. In: rsi to, r9 and r11 as above. */
	.macro load_control
#if !PLANTED(switch_forgets_mxcsr)
	ldmxcsr	FIBER_CONTROLS(%rsi)
#endif
	fldcw	FIBER_CONTROLS+4(%rsi)
	movl	FIBER_CONTROLS+8(%rsi), %r10d
	movl	%r10d, (%r9)
	cmpb	$0, FIBER_MARKS(%rsi)
	jne	82f
83:
	movl	FIBER_RESUME(%rsi), %eax
	.endm

	.macro load_exceptions
82:
	testb	$1, FIBER_MARKS(%rsi) /* mark_exceptions */
	jz	84f
	movq	-16(%rsp), %rax
	movq	%rax, (%r11)
	movl	-8(%rsp), %eax
	movl	%eax, 8(%r11)
84:	movb	$0, FIBER_MARKS(%rsi)
	jmp	83b
	.endm

	.macro load_registers
	popq	%r15
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r15
	popq	%r14
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r14
	popq	%r13
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r13
	popq	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	.endm

	.macro function name, binding=globl
	.\binding	\name
	.hidden	\name
	.type	\name, @function
	.p2align 6
\name:
	.endm

/* int fiberrt_switch(Cord *cord, Fiber *to, Fiber *from)
 * Parks from and continues to: returns to->resume there. */
	function fiberrt_switch
	.cfi_startproc
	movq	FIBER_SP(%rsi), %rcx
	save_frame
	movq	%rsp, FIBER_SP(%rdx)
	movq	%rsi, CORD_CURRENT(%rdi) /* after FIBER_SP is set: see debug/look.h */
	movq	%rcx, %rsp
	load_control
	.cfi_remember_state
	load_registers
	cmpq	%r8, (%rsp)
	jne	1f
	ret
1:	popq	%rcx
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rcx
	notrack jmp	*%rcx
	.cfi_restore_state
	save_exceptions
	load_exceptions
	.cfi_endproc
	.size	fiberrt_switch, .-fiberrt_switch

/* The code that functions marked FIBERRT_RETURNS_BY_JUMP (core/switch.h) jump to in place of `ret`. Weak: built with
 * -mfunction-return=thunk every object has one, which then replaces this. */
	function __x86_return_thunk, weak
	.cfi_startproc
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rcx
	notrack jmp	*%rcx
	.cfi_endproc
	.size	__x86_return_thunk, .-__x86_return_thunk

/* int fiberrt_leave(Cord *cord, Fiber *to)
 * Continues to; no switch returns to the running fiber. */
	function fiberrt_leave
	.cfi_startproc
	.cfi_undefined %rip
	movq	CORD_ERRNO(%rdi), %r9
	movq	CORD_EXCEPTIONS(%rdi), %r11
	movq	FIBER_SP(%rsi), %rsp
	.cfi_def_cfa %rsp, 56
	.cfi_offset %rip, -8
	.cfi_offset %rbp, -16
	.cfi_offset %rbx, -24
	.cfi_offset %r12, -32
	.cfi_offset %r13, -40
	.cfi_offset %r14, -48
	.cfi_offset %r15, -56
	load_control
	.cfi_remember_state
	load_registers
	ret
	.cfi_restore_state
	load_exceptions
	.cfi_endproc
	.size	fiberrt_leave, .-fiberrt_leave

/* int fiberrt_start(Cord *cord, Fiber *to, Fiber *from, void *top, void *(*fn)(void *), void *arg)
 * Parks from, and calls fn(arg) for the new fiber to on the stack that ends at top (a multiple of 16). */
	function fiberrt_start
	.cfi_startproc
	movq	%r8, %xmm0 /* save_frame wants r8 and r9 */
	movq	%r9, %xmm1
	save_frame
	movq	%rsp, FIBER_SP(%rdx)
	movq	%rsi, CORD_CURRENT(%rdi)
	movq	%xmm0, %r8
	movq	%xmm1, %rdi
	movq	%rsi, %rbx
	movq	%rcx, %rsp
	jmp	fiberrt_entry
	save_exceptions
	.cfi_endproc
	.size	fiberrt_start, .-fiberrt_start

/* int fiberrt_leave_start(Cord *cord, Fiber *to, void *top, void *(*fn)(void *), void *arg)
 * Calls fn(arg) for the new fiber to; no switch returns to the running fiber, which may have run on the same stack. */
	function fiberrt_leave_start
	.cfi_startproc
	.cfi_undefined %rip
	movq	CORD_ERRNO(%rdi), %r9
	movq	%r8, %rdi
	movq	%rcx, %r8
	movq	%rsi, %rbx
	movq	%rdx, %rsp
	jmp	fiberrt_entry
	.cfi_endproc
	.size	fiberrt_leave_start, .-fiberrt_leave_start

/* The first frame of every fiber. In: rbx the fiber, r8 its function, rdi the argument, r9 errno's address, rsp the top
 * of the stack. Here unwinding ends: the return address is undefined. For an uncaught exception the C++ runtime calls
 * this frame's personality routine last; it prints the fiber's name, and the runtime terminates with the stack
 * intact. */
	function fiberrt_entry
	.cfi_startproc
	.cfi_personality 0x9b, fiberrt_personality_pointer
	.cfi_undefined %rip
	xorl	%ebp, %ebp
	movl	$0, (%r9)
	ldmxcsr	default_mxcsr(%rip)
	fldcw	default_x87_control(%rip)
	call	*%r8
	movq	%rbx, %rdi
	movq	%rax, %rsi
	/* A jump, with a return address pushed by hand. A call, which never returns, would unbalance the return
	 * prediction; the address is for backtraces, which end in this frame. */
	leaq	1f(%rip), %rax
	pushq	%rax
	.cfi_adjust_cfa_offset 8
	jmp	fiberrt_fiber_ended
	.cfi_adjust_cfa_offset -8
	nop
1:	ud2
	.cfi_endproc
	.size	fiberrt_entry, .-fiberrt_entry

	.section .rodata
	.p2align 2
default_mxcsr:
	.long	0x1f80
default_x87_control:
	.word	0x037f

/* The unwinder reads the personality's address from here, relative to its own table: no text relocation. */
	.section .data.rel.ro.local, "aw", @progbits
	.p2align 3
	.hidden	fiberrt_personality_pointer
fiberrt_personality_pointer:
	.quad	fiberrt_personality

	.section .note.GNU-stack, "", @progbits
