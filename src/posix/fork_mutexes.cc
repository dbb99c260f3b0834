// SPDX-License-Identifier: MIT OR Apache-2.0
// fork's handlers for the mutexes of this folder. No thread holds two of them at once, and while a thread holds one, it
// takes no lock of the rest of the library. So the handlers may take them before or after the library's own locks.
#include "posix/fork_mutexes.h"

#include "base/try_once.h"

namespace fiberrt::posix {

namespace {

constexpr int count = int(Guarded::count);
constinit pthread_mutex_t mutexes[count] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                            PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static_assert(count == 4);

void lock_all() {
    for (int i = 0; i < count; i++) ::pthread_mutex_lock(&mutexes[i]);
}

void unlock_all() {
    for (int i = 0; i < count; i++) ::pthread_mutex_unlock(&mutexes[i]);
}

} // namespace

pthread_mutex_t& mutex_of(Guarded what) { return mutexes[int(what)]; }

bool take_part_in_forks() {
    static constinit TryOnce registered;
    return registered([] { return pthread_atfork(lock_all, unlock_all, unlock_all) == 0; });
}

} // namespace fiberrt::posix
