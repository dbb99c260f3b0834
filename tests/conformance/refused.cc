// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls that fail at once because their fiber is cancelled, interrupted or out of time: a fiber that makes one after
// the other does not keep the thread for itself.
#include "conformance.h"
#include "cord_support.h"
#include "io_support.h"

#include <functional>
#include <netdb.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace support;

namespace {

constexpr int most_calls = 10'000; // the header says: a few hundred

// The objects of a call that waits. The event that it waits for never comes.
struct Things {
    fiber_event_t event = FIBER_EVENT_INITIALIZER(0);
    fiber_sem_t sem = FIBER_SEM_INITIALIZER(0);
    fiber_wg_t group = FIBER_WG_INITIALIZER(1);
    fiber_mutex_t mutex = FIBER_MUTEX_INITIALIZER;
    fiber_rwlock_t rwlock = FIBER_RWLOCK_INITIALIZER;
    fiber_barrier_t barrier = FIBER_BARRIER_INITIALIZER(2);
    fiber_once_t once = FIBER_ONCE_INITIALIZER;
    fiber_chan_t chan{};
    fiber_t waiting{}, fresh{};
    fiber_scope_t scope{};
    fiber_pool_t pool{};
    Pipe pipe;
    char byte = 0;
    void *value = nullptr;
    int64_t tick = 0;
};

struct Call {
    const char *name;
    int64_t (*make)(Things &it);
};

const Call calls[] = {
    {"yield", [](Things &) -> int64_t { return fiber_yield(); }},
    {"yield_timeout", [](Things &) -> int64_t { return fiber_yield_timeout(0); }},
    {"yield_value", [](Things &it) -> int64_t { return fiber_yield_value(&it.value); }},
    {"reschedule", [](Things &) -> int64_t { return fiber_reschedule(); }},
    {"reschedule_if_due", [](Things &) -> int64_t { return fiber_reschedule_if_due(); }},
    {"sleep", [](Things &) -> int64_t { return fiber_sleep(0); }},
    {"every", [](Things &it) -> int64_t { return fiber_every(&it.tick, FIBER_SEC(1)); }},
    {"start", [](Things &it) -> int64_t { return fiber_start(it.fresh); }},
    {"transfer", [](Things &it) -> int64_t { return fiber_transfer(it.fresh, nullptr, nullptr); }},
    {"join", [](Things &it) -> int64_t { return fiber_join(it.waiting, nullptr); }},
    {"join_timeout", [](Things &it) -> int64_t { return fiber_join_timeout(it.waiting, nullptr, 0); }},
    {"await", [](Things &it) -> int64_t { return fiber_await(it.waiting); }},
    {"scope_next", [](Things &it) -> int64_t { return fiber_scope_next(it.scope, nullptr, nullptr); }},
    {"mutex_lock_timeout", [](Things &it) -> int64_t { return fiber_mutex_lock_timeout(&it.mutex, 0); }},
    {"sem_wait", [](Things &it) -> int64_t { return fiber_sem_wait(&it.sem, 1); }},
    {"event_wait", [](Things &it) -> int64_t { return fiber_event_wait(&it.event); }},
    {"wg_wait", [](Things &it) -> int64_t { return fiber_wg_wait(&it.group); }},
    {"rwlock_rdlock", [](Things &it) -> int64_t { return fiber_rwlock_rdlock(&it.rwlock); }},
    {"rwlock_wrlock", [](Things &it) -> int64_t { return fiber_rwlock_wrlock(&it.rwlock); }},
    {"barrier_wait", [](Things &it) -> int64_t { return fiber_barrier_wait(&it.barrier); }},
    {"chan_send", [](Things &it) -> int64_t { return fiber_chan_send(it.chan, &it.byte); }},
    {"chan_recv", [](Things &it) -> int64_t { return fiber_chan_recv(it.chan, &it.byte); }},
    {"once",
     [](Things &it) -> int64_t {
         return fiber_once(
             &it.once, [](void *) { return -EAGAIN; }, nullptr);
     }},
    {"exchange",
     [](Things &) -> int64_t {
         fiber_completion_t out;
         return fiber_exchange(nullptr, 0, &out, 1, FIBER_FOREVER);
     }},
    {"select", [](Things &) -> int64_t { return fiber_select(nullptr, 0, FIBER_FOREVER); }},
    {"offload",
     [](Things &) -> int64_t { return fiber_offload([](void *) -> int64_t { return 0; }, nullptr, nullptr); }},
    {"pool_close", [](Things &it) -> int64_t { return fiber_pool_close(it.pool); }},
};

const Call io_calls[] = {
    {"read", [](Things &it) { return fiber_read(it.pipe.read_end, &it.byte, 1); }},
    {"write", [](Things &it) { return fiber_write(it.pipe.write_end, "x", 1); }},
    {"recv", [](Things &it) { return fiber_recv(it.pipe.read_end, &it.byte, 1, 0); }},
    {"recvfrom", [](Things &it) { return fiber_recvfrom(it.pipe.read_end, &it.byte, 1, 0, nullptr, nullptr); }},
    {"sendto", [](Things &it) { return fiber_sendto(it.pipe.write_end, &it.byte, 1, 0, nullptr, 0); }},
    {"accept", [](Things &it) -> int64_t { return fiber_accept(it.pipe.read_end, nullptr, nullptr); }},
    {"poll_fd", [](Things &it) -> int64_t { return fiber_poll_fd(it.pipe.read_end, 1); }},
    {"fsync", [](Things &it) -> int64_t { return fiber_fsync(it.pipe.read_end); }},
    {"pread", [](Things &it) { return fiber_pread(it.pipe.read_end, &it.byte, 1, 0); }},
};

const Call real_calls[] = {
    // that a simulation does not have
    {"open", [](Things &) -> int64_t { return fiber_open("/", 0, 0); }},
    {"splice", [](Things &it) { return fiber_splice(it.pipe.read_end, nullptr, it.pipe.write_end, nullptr, 1, 0); }},
    {"copy",
     [](Things &it) { return fiber_copy(it.pipe.read_end, it.pipe.write_end, FIBER_COPY_ALL, nullptr, nullptr); }},
    {"statx",
     [](Things &) -> int64_t {
         struct statx about;
         return fiber_statx(AT_FDCWD, "/", 0, STATX_SIZE, &about);
     }},
    {"unlink", [](Things &) -> int64_t { return fiber_unlink("/no/such/file"); }},
    {"getaddrinfo",
     [](Things &) -> int64_t {
         struct addrinfo *found = nullptr;
         return fiber_getaddrinfo("no.such.host.invalid", nullptr, nullptr, &found);
     }},
    {"waitpid", [](Things &) -> int64_t { return fiber_waitpid(getpid(), nullptr, 0); }},
    {"dial", [](Things &) -> int64_t { return fiber_dial("127.0.0.1:1", 0); }},
};

// Makes the call over and over until another fiber, which is runnable, has run.
void expect_turns(const Call &call, Things &it, int64_t error) {
    bool done = false;
    auto sets = [&] { done = true; };
    fiber_t fiber = spawn(sets);
    int made = 0;
    while (!*static_cast<volatile bool *>(&done) && made < most_calls) {
        EXPECT_EQ(call.make(it), error) << call.name;
        made++;
    }
    EXPECT_LT(made, most_calls) << call.name << ": no other fiber had a turn";
    fiber_scope_t shield{};
    EXPECT_EQ(fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
    join(fiber);
    EXPECT_EQ(fiber_scope_close(shield, nullptr), 0);
}

// In another fiber, after stop_it(), which makes each call of that fiber fail with `error`.
template <class Range>
void expect_turns_in(const Range &range, const std::function<void()> &stop_it, int64_t error) {
    Things it;
    EXPECT_EQ(fiber_chan_create(&it.chan, 1, 0), 0);
    fiber_pool_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_pool_attr_create(&attr), 0);
    EXPECT_EQ(fiber_pool_attr_set_workers(attr, 0), 0);
    EXPECT_EQ(fiber_pool_create(&it.pool, attr), 0);
    EXPECT_EQ(fiber_pool_attr_destroy(attr), 0);
    auto waits = [&] { return pointer(fiber_event_wait(&it.event)); };
    auto nothing = [] {};
    it.waiting = start(waits);
    it.fresh = create(nothing);
    run([&] {
        EXPECT_EQ(fiber_scope_open(&it.scope, FIBER_FOREVER, 0), 0);
        stop_it();
        for (const Call &call : range) expect_turns(call, it, error);
        EXPECT_EQ(fiber_scope_close(it.scope, nullptr), 0); // and the scope that stop_it() has opened in it
    });
    EXPECT_EQ(fiber_event_set(&it.event), 0);
    join(it.waiting);
    EXPECT_EQ(fiber_wakeup(it.fresh), 0);
    join(it.fresh);
    EXPECT_EQ(fiber_chan_destroy(it.chan), 0);
    EXPECT_EQ(fiber_pool_close(it.pool), 0);
}

void cancelled() { EXPECT_EQ(fiber_cancel(self(), nullptr), 0); }

// A scope around all that follows in the fiber, whose end closes it.
void out_of_time() {
    fiber_scope_t scope{};
    EXPECT_EQ(fiber_scope_open(&scope, 0, 0), 0);
    EXPECT_EQ(fiber_sleep(FIBER_FOREVER), -ETIMEDOUT);
}

void scope_cancelled() {
    fiber_scope_t scope{};
    EXPECT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, 0), 0);
    EXPECT_EQ(fiber_scope_cancel(scope, nullptr), 0);
}

} // namespace

