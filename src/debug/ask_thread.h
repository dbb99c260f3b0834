// SPDX-License-Identifier: MIT OR Apache-2.0
// Asks the thread of a cord for its backtrace, by a signal: only the thread itself can follow the stack that it runs
// on. The watchdog and dumps ask, if the program has given them a signal for it.
#pragma once

#include "debug/handlers.h"

#include <stdint.h>

namespace fiberrt {

constexpr int signal_most = 64; // the largest that the kernel has

// A signal whose handler answers. The owner calls begin() and end() under the same mutex.
class AskSignal {
public:
    // Call it first, without a mutex, because it may take locks of the loader. 0; -EINVAL: no such signal, or one that
    // instructions raise.
    static int prepare(int signal);

    // Installs the handler, and lets threads whose cords are opened from now on take the signal, on a signal stack. 0;
    // -EINVAL: no such signal; -EBUSY: the program has a handler for it; -ENOTSUP.
    int begin(int signal);

    // Removes the handler when no question is under way. 0; -EBUSY: another handler has been installed since, so it
    // stays.
    int end();

    bool in_use() const { return number_ != 0; }

private:
    friend struct Question;

    Relaxed<int> number_; // 0: none
    SignalHandler handler_;
};

struct ThreadFrames {
    static constexpr int most = 64;
    void* frames[most]; // as backtrace(3) has them, from within the handler
    int first;          // the first of them that is not the handler's
    int count;
};

// A question to the thread of a cord.
struct Question {
    Cord& cord;
    AskSignal& signal;
    // Whether the answer is still wanted: the thread itself calls it, in the handler. what: as below.
    bool (*applies)(const Cord& cord, const void* what);
    const void* what;
    int64_t timeout_ns;

    enum class Result : uint8_t {
        answered,
        not_wanted, // applies() has returned false
        silent,     // the thread has not answered in time
        no_stack,   // the thread has no signal stack, or a small one: it is not asked
    };
    Result ask(ThreadFrames& out) const;
};

// Whether instructions raise the signal: a handler of the library's must not take it.
bool is_raised_by_instructions(int signal);

// For fork: between lock and unlock, no thread asks. ask_forked is for the child.
void ask_lock();
void ask_unlock();
void ask_forked();

} // namespace fiberrt
