// SPDX-License-Identifier: MIT OR Apache-2.0
// The semaphores of the static probes. In assembly, because the semaphores have different names, and a poll reads all
// of them at once.
#include "core/probes.h"

#if defined FIBERRT_HAVE_SDT
#define FIBERRT_HIDDEN(name) ".globl " name "\n.hidden " name "\n" name ":\n"
#define FIBERRT_SEMAPHORE(probe) FIBERRT_HIDDEN("fiberrt_" #probe "_semaphore") ".2byte 0\n"
__asm__(".pushsection .probes, \"aw\", %progbits\n"
        ".balign 16\n" FIBERRT_HIDDEN("fiberrt_probe_semaphores") FIBERRT_PROBES(FIBERRT_SEMAPHORE) ".2byte 0\n"
                                                                                                    ".popsection\n");
#endif

namespace fiberrt {

constinit Relaxed<bool> probes_fire;
constinit Relaxed<void (*)(bool)> probes_follow;

} // namespace fiberrt
