// SPDX-License-Identifier: MIT OR Apache-2.0
// A condition variable: a list of waiters, which hold a mutex before and after their waits.
#pragma once

#include "sync/mutex.h"

namespace fiberrt {

struct Cond : Waiters {};

// A signal that has reached a waiter counts, whatever else happens before the waiter runs again.
int cond_wait(Cond& cond, Mutex& mutex, Caller caller, int64_t timeout_ns);
void cond_signal(Cond& cond);
void cond_broadcast(Cond& cond);

} // namespace fiberrt
