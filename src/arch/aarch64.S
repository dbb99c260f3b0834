/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The switch for AArch64 (AAPCS64): the state that a parked fiber keeps, and how the fiber continues. core/switch.h
 * declares the four functions.
 *
 * A parked fiber's stack ends, towards low addresses, with this frame; Fiber.sp points to its low end:
 *
 *      +0   x29    +8  x30, the return address of the call that gave way, signed: a frame record
 *      +16  x19    +24 x20    +32 x21    +40 x22    +48 x23    +56 x24    +64 x25    +72 x26    +80 x27    +88 x28
 *      +96  d8     +104 d9    +112 d10   +120 d11   +128 d12   +136 d13   +144 d14   +152 d15
 *      +160 FPCR (4 bytes)   +164 errno (4)   +168 unused
 *      +176 the caller's stack pointer before the call
 *
 * The state of C++ exceptions (the list of caught ones and the count of uncaught ones) is moved only if it is not zero.
 * A switch then stores the leaving fiber's state in the Fiber, clears the thread's state, and marks the fiber. When a
 * marked fiber continues, its state is put back. A fiber that continues clears all its marks: debug/look.h has another
 * one. FPCR is written only if the two fibers' values differ: a write drains
 * the pipeline of many processors. A call need not preserve the flags in FPSR, nor vector and predicate registers
 * beyond d8-d15. x18 is the platform's. The state of SME, with its matrix registers, is not moved.
 *
 * How a fiber continues: always by `ret`. A jump would avoid a wrong return prediction where two call sites alternate.
 * But a return address has no landing pad, so `br` to it faults where the user's code is protected by BTI, and the
 * architecture exempts no jump except `ret`.
 *
 * Return addresses are signed before they are stored (with the caller's stack pointer, as compilers do and the unwinder
 * expects) and authenticated when they are loaded, if the compiler is told to do so in its own code.
 *
 * The frame has the same shape on both stacks, so the CFI stays true across the change of the stack pointer.
 */
#include "arch/offsets.h"

#define FRAME_SIZE 176
#define FRAME_CONTROL 160

	.text

#ifdef __ARM_FEATURE_PAC_DEFAULT
#define FEATURE_PAC 2
	.macro sign /* is a landing pad too */
	paciasp
	.cfi_negate_ra_state
	.endm
	.macro authenticate
	autiasp
	.cfi_negate_ra_state
	.endm
	.macro signed_already
	.cfi_negate_ra_state
	.endm
#else
#define FEATURE_PAC 0
	.macro sign
	hint	#34 /* bti c */
	.endm
	.macro authenticate
	.endm
	.macro signed_already
	.endm
#endif

