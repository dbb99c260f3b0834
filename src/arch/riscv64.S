/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The switch for RISC-V 64 (lp64d ABI): the state that a parked fiber keeps, and how the fiber continues. core/switch.h
 * declares the four functions.
 *
 * A parked fiber's stack ends, towards low addresses, with this frame; Fiber.sp points to its low end:
 *
 *      +0   rounding mode (4 bytes)   +4  errno (4)
 *      +8   fs0    +16 fs1    +24 fs2    +32 fs3    +40 fs4    +48 fs5
 *      +56  fs6    +64 fs7    +72 fs8    +80 fs9    +88 fs10   +96 fs11
 *      +104 s1     +112 s2    +120 s3    +128 s4    +136 s5    +144 s6    +152 s7    +160 s8    +168 s9    +176 s10
 *      +184 s11
 *      +192 s0     +200 ra, the return address of the call that gave way: a frame record
 *      +208 the caller's stack pointer before the call
 *
 * The state of C++ exceptions (the list of caught ones and the count of uncaught ones) is moved only if it is not zero.
 * A switch then stores the leaving fiber's state in the Fiber, clears the thread's state, and marks the fiber. When a
 * marked fiber continues, its state is put back. A fiber that continues clears all its marks: debug/look.h has another
 * one. The rounding mode is the only control in fcsr, and is written only if
 * the two fibers' modes differ. A call need not preserve the status flags in fcsr, nor vector registers and their
 * control.
 *
 * How a fiber continues: if its address equals the one that the leaving fiber was called from, by `ret`, which the
 * processor predicts rightly. Otherwise that prediction would be wrong, and a jump through a register that the
 * architecture does not take for a return is predicted as a jump. (t2: jumps through it need no landing pad where
 * Zicfilp checks others, and a return address has none. The choice was measured on x86-64, not here.)
 *
 * The frame has the same shape on both stacks, so the CFI stays true across the change of the stack pointer.
 */
#include "arch/offsets.h"

#if !defined __riscv_float_abi_double || __riscv_xlen != 64
#error "this switch is for the lp64d ABI"
#endif

#define FRAME_SIZE 208

	.text

	.macro save_integer register, at
	sd	\register, \at(sp)
	.cfi_rel_offset \register, \at
	.endm

	.macro save_float register, at
	fsd	\register, \at(sp)
	.cfi_rel_offset \register, \at
	.endm

	.macro load_integer register, at
	ld	\register, \at(sp)
	.cfi_restore \register
	.endm

	.macro load_float register, at
	fld	\register, \at(sp)
	.cfi_restore \register
	.endm

/* Where a register is, in a frame that sp points to. */
	.macro saved register, at
	.cfi_rel_offset \register, \at
	.endm

/* All but ra, which each user treats in its own way. */
	.macro each_register do_integer, do_float
	\do_integer	s0, 192
	\do_integer	s1, 104
	\do_integer	s2, 112
	\do_integer	s3, 120
	\do_integer	s4, 128
	\do_integer	s5, 136
	\do_integer	s6, 144
	\do_integer	s7, 152
	\do_integer	s8, 160
	\do_integer	s9, 168
	\do_integer	s10, 176
	\do_integer	s11, 184
	\do_float	fs0, 8
	\do_float	fs1, 16
	\do_float	fs2, 24
	\do_float	fs3, 32
	\do_float	fs4, 40
	\do_float	fs5, 48
	\do_float	fs6, 56
	\do_float	fs7, 64
	\do_float	fs8, 72
	\do_float	fs9, 80
	\do_float	fs10, 88
	\do_float	fs11, 96
	.endm

/* Saves the frame of the caller of the function. In: a0 cord, a2 from. Leaves the rounding mode in t0, errno's address
 * in t1, the address of the thread's exception state in t3, and ra as it was. Uses t2, t4-t6. */
	.macro save_frame
	addi	sp, sp, -FRAME_SIZE
	.cfi_adjust_cfa_offset FRAME_SIZE
	save_integer	ra, 200
	each_register	save_integer, save_float
	frrm	t0
	ld	t1, CORD_ERRNO(a0)
	lw	t2, 0(t1)
	sw	t0, 0(sp)
	sw	t2, 4(sp)
	ld	t3, CORD_EXCEPTIONS(a0)
	ld	t4, 0(t3)
	lwu	t5, 8(t3)
	or	t6, t4, t5
	bnez	t6, 80f
81:
	.endm

/* The rare half of save_frame, placed after the function's end. */
	.macro save_exceptions
80:
	li	t6, 1
	sd	t4, FIBER_CONTROLS(a2)
	sw	t5, FIBER_CONTROLS + 8(a2)
	sb	t6, FIBER_MARKS(a2)
	sd	zero, 0(t3)
	sw	zero, 8(t3)
	j	81b
	.endm

/* Loads the state of the fiber whose frame sp points to. In: a1 to; t0, t1 and t3 as above. */
	.macro load_control
	lw	t2, 0(sp)
	lw	t4, 4(sp)
	lbu	t5, FIBER_MARKS(a1)
	sw	t4, 0(t1)
	bne	t2, t0, 82f
