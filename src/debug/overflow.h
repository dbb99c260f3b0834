// SPDX-License-Identifier: MIT OR Apache-2.0
// The report of a fiber whose stack has overflowed, if the program asks for it: a handler of SIGSEGV on a stack of its
// own that names the fiber and then lets the program die as it would have.
#pragma once

namespace fiberrt {

int overflow_reports(bool on); // 0, -EBUSY, -ENOTSUP, -ENOMEM

// Around a fork.
void overflow_hold();
void overflow_let_go();

} // namespace fiberrt
