// SPDX-License-Identifier: MIT OR Apache-2.0
// How cords wake each other, and how they sleep.
#include "core/inbox.h"

#include "base/check.h"
#include "base/keep_errno.h"
#include "base/linux_numbers.h"
#include "base/planted.h"
#include "base/spin_lock.h"
#include "core/cord.h"
#include "core/hooks.h"
#include "core/backend.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr int64_t spin_least_ns = 2'000;

constexpr int checks_at_once = 32; // about half a microsecond

// How long a count of processors is used before the next: threads may be bound to other processors at any time.
constexpr int64_t cpus_hold_ns = 20'000'000;

constinit std::atomic<int> awake_cords{0}; // relaxed: a guess is all that is needed

void ring(Cord& cord, uintptr_t asleep) {
    KeepErrno keep;
    if (environment) return environment->ring(cord);
    if (asleep == Inbox::asleep_on_word) {
        // The cord may have woken and even ended meanwhile. Its record is never unmapped, and the next cord that waits
        // there takes this for one of the wakes without a reason that futexes are allowed. Wakes all waiters, not one:
        // the kernel removes a closed ring some time later, and until then an operation of that ring waits there too.
        // Not FUTEX_PRIVATE_FLAG: Linux 6.16 and newer give a process a separate table of private futexes when it makes
        // its second thread, and do not find in that table a ring's wait that began before.
        syscall(SYS_futex, cord.inbox.futex(), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    } else {
        uint64_t one = 1;
        // Not by write(): ThreadSanitizer would report a race with the close. The close comes after the ring has read
        // this, an order that ThreadSanitizer cannot see.
        long written = syscall(SYS_write, int(cord.doorbell_fd), &one, sizeof one);
        FIBERRT_CHECK(written == sizeof one); // it stays open until all rings that are owed have arrived
    }
}

void sleep_on_word(Cord& cord, int64_t deadline) {
    timespec at = {deadline / 1'000'000'000, deadline % 1'000'000'000};
    syscall(SYS_futex, cord.inbox.futex(), FUTEX_WAIT_BITSET, uint32_t(Inbox::asleep_on_word),
            deadline == never ? nullptr : &at, nullptr, futex_any);
}

// Whether spinning takes no processor from another cord, which may be about to send the message.
bool processor_is_free(const Cord& cord) { return awake_cords.load(std::memory_order_relaxed) <= cord.sleep.cpus; }

// Whether spinning for messages saves time and does no harm.
bool worth_spinning(Cord& cord) {
    if (!cord.sleep.spin_ns) return false;
    if (cord.poll.last_ns - cord.sleep.cpus_counted_ns > cpus_hold_ns) processors_count(cord);
    return processor_is_free(cord);
}

bool check_inbox(Cord& cord) {
    for (int i = 0; i < checks_at_once; i++) {
        if (cord.inbox.has_message()) return true;
        relax();
    }
    return false;
}

bool nothing_else(void*) { return false; }

// Spins for a message, I/O, and else_come(argument), until that is no longer worth it. False: nothing happened.
bool spin(Cord& cord, int64_t deadline, bool (*else_come)(void*) = nothing_else, void* argument = nullptr) {
    int64_t until = clock_now() + cord.sleep.spin_ns;
    if (until > deadline) until = deadline;
    do {
        if (check_inbox(cord) || else_come(argument)) return true;
        if (cord.io) {
            cord.io->backend->poll(cord.io->state, poll_only, false);
            if (!cord.sched.queue.empty()) return true;
        }
    } while (clock_now() < until && processor_is_free(cord));
    cord.sleep.spin_ns /= 2;
    if (cord.sleep.spin_ns < spin_least_ns) cord.sleep.spin_ns = 0;
    return false;
}

void receive(Cord& cord, Message* message) {
    if (message) hooks::tsan_acquire(&cord.inbox);
    while (message) {
        Message* next = message->next; // receive may free the message
        message->receive(cord, message);
        message = next;
    }
}

uintptr_t asleep_value(Cord& cord) { return cord.doorbell_fd >= 0 ? Inbox::asleep_on_eventfd : Inbox::asleep_on_word; }

// Ends a sleep, and takes the messages that came during it.
Message* end_sleep(Cord& cord) {
    cord_awake();
    Message* message = cord.inbox.take(); // null: the word still said asleep, and no thread will ring
    if (message && asleep_value(cord) == Inbox::asleep_on_eventfd) cord.sleep.rings_owed++;
    return message;
}

} // namespace