TEST(Refused, CallsOfACancelledFiberGiveTurns) { expect_turns_in(calls, cancelled, -ECANCELED); }
TEST(Refused, CallsInACancelledScopeGiveTurns) { expect_turns_in(calls, scope_cancelled, -ECANCELED); }
TEST(Refused, CallsAfterADeadlineGiveTurns) { expect_turns_in(calls, out_of_time, -ETIMEDOUT); }

TEST(Refused, TransfersOfACancelledFiberGiveTurns) {
    NEEDS_IO();
    expect_turns_in(io_calls, cancelled, -ECANCELED);
    expect_turns_in(io_calls, out_of_time, -ETIMEDOUT);
}

TEST(Refused, OtherOperationsOfACancelledFiberGiveTurns) {
    NOT_ON_SIM("has neither files nor processes");
    NEEDS_IO();
    expect_turns_in(real_calls, cancelled, -ECANCELED);
    expect_turns_in(real_calls, out_of_time, -ETIMEDOUT);
}

// Each call is refused by a separate interrupt.
TEST(Refused, InterruptedCallsGiveTurns) {
    bool done = false;
    auto sets = [&] { done = true; };
    fiber_t other = spawn(sets);
    run([&] {
        int made = 0;
        for (; !*static_cast<volatile bool *>(&done) && made < most_calls; made++) {
            EXPECT_EQ(fiber_interrupt(self(), pointer(made)), 0);
            EXPECT_EQ(fiber_yield(), -EINTR);
            void *value = nullptr;
            EXPECT_EQ(fiber_interrupted(&value), 1);
            EXPECT_EQ(value, pointer(made));
        }
        EXPECT_LT(made, most_calls);
    });
    join(other);
}

