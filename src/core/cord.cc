// SPDX-License-Identifier: MIT OR Apache-2.0
// How cords are opened and how they end, with their threads.
#include "core/cord.h"

#include "base/check.h"
#include "base/keep_errno.h"
#include "core/hooks.h"
#include "core/life.h"
#include "core/locals.h"
#include "io/backend.h"

#include <cxxabi.h>
#include <errno.h>
#include <new>
#include <pthread.h>
#include <stdlib.h>

namespace fiberrt {

thread_local constinit Cord* this_cord = nullptr;

namespace {

pthread_key_t thread_exit_key;
bool thread_exit_key_made;

void cord_free(Cord* cord) {
    fibers.give_back_all(cord->free_fibers);
    scopes.give_back_all(cord->free_scopes);
    cord->queue.release();
    cord->timers.release();
    cord->stacks.release();
    free(cord);
}

void cord_end(void* argument) {
    auto* cord = static_cast<Cord*>(argument);
    this_cord = cord;
    FIBERRT_CHECK(cord->current == cord->main); // a thread may end in its main flow only
    Fiber* main = cord->main;
    while (main->scopes) scope_pop(*cord, main);
    if (main->locals) {
        cord->noswitch_depth = 1;
        attention_update(*cord, main);
        locals_destroy(main);
    }
    if (cord->io) cord->io->end(*cord);
    // None of them runs again: what they hold on their stacks is lost, as is said of a thread's exit.
    auto forget = [cord](Fiber* fiber) {
        if (fiber->cord.load(std::memory_order_relaxed) != cord) return;
        while (fiber->scopes) scope_pop(*cord, fiber);
        locals_free(fiber);
        hooks::fiber_gone(fiber);
        while (fiber->joiners.pop_front()) {}
        fiber_free(*cord, fiber);
    };
    forget(main);
    if (cord->fiber_count) fibers.each(forget); // rare: else every thread's exit would look at every fiber there ever was
    FIBERRT_CHECK(cord->fiber_count == 0);
    cord_free(cord);
    this_cord = nullptr;
}

void make_thread_exit_key() { thread_exit_key_made = pthread_key_create(&thread_exit_key, cord_end) == 0; }

} // namespace

Cord* cord_open() {
    KeepErrno keep;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_thread_exit_key);
    if (!thread_exit_key_made) return nullptr;

    void* memory = aligned_alloc(64, (sizeof(Cord) + 63) / 64 * 64);
    if (!memory) return nullptr;
    auto* cord = new (memory) Cord{};
    cord->errno_address = &errno;
    cord->exceptions = abi::__cxa_get_globals();
    cord->poll_interval = 64;
    cord->last_poll_ns = clock_now();
    if (fiber_create(*cord, &cord->main) < 0) {
        cord_free(cord);
        return nullptr;
    }
    cord->main->main_flow = true;
    cord->main->state = State::running;
    cord->current = cord->main;
    if (pthread_setspecific(thread_exit_key, cord) != 0) {
        fiber_free(*cord, cord->main);
        cord_free(cord);
        return nullptr;
    }
    this_cord = cord;
    return cord;
}

} // namespace fiberrt
