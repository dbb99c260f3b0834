// SPDX-License-Identifier: MIT OR Apache-2.0
// Signal handlers, and the alternate signal stacks of threads with cords. The library installs a handler only when the
// program turns on a feature that needs it: debug/overflow.h, debug/watchdog.h, debug/dump_signal.h or
// debug/running_frames.h.
//
// A handler passes signals that are not for it to the previous handler, and remove() restores that handler.
#pragma once

#include "base/relaxed.h"

#include <signal.h>

namespace fiberrt {

struct Cord;

// A handler that replaces the previous one. The owner calls install() and remove() under a mutex; the handler itself
// may call pass_on() and in_use().
class SignalHandler {
public:
    // Installs the handler, unless it is in use. If the program has removed it since (SIG_DFL, SIG_IGN), installs it
    // again. `alone`: only if the program has no handler for the signal, else -EBUSY. -EINVAL: no such signal;
    // -ENOTSUP: sigaction has not installed it (a sanitizer may keep a signal for itself).
    int install(int signal, void (*handler)(int, siginfo_t*, void*), bool alone);

    // Restores the previous handler. -EBUSY: another handler has replaced this one and may call it, so this one stays.
    // If it was installed `alone`, signals that are pending are dropped.
    int remove();

    // Does what the previous handler or the default action would have done. Called by the handler.
    void pass_on(int signal, siginfo_t* info, void* context) const;

    bool in_use() const { return signal_ != 0; }

private:
    bool is_there() const;

    Relaxed<int> signal_; // 0: none is installed
    bool alone_ = false;
    struct sigaction ours_ = {};
    struct sigaction before_ = {};
};

// Begin and end the need for signal stacks: a handler cannot run on the stack of a fiber. While a feature needs them,
// each thread that becomes a cord gets one if it has none.
void signal_stacks_want();
void signal_stacks_want_no_more();

// From now on, threads whose cords begin unblock the signal; or no longer.
void unblock_for_cords(int signal);
void unblock_for_cords_no_more(int signal);

// Gives the calling thread a signal stack, if it has none. cord: the thread's. 0; -ENOMEM.
int signal_stack_give(Cord& cord);

} // namespace fiberrt
