// SPDX-License-Identifier: MIT OR Apache-2.0
// Handlers of signals, which the library has only when the program asks for what needs them (debug/overflow.h,
// debug/watchdog.h), and the stacks that threads of fibers have for them.
//
// Whoever had the signal before gets what is not ours, and gets the signal back in the end.
#pragma once

#include "base/relaxed.h"

#include <signal.h>

namespace fiberrt {

struct Cord;

// A handler in the place of the one before. Under a mutex of the owner's, but for pass_on and `in_use`.
class SignalHandler {
public:
    // What is already there stays as long as it is in use; if the program has taken it away (SIG_DFL, SIG_IGN), it is
    // put there anew. `alone`: only if the program has no handler of its own for it, else -EBUSY. -EINVAL: no such
    // signal; -ENOTSUP: somebody in between has kept it to himself.
    int install(int signal, void (*handler)(int, siginfo_t*, void*), bool alone);

    // -EBUSY: another handler has been put in the place of this one, and may call it: so it stays. Of one that was
    // installed `alone` signals that have been sent and have not come never will.
    int remove();

    // What was there before does what it would have done. From the handler.
    void pass_on(int signal, siginfo_t* info, void* context) const;

    bool in_use() const { return signal_ != 0; }

private:
    bool is_there() const;

    Relaxed<int> signal_; // 0: none is installed
    bool alone_ = false;
    struct sigaction ours_ = {};
    struct sigaction before_ = {};
};

// Which threads of fibers need a stack for handlers: one that is not the fiber's. While there is one who wants them,
// threads that become cords get one, if they have none yet.
void signal_stacks_want();
void signal_stacks_want_no_more();

// A signal that cords unblock on their threads when they begin; 0: none.
extern Relaxed<int> signal_of_cords;
void unblock_for_cords(int signal); // sets it

int signal_stack_give(Cord& cord); // for the calling thread, its cord's. 0; -ENOMEM

} // namespace fiberrt
