// SPDX-License-Identifier: MIT OR Apache-2.0
// A condition variable: a list of waiters, which hold a mutex before and after the wait.
#pragma once

#include "sync/mutex.h"

namespace fiberrt {

struct Cond : Waiters {};

// Unlocks the mutex, waits, and locks it again. 0; -EOWNERDEAD: from the lock; or why the wait ended early. Once a
// signal has reached the waiter, the wait succeeds, even if a cancel comes before the waiter runs.
int cond_wait(Cond& cond, Mutex& mutex, Caller caller, int64_t timeout_ns);
void cond_signal(Cond& cond);
void cond_broadcast(Cond& cond);

} // namespace fiberrt
