// SPDX-License-Identifier: MIT OR Apache-2.0
// Reports of stack overflows, if the program asks for them (fiber_report_overflows). A handler of SIGSEGV, on the
// thread's signal stack, prints the name of the fiber whose stack has overflowed; then the program dies as it would
// have without it.
#pragma once

namespace fiberrt {

// Installs or removes the handler. 0, -EBUSY, -ENOTSUP, -ENOMEM.
int overflow_reports(bool on);

// For fork: between lock and unlock, no thread installs or removes the handler.
void overflow_lock();
void overflow_unlock();

} // namespace fiberrt
