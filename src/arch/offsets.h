/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where the assembly finds the members of Fiber and Cord that it touches; core/switch.h asserts each of them. */
#ifndef FIBERRT_ARCH_OFFSETS_H
#define FIBERRT_ARCH_OFFSETS_H

#define FIBER_SP 0
#define FIBER_RESUME 8
#define FIBER_CONTROLS 16 /* 12 bytes, which the switch of each architecture uses in its own way */
#define FIBER_MARKS 28

#define CORD_ERRNO 0
#define CORD_EXCEPTIONS 8
#define CORD_CURRENT 16

#endif
