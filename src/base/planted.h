/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Planted bugs, which a fuzz target (fuzz/CMakeLists.txt) or the simulation (tests/sim.cmake) must find. CMake
 * (cmake/planted.cmake) compiles the one file with the marker with -DPLANTED_name into the test's program. There
 * PLANTED(name) is 1; in every other build it is 0, and the compiler drops the bug. Assembly uses #if PLANTED(name).
 */
#ifndef FIBERRT_BASE_PLANTED_H
#define FIBERRT_BASE_PLANTED_H

/*
 * With -DPLANTED_name the pasted name is PLANTED_COMMA_1, which expands to `0,` and moves the 1 to second place.
 * Otherwise the pasted name is no macro, and the second argument is 0.
 */
#define PLANTED(name) PLANTED_VALUE(PLANTED_##name)
#define PLANTED_VALUE(value) PLANTED_PASTE(value)
#define PLANTED_PASTE(value) PLANTED_CHOICE(PLANTED_COMMA_##value)
#define PLANTED_COMMA_1 0,
#define PLANTED_CHOICE(comma) PLANTED_SECOND(comma 1, 0, 0)
#define PLANTED_SECOND(first, second, ...) second

#endif
