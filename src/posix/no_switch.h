// SPDX-License-Identifier: MIT OR Apache-2.0
// A section in which calls of adopted libraries block the thread, because the caller may hold a lock of the dynamic
// linker, and such a lock belongs to the thread.
#pragma once

#include "fiberrt.h"

namespace fiberrt::posix {

class NoSwitch {
public:
    NoSwitch() : entered_(fiber_here() && fiber_noswitch_enter() == 0) {}
    ~NoSwitch() {
        if (entered_) (void)fiber_noswitch_leave();
    }
    NoSwitch(const NoSwitch&) = delete;
    NoSwitch& operator=(const NoSwitch&) = delete;

private:
    bool entered_;
};

} // namespace fiberrt::posix