83:
	bnez	t5, 84f
85:
	lw	a0, FIBER_RESUME(a1)
	.endm

	.macro load_control_rarely
82:
	fsrm	t2
	j	83b
84:
	andi	t5, t5, 1 /* mark_exceptions */
	beqz	t5, 86f
	ld	t4, FIBER_CONTROLS(a1)
	lw	t5, FIBER_CONTROLS + 8(a1)
	sd	t4, 0(t3)
	sw	t5, 8(t3)
86:
	sb	zero, FIBER_MARKS(a1)
	j	85b
	.endm

/* Leaves the address to continue at in t2; ra is as it was. */
	.macro load_registers
	each_register	load_integer, load_float
	ld	t2, 200(sp)
	.cfi_register ra, t2
	addi	sp, sp, FRAME_SIZE
	.cfi_adjust_cfa_offset -FRAME_SIZE
	.endm

	.macro function name
	.globl	\name
	.hidden	\name
	.type	\name, %function
	.p2align 6
\name:
	.endm

/* int fiberrt_switch(Cord *cord, Fiber *to, Fiber *from)
 * Parks from and continues to: returns to->resume there. */
	function fiberrt_switch
	.cfi_startproc
	ld	a3, FIBER_SP(a1)
	save_frame
	sd	sp, FIBER_SP(a2)
	sd	a1, CORD_CURRENT(a0)
	mv	sp, a3
	load_control
	.cfi_remember_state
	load_registers
	bne	t2, ra, 1f
	ret
1:	jr	t2
	.cfi_restore_state
	save_exceptions
	load_control_rarely
	.cfi_endproc
	.size	fiberrt_switch, .-fiberrt_switch

/* int fiberrt_leave(Cord *cord, Fiber *to)
 * Continues to; no switch returns to the running fiber. */
	function fiberrt_leave
	.cfi_startproc
	.cfi_undefined ra
	frrm	t0
	ld	t1, CORD_ERRNO(a0)
	ld	t3, CORD_EXCEPTIONS(a0)
	ld	sp, FIBER_SP(a1)
	.cfi_adjust_cfa_offset FRAME_SIZE
	saved	ra, 200
	each_register	saved, saved
	load_control
	.cfi_remember_state
	load_registers
	mv	ra, t2
	.cfi_restore ra
	ret
	.cfi_restore_state
	load_control_rarely
	.cfi_endproc
	.size	fiberrt_leave, .-fiberrt_leave

/* int fiberrt_start(Cord *cord, Fiber *to, Fiber *from, void *top, void *(*fn)(void *), void *arg)
 * Parks from, and calls fn(arg) for the new fiber to on the stack that ends at top (a multiple of 16). */
	function fiberrt_start
	.cfi_startproc
	save_frame
	sd	sp, FIBER_SP(a2)
	sd	a1, CORD_CURRENT(a0)
	mv	s1, a1
	mv	a0, a5
	.cfi_remember_state
	mv	sp, a3
	.cfi_undefined ra
	j	fiberrt_entry
	.cfi_restore_state
	save_exceptions
	.cfi_endproc
	.size	fiberrt_start, .-fiberrt_start

/* int fiberrt_leave_start(Cord *cord, Fiber *to, void *top, void *(*fn)(void *), void *arg)
 * Calls fn(arg) for the new fiber to; no switch returns to the running fiber, which may have run on the same stack. */
	function fiberrt_leave_start
	.cfi_startproc
	.cfi_undefined ra
	frrm	t0
	ld	t1, CORD_ERRNO(a0)
	mv	s1, a1
	mv	a0, a4
	mv	a4, a3
	mv	sp, a2
	j	fiberrt_entry
	.cfi_endproc
	.size	fiberrt_leave_start, .-fiberrt_leave_start

/* The first frame of every fiber. In: s1 the fiber, a4 its function, a0 the argument, t0 the rounding mode, t1 errno's
 * address, sp the top of the stack. Here unwinding ends: the return address is undefined. For an uncaught exception the
 * C++ runtime calls this frame's personality routine last; it prints the fiber's name, and the runtime terminates with
 * the stack intact. */
	function fiberrt_entry
	.cfi_startproc
	.cfi_personality 0x9b, fiberrt_personality_pointer
	.cfi_undefined ra
	li	s0, 0
	sw	zero, 0(t1)
	beqz	t0, 1f
	fsrm	zero
1:	jalr	a4
	mv	a1, a0
	mv	a0, s1
	/* A jump, with a return address set by hand. A call, which never returns, would unbalance the return
	 * prediction; the address is for backtraces, which end in this frame. */
	lla	ra, 2f
	tail	fiberrt_fiber_ended
	nop
2:	unimp
	.cfi_endproc
	.size	fiberrt_entry, .-fiberrt_entry

	/* The unwinder reads the personality's address from here, relative to its own table: no text relocation. */
	.section .data.rel.ro.local, "aw", %progbits
	.p2align 3
	.hidden	fiberrt_personality_pointer
fiberrt_personality_pointer:
	.dword	fiberrt_personality

	.section .note.GNU-stack, "", %progbits
