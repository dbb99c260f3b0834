/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Planted bugs. A test compiles one file of the library with -DPLANTED_name, to see that a fuzz target
 * (fuzz/CMakeLists.txt) or the simulation (tests/sim.cmake) finds the bug of that name. PLANTED(name) is 1 there; in
 * every other build it is 0, and the compiler drops the bug. Assembly asks by #if.
 */
#ifndef FIBERRT_BASE_PLANTED_H
#define FIBERRT_BASE_PLANTED_H

/* PLANTED_name is 1, or no macro. Only PLANTED_COMMA_1 is a macro, whose comma makes the 1 behind it the second. */
#define PLANTED(name) PLANTED_VALUE(PLANTED_##name)
#define PLANTED_VALUE(value) PLANTED_PASTE(value)
#define PLANTED_PASTE(value) PLANTED_CHOICE(PLANTED_COMMA_##value)
#define PLANTED_COMMA_1 0,
#define PLANTED_CHOICE(comma) PLANTED_SECOND(comma 1, 0, 0)
#define PLANTED_SECOND(first, second, ...) second

#endif
