// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits that other cords may end.
#include "core/shared_wait.h"

#include "base/check.h"
#include "base/keep_errno.h"
#include "base/linux_numbers.h"
#include "base/one_thread.h"
#include "core/cord.h"
#include "core/hooks.h"
#include "core/scheduler.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt {

namespace {

void wake_thread(SharedWait* wait) {
    KeepErrno keep;
    uint32_t* word = reinterpret_cast<uint32_t*>(&wait->answered);
    hooks::tsan_release(word);
    // Release: the thread sees the result. From here on the wait may be gone, and the word with it. Then the call below
    // wakes no thread, or is one of the wakes without a reason that futexes are allowed.
    wait->answered.store(1, std::memory_order_release);
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, nullptr, nullptr, 0);
}

void stop_in_list(Wait* base, int reason) {
    auto* wait = static_cast<EndWait*>(base);
    {
        Locked locked(*wait->lock);
        if (!wait->linked()) return; // completed already: that result counts, and is on its way
        wait->list->remove(wait);
    }
    shared_wait_stopped(*wait, reason);
}

} // namespace

void shared_wait_come_home(Cord& cord, Message* message) { shared_wait_end(cord, static_cast<SharedWait*>(message)); }

void shared_wait_complete_slowly(SharedWait* wait) {
    Cord* home = wait->home;
    if (!home) {
        wake_thread(wait);
    } else if (home != this_cord) {
        FIBERRT_CHECK(send(*home, wait)); // a cord does not end before all its shared waits have arrived
    } else if (wait->receive != shared_wait_come_home) {
        wait->receive(*home, wait);
    } else { // the fiber has not parked yet, and reads `answered` first
        wait->answered.store(1, std::memory_order_relaxed);
    }
}

int64_t shared_wait_park_thread(SharedWait& wait, int64_t deadline, bool (*withdraw)(SharedWait& wait)) {
    KeepErrno keep;
    uint32_t* word = reinterpret_cast<uint32_t*>(&wait.answered);
    timespec at = {deadline / 1'000'000'000, deadline % 1'000'000'000};
    if (deadline == never && one_thread() && withdraw(wait)) return -EDEADLK; // no other thread can end it
    while (!wait.answered.load(std::memory_order_acquire)) {                  // pairs with wake_thread
        syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, deadline == never ? nullptr : &at, nullptr,
                futex_any);
        if (deadline == never || clock_now() < deadline) continue;
        if (!wait.answered.load(std::memory_order_acquire) && withdraw(wait)) return -ETIMEDOUT;
        deadline = never; // another thread has taken it to complete it, and is about to set `answered`
    }
    hooks::tsan_acquire(word);
    return wait.result;
}

void end_wait_prepare(Cord& cord, EndWait& wait, SpinLock& lock, ShortList<EndWait>& list) {
    shared_wait_prepare(&cord, wait, stop_in_list);
    wait.lock = &lock;
    wait.list = &list;
}

void shared_wait_stopped(SharedWait& wait, int reason) {
    wait.home->shared.count--;
    wake(*wait.home, &wait, reason);
}

void shared_waits_orphaned(Cord& cord) {
    while (SharedWait* wait = cord.shared.ended.pop_front()) wait->on_orphaned(wait);
}

void shared_wait_drop(Cord& cord) { cord.shared.count--; }

void end_wait_complete(EndWait* wait, int64_t result) {
    wait->result = result;
    SharedWait* whole = wait->select_wait;
    if (whole) whole->result = 0;
    shared_wait_complete(whole ? whole : wait);
}

void end_waits_complete(EndWait* wait, void* value, int64_t result) {
    while (wait) {
        auto* next = static_cast<EndWait*>(wait->Message::next); // its fiber may free the wait once it is completed
        wait->value = value;
        end_wait_complete(wait, result);
        wait = next;
    }
}

} // namespace fiberrt