// The fiber that ends the wait must lock the mutex first: the turn is given without the mutex.
TEST(Refused, AConditionWaitOfACancelledFiberGivesTheMutexAwayWithTheTurn) {
    fiber_mutex_t mutex = FIBER_MUTEX_INITIALIZER;
    fiber_cond_t cond = FIBER_COND_INITIALIZER;
    bool done = false;
    auto sets = [&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        done = true;
        EXPECT_EQ(fiber_cond_signal(&cond), 0);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    };
    fiber_t other{};
    run([&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        other = spawn(sets);
        cancelled();
        int made = 0;
        for (; !*static_cast<volatile bool *>(&done) && made < most_calls; made++) {
            EXPECT_EQ(fiber_cond_wait(&cond, &mutex), -ECANCELED);
        }
        EXPECT_LT(made, most_calls);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0); // it is held, whatever the result
    });
    join(other);
}

// The loop that a port from another library hung in.
TEST(Refused, ACancelledFiberThatWaitsForAFlagLetsItBeSet) {
    bool done = false;
    auto sets = [&] {
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        done = true;
    };
    fiber_t other = spawn(sets);
    auto waits = [&] {
        for (int64_t end = fiber_now() + FIBER_SEC(60); !*static_cast<volatile bool *>(&done) && fiber_now() < end;) {
            EXPECT_EQ(fiber_yield(), -ECANCELED);
        }
        EXPECT_TRUE(done);
    };
    fiber_t fiber = create(waits);
    EXPECT_EQ(fiber_start(fiber), 0); // it parks, if the other is not cancelled
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    join(other);
}

// A hosted fiber's operations that are refused count as turns, too.
TEST(Refused, OperationsOfACancelledHostedFiberGiveTurns) {
    struct Host {
        fiber_op_t op{};
        bool *done = nullptr;
        int made = 0;
        static int step(void *user, int64_t result) {
            auto &it = *static_cast<Host *>(user);
            EXPECT_TRUE(result == 0 || result == -ECANCELED) << result;
            while (!*static_cast<volatile bool *>(it.done) && it.made < most_calls) {
                it.made++;
                it.op.code = FIBER_OP_YIELD;
                if (fiber_op_start(&it.op) == 0) return FIBER_STEP_WAIT;
                EXPECT_EQ(it.op.result, -ECANCELED);
            }
            return FIBER_STEP_END;
        }
    };
    bool done = false;
    auto sets = [&] { done = true; };
    Host host;
    host.done = &done;
    fiber_t hosted{};
    ASSERT_EQ(fiber_hosted_new(&hosted, nullptr, Host::step, &host), 0);
    EXPECT_EQ(fiber_cancel(hosted, nullptr), 0); // its first turn still comes
    fiber_t other = spawn(sets);
    join(hosted);
    join(other);
    EXPECT_LT(host.made, most_calls);
}

// No turn is given where none may be: in a no-switch section.
TEST(Refused, CallsInANoSwitchSectionGiveNoTurn) {
    bool done = false;
    auto sets = [&] { done = true; };
    fiber_t other = spawn(sets);
    run([&] {
        EXPECT_EQ(fiber_noswitch_enter(), 0);
        cancelled();
        bool before = done; // it may have been its turn before this fiber's
        for (int i = 0; i < most_calls; i++) EXPECT_EQ(fiber_yield(), -EPERM);
        EXPECT_EQ(done, before);
        EXPECT_EQ(fiber_noswitch_leave(), 0);
    });
    join(other);
}