#ifdef __ARM_FEATURE_BTI_DEFAULT
#define FEATURE_BTI 1
#else
#define FEATURE_BTI 0
#endif

	.macro save_pair first, second, at
	stp	\first, \second, [sp, #\at]
	.cfi_rel_offset \first, \at
	.cfi_rel_offset \second, \at + 8
	.endm

	.macro load_pair first, second, at
	ldp	\first, \second, [sp, #\at]
	.cfi_restore \first
	.cfi_restore \second
	.endm

/* Where the registers are, in a frame that sp points to: said at once. */
	.macro saved_pair first, second, at
	.cfi_rel_offset \first, \at
	.cfi_rel_offset \second, \at + 8
	.endm

	.macro each_pair do
	\do	x19, x20, 16
	\do	x21, x22, 32
	\do	x23, x24, 48
	\do	x25, x26, 64
	\do	x27, x28, 80
	\do	d8, d9, 96
	\do	d10, d11, 112
	\do	d12, d13, 128
	\do	d14, d15, 144
	.endm

/* Saves the frame of the caller of the function. In: x0 cord, x2 from. Leaves FPCR in w9, errno's address in x10 and
 * the address of the thread's exception state in x11. Uses x12-x15. */
	.macro save_frame
	stp	x29, x30, [sp, #-FRAME_SIZE]!
	.cfi_adjust_cfa_offset FRAME_SIZE
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	each_pair save_pair
	mrs	x9, fpcr
	ldr	x10, [x0, #CORD_ERRNO]
	ldr	w12, [x10]
	stp	w9, w12, [sp, #FRAME_CONTROL]
	ldr	x11, [x0, #CORD_EXCEPTIONS]
	ldr	x13, [x11]
	ldr	w14, [x11, #8]
	orr	x15, x13, x14
	cbnz	x15, 80f
81:
	.endm

/* The rare half of save_frame, placed after the function's end. */
	.macro save_exceptions
80:
	mov	w15, #1
	str	x13, [x2, #FIBER_CONTROLS]
	str	w14, [x2, #FIBER_CONTROLS + 8]
	strb	w15, [x2, #FIBER_MARKS]
	str	xzr, [x11]
	str	wzr, [x11, #8]
	b	81b
	.endm

/* Loads the state of the fiber whose frame sp points to. In: x1 to; w9, x10 and x11 as above. */
	.macro load_control
	ldp	w12, w13, [sp, #FRAME_CONTROL]
	str	w13, [x10]
	ldrb	w14, [x1, #FIBER_MARKS]
	cmp	w12, w9
	b.ne	82f
83:
	cbnz	w14, 84f
85:
	ldr	w0, [x1, #FIBER_RESUME]
	.endm

	.macro load_control_rarely
82:
	msr	fpcr, x12
	b	83b
84:
	tbz	w14, #0, 86f /* mark_exceptions */
	ldr	x13, [x1, #FIBER_CONTROLS]
	ldr	w14, [x1, #FIBER_CONTROLS + 8]
	str	x13, [x11]
	str	w14, [x11, #8]
86:
	strb	wzr, [x1, #FIBER_MARKS]
	b	85b
	.endm

	.macro load_registers
	each_pair load_pair
	ldp	x29, x30, [sp], #FRAME_SIZE
	.cfi_adjust_cfa_offset -FRAME_SIZE
	.cfi_restore x29
	.cfi_restore x30
	authenticate
	.endm

	.macro function name
	.globl	\name
	.hidden	\name
	.type	\name, %function
	.p2align 6
\name:
	.endm

/* int fiberrt_switch(Cord *cord, Fiber *to, Fiber *from)
 * Parks from, goes on with to; returns in it with to->resume. */
	function fiberrt_switch
	.cfi_startproc
	sign
	ldr	x3, [x1, #FIBER_SP]
	save_frame
	mov	x4, sp
	str	x4, [x2, #FIBER_SP]
	str	x1, [x0, #CORD_CURRENT]
	mov	sp, x3
	load_control
	.cfi_remember_state
	load_registers
	ret
	.cfi_restore_state
	save_exceptions
	load_control_rarely
	.cfi_endproc
	.size	fiberrt_switch, .-fiberrt_switch

/* int fiberrt_leave(Cord *cord, Fiber *to)
 * Goes on with to; what ran is never returned to. */
	function fiberrt_leave
	.cfi_startproc
	.cfi_undefined x30
	hint	#34 /* bti c */
	ldr	x3, [x1, #FIBER_SP]
	mrs	x9, fpcr
	ldr	x10, [x0, #CORD_ERRNO]
	ldr	x11, [x0, #CORD_EXCEPTIONS]
	mov	sp, x3
	.cfi_adjust_cfa_offset FRAME_SIZE
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	each_pair saved_pair
	signed_already
	load_control
	.cfi_remember_state
	load_registers
	ret
	.cfi_restore_state
	load_control_rarely
	.cfi_endproc
	.size	fiberrt_leave, .-fiberrt_leave

/* int fiberrt_start(Cord *cord, Fiber *to, Fiber *from, void *top, void *(*fn)(void *), void *arg)
 * Parks from, and calls fn(arg) for the new fiber to on the stack that ends at top (a multiple of 16). */
	function fiberrt_start
	.cfi_startproc
	sign
	save_frame
	mov	x6, sp
	str	x6, [x2, #FIBER_SP]
	str	x1, [x0, #CORD_CURRENT]
	mov	x19, x1
	mov	x0, x5
	.cfi_remember_state
	mov	sp, x3
	.cfi_undefined x30
	b	fiberrt_entry
	.cfi_restore_state
	save_exceptions
	.cfi_endproc
	.size	fiberrt_start, .-fiberrt_start

/* int fiberrt_leave_start(Cord *cord, Fiber *to, void *top, void *(*fn)(void *), void *arg)
 * Calls fn(arg) for the new fiber to; no switch returns to the running fiber, which may have run on the same stack. */
	function fiberrt_leave_start
	.cfi_startproc
	.cfi_undefined x30
	hint	#34 /* bti c */
	mrs	x9, fpcr
	ldr	x10, [x0, #CORD_ERRNO]
	mov	x19, x1
	mov	x0, x4
	mov	x4, x3
	mov	sp, x2
	b	fiberrt_entry
	.cfi_endproc
	.size	fiberrt_leave_start, .-fiberrt_leave_start

/* The first frame of every fiber. In: x19 the fiber, x4 its function, x0 the argument, w9 FPCR, x10 errno's address, sp
 * the top of the stack. Here unwinding ends: the return address is undefined. For an uncaught exception the C++ runtime
 * calls this frame's personality routine last; it prints the fiber's name, and the runtime terminates with the stack
 * intact. Only direct jumps come here, so there is no landing pad. */
	function fiberrt_entry
	.cfi_startproc
	.cfi_personality 0x9b, fiberrt_personality_pointer
	.cfi_undefined x30
	mov	x29, xzr
	str	wzr, [x10]
	cbz	w9, 1f
	msr	fpcr, xzr
1:	blr	x4
	mov	x1, x0
	mov	x0, x19
	/* A jump, with a return address set by hand. A call, which never returns, would unbalance the return
	 * prediction; the address is for backtraces, which end in this frame. */
	adr	x30, 2f
	b	fiberrt_fiber_ended
	nop
2:	brk	#1
	.cfi_endproc
	.size	fiberrt_entry, .-fiberrt_entry

	/* The unwinder reads the personality's address from here, relative to its own table: no text relocation. */
	.section .data.rel.ro.local, "aw", %progbits
	.p2align 3
	.hidden	fiberrt_personality_pointer
fiberrt_personality_pointer:
	.xword	fiberrt_personality

	/* Declares the protections that this code supports, as the compiler does for other objects. (Never GCS: the
	 * switch moves no shadow stack.) */
#if FEATURE_BTI || FEATURE_PAC
	.section .note.gnu.property, "a", %note
	.p2align 3
	.word	4, 16, 5 /* sizes of the name and of the property; NT_GNU_PROPERTY_TYPE_0 */
	.asciz	"GNU"
	.word	0xc0000000, 4, FEATURE_BTI | FEATURE_PAC, 0 /* GNU_PROPERTY_AARCH64_FEATURE_1_AND; padding */
#endif

	.section .note.GNU-stack, "", %progbits
