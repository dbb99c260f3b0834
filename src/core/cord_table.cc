// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of all cords' records. core/cord.cc takes records and gives them back.
#include "core/cord.h"

#include <pthread.h>

namespace fiberrt {

thread_local constinit Cord* this_cord = nullptr;
constinit CordTable cords;
constinit Relaxed<bool> fork_refused;
constinit Relaxed<const ThreadObserver*> thread_observer;
constinit Relaxed<CreationObserver> creation_observer;
constinit Relaxed<RecorderBegins> recorder_begins;

namespace {

constinit pthread_mutex_t free_cords_mutex = PTHREAD_MUTEX_INITIALIZER;
constinit FreeSlots<Cord> free_cords;

} // namespace

int cord_allocate(Cord** out) {
    pthread_mutex_lock(&free_cords_mutex);
    int error = cords.take(free_cords, out);
    if (!error) { // under the mutex, which a fork by another thread takes: so the child finds it whole
        static_cast<CordWorld&>(**out) = CordWorld{};
        (*out)->loop.fd = -1;
    }
    pthread_mutex_unlock(&free_cords_mutex);
    return error;
}

void cord_free(Cord* cord) {
    pthread_mutex_lock(&free_cords_mutex);
    cords.give_back(free_cords, cord);
    pthread_mutex_unlock(&free_cords_mutex);
}

void cords_lock() {
    pthread_mutex_lock(&free_cords_mutex);
    cords.lock();
}

void cords_unlock() {
    cords.unlock();
    pthread_mutex_unlock(&free_cords_mutex);
}

void cords_forked(Cord* own) {
    free_cords = {};
    cords.reclaim([&](Cord* cord) {
        if (cord == own) return true;
        bool in_use = cord->generation.load(std::memory_order_relaxed) & 1;
        if (in_use) CordTable::end_use(cord);
        cord->lost |= in_use;
        cord->inbox.close_unread();
        cord->lock.reset();
        cord->joiners = {};
        return cord->lost;
    });
}

} // namespace fiberrt