bool send(Cord& to, Message* message) {
    hooks::tsan_release(&to.inbox);
    uintptr_t seen = PLANTED(a_lost_doorbell) ? *to.inbox.futex() : 0;
    in_between();
    uintptr_t before = to.inbox.push(message);
    uintptr_t asleep = PLANTED(a_lost_doorbell) ? seen : before;
    if (asleep == Inbox::asleep_on_word || asleep == Inbox::asleep_on_eventfd) ring(to, asleep);
    in_between();
    return before != Inbox::closed;
}

bool receive_all(Cord& cord) {
    if (!cord.inbox.has_message()) return false;
    receive(cord, cord.inbox.take());
    return true;
}

void receive_last(Cord& cord) { receive(cord, cord.inbox.close()); }

void cord_awake() { awake_cords.fetch_add(1, std::memory_order_relaxed); }
void cord_asleep() { awake_cords.fetch_sub(1, std::memory_order_relaxed); }

void awake_forked(int awake) { awake_cords.store(awake, std::memory_order_relaxed); }

bool mark_asleep(Cord& cord) {
    if (!cord.inbox.mark_asleep(asleep_value(cord))) {
        receive_all(cord);
        return false;
    }
    cord_asleep();
    return true;
}

void mark_awake(Cord& cord) { receive(cord, end_sleep(cord)); }

bool spin_before_sleep(Cord& cord, int64_t deadline, bool (*else_come)(void*), void* argument) {
    return worth_spinning(cord) && spin(cord, deadline, else_come, argument);
}

bool sleep(Cord& cord, int64_t deadline) {
    bool spun = worth_spinning(cord);
    bool come = spun && check_inbox(cord);
    if (come) {
        receive_all(cord);
        if (!cord.sched.queue.empty()) return false;
        come = cord.work; // a worker is not idle any more, so it must not sleep as an idle one
    }
    if (come || (spun && spin(cord, deadline)) || !mark_asleep(cord)) {
        receive_all(cord);
        // However many messages come, and whether they make a fiber runnable or not.
        if (cord.io) cord.io->backend->poll(cord.io->state, poll_only, false);
        return true;
    }
    int64_t begun = clock_now();
    bool with_hooks =
        cord.observer.ops && cord.observer.ops->wants_sleeps(cord) && begun < deadline && !cord.shutdown.leaving;
    bool found = false; // a fiber is runnable: the last look found it, or the hook made it
    if (with_hooks) {
        if (cord.io) cord.io->backend->poll(cord.io->state, poll_only, false);
        with_hooks = cord.sched.queue.empty();
        if (with_hooks) cord.observer.ops->sleeps(cord);
        found = !cord.sched.queue.empty();
    }
    if (!found) {
        cord.counters.blocking_polls++;
        if (cord.hooked & hooked_by_recorder) cord.recorder.ops->sleeps(cord);
        if (cord.io) {
            cord.io->backend->poll(cord.io->state, deadline, true);
        } else if (environment) {
            environment->sleep(deadline);
        } else {
            sleep_on_word(cord, deadline);
        }
        if (cord.hooked & hooked_by_recorder) cord.recorder.ops->woke(cord);
    }
    Message* message = end_sleep(cord);
    if (with_hooks) cord.observer.ops->woke(cord);
    if (!message) return true;
    if (!environment && clock_now() - begun < cord.sleep.spin_most_ns) cord.sleep.spin_ns = cord.sleep.spin_most_ns;
    receive(cord, message);
    return true;
}

} // namespace fiberrt
