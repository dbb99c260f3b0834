// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package ctest

/*
#include "fibers.h"
*/
import "C"

// C's functions for fibers, int64_t (*)(void *).
var (
	Same         = C.ctest_same          // arg: *int64, its result
	Nothing      = C.ctest_nothing       // 0
	GivesWay     = C.ctest_gives_way     // once
	Sleeps       = C.ctest_sleeps        // arg: *int64, nanoseconds
	Waits        = C.ctest_waits         // until it is woken or cancelled
	Leaves       = C.ctest_leaves        // by fiber_exit, with 17
	PutsUp       = C.ctest_puts_up       // waits until it is cancelled, then returns 42
	InTime       = C.ctest_in_time       // arg: *int64, nanoseconds after which its scope ends the wait
	LeavesStrays = C.ctest_leaves_strays // arg: *int32, to which each of three fibers adds 1 when it is cancelled
	ShutsDown    = C.ctest_shuts_down    // the cord, and returns how many fibers are left
	Signals      = C.ctest_signals       // 0 if the thread has them blocked, and has a stack for those it raises
	Overflows    = C.ctest_overflows     // its stack
	Calls        = C.ctest_calls         // arg: *[2]unsafe.Pointer, a function and its argument
	Doubles      = C.ctest_doubles       // arg: *[2]uint64, channels of int64; returns how many were passed on
)
