// SPDX-License-Identifier: MIT OR Apache-2.0
// Linked with a test program and the library's objects: makes the ring refuse operations while it is in use, as
// older kernels do. FIBERRT_TEST_REFUSED_OPS is a number with a bit for each OpCode. Exits with 77 where there is no
// ring.
#include "backend/backends.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

const bool refused = [] {
    const char *ops = std::getenv("FIBERRT_TEST_REFUSED_OPS");
    if (!ops) std::abort(); // without it the tests would prove nothing
    if (syscall(SYS_io_uring_setup, 1, nullptr) < 0 && errno != EFAULT) {
        std::puts("the kernel refuses io_uring itself");
        std::exit(77);
    }
    fiberrt::uring_refused_ops = static_cast<uint32_t>(std::strtoul(ops, nullptr, 0));
    return true;
}();

} // namespace
