// SPDX-License-Identifier: MIT OR Apache-2.0
// Target `inbox`: messages between cords.
//
// The inbox by itself (core/inbox.h), against a list: messages are taken in the order in which they were put in;
// exactly one of the senders to a cord that sleeps must ring; a closed inbox takes nothing.
//
// Requests between cords, in a simulation whose order is chosen by the input. Each of three cords has an agent that
// takes the next bytes when it runs: it makes fibers on any cord, wakes, cancels, interrupts, joins and detaches them
// from any other, posts functions and permits of a semaphore. Within a second of the simulation's time everything
// accepted has arrived, once: a wakeup as the end of a yield, the first reason of a cancel, interrupts in order, the
// result of each fiber at its joiner. Some cords have poll hooks, and check once more before they sleep.
#include "check.h"

#include "core/inbox.h"
#include "fiberrt.h"
#include "sim/sim.h"

#include <deque>
#include <errno.h>
#include <memory>
#include <string.h>
#include <vector>

using fiberrt::Inbox;
using fiberrt::Message;

namespace {

// ---- the word -------------------------------------------------------------------------------------------------------

void try_word(Input& input) {
    constexpr unsigned count = 16;
    Inbox inbox;
    Message messages[count] = {};
    bool is_in[count] = {};
    std::deque<unsigned> inside;
    uintptr_t state = Inbox::closed; // or empty, or asleep_on_*, if nothing is inside
    auto agree = [&] {
        FUZZ_CHECK_EQ(inbox.has_message(), !inside.empty());
        FUZZ_CHECK_EQ(inbox.is_closed(), inside.empty() && state == Inbox::closed);
        FUZZ_CHECK_EQ(inbox.is_asleep(), inside.empty() && state != Inbox::closed && state != Inbox::empty);
    };
    auto check_list = [&](Message* list) {
        for (; list; list = list->next) {
            FUZZ_CHECK(!inside.empty() && list == &messages[inside.front()]);
            is_in[inside.front()] = false;
            inside.pop_front();
        }
        FUZZ_CHECK(inside.empty());
    };
    while (!input.done()) {
        uint8_t op = input.byte();
        switch (op & 7) {
        case 0:
        case 1:
        case 2: {
            unsigned which = op >> 4;
            if (is_in[which]) break;
            uintptr_t before = inbox.push(&messages[which]);
            if (inside.empty()) {
                FUZZ_CHECK_EQ(before, state);
            } else {
                FUZZ_CHECK(before != Inbox::empty && before != Inbox::closed && before != Inbox::asleep_on_word &&
                           before != Inbox::asleep_on_eventfd); // another sender must ring
            }
            if (before == Inbox::closed) break;
            state = Inbox::empty;
            is_in[which] = true;
            inside.push_back(which);
            break;
        }
        case 3:
            if (state == Inbox::closed) break; // an ended cord does not look
            check_list(inbox.take());
            state = Inbox::empty;
            break;
        case 4: {
            uintptr_t how = op & 16 ? Inbox::asleep_on_word : Inbox::asleep_on_eventfd;
            bool parks = inside.empty() && state == Inbox::empty;
            FUZZ_CHECK_EQ(inbox.mark_asleep(how), parks);
            if (parks) state = how;
            break;
        }
        case 5: {
            bool closes = inside.empty() && state == Inbox::empty;
            FUZZ_CHECK_EQ(inbox.close_if_empty(), closes);
            if (closes) state = Inbox::closed;
            break;
        }
        case 6:
            check_list(inbox.close());
            state = Inbox::closed;
            break;
        case 7:
            if (state != Inbox::closed) break;
            inbox.open();
            state = Inbox::empty;
            break;
        }
        agree();
    }
}

// ---- cords ----------------------------------------------------------------------------------------------------------

constexpr unsigned cord_count = 3; // the first is that of the main flow
constexpr int64_t soon = FIBER_SEC(1);

struct Subject {
    fiber_t handle = {};
    bool takes_permits = false;
    bool ran = false, ended = false;
    bool detached = false; // or it may be
    bool joined = false;   // by another fiber, with its result
    unsigned joining = 0;  // so many are in a join
    unsigned wakeups = 0, woken = 0;
    int64_t woken_at = -1; // a wakeup is on its way since then
    int64_t cancelled_at = -1;
    void* reason = nullptr; // of the first cancel
    int64_t interrupted_at = -1;
    std::deque<void*> interrupts; // accepted and not delivered
};

struct Trial {
    explicit Trial(Input& bytes) : input(bytes) {}
    Input& input;
    fiber_cord_t cords[cord_count] = {};
    bool ending = false;
    std::vector<std::unique_ptr<Subject>> subjects;
    int64_t posted = 0, ran = 0;
    fiber_sem_t permits = {};
    int64_t permits_posted = 0, permits_taken = 0;
    uintptr_t tokens = 0;
};
Trial* its;

void* token() { return reinterpret_cast<void*>(++its->tokens * 8); }

void* live(void* arg) {
    auto& me = *static_cast<Subject*>(arg);
    FUZZ_CHECK(!me.ran);
    me.ran = true;
    for (;;) {
        int result = me.takes_permits ? fiber_sem_wait(&its->permits, 1) : fiber_yield();
        if (result == 0) {
            if (me.takes_permits) {
                its->permits_taken++;
            } else {
                FUZZ_CHECK(++me.woken <= me.wakeups);
                me.woken_at = -1;
            }
        } else if (result == -EINTR) {
            void* value = nullptr;
            FUZZ_CHECK_EQ(fiber_interrupted(&value), 1);
            FUZZ_CHECK(!me.interrupts.empty() && value == me.interrupts.front());
            me.interrupts.pop_front();
            me.interrupted_at = -1;
        } else {
            FUZZ_CHECK_EQ(result, -ECANCELED);
            break;
        }
    }
    void* reason = nullptr;
    FUZZ_CHECK_EQ(fiber_cancelled(&reason), 1);
    FUZZ_CHECK(me.reason && reason == me.reason);
    me.ended = true;
    return &me;
}

bool never_ran(const Subject& subject) { return !subject.ran && subject.reason; }
bool is_over(const Subject& subject) { return subject.ended || never_ran(subject); }

void* count_one(void*) {
    its->ran++;
    return nullptr;
}

void begin_subject(unsigned where, bool takes_permits) {
    if (its->subjects.size() == 24 || !its->cords[where].id) return; // that is being started
    its->subjects.push_back(std::make_unique<Subject>());
    Subject& subject = *its->subjects.back();
    subject.takes_permits = takes_permits;
    fiber_attr_t* attr = nullptr;
    FUZZ_CHECK_EQ(fiber_attr_create(&attr), 0);
    fiber_t handle = {};
    int result = fiber_attr_set_cord(attr, its->cords[where]);
    if (result == 0) result = fiber_new(&handle, attr, live, &subject);
    fiber_attr_destroy(attr);
    if (result < 0) { // its cord has ended, or is about to
        FUZZ_CHECK(result == -ESRCH || result == -EPIPE);
        subject.ended = subject.joined = true;
        return;
    }
    subject.handle = handle;
    subject.wakeups++;
    result = fiber_wakeup(handle);
    if (result < 0) FUZZ_CHECK(result == -ESRCH && is_over(subject));
}

void wake(Subject& subject) {
    if (!subject.ran && !subject.reason) return; // the wakeup that lets it begin would absorb this one
    if (subject.woken_at < 0) subject.woken_at = fiber_now();
    subject.wakeups++;
    int result = fiber_wakeup(subject.handle);
    if (result < 0) FUZZ_CHECK(result == -ESRCH && is_over(subject));
}

void cancel(Subject& subject) {
    if (subject.cancelled_at < 0) subject.cancelled_at = fiber_now();
    void* reason = token();
    if (!subject.reason) subject.reason = reason;
    int result = fiber_cancel(subject.handle, reason);
    if (result < 0) FUZZ_CHECK(result == -ESRCH && is_over(subject));
}

void interrupt(Subject& subject) {
    int64_t now = fiber_now();
    void* value = token();
    bool pending = !subject.interrupts.empty();
    subject.interrupts.push_back(value);
    if (!pending) subject.interrupted_at = now;
    int result = fiber_interrupt(subject.handle, value);
    if (result == 0) return;
    FUZZ_CHECK(result == -EBUSY ? pending : result == -ESRCH && is_over(subject));
    if (!subject.interrupts.empty() && subject.interrupts.back() == value) subject.interrupts.pop_back();
}

void join(Subject& subject, int64_t timeout) {
    if (!subject.handle.id) return;
    void* value = nullptr;
    subject.joining++;
    int result = fiber_join_timeout(subject.handle, &value, timeout);
    subject.joining--;
    if (result == 0) {
        FUZZ_CHECK(is_over(subject));
        FUZZ_CHECK(value == (subject.ran ? &subject : FIBER_CANCELLED));
        subject.joined = true;
    } else if (result == -EINVAL) {
        FUZZ_CHECK(subject.detached);
    } else if (result == -ESRCH) {
        // Another's join has its result perhaps, and has not returned yet.
        FUZZ_CHECK(is_over(subject) && (subject.detached || subject.joined || subject.joining));
    } else {
        FUZZ_CHECK_EQ(result, -ETIMEDOUT);
    }
}

void detach(Subject& subject) {
    bool before = subject.detached;
    subject.detached = true;
    int result = fiber_detach(subject.handle);
    if (result == -EINVAL) FUZZ_CHECK(before);
    if (result == -ESRCH) FUZZ_CHECK(is_over(subject));
}

// Messages sent long ago have arrived.
void look() {
    int64_t now = fiber_now();
    for (auto& subject : its->subjects) {
        if (is_over(*subject)) continue;
        bool yields = subject->ran && !subject->takes_permits;
        if (yields && subject->woken_at >= 0) FUZZ_CHECK(now - subject->woken_at < soon);
        if (subject->cancelled_at >= 0) FUZZ_CHECK(now - subject->cancelled_at < soon);
        if (subject->ran && subject->interrupted_at >= 0) FUZZ_CHECK(now - subject->interrupted_at < soon);
    }
}

void before_poll(void*) {}

void* agent(void*) {
    while (!its->input.done()) {
        uint8_t op = its->input.byte();
        unsigned few = op >> 4;
        Subject* subject = nullptr;
        if ((op & 15) >= 4 && (op & 15) < 12) {
            if (!its->subjects.empty()) subject = its->subjects[its->input.byte() % its->subjects.size()].get();
            if (!subject || !subject->handle.id) continue;
        }
        switch (op & 15) {
        case 0:
        case 1: begin_subject(few % cord_count, few >= 12); break;
        case 2:
            its->posted++;
            if (fiber_post(its->cords[few % cord_count], count_one, nullptr) < 0) its->posted--;
            break;
        case 3:
            its->permits_posted += few;
            FUZZ_CHECK_EQ(fiber_sem_post(&its->permits, few ? few : 1), 0);
            if (!few) its->permits_posted++;
            break;
        case 4:
        case 5:
        case 6: wake(*subject); break;
        case 7: cancel(*subject); break;
        case 8:
        case 9: interrupt(*subject); break;
        case 10: join(*subject, few < 8 ? few : FIBER_MSEC(few)); break;
        case 11:
            if (few < 4) detach(*subject);
            break;
        case 12: FUZZ_CHECK_EQ(fiber_sleep(few * 1000), 0); break;
        case 13:
            FUZZ_CHECK_EQ(fiber_sleep(2 * soon), 0);
            look();
            break;
        case 14: FUZZ_CHECK_EQ(fiber_reschedule(), 0); break;
        case 15: {
            fiber_hooks_t hooks = {};
            hooks.before_poll = before_poll;
            FUZZ_CHECK_EQ(fiber_hooks_set(few & 1 ? &hooks : nullptr, sizeof hooks), 0);
            break;
        }
        }
    }
    while (!its->ending) FUZZ_CHECK_EQ(fiber_sleep(soon), 0);
    FUZZ_CHECK_EQ(fiber_hooks_set(nullptr, 0), 0);
    return nullptr;
}

void begin_simulation() {
    static bool begun;
    if (begun) return;
    begun = true;
    setenv("FIBERRT_BACKEND", "sim", 1);
    fiber_t self;
    FUZZ_CHECK_EQ(fiber_self(&self), 0);
    FUZZ_CHECK_EQ(strcmp(fiber_backend_name(), "sim"), 0);
}

void try_cords(Input& input) {
    begin_simulation();
    uint8_t begin = input.byte();
    fiberrt::simulation.faults = begin & 1;
    fiberrt::simulation.choices.seed(begin >> 1);
    Trial trial(input);
    its = &trial;
    FUZZ_CHECK_EQ(fiber_cord_self(&trial.cords[0]), 0);
    for (unsigned i = 1; i < cord_count; i++) {
        FUZZ_CHECK_EQ(fiber_cord_start(&trial.cords[i], nullptr, agent, nullptr), 0);
    }
    fiber_t own;
    FUZZ_CHECK_EQ(fiber_spawn(&own, agent, nullptr), 0);
    while (!input.done()) FUZZ_CHECK_EQ(fiber_sleep(FIBER_MSEC(100)), 0);
    FUZZ_CHECK_EQ(fiber_sleep(2 * soon), 0);
    look();
    FUZZ_CHECK_EQ(trial.ran, trial.posted);
    FUZZ_CHECK_EQ(fiber_sem_value(&trial.permits) + trial.permits_taken, trial.permits_posted);
    for (auto& subject : trial.subjects) {
        if (subject->handle.id) cancel(*subject);
    }
    FUZZ_CHECK_EQ(fiber_sleep(2 * soon), 0);
    look();
    for (auto& subject : trial.subjects) {
        FUZZ_CHECK(is_over(*subject));
        if (subject->handle.id) join(*subject, soon);
        if (subject->handle.id) FUZZ_CHECK_EQ(fiber_state(subject->handle), -ESRCH);
    }
    trial.ending = true;
    FUZZ_CHECK_EQ(fiber_join(own, nullptr), 0);
    for (unsigned i = 1; i < cord_count; i++) FUZZ_CHECK_EQ(fiber_cord_join(trial.cords[i], nullptr), 0);
    FUZZ_CHECK_EQ(fiber_sem_destroy(&trial.permits), 0);
    its = nullptr;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    if (input.byte() % 8 == 0) {
        try_word(input);
    } else {
        try_cords(input);
    }
    return 0;
}
