// SPDX-License-Identifier: MIT OR Apache-2.0
// Hosted fibers: turns by steps and by exchange, all their operations, early ends, misuse.
#include "conformance.h"
#include "cord_support.h"
#include "io_calls.h"

#include <poll.h>

#include <climits>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

using namespace support;

namespace {

// A hosted fiber whose turns are a lambda: int body(Hosted &me, int64_t result).
struct Hosted {
    fiber_t fiber{};
    fiber_op_t op{};
    int turns = 0;
    std::function<int(Hosted &, int64_t)> body;

    explicit Hosted(std::function<int(Hosted &, int64_t)> turn, const fiber_attr_t *attr = nullptr)
        : body(std::move(turn)) {
        EXPECT_EQ(fiber_hosted_new(&fiber, attr, step, this), 0);
    }
    Hosted(const Hosted &) = delete;
    void wake() const { EXPECT_EQ(fiber_wakeup(fiber), 0); }
    void *joined() const { return join(fiber); }

    // Starts an operation. Returns the value for the step to return if the operation is not done at once.
    bool starts(uint32_t code) {
        op.code = code;
        const int begun = fiber_op_start(&op);
        EXPECT_GE(begun, 0);
        return begun == 0;
    }

private:
    static int step(void *user, int64_t result) {
        auto &me = *static_cast<Hosted *>(user);
        me.turns++;
        return me.body(me, result);
    }
};

// One operation: prepared by `prepare`, its result put into *result; then the fiber ends.
std::function<int(Hosted &, int64_t)> once(uint32_t code, std::function<void(fiber_op_t &)> prepare, int64_t *result) {
    return [=](Hosted &me, int64_t got) {
        if (me.turns == 1) {
            prepare(me.op);
            if (me.starts(code)) return FIBER_STEP_WAIT;
            got = me.op.result;
        } else {
            EXPECT_EQ(me.op.result, got);
        }
        *result = got;
        return FIBER_STEP_END;
    };
}

// Prepares an operation on bytes in memory.
std::function<void(fiber_op_t &)> of_bytes(int fd, const void *address, uint64_t length) {
    return [=](fiber_op_t &op) {
        op.fd = fd;
        op.address = const_cast<void *>(address);
        op.length = length;
    };
}

int64_t run_op(uint32_t code, std::function<void(fiber_op_t &)> prepare) {
    int64_t result = INT64_MIN;
    Hosted hosted(once(code, std::move(prepare), &result));
    hosted.wake();
    EXPECT_EQ(hosted.joined(), nullptr);
    return result;
}

// Lets runnable fibers run until no fiber is runnable, as far as they need no event from outside.
void settle() {
    for (int i = 0; i < 20; i++) EXPECT_EQ(fiber_reschedule(), 0);
}

// Until the fiber waits, or has ended. A ring that refuses its operation gives that back to the fiber at the next poll.
void settle(const Hosted &hosted) {
    settle();
    while (fiber_state(hosted.fiber) == FIBER_RUNNABLE) EXPECT_EQ(fiber_reschedule(), 0);
}

TEST(Hosted, TurnsAreTakenInTheOneQueue) {
    Trace trace;
    auto stackful = [&] {
        for (int i = 0; i < 3; i++) {
            trace += 'f';
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    };
    auto turn = [&](char name) {
        return [&trace, name](Hosted &me, int64_t result) {
            EXPECT_EQ(result, 0);
            trace += name;
            return me.turns < 3 ? FIBER_STEP_AGAIN : FIBER_STEP_END;
        };
    };
    Hosted a(turn('a'));
    Hosted b(turn('b'));
    a.wake();
    fiber_t fiber = spawn(stackful);
    b.wake();
    EXPECT_EQ(fiber_state(a.fiber), FIBER_RUNNABLE);
    EXPECT_EQ(a.joined(), nullptr);
    join(fiber);
    EXPECT_EQ(b.joined(), nullptr);
    EXPECT_EQ(trace, "afbafbafb");
    EXPECT_EQ(fiber_state(a.fiber), -ESRCH);
}

TEST(Hosted, TheCallingFiberOfAStepIsTheHostedOne) {
    fiber_key_t key{};
    static std::string destroyed;
    destroyed.clear();
    ASSERT_EQ(fiber_key_create(&key, [](void *value) { destroyed += static_cast<const char *>(value); }), 0);
    fiber_attr_t *attr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    ASSERT_EQ(fiber_attr_set_name(attr, "hosted"), 0);
    static char value[] = "v";
    Hosted hosted(
        [&](Hosted &me, int64_t) {
            fiber_t self{};
            EXPECT_EQ(fiber_self(&self), 0);
            EXPECT_EQ(self.id, me.fiber.id);
            EXPECT_EQ(fiber_state(self), FIBER_RUNNING);
            void *user = nullptr;
            EXPECT_EQ(fiber_hosted_user(self, &user), 0);
            EXPECT_EQ(user, &me);
            EXPECT_EQ(fiber_key_get(key), nullptr);
            EXPECT_EQ(fiber_key_set(key, value), 0);
            EXPECT_EQ(fiber_reschedule(), -EPERM);
            EXPECT_EQ(fiber_sleep(1), -EPERM);
            EXPECT_EQ(fiber_exit(nullptr), -EPERM);
            EXPECT_EQ(fiber_noswitch_enter(), 0);
            EXPECT_EQ(fiber_noswitch_leave(), 0);
            EXPECT_EQ(fiber_yield(), -EPERM);
            EXPECT_EQ(fiber_hosted_end(self, pointer(7)), 0);
            EXPECT_EQ(fiber_hosted_end(self, pointer(8)), -EPERM);
            me.op.code = FIBER_OP_YIELD;
            EXPECT_EQ(fiber_op_start(&me.op), -EPERM);
            return FIBER_STEP_END;
        },
        attr);
    char name[16];
    EXPECT_EQ(fiber_name(hosted.fiber, name, sizeof name), 6);
    EXPECT_STREQ(name, "hosted");
    hosted.wake();
    EXPECT_EQ(hosted.joined(), pointer(7));
    EXPECT_EQ(destroyed, "v");
    EXPECT_EQ(fiber_key_delete(key), 0);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
}

TEST(Hosted, StartRunsItBeforeTheCaller) {
    Trace trace;
    Hosted hosted([&](Hosted &, int64_t) {
        trace += 'h';
        return FIBER_STEP_END;
    });
    auto other = [&] { trace += 'o'; };
    fiber_t fiber = spawn(other);
    EXPECT_EQ(fiber_start(hosted.fiber), 0);
    trace += 's';
    join(fiber);
    EXPECT_EQ(hosted.joined(), nullptr);
    EXPECT_EQ(trace, "hso");
}

TEST(Hosted, AYieldIsEndedByAWakeupAndKeepsOne) {
    Hosted hosted([&](Hosted &me, int64_t result) {
        EXPECT_EQ(result, 0);
        return me.turns < 3 ? FIBER_STEP_YIELD : FIBER_STEP_END;
    });
    hosted.wake();
    settle();
    EXPECT_EQ(fiber_state(hosted.fiber), FIBER_WAITING);
    EXPECT_EQ(hosted.turns, 1);
    hosted.wake();
    hosted.wake(); // absorbed
    settle();
    EXPECT_EQ(hosted.turns, 2);
    hosted.wake();
    EXPECT_EQ(hosted.joined(), nullptr);
    EXPECT_EQ(hosted.turns, 3);
}

TEST(Hosted, AYieldAfterAnOperationIsEndedByAWakeupDuringIt) {
    Hosted hosted([](Hosted &me, int64_t result) {
        EXPECT_EQ(result, 0);
        me.op.number = FIBER_MSEC(3);
        if (me.turns == 2) return FIBER_STEP_YIELD;
        return me.turns < 4 && me.starts(FIBER_OP_SLEEP) ? FIBER_STEP_WAIT : FIBER_STEP_END;
    });
    hosted.wake();
    settle();
    hosted.wake();
    settle();
    hosted.joined();
    EXPECT_EQ(hosted.turns, 4);
}

TEST(Hosted, AYieldOperationBringsTheValue) {
    int64_t result = 1;
    Hosted hosted(once(
        FIBER_OP_YIELD, [](fiber_op_t &) {}, &result));
    hosted.wake();
    settle();
    EXPECT_EQ(fiber_wakeup_value(hosted.fiber, pointer(5)), 0);
    hosted.joined();
    EXPECT_EQ(result, 0);
    EXPECT_EQ(hosted.op.value, pointer(5));
    EXPECT_EQ(run_op(FIBER_OP_YIELD,
                     [](fiber_op_t &op) {
                         op.flags = FIBER_OP_TIMED;
                         op.timeout_ns = 1000;
                     }),
              -ETIMEDOUT);
}

// Ways in which a step must not end. The hosted fiber has no further turn; an operation that it started ends, and
// joiners get the result.
TEST(Hosted, AStepThatReturnsNonsenseIsItsLast) {
    for (const int nonsense : {-1, 4, 77, INT_MIN, INT_MIN + 1, INT_MAX}) {
        Hosted hosted([&](Hosted &, int64_t) { return nonsense; });
        hosted.wake();
        void *unchanged = pointer(3);
        EXPECT_EQ(fiber_join(hosted.fiber, &unchanged), -EINVAL);
        EXPECT_EQ(unchanged, pointer(3));
        EXPECT_EQ(hosted.turns, 1);
    }
    for (const int how : {FIBER_STEP_END, FIBER_STEP_AGAIN, FIBER_STEP_YIELD, 77}) {
        for (const bool shielded : {false, true}) {
            for (const uint32_t code : {FIBER_OP_RESCHEDULE, FIBER_OP_YIELD, FIBER_OP_SLEEP, FIBER_OP_SEM_WAIT}) {
                SCOPED_TRACE(code);
                fiber_sem_t sem{};
                Hosted hosted([&](Hosted &me, int64_t) {
                    fiber_scope_t scope{};
                    if (shielded) {
                        EXPECT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
                    }
                    me.op.number = code == FIBER_OP_SLEEP ? FIBER_FOREVER : 1;
                    me.op.address = &sem;
                    EXPECT_TRUE(me.starts(code));
                    return how;
                });
                hosted.wake();
                EXPECT_EQ(fiber_join(hosted.fiber, nullptr), -EINVAL);
                EXPECT_EQ(hosted.turns, 1);
                EXPECT_EQ(fiber_sem_destroy(&sem), 0); // no fiber waits there
            }
        }
    }
}

// Other fibers had their turn first, and by then the step has gone on: the memory that its operation points to may be
// gone.
TEST(Hosted, AnOperationThatWasPutOffIsNotBegunForAStepThatGoesOn) {
    for (const int how : {FIBER_STEP_END, FIBER_STEP_AGAIN, FIBER_STEP_YIELD, 77}) {
        for (const bool shielded : {false, true}) {
            fiber_event_t event{};
            ASSERT_EQ(fiber_event_init(&event, FIBER_EVENT_MANUAL), 0);
            ASSERT_EQ(fiber_event_set(&event), 0);
            Hosted hosted([&](Hosted &me, int64_t) {
                fiber_scope_t scope{};
                if (shielded) {
                    EXPECT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
                }
                me.op.address = &event;
                int begun = 0;
                while (!me.starts(FIBER_OP_EVENT_WAIT) && begun < 1'000'000) begun++;
                EXPECT_LT(begun, 1'000'000);
                EXPECT_EQ(fiber_event_reset(&event), 1);
                return how;
            });
            hosted.wake();
            EXPECT_EQ(fiber_join(hosted.fiber, nullptr), -EINVAL);
            EXPECT_EQ(hosted.turns, 1);
            EXPECT_EQ(hosted.op.result, -ECANCELED);
            EXPECT_EQ(fiber_event_destroy(&event), 0);
        }
    }
}

// It was woken before its step went on, so the operation could not be stopped, but another fiber got the lock first.
TEST(Hosted, AStepThatGoesOnDoesNotWaitForTheLockAgain) {
    NEEDS_THREADS();
    fiber_mutex_t mutex{};
    std::atomic<int> phase{0};
    const auto await_phase = [&](int wanted) { await_holding_the_thread([&] { return phase >= wanted; }); };
    Thread thread([&] {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        phase = 1;
        await_phase(2);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        const int again = fiber_mutex_trylock(&mutex); // if it has not waited for so long that it was given the lock
        phase = 3;
        await_phase(4);
        if (again == 0) {
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        }
    });
    await_phase(1);
    Hosted hosted([&](Hosted &me, int64_t) {
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_FOREVER, FIBER_SCOPE_SHIELD), 0);
        me.op.address = &mutex;
        EXPECT_TRUE(me.starts(FIBER_OP_MUTEX_LOCK));
        phase = 2;
        await_phase(3);
        return FIBER_STEP_END;
    });
    hosted.wake();
    EXPECT_EQ(fiber_join_timeout(hosted.fiber, nullptr, FIBER_SEC(60)), -EINVAL);
    phase = 4;
    thread.join();
}

TEST(Hosted, AStepThatWaitsForNothingIsAnError) {
    Hosted hosted([](Hosted &me, int64_t result) {
        EXPECT_EQ(result, me.turns == 1 ? 0 : -EINVAL);
        return me.turns < 3 ? FIBER_STEP_WAIT : FIBER_STEP_END;
    });
    hosted.wake();
    EXPECT_EQ(hosted.joined(), nullptr);
    EXPECT_EQ(hosted.turns, 3);
}

TEST(Hosted, AnUnknownOperationIsRefused) {
    for (const uint32_t code : {6u, 7u, 26u, UINT32_MAX, uint32_t(FIBER_OP_END)}) { // the last one: not in a step
        EXPECT_EQ(run_op(code, [](fiber_op_t &) {}), -EINVAL);
    }
    EXPECT_EQ(run_op(FIBER_OP_NONE, [](fiber_op_t &op) { op.reserved[0] = 1; }), -EINVAL);
    EXPECT_EQ(run_op(FIBER_OP_NONE, [](fiber_op_t &op) { op.flags = 2; }), -EINVAL);
}

TEST(Hosted, AStepCannotEnter) {
    Hosted hosted([](Hosted &me, int64_t) {
        EXPECT_EQ(fiber_hosted_enter(me.fiber), -EPERM);
        EXPECT_EQ(fiber_hosted_leave(), -EINVAL);
        return FIBER_STEP_END;
    });
    hosted.wake();
    hosted.joined();
}

TEST(Hosted, ASectionThatAStepLeavesOpenEndsWithIt) {
    for (int how : {FIBER_STEP_AGAIN, FIBER_STEP_YIELD}) {
        auto others = [](Hosted &me, int64_t result) {
            EXPECT_EQ(result, 0);
            EXPECT_EQ(fiber_noswitch_leave(), -EINVAL) << me.turns;
            return me.turns < 12 ? FIBER_STEP_AGAIN : FIBER_STEP_END;
        };
        Hosted leaves_open([&](Hosted &me, int64_t result) {
            if (me.turns != 5) return others(me, result);
            EXPECT_EQ(fiber_noswitch_enter(), 0);
            if (how == FIBER_STEP_YIELD) me.wake();
            return how;
        });
        Hosted next(others);
        leaves_open.wake();
        next.wake();
        settle();
        EXPECT_EQ(leaves_open.joined(), nullptr);
        EXPECT_EQ(next.joined(), nullptr);
        EXPECT_EQ(leaves_open.turns, 12);
        EXPECT_EQ(next.turns, 12);
    }
}

TEST(Hosted, SleepsAndReschedules) {
    EXPECT_EQ(run_op(FIBER_OP_NONE, [](fiber_op_t &) {}), 0);
    EXPECT_EQ(run_op(FIBER_OP_RESCHEDULE, [](fiber_op_t &) {}), 0);
    const int64_t begun = fiber_now();
    EXPECT_EQ(run_op(FIBER_OP_SLEEP, [](fiber_op_t &op) { op.number = FIBER_MSEC(2); }), 0);
    EXPECT_GE(fiber_now() - begun, FIBER_MSEC(2));
    EXPECT_EQ(run_op(FIBER_OP_SLEEP, [](fiber_op_t &op) { op.number = 0; }), 0);
    EXPECT_EQ(run_op(FIBER_OP_SLEEP, [](fiber_op_t &op) { op.number = -1; }), -EINVAL);
    EXPECT_EQ(run_op(FIBER_OP_SLEEP,
                     [](fiber_op_t &op) {
                         op.number = FIBER_FOREVER;
                         op.flags = FIBER_OP_TIMED;
                         op.timeout_ns = 1000;
                     }),
              -ETIMEDOUT);
}

TEST(Hosted, JoinsAndIsJoined) {
    auto body = [] {
        EXPECT_EQ(fiber_sleep(1000), 0);
        return pointer(3);
    };
    fiber_t fiber = spawn(body);
    int64_t result = 1;
    Hosted hosted(once(
        FIBER_OP_JOIN, [&](fiber_op_t &op) { op.target = fiber.id; }, &result));
    hosted.wake();
    hosted.joined();
    EXPECT_EQ(result, 0);
    EXPECT_EQ(hosted.op.value, pointer(3));
    EXPECT_EQ(run_op(FIBER_OP_JOIN, [&](fiber_op_t &op) { op.target = fiber.id; }), -ESRCH);
    EXPECT_EQ(run_op(FIBER_OP_JOIN, [&](fiber_op_t &op) { op.target = 5; }), -EINVAL);
    Hosted joins_itself(once(
        FIBER_OP_JOIN, [&](fiber_op_t &op) { fiber_self(reinterpret_cast<fiber_t *>(&op.target)); }, &result));
    joins_itself.wake();
    joins_itself.joined();
    EXPECT_EQ(result, -EDEADLK);
    auto quick = [] { return pointer(4); };
    fiber = start(quick); // it has ended
    Hosted late(once(
        FIBER_OP_JOIN, [&](fiber_op_t &op) { op.target = fiber.id; }, &result));
    late.wake();
    late.joined();
    EXPECT_EQ(late.op.value, pointer(4));
}

TEST(Hosted, JoinsAFiberOfAnotherCord) {
    fiber_event_t go{};
    auto body = [&] {
        EXPECT_EQ(fiber_event_wait(&go), 0);
        return pointer(9);
    };
    fiber_t fiber{};
    fiber_event_t made{};
    auto cord_body = [&] {
        fiber = spawn(body);
        EXPECT_EQ(fiber_event_set(&made), 0);
    };
    fiber_cord_t cord{};
    ASSERT_EQ(fiber_cord_start(&cord, nullptr, entry<decltype(cord_body)>, &cord_body), 0);
    EXPECT_EQ(fiber_event_wait(&made), 0);
    int64_t result = 1;
    Hosted hosted(once(
        FIBER_OP_JOIN, [&](fiber_op_t &op) { op.target = fiber.id; }, &result));
    Hosted stopped(once(
        FIBER_OP_JOIN, [&](fiber_op_t &op) { op.target = fiber.id; }, &result));
    hosted.wake();
    stopped.wake();
    settle();
    EXPECT_EQ(fiber_cancel(stopped.fiber, nullptr), 0);
    stopped.joined();
    EXPECT_EQ(result, -ECANCELED);
    EXPECT_EQ(fiber_event_set(&go), 0);
    hosted.joined();
    EXPECT_EQ(result, 0);
    EXPECT_EQ(hosted.op.value, pointer(9));
    expect_joined(fiber_cord_join(cord, nullptr));
}

TEST(Hosted, ACoroutineAndAStackfulFiberTalkOverOneChannel) {
    for (size_t capacity : {0, 1, 5}) {
        fiber_chan_t there{}, back{};
        ASSERT_EQ(fiber_chan_create(&there, sizeof(int), capacity), 0);
        ASSERT_EQ(fiber_chan_create(&back, sizeof(int), capacity), 0);
        constexpr int rounds = 50;
        int item = 0, doubled = 0;
        bool sends = false; // the next operation
        Hosted hosted([&](Hosted &me, int64_t result) {
            bool first = me.turns == 1;
            for (;;) {
                if (!first) {
                    if (result == -EPIPE) return FIBER_STEP_END;
                    EXPECT_EQ(result, 0);
                    if (sends) doubled = item * 2;
                }
                first = false;
                me.op.target = sends ? back.id : there.id;
                me.op.address = sends ? &doubled : &item;
                const uint32_t code = sends ? FIBER_OP_CHAN_SEND : FIBER_OP_CHAN_RECV;
                sends = !sends;
                if (me.starts(code)) return FIBER_STEP_WAIT;
                result = me.op.result;
                if (!sends && result == 0) continue;
            }
        });
        hosted.wake();
        auto body = [&] {
            for (int i = 0; i < rounds; i++) {
                EXPECT_EQ(fiber_chan_send(there, &i), 0);
                int answer = -1;
                EXPECT_EQ(fiber_chan_recv(back, &answer), 0);
                EXPECT_EQ(answer, 2 * i);
            }
            EXPECT_EQ(fiber_chan_close(there), 0);
        };
        run(body);
        hosted.joined();
        EXPECT_EQ(fiber_chan_destroy(there), 0);
        EXPECT_EQ(fiber_chan_destroy(back), 0);
    }
}

TEST(Hosted, LocksAndOtherThingsToWaitFor) {
    fiber_mutex_t mutex{};
    fiber_sem_t sem{};
    fiber_event_t event{};
    fiber_wg_t group{};
    fiber_rwlock_t rwlock{};
    ASSERT_EQ(fiber_mutex_lock(&mutex), 0);
    ASSERT_EQ(fiber_rwlock_wrlock(&rwlock), 0);
    ASSERT_EQ(fiber_wg_add(&group, 1), 0);
    Trace trace;
    auto waits_for = [&](uint32_t code, void *address, char name) {
        return [=, &trace](Hosted &me, int64_t result) {
            if (me.turns == 1) {
                me.op.address = address;
                me.op.number = 2;
                if (me.starts(code)) return FIBER_STEP_WAIT;
                result = me.op.result;
            }
            EXPECT_EQ(result, 0);
            trace += name;
            if (code == FIBER_OP_MUTEX_LOCK) {
                EXPECT_EQ(fiber_mutex_unlock(static_cast<fiber_mutex_t *>(address)), 0);
            }
            if (code == FIBER_OP_RDLOCK || code == FIBER_OP_WRLOCK) {
                EXPECT_EQ(fiber_rwlock_unlock(static_cast<fiber_rwlock_t *>(address)), 0);
            }
            return FIBER_STEP_END;
        };
    };
    std::deque<Hosted> all;
    all.emplace_back(waits_for(FIBER_OP_MUTEX_LOCK, &mutex, 'm'));
    all.emplace_back(waits_for(FIBER_OP_SEM_WAIT, &sem, 's'));
    all.emplace_back(waits_for(FIBER_OP_EVENT_WAIT, &event, 'e'));
    all.emplace_back(waits_for(FIBER_OP_WG_WAIT, &group, 'g'));
    all.emplace_back(waits_for(FIBER_OP_RDLOCK, &rwlock, 'r'));
    all.emplace_back(waits_for(FIBER_OP_WRLOCK, &rwlock, 'w'));
    for (const Hosted &hosted : all) hosted.wake();
    settle();
    for (const Hosted &hosted : all) EXPECT_EQ(fiber_state(hosted.fiber), FIBER_WAITING);
    EXPECT_EQ(trace, "");
    EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
    settle();
    EXPECT_EQ(fiber_sem_post(&sem, 1), 0);
    settle();
    EXPECT_EQ(fiber_event_set(&event), 0);
    settle();
    EXPECT_GE(fiber_wg_done(&group), 0);
    settle();
    EXPECT_EQ(fiber_rwlock_unlock(&rwlock), 0);
    settle();
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
    settle();
    EXPECT_EQ(trace, "segrwm");
    for (const Hosted &hosted : all) hosted.joined();
    EXPECT_EQ(fiber_mutex_destroy(&mutex), 0);
    EXPECT_EQ(fiber_rwlock_destroy(&rwlock), 0);
}

// Two hosted fibers and one with a stack take a mutex from each other, each giving turns while it holds it.
TEST(Hosted, AMutexIsOneFibersAtATime) {
    fiber_mutex_t mutex{};
    int inside = 0, done = 0;
    const int rounds = often(200, 20);
    auto body = [&] {
        for (int i = 0; i < rounds; i++) {
            EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
            EXPECT_EQ(inside++, 0);
            EXPECT_EQ(fiber_reschedule(), 0);
            EXPECT_EQ(--inside, 0);
            EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        }
        done++;
    };
    struct Locker {
        int left;
        bool holds = false;
    };
    auto locker = [&](Locker &it) {
        return [&](Hosted &me, int64_t result) {
            EXPECT_EQ(result, 0);
            if (it.holds) {
                EXPECT_EQ(--inside, 0);
                EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
                it.holds = false;
                if (--it.left == 0) {
                    done++;
                    return FIBER_STEP_END;
                }
                return FIBER_STEP_AGAIN;
            }
            if (me.op.code != FIBER_OP_MUTEX_LOCK) {
                me.op.address = &mutex;
                if (me.starts(FIBER_OP_MUTEX_LOCK)) return FIBER_STEP_WAIT;
            }
            me.op.code = FIBER_OP_NONE;
            EXPECT_EQ(fiber_mutex_trylock(&mutex), -EBUSY);
            EXPECT_EQ(inside++, 0);
            it.holds = true;
            return FIBER_STEP_AGAIN;
        };
    };
    Locker first{rounds}, second{rounds};
    Hosted a(locker(first)), b(locker(second));
    a.wake();
    b.wake();
    run(body);
    a.joined();
    b.joined();
    EXPECT_EQ(done, 3);
    EXPECT_EQ(fiber_mutex_destroy(&mutex), 0);
}

TEST(Hosted, AMutexHeldAtTheEndIsPassedOn) {
    fiber_mutex_t mutex{};
    int64_t result = 1;
    Hosted hosted(once(
        FIBER_OP_MUTEX_LOCK, [&](fiber_op_t &op) { op.address = &mutex; }, &result));
    hosted.wake();
    hosted.joined();
    EXPECT_EQ(result, 0);
    EXPECT_EQ(fiber_mutex_lock(&mutex), -EOWNERDEAD);
    EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
}

TEST(HostedIo, TransfersAndPolls) {
    NEEDS_IO();
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    Pipe pipe;
    const int ends[2] = {pipe.read_end, pipe.write_end};
    for (const int *fds : {static_cast<const int *>(pair), ends}) {
        char buffer[8] = "";
        int64_t result = 1;
        Hosted reader(once(FIBER_OP_READ, of_bytes(fds[0], buffer, sizeof buffer), &result));
        reader.wake();
        settle();
        EXPECT_EQ(fiber_state(reader.fiber), FIBER_WAITING);
        EXPECT_EQ(run_op(FIBER_OP_WRITE, of_bytes(fds[1], "abc", 3)), 3);
        reader.joined();
        EXPECT_EQ(result, 3);
        EXPECT_STREQ(buffer, "abc");
    }
    char byte = 'x';
    auto of_pair = [&](int end, int mode) {
        return [&pair, &byte, end, mode](fiber_op_t &op) {
            op.fd = pair[end];
            op.address = &byte;
            op.length = 1;
            op.mode = mode;
        };
    };
    EXPECT_EQ(run_op(FIBER_OP_SEND, of_pair(1, 0)), 1);
    EXPECT_EQ(run_op(FIBER_OP_RECV, of_pair(0, MSG_DONTWAIT)), 1); // although the last read has taken all there was
    EXPECT_EQ(run_op(FIBER_OP_RECV, of_pair(0, MSG_DONTWAIT)), -EAGAIN);
    EXPECT_EQ(run_op(FIBER_OP_SEND, of_pair(1, 0)), 1);
    EXPECT_EQ(run_op(FIBER_OP_POLL, of_pair(0, POLLIN)), POLLIN);
    EXPECT_EQ(run_op(FIBER_OP_RECV, of_pair(0, MSG_PEEK)), 1);
    EXPECT_EQ(run_op(FIBER_OP_RECV, of_pair(0, MSG_WAITALL)), 1);
    EXPECT_EQ(run_op(FIBER_OP_POLL, of_pair(0, 0)), -EINVAL);
    EXPECT_EQ(run_op(FIBER_OP_RECV, of_bytes(pair[0], nullptr, 1)), -EINVAL);
    EXPECT_EQ(run_op(FIBER_OP_CLOSE, of_pair(1, 0)), 0);
    EXPECT_EQ(run_op(FIBER_OP_SEND, of_pair(0, 0)), -EPIPE); // and no SIGPIPE
    EXPECT_EQ(run_op(FIBER_OP_RECV, of_pair(0, 0)), 0);
    EXPECT_EQ(run_op(FIBER_OP_CLOSE, of_pair(0, 0)), 0);
    EXPECT_EQ(run_op(FIBER_OP_CLOSE, of_pair(0, 0)), -EBADF);
    EXPECT_EQ(run_op(FIBER_OP_READ, of_pair(0, 0)), -EBADF);
}

TEST(HostedIo, AcceptsAndConnects) {
    NEEDS_IO();
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ASSERT_EQ(bind_to_own_address(listener), 0);
    ASSERT_EQ(listen(listener, 4), 0);
    sockaddr_in address{};
    socklen_t length = sizeof address;
    ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length), 0);
    int64_t accepted = -1;
    sockaddr_in peer{};
    socklen_t peer_length = sizeof peer;
    Hosted server(once(
        FIBER_OP_ACCEPT,
        [&](fiber_op_t &op) {
            op.fd = listener;
            op.mode = SOCK_CLOEXEC;
            op.address = &peer;
            op.address2 = &peer_length;
        },
        &accepted));
    server.wake();
    settle();
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(run_op(FIBER_OP_CONNECT, of_bytes(client, &address, sizeof address)), 0);
    server.joined();
    ASSERT_GE(accepted, 0);
    for (const uint64_t length_too_long : {(uint64_t(1) << 32) + sizeof address, UINT64_MAX}) {
        EXPECT_EQ(run_op(FIBER_OP_CONNECT, of_bytes(client, &address, length_too_long)), -EINVAL);
    }
    EXPECT_EQ(peer.sin_family, AF_INET);
    EXPECT_EQ(run_op(FIBER_OP_ACCEPT,
                     [&](fiber_op_t &op) {
                         op.fd = listener;
                         op.mode = 1;
                     }),
              -EINVAL);
    EXPECT_EQ(run_op(FIBER_OP_ACCEPT,
                     [&](fiber_op_t &op) {
                         op.fd = listener;
                         op.flags = FIBER_OP_TIMED;
                         op.timeout_ns = 0;
                     }),
              -ETIMEDOUT);
    ::close(client);
    ::close(listener);
    ::close(int(accepted));
}

TEST(HostedIo, FilesAreReadInTheirOrder) {
    NEEDS_IO();
    const std::string path = testing::TempDir() + "fiberrt-hosted-file-" + std::to_string(::getpid());
    int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    unlink(path.c_str());
    static char text[] = "one two";
    EXPECT_EQ(run_op(FIBER_OP_WRITE, of_bytes(fd, text, 7)), 7);
    EXPECT_EQ(lseek(fd, 4, SEEK_SET), 4);
    char buffer[8] = "";
    EXPECT_EQ(run_op(FIBER_OP_READ, of_bytes(fd, buffer, sizeof buffer)), 3);
    EXPECT_STREQ(buffer, "two");
    ::close(fd);
}

TEST(HostedIo, ClosingEndsOperationsUnderWay) {
    NEEDS_IO();
    Pipe pipe;
    char byte;
    int64_t result = 1;
    Hosted reader(once(FIBER_OP_READ, of_bytes(pipe.read_end, &byte, 1), &result));
    reader.wake();
    settle();
    EXPECT_EQ(fiber_close(pipe.read_end), 0);
    pipe.read_end = -1;
    reader.joined();
    EXPECT_EQ(result, -EBADF);
}

TEST(Hosted, ACallMayWaitOnAStackOfItsOwn) {
    static fiber_event_t event;
    event = {};
    int64_t result = 1;
    auto waits = [](fiber_op_t &op) {
        op.function = [](void *argument) -> int64_t {
            EXPECT_EQ(argument, pointer(6));
            const int error = fiber_event_wait(&event);
            return error ? error : 66;
        };
        op.address = pointer(6);
    };
    Hosted hosted(once(FIBER_OP_CALL, waits, &result));
    hosted.wake();
    settle();
    EXPECT_EQ(fiber_event_set(&event), 0);
    hosted.joined();
    EXPECT_EQ(result, 66);
    Hosted stopped(once(FIBER_OP_CALL, waits, &result));
    stopped.wake();
    settle();
    EXPECT_EQ(fiber_cancel(stopped.fiber, nullptr), 0);
    stopped.joined();
    EXPECT_EQ(result, -ECANCELED);
    Hosted interrupted(once(FIBER_OP_CALL, waits, &result));
    interrupted.wake();
    settle();
    EXPECT_EQ(fiber_interrupt(interrupted.fiber, pointer(1)), 0);
    interrupted.joined();
    EXPECT_EQ(result, -EINTR);
    EXPECT_EQ(run_op(FIBER_OP_CALL,
                     [&](fiber_op_t &op) {
                         waits(op);
                         op.flags = FIBER_OP_TIMED;
                         op.timeout_ns = 1000;
                     }),
              -ETIMEDOUT);
    EXPECT_EQ(run_op(FIBER_OP_CALL,
                     [](fiber_op_t &op) { op.function = [](void *) -> int64_t { return fiber_exit(pointer(5)); }; }),
              5);
    EXPECT_EQ(run_op(FIBER_OP_CALL, [](fiber_op_t &) {}), -EINVAL);
}

// ---- Early ends -----------------------------------------------------------------------------------------------------

struct Waiting {
    fiber_mutex_t mutex{};
    fiber_sem_t sem{};
    fiber_event_t event{};
    fiber_wg_t group{};
    fiber_rwlock_t rwlock{};
    fiber_chan_t to_send{}, to_receive{};
    Pipe pipe;
    char byte = 0;
    std::function<void()> long_body = [this] { EXPECT_EQ(fiber_event_wait(&event), 0); };
    fiber_t other{};

    Waiting() {
        EXPECT_EQ(fiber_mutex_lock(&mutex), 0);
        EXPECT_EQ(fiber_rwlock_wrlock(&rwlock), 0);
        EXPECT_EQ(fiber_wg_add(&group, 1), 0);
        EXPECT_EQ(fiber_chan_create(&to_send, 1, 0), 0);
        EXPECT_EQ(fiber_chan_create(&to_receive, 1, 0), 0);
        other = start(long_body);
    }
    ~Waiting() {
        EXPECT_EQ(fiber_event_set(&event), 0);
        join(other);
        EXPECT_EQ(fiber_rwlock_unlock(&rwlock), 0);
        EXPECT_EQ(fiber_mutex_unlock(&mutex), 0);
        EXPECT_EQ(fiber_chan_destroy(to_send), 0); // no fiber is left in it
        EXPECT_EQ(fiber_chan_destroy(to_receive), 0);
        EXPECT_EQ(fiber_mutex_destroy(&mutex), 0);
        EXPECT_EQ(fiber_sem_destroy(&sem), 0);
        EXPECT_EQ(fiber_wg_destroy(&group), 0);
    }
    void prepare(fiber_op_t &op) {
        op.number = op.code == FIBER_OP_SLEEP ? FIBER_FOREVER : 1;
        op.target = op.code == FIBER_OP_JOIN ? other.id : (op.code == FIBER_OP_CHAN_SEND ? to_send : to_receive).id;
        op.fd = pipe.read_end;
        op.length = 1;
        op.mode = op.code == FIBER_OP_POLL ? POLLIN : 0;
        switch (op.code) {
        case FIBER_OP_MUTEX_LOCK: op.address = &mutex; break;
        case FIBER_OP_SEM_WAIT: op.address = &sem; break;
        case FIBER_OP_EVENT_WAIT: op.address = &event; break;
        case FIBER_OP_WG_WAIT: op.address = &group; break;
        case FIBER_OP_RDLOCK:
        case FIBER_OP_WRLOCK: op.address = &rwlock; break;
        default: op.address = &byte; break;
        }
    }
};

const uint32_t waiting_codes[] = {
    FIBER_OP_YIELD,   FIBER_OP_SLEEP,  FIBER_OP_JOIN,   FIBER_OP_MUTEX_LOCK, FIBER_OP_SEM_WAIT,  FIBER_OP_EVENT_WAIT,
    FIBER_OP_WG_WAIT, FIBER_OP_RDLOCK, FIBER_OP_WRLOCK, FIBER_OP_CHAN_SEND,  FIBER_OP_CHAN_RECV,
#if FIBERRT_TEST_IO
    FIBER_OP_READ,    FIBER_OP_POLL,
#endif
};

// Each operation, ended early by `end(fiber)`, with `flags` and 1 us as its own timeout.
void each_ends_early(int64_t expected, unsigned flags, std::function<void(fiber_t)> end) {
    for (const uint32_t code : waiting_codes) {
        SCOPED_TRACE(code);
        Waiting all;
        int64_t result = 1;
        Hosted hosted(once(
            code,
            [&](fiber_op_t &op) {
                op.code = code;
                all.prepare(op);
                op.flags = flags;
                op.timeout_ns = 1000;
            },
            &result));
        hosted.wake();
        settle(hosted);
        if (!flags) {
            EXPECT_EQ(fiber_state(hosted.fiber), FIBER_WAITING);
        }
        end(hosted.fiber);
        hosted.joined();
        EXPECT_EQ(result, expected);
    }
}

TEST(HostedCancel, EndsEveryWait) {
    each_ends_early(-ECANCELED, 0, [](fiber_t fiber) { EXPECT_EQ(fiber_cancel(fiber, nullptr), 0); });
}

#if FIBERRT_TEST_IO
// A transfer that the kernel could have done when its wait was ended early. It succeeds.
// turns: how often the caller lets others run before the operation begins. Up to 20 of them also pass between the
// operation's beginning and its end.
constexpr int until_it_waits = -1;
void each_had_happened(bool nonblock, int turns, std::function<void(fiber_t)> end) {
    struct Case {
        uint32_t code;
        Call call;
    };
    const Case cases[] = {
        {FIBER_OP_READ, Call::read},          {FIBER_OP_READ, Call::read_socket}, {FIBER_OP_WRITE, Call::write},
        {FIBER_OP_WRITE, Call::write_socket}, {FIBER_OP_RECV, Call::recv},        {FIBER_OP_SEND, Call::send},
        {FIBER_OP_ACCEPT, Call::accept},      {FIBER_OP_POLL, Call::poll_in},     {FIBER_OP_POLL, Call::poll_out}};
    for (const Case &it : cases) {
        SCOPED_TRACE(call_name(it.call));
        WaitingCall call(it.call, nonblock);
        int64_t result = 1;
        Hosted hosted(once(
            it.code,
            [&](fiber_op_t &op) {
                op.fd = call.descriptor();
                if (it.code != FIBER_OP_ACCEPT) op.address = call.buffer;
                op.length = it.code == FIBER_OP_ACCEPT ? 0 : 4;
                if (it.code == FIBER_OP_POLL) op.mode = it.call == Call::poll_in ? POLLIN : POLLOUT;
            },
            &result));
        for (int i = 0; i < turns; i++) EXPECT_EQ(fiber_reschedule(), 0);
        hosted.wake();
        if (turns == until_it_waits) {
            settle(hosted);
            EXPECT_EQ(fiber_state(hosted.fiber), FIBER_WAITING);
        } else {
            while (hosted.turns == 0) EXPECT_EQ(fiber_reschedule(), 0);
            for (int i = 0; i < turns % 21; i++) EXPECT_EQ(fiber_reschedule(), 0);
        }
        EXPECT_EQ(result, 1);
        call.let_through();
        call.await_readiness();
        end(hosted.fiber);
        hosted.joined();
        if (it.code == FIBER_OP_ACCEPT) {
            EXPECT_GE(result, 0);
            Descriptor accepted(int(result < 0 ? -1 : result));
        } else {
            EXPECT_EQ(result, call.success());
        }
    }
}

// A send that poll(2) would not end on a shutdown is tried again after a while. If an interrupt or a cancel comes when
// that time is over but before the fiber's turn, the fiber gets the interrupt or cancel.
TEST(HostedCancel, OfASendThatIsTriedAgainIsReported) {
    for (const bool cancels : {false, true}) {
        Stream pair = make_stream(Kind::unix_stream);
        const std::string bytes(10000, 'b');
        while (::send(pair.writer, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {}
        int64_t result = 1;
        Hosted hosted(once(FIBER_OP_SEND, of_bytes(pair.writer, bytes.data(), bytes.size()), &result));
        hosted.wake();
        settle(hosted);
        EXPECT_EQ(fiber_state(hosted.fiber), FIBER_WAITING);
        auto end = [&] {
            EXPECT_EQ(cancels ? fiber_cancel(hosted.fiber, nullptr) : fiber_interrupt(hosted.fiber, nullptr), 0);
        };
        EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0);
        const fiber_t ender = spawn(end); // in the queue before the fiber whose time is over
        const int64_t begun = fiber_now();
        while (!simulated() && fiber_now() - begun < FIBER_MSEC(3)) { // nothing is polled meanwhile
        }
        EXPECT_EQ(fiber_sleep(0), 0);
        join(ender);
        hosted.joined();
        EXPECT_EQ(result, cancels ? -ECANCELED : -EINTR);
    }
}

TEST(HostedCancel, OfASendReportsAShutdownThatCameBeforeIt) {
    NOT_ON_SIM("has a time that passes too quickly");
    for (int looks = 0; looks < 8; looks++) {
        Stream pair = make_stream(Kind::unix_stream);
        fill(pair.writer);
        char byte = 'b';
        int64_t result = 1;
        Hosted hosted(once(FIBER_OP_SEND, of_bytes(pair.writer, &byte, 1), &result));
        hosted.wake();
        settle(hosted);
        EXPECT_EQ(fiber_sleep(FIBER_USEC(10)), 0); // it has been tried
        EXPECT_EQ(result, 1);
        EXPECT_EQ(::shutdown(pair.writer, SHUT_WR), 0);
        const int64_t begun = fiber_now();
        while (fiber_now() - begun < FIBER_MSEC(3)) {} // nothing is polled meanwhile
        for (int i = 0; i < looks; i++) EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(fiber_cancel(hosted.fiber, nullptr), 0);
        hosted.joined();
        EXPECT_EQ(result, -EPIPE);
    }
}

TEST(HostedCancel, ACompletionBeforeItCounts) {
    for (bool nonblock : {false, true}) {
        each_had_happened(nonblock, until_it_waits, [](fiber_t fiber) { EXPECT_EQ(fiber_cancel(fiber, nullptr), 0); });
        each_had_happened(nonblock, until_it_waits,
                          [](fiber_t fiber) { EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0); });
    }
}

// Also while the fiber is about to wait: a try was refused, and other fibers run before the wait begins.
TEST(HostedCancel, ACompletionBeforeItCountsAtEveryMoment) {
    for (int turns = 0; turns < often(100, 10); turns++) {
        SCOPED_TRACE(turns);
        each_had_happened(turns % 2, turns, [](fiber_t fiber) { EXPECT_EQ(fiber_cancel(fiber, nullptr), 0); });
    }
}
#endif

TEST(HostedCancel, AnInterruptEndsEveryWaitOnce) {
    each_ends_early(-EINTR, 0, [](fiber_t fiber) { EXPECT_EQ(fiber_interrupt(fiber, nullptr), 0); });
}

TEST(HostedCancel, ATimeoutEndsEveryWait) {
    each_ends_early(-ETIMEDOUT, FIBER_OP_TIMED, [](fiber_t) {});
}

TEST(HostedCancel, AScopesDeadlineEndsEveryWait) {
    for (const uint32_t code : waiting_codes) {
        SCOPED_TRACE(code);
        Waiting all;
        int64_t result = 1;
        int verdict = 1;
        fiber_scope_t scope{};
        Hosted hosted([&](Hosted &me, int64_t got) {
            if (me.turns == 1) {
                EXPECT_EQ(fiber_scope_open(&scope, 1000, 0), 0);
                me.op.code = code;
                all.prepare(me.op);
                if (me.starts(code)) return FIBER_STEP_WAIT;
                got = me.op.result;
            }
            result = got;
            verdict = fiber_scope_close(scope, nullptr);
            return FIBER_STEP_END;
        });
        hosted.wake();
        hosted.joined();
        EXPECT_EQ(result, -ETIMEDOUT);
        EXPECT_EQ(verdict, -ETIMEDOUT);
    }
}

TEST(HostedCancel, APendingCancelRefusesEveryOperation) {
    for (const uint32_t code : waiting_codes) {
        SCOPED_TRACE(code);
        Waiting all;
        int64_t result = 1;
        Hosted hosted([&](Hosted &me, int64_t got) {
            if (me.turns == 1) {
                EXPECT_EQ(fiber_cancel(me.fiber, pointer(2)), 0);
                me.op.code = code;
                all.prepare(me.op);
                if (me.starts(code)) return FIBER_STEP_WAIT;
                got = me.op.result;
            }
            void *reason = nullptr;
            EXPECT_EQ(fiber_cancelled(&reason), 1);
            EXPECT_EQ(reason, pointer(2));
            result = got;
            return FIBER_STEP_END;
        });
        hosted.wake();
        hosted.joined();
        EXPECT_EQ(result, -ECANCELED);
    }
}

TEST(HostedCancel, BeforeTheFirstTurnTheStepStillRunsOnce) {
    for (bool woken : {false, true}) {
        int64_t result = 1;
        Hosted hosted([&](Hosted &, int64_t got) {
            result = got;
            return FIBER_STEP_END;
        });
        if (woken) hosted.wake();
        EXPECT_EQ(fiber_cancel(hosted.fiber, nullptr), 0);
        hosted.joined();
        EXPECT_EQ(result, -ECANCELED);
        EXPECT_EQ(hosted.turns, 1);
    }
}

TEST(HostedCancel, TurnsByReturnValueReportIt) {
    for (const int how : {FIBER_STEP_AGAIN, FIBER_STEP_YIELD}) {
        std::vector<int64_t> results;
        Hosted hosted([&](Hosted &me, int64_t result) {
            results.push_back(result);
            if (me.turns == 1) {
                EXPECT_EQ(fiber_interrupt(me.fiber, nullptr), 0);
            }
            if (me.turns == 2) {
                EXPECT_EQ(fiber_cancel(me.fiber, nullptr), 0);
            }
            return me.turns < 3 ? how : FIBER_STEP_END;
        });
        hosted.wake();
        hosted.joined();
        EXPECT_EQ(results, (std::vector<int64_t>{0, -EINTR, -ECANCELED}));
    }
}

// ---- Exchange -------------------------------------------------------------------------------------------------------

struct Handed {
    fiber_t fiber{};
    fiber_op_t op{};
    int turns = 0;

    Handed() { EXPECT_EQ(fiber_hosted_new(&fiber, nullptr, nullptr, this), 0); }
    Handed(const Handed &) = delete;
    fiber_op_t *next(uint32_t code) {
        op.code = code;
        op.fiber = fiber;
        return &op;
    }
};

TEST(Exchange, HandsOutInTheOrderOfTheTurns) {
    std::string all;
    Handed handed[3];
    auto stackful = [&] {
        for (int i = 0; i < 3; i++) {
            all += 'f';
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    };
    EXPECT_EQ(fiber_wakeup(handed[0].fiber), 0);
    fiber_t fiber = spawn(stackful);
    EXPECT_EQ(fiber_wakeup(handed[1].fiber), 0);
    EXPECT_EQ(fiber_wakeup(handed[2].fiber), 0);
    int left = 3;
    std::vector<fiber_op_t *> ops;
    fiber_completion_t out[2];
    while (left) {
        const int count = fiber_exchange(ops.data(), int(ops.size()), out, 2, FIBER_FOREVER);
        ASSERT_GT(count, 0);
        ops.clear();
        for (int i = 0; i < count; i++) {
            auto &it = *static_cast<Handed *>(out[i].user);
            EXPECT_EQ(out[i].fiber.id, it.fiber.id);
            EXPECT_EQ(out[i].op, it.turns ? &it.op : nullptr);
            EXPECT_EQ(out[i].result, 0);
            EXPECT_EQ(fiber_state(it.fiber), FIBER_RUNNING);
            all += char('a' + (&it - handed));
            if (++it.turns < 3) {
                ops.push_back(it.next(FIBER_OP_RESCHEDULE));
            } else {
                it.op.value = pointer(&it - handed);
                ops.push_back(it.next(FIBER_OP_END));
                left--;
            }
        }
    }
    EXPECT_EQ(fiber_exchange(ops.data(), int(ops.size()), out, 2, 0), 0);
    join(fiber);
    for (int i = 0; i < 3; i++) EXPECT_EQ(join(handed[i].fiber), pointer(i));
    Trace hosts; // where the f are among them is for the thread's time slices to say
    for (const char c : all) {
        if (c != 'f') hosts += c;
    }
    EXPECT_EQ(hosts, "abcabcabc");
    EXPECT_EQ(all.size(), 12u);
}

TEST(Exchange, WaitsSleepsAndTimesOut) {
    Handed sleeper;
    fiber_completion_t out[4];
    EXPECT_EQ(fiber_exchange(nullptr, 0, out, 4, 0), 0);
    EXPECT_EQ(fiber_exchange(nullptr, 0, out, 4, 1000), 0);
    EXPECT_EQ(fiber_wakeup(sleeper.fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 4, FIBER_FOREVER), 1);
    sleeper.op.number = FIBER_MSEC(1);
    fiber_op_t *op = sleeper.next(FIBER_OP_SLEEP);
    const int64_t begun = fiber_now();
    ASSERT_EQ(fiber_exchange(&op, 1, out, 4, FIBER_FOREVER), 1);
    EXPECT_GE(fiber_now() - begun, FIBER_MSEC(1));
    EXPECT_EQ(out[0].op, op);
    EXPECT_EQ(fiber_hosted_end(sleeper.fiber, pointer(4)), 0);
    EXPECT_EQ(join(sleeper.fiber), pointer(4));
}

TEST(Exchange, AYieldIsEndedByAWakeupThatCameBefore) {
    Handed handed;
    fiber_completion_t out[1];
    EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
    settle();
    fiber_op_t *op = handed.next(FIBER_OP_YIELD);
    ASSERT_EQ(fiber_exchange(&op, 1, out, 1, FIBER_FOREVER), 1);
    EXPECT_EQ(out[0].op, op);
    EXPECT_EQ(out[0].result, 0);
    settle();
    EXPECT_EQ(fiber_hosted_end(handed.fiber, nullptr), 0);
    join(handed.fiber);
}

TEST(Exchange, AReasonIsForAYieldAndHasAText) {
    char text[] = "waits in a test";
    Handed handed;
    fiber_completion_t out[1];
    EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    for (const uint32_t code : {FIBER_OP_SLEEP, FIBER_OP_RESCHEDULE, FIBER_OP_YIELD}) {
        fiber_op_t *op = handed.next(code);
        op->flags = FIBER_OP_REASON;
        op->address = code == FIBER_OP_YIELD ? nullptr : text;
        ASSERT_EQ(fiber_exchange(&op, 1, out, 1, FIBER_FOREVER), 1);
        EXPECT_EQ(out[0].op, op);
        EXPECT_EQ(out[0].result, -EINVAL);
    }
    fiber_op_t *op = handed.next(FIBER_OP_YIELD);
    op->flags = FIBER_OP_REASON | FIBER_OP_TIMED;
    op->timeout_ns = FIBER_MSEC(1);
    op->address = text;
    ASSERT_EQ(fiber_exchange(&op, 1, out, 1, FIBER_FOREVER), 1);
    EXPECT_EQ(out[0].result, -ETIMEDOUT);
    EXPECT_EQ(fiber_hosted_end(handed.fiber, nullptr), 0);
    join(handed.fiber);
}

TEST(Exchange, MisuseIsReturned) {
    Handed one, two;
    fiber_completion_t out[4];
    fiber_op_t *op = one.next(FIBER_OP_SLEEP);
    EXPECT_EQ(fiber_exchange(&op, -1, out, 4, 0), -EINVAL);
    EXPECT_EQ(fiber_exchange(nullptr, 1, out, 4, 0), -EINVAL);
    EXPECT_EQ(fiber_exchange(&op, 1, nullptr, 4, 0), -EINVAL);
    EXPECT_EQ(fiber_exchange(&op, 1, out, 0, 0), -EINVAL);
    EXPECT_EQ(fiber_exchange(&op, 1, out, 1, -1), -EINVAL);
    fiber_op_t *none = nullptr;
    EXPECT_EQ(fiber_exchange(&none, 1, out, 1, 0), -EINVAL);
    ASSERT_EQ(fiber_exchange(&op, 1, out, 4, 0), 1); // it has had no turn yet
    EXPECT_EQ(out[0].result, -EBUSY);
    EXPECT_EQ(out[0].user, nullptr);
    EXPECT_EQ(fiber_wakeup(one.fiber), 0);
    EXPECT_EQ(fiber_wakeup(two.fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 4, FIBER_FOREVER), 2);
    EXPECT_EQ(fiber_op_start(nullptr), -EINVAL);
    fiber_op_t of_nobody{};
    EXPECT_EQ(fiber_op_start(&of_nobody), -EINVAL); // the caller has a stack
    of_nobody.fiber = self();
    EXPECT_EQ(fiber_op_start(&of_nobody), -EINVAL);
    of_nobody.fiber.id = 77;
    EXPECT_EQ(fiber_op_start(&of_nobody), -EINVAL);
    one.op.code = 9999;
    ASSERT_EQ(fiber_exchange(&op, 1, out, 4, 0), 1);
    EXPECT_EQ(out[0].result, -EINVAL);
    EXPECT_EQ(out[0].user, &one);
    op->code = FIBER_OP_SLEEP;
    auto result_of_op = [&] {
        const int begun = fiber_op_start(op);
        if (begun == 0) { // it was time for others
            EXPECT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
        }
        EXPECT_GE(begun, 0);
        return op->result;
    };
    op->flags = 0x80;
    EXPECT_EQ(result_of_op(), -EINVAL);
    op->flags = FIBER_OP_TIMED;
    op->timeout_ns = -1;
    EXPECT_EQ(result_of_op(), -EINVAL);
    EXPECT_EQ(fiber_transfer(one.fiber, nullptr, nullptr), -EINVAL);
    EXPECT_EQ(fiber_start(one.fiber), -EBUSY);
    in_thread([&] {
        EXPECT_EQ(fiber_op_start(op), -EPERM);
        EXPECT_EQ(fiber_hosted_end(one.fiber, nullptr), -EPERM);
        EXPECT_EQ(fiber_hosted_enter(one.fiber), -EPERM);
        void *user;
        EXPECT_EQ(fiber_hosted_user(one.fiber, &user), -EPERM);
        fiber_completion_t there[1];
        if (!simulated()) {
            EXPECT_EQ(fiber_exchange(&op, 1, there, 1, 0), 1);
            EXPECT_EQ(there[0].result, -EPERM);
        }
    });
    EXPECT_EQ(fiber_hosted_new(nullptr, nullptr, nullptr, nullptr), -EINVAL);
    EXPECT_EQ(fiber_hosted_user(self(), nullptr), -EINVAL);
    void *user;
    EXPECT_EQ(fiber_hosted_user(self(), &user), -EINVAL);
    EXPECT_EQ(fiber_hosted_end(self(), nullptr), -EINVAL);
    EXPECT_EQ(fiber_hosted_leave(), -EINVAL);
    EXPECT_EQ(fiber_ops_create(nullptr, 1), -EINVAL);
    fiber_op_t *ops = nullptr;
    EXPECT_EQ(fiber_ops_create(&ops, 0), -EINVAL);
    errno = ERANGE;
    EXPECT_EQ(fiber_ops_create(&ops, SIZE_MAX), -ENOMEM);
#if !FIBERRT_TEST_ASAN && !FIBERRT_TEST_TSAN // whose calloc ends the program instead
    EXPECT_EQ(fiber_ops_create(&ops, size_t(PTRDIFF_MAX) / sizeof(fiber_op_t)), -ENOMEM);
#endif
    EXPECT_EQ(errno, ERANGE);
    ASSERT_EQ(fiber_ops_create(&ops, 2), 0);
    EXPECT_EQ(ops[1].internal[35], 0u);
    EXPECT_EQ(fiber_ops_destroy(ops), 0);
    EXPECT_EQ(fiber_ops_destroy(nullptr), 0);
    EXPECT_EQ(fiber_hosted_end(one.fiber, nullptr), 0);
    EXPECT_EQ(fiber_hosted_end(two.fiber, nullptr), 0);
    join(one.fiber);
    join(two.fiber);
    EXPECT_EQ(fiber_hosted_end(two.fiber, nullptr), -ESRCH);
}

TEST(Exchange, OneFiberAtATimeAndItMayBeCancelled) {
    fiber_completion_t out[1];
    Handed handed;
    int result = 1;
    auto body = [&] { result = fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER); };
    fiber_t fiber = start(body);
    fiber_op_t *op = handed.next(FIBER_OP_SLEEP);
    EXPECT_EQ(fiber_exchange(&op, 1, out, 1, 0), -EBUSY);
    EXPECT_EQ(op->result, -EAGAIN);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(result, -ECANCELED);
    EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
    EXPECT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    EXPECT_EQ(fiber_hosted_end(handed.fiber, nullptr), 0);
    join(handed.fiber);
}

// After an error the results in the records say whether the operations were started.
TEST(Exchange, AnErrorReturnsTheNumberOfStartedOperations) {
    fiber_completion_t out[1];
    Handed handed;
    EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    fiber_op_t *op = handed.next(FIBER_OP_YIELD);
    op->result = 5;
    EXPECT_EQ(fiber_interrupt(self(), nullptr), 0);
    EXPECT_EQ(fiber_exchange(&op, 1, out, 1, FIBER_FOREVER), -EINTR);
    EXPECT_EQ(op->result, -EAGAIN);
    const fiber_t host = self();
    auto interrupts = [&] { EXPECT_EQ(fiber_interrupt(host, nullptr), 0); };
    do {
        fiber_t other = spawn(interrupts);
        EXPECT_EQ(fiber_exchange(&op, 1, out, 1, FIBER_FOREVER), -EINTR);
        join(other);
    } while (op->result == -EAGAIN); // it was time for the other's turn before anything was started
    EXPECT_EQ(op->result, 0);
    EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    EXPECT_EQ(out[0].op, op);
    EXPECT_EQ(fiber_hosted_end(handed.fiber, nullptr), 0);
    join(handed.fiber);
}

// Interrupted at the moment at which a hosted fiber has a turn: either this call reports the turn and the next call the
// interrupt, or the other way round.
TEST(Exchange, AnEndAndATurnAtTheSameTimeAreBothReported) {
    for (const bool turn_first : {true, false}) {
        SCOPED_TRACE(turn_first);
        Handed handed;
        fiber_completion_t out[1] = {}, next[1] = {};
        int64_t first = 1, second = 1;
        auto body = [&] {
            first = fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER);
            second = fiber_exchange(nullptr, 0, next, 1, FIBER_FOREVER);
        };
        fiber_t host = start(body);
        // Has its turn right after the hosted fiber, and before the host, whose completion is already there.
        auto interrupts = [&] { EXPECT_EQ(fiber_interrupt(host, nullptr), 0); };
        if (turn_first) {
            EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
            join(spawn(interrupts));
        } else {
            EXPECT_EQ(fiber_wakeup(handed.fiber), 0); // runnable before the host, whose wait the interrupt ends
            EXPECT_EQ(fiber_interrupt(host, nullptr), 0);
        }
        join(host);
        EXPECT_EQ(first, turn_first ? 1 : -EINTR);
        EXPECT_EQ(second, turn_first ? -EINTR : 1);
        EXPECT_EQ((turn_first ? out : next)[0].fiber.id, handed.fiber.id);
        EXPECT_EQ(fiber_hosted_end(handed.fiber, nullptr), 0);
        join(handed.fiber);
    }
}

// Starting the operations calls a function that cancels or interrupts the host: the host must not wait for ever then.
fiber_t to_be_interrupted;

TEST(Exchange, AnOperationThatItStartsMayInterruptIt) {
    fiber_key_t key;
    auto destroy = [](void *) { EXPECT_EQ(fiber_interrupt(to_be_interrupted, nullptr), 0); };
    ASSERT_EQ(fiber_key_create(&key, destroy), 0);
    to_be_interrupted = self();
    Handed handed;
    fiber_completion_t out[1];
    EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    ASSERT_EQ(fiber_hosted_enter(handed.fiber), 0);
    EXPECT_EQ(fiber_key_set(key, pointer(1)), 0);
    EXPECT_EQ(fiber_hosted_leave(), 0);
    fiber_op_t *op = handed.next(FIBER_OP_END);
    const int64_t begun = fiber_now();
    EXPECT_EQ(fiber_exchange(&op, 1, out, 1, FIBER_SEC(60)), -EINTR);
    EXPECT_LT(fiber_now() - begun, FIBER_SEC(30)); // not only when the time was over
    join(handed.fiber);
    EXPECT_EQ(fiber_key_delete(key), 0);
}

// A woken fiber is still in the call until it has gone on and taken the completion.
TEST(Exchange, ACompletionGoesToTheFiberThatWasWokenForIt) {
    fiber_completion_t out[1], taken[1];
    Handed handed;
    int first = -1, second = -1;
    auto one = [&] { first = fiber_exchange(nullptr, 0, taken, 1, FIBER_FOREVER); };
    auto two = [&] { second = fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER); };
    fiber_t waiting = start(one);
    EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
    fiber_t other = spawn(two); // has its turn after the hosted one, and before the one that waits
    join(other);
    EXPECT_EQ(second, -EBUSY);
    join(waiting);
    EXPECT_EQ(first, 1);
    EXPECT_EQ(taken[0].fiber.id, handed.fiber.id);
    EXPECT_EQ(fiber_hosted_end(handed.fiber, nullptr), 0);
    join(handed.fiber);
}

// Operations that always complete at once, and yet give way to other runnable fibers and to timers.
void keeps_busy(uint32_t code, void *address) {
    SCOPED_TRACE(code);
    Handed handed;
    fiber_completion_t out[1];
    EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    bool ran = false, woke = false;
    auto runs = [&] { ran = true; };
    auto sleeps = [&] {
        EXPECT_EQ(fiber_sleep(1000), 0);
        woke = true;
    };
    fiber_t other = spawn(runs), sleeper = spawn(sleeps);
    handed.op.address = address;
    fiber_op_t *op = handed.next(code);
    const int64_t begun = fiber_now();
    for (int i = 0; !(ran && woke); i++) {
        ASSERT_EQ(fiber_exchange(&op, 1, out, 1, FIBER_FOREVER), 1);
        EXPECT_EQ(out[0].op, op);
        ASSERT_TRUE(i < 100'000 || (!simulated() && fiber_now() - begun < FIBER_SEC(60)));
    }
    EXPECT_EQ(fiber_hosted_end(handed.fiber, nullptr), 0);
    for (const fiber_t fiber : {handed.fiber, other, sleeper}) join(fiber);
}

void each_keeps_busy() {
    fiber_event_t event{};
    ASSERT_EQ(fiber_event_init(&event, FIBER_EVENT_MANUAL), 0); // it stays set
    ASSERT_EQ(fiber_event_set(&event), 0);
    keeps_busy(FIBER_OP_NONE, nullptr);
    keeps_busy(FIBER_OP_EVENT_WAIT, &event);
    keeps_busy(FIBER_OP_EVENT_WAIT, nullptr); // refused
    EXPECT_EQ(fiber_event_destroy(&event), 0);
}

TEST(Exchange, ABusyOneLetsOthersRun) { each_keeps_busy(); }

TEST(Exchange, ABusyOneLetsOthersRunWhereThereAreHooks) {
    fiber_hooks_t hooks{};
    EXPECT_EQ(fiber_hooks_set(&hooks, sizeof hooks), 0);
    each_keeps_busy();
    EXPECT_EQ(fiber_hooks_set(nullptr, 0), 0);
}

TEST(Exchange, ABusyOneLetsOthersRunWhereThereAreAmbientValues) {
    fiber_key_t key{};
    ASSERT_EQ(fiber_key_create_ambient(&key, nullptr, [](void *, void *) {}), 0);
    EXPECT_EQ(fiber_key_set(key, pointer(1)), 0);
    each_keeps_busy();
    EXPECT_EQ(fiber_key_set(key, nullptr), 0);
    EXPECT_EQ(fiber_key_delete(key), 0);
}

TEST(Exchange, EnterMakesItTheCallingFiber) {
    Handed handed, other;
    fiber_completion_t out[1];
    EXPECT_EQ(fiber_wakeup(other.fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    fiber_key_t key{};
    ASSERT_EQ(fiber_key_create(&key, nullptr), 0);
    EXPECT_EQ(fiber_hosted_enter(handed.fiber), -EBUSY);
    EXPECT_EQ(fiber_hosted_enter(self()), -EINVAL);
    EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    const fiber_t host = self();
    EXPECT_EQ(fiber_key_set(key, pointer(1)), 0);
    EXPECT_EQ(fiber_hosted_enter(handed.fiber), 0);
    EXPECT_EQ(self().id, handed.fiber.id);
    EXPECT_EQ(fiber_hosted_enter(handed.fiber), -EPERM);
    EXPECT_EQ(fiber_key_get(key), nullptr);
    EXPECT_EQ(fiber_key_set(key, pointer(2)), 0);
    fiber_scope_t scope{};
    EXPECT_EQ(fiber_scope_open(&scope, 1000, 0), 0);
    EXPECT_EQ(fiber_sleep(1), -EPERM);
    EXPECT_EQ(fiber_exchange(nullptr, 0, out, 1, 0), -EPERM);
    EXPECT_EQ(fiber_op_start(handed.next(FIBER_OP_YIELD)), -EBUSY);
    EXPECT_EQ(fiber_hosted_end(handed.fiber, nullptr), -EPERM);
    EXPECT_EQ(fiber_op_start(other.next(FIBER_OP_YIELD)), -EPERM);
    EXPECT_EQ(fiber_hosted_end(other.fiber, nullptr), -EPERM);
    EXPECT_EQ(fiber_hosted_leave(), 0);
    EXPECT_EQ(fiber_hosted_end(other.fiber, nullptr), 0);
    join(other.fiber);
    EXPECT_EQ(fiber_hosted_leave(), -EINVAL);
    EXPECT_EQ(self().id, host.id);
    EXPECT_EQ(fiber_key_get(key), pointer(1));
    fiber_op_t *op = handed.next(FIBER_OP_YIELD);
    ASSERT_EQ(fiber_exchange(&op, 1, out, 1, FIBER_FOREVER), 1);
    EXPECT_EQ(out[0].result, -ETIMEDOUT); // by its scope
    EXPECT_EQ(fiber_hosted_end(handed.fiber, nullptr), 0);
    join(handed.fiber);
    EXPECT_EQ(fiber_key_delete(key), 0);
}

// While a hosted fiber has its turn, and where its host acts for it, another cord may run, in a simulation too.
void beside_another_cord(const std::function<void()> &body) {
    Thread other([] {
        for (int i = 0; i < 200; i++) {
            fiber_now();
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    });
    body();
    other.join();
}

void look_at_the_clock() {
    for (int i = 0; i < 8; i++) fiber_now(); // after so many a simulation lets another cord go on
}

TEST(HostedCords, AnotherRunsDuringAStep) {
    beside_another_cord([] {
        Hosted hosted([](Hosted &me, int64_t) {
            look_at_the_clock();
            return me.turns < 30 ? FIBER_STEP_AGAIN : FIBER_STEP_END;
        });
        hosted.wake();
        hosted.joined();
    });
}

TEST(HostedCords, AnotherRunsWhileOneIsEntered) {
    beside_another_cord([] {
        Handed handed;
        fiber_completion_t out[1];
        EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
        ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
        for (int i = 0; i < 30; i++) {
            ASSERT_EQ(fiber_hosted_enter(handed.fiber), 0);
            look_at_the_clock();
            ASSERT_EQ(fiber_hosted_leave(), 0);
            EXPECT_EQ(fiber_reschedule(), 0);
        }
        EXPECT_EQ(fiber_hosted_end(handed.fiber, nullptr), 0);
        join(handed.fiber);
    });
}

TEST(HostedCords, AnotherRunsWhileAHostActs) {
    fiber_chan_t channel{};
    ASSERT_EQ(fiber_chan_create(&channel, sizeof(int), 0), 0);
    Thread receiver([&] {
        int item = -1;
        for (int i = 0; i < 30; i++) {
            EXPECT_EQ(fiber_chan_recv(channel, &item), 0);
            EXPECT_EQ(item, i);
            EXPECT_EQ(fiber_reschedule(), 0);
        }
    });
    fiber_key_t key{};
    ASSERT_EQ(fiber_key_create(&key, [](void *) { look_at_the_clock(); }), 0);
    beside_another_cord([&] {
        Handed handed;
        fiber_completion_t out[1];
        EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
        ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
        handed.op.target = channel.id;
        for (int i = 0; i < 30; i++) {
            handed.op.address = &i;
            fiber_op_t *op = handed.next(FIBER_OP_CHAN_SEND);
            ASSERT_EQ(fiber_exchange(&op, 1, out, 1, FIBER_FOREVER), 1);
            EXPECT_EQ(out[0].result, 0);
        }
        ASSERT_EQ(fiber_hosted_enter(handed.fiber), 0);
        EXPECT_EQ(fiber_key_set(key, &handed), 0);
        ASSERT_EQ(fiber_hosted_leave(), 0);
        EXPECT_EQ(fiber_hosted_end(handed.fiber, nullptr), 0);
        join(handed.fiber);
    });
    receiver.join();
    EXPECT_EQ(fiber_key_delete(key), 0);
    EXPECT_EQ(fiber_chan_destroy(channel), 0);
}

// A hosted fiber that the host entered and did not leave is left by the end of the host: a fiber, a task, a cord's
// function, a thread.
TEST(Exchange, AHostThatEndsLeavesTheFiberThatItEntered) {
    Handed handed;
    fiber_completion_t out[1];
    EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    auto body = [&] {
        EXPECT_EQ(fiber_hosted_enter(handed.fiber), 0);
        return pointer(3);
    };
    const fiber_t me = self();
    fiber_t host = start(body);
    EXPECT_EQ(self().id, me.id);
    EXPECT_EQ(fiber_hosted_leave(), -EINVAL);
    EXPECT_EQ(join(host), pointer(3));
    EXPECT_EQ(fiber_hosted_enter(handed.fiber), 0);
    EXPECT_EQ(fiber_hosted_leave(), 0);
    EXPECT_EQ(fiber_hosted_end(handed.fiber, nullptr), 0);
    join(handed.fiber);
    auto enters = [] {
        static int unused;
        fiber_attr_t *attr;
        ASSERT_EQ(fiber_attr_create(&attr), 0);
        ASSERT_EQ(fiber_attr_set_daemon(attr, 1), 0);
        fiber_t fiber{};
        ASSERT_EQ(fiber_hosted_new(&fiber, attr, nullptr, &unused), 0);
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
        EXPECT_EQ(fiber_wakeup(fiber), 0);
        fiber_completion_t taken[1];
        ASSERT_EQ(fiber_exchange(nullptr, 0, taken, 1, FIBER_FOREVER), 1);
        EXPECT_EQ(fiber_hosted_enter(fiber), 0);
        EXPECT_EQ(fiber_noswitch_enter(), 0);
    };
    in_thread(enters);
    fiber_cord_t cord{};
    ASSERT_EQ(fiber_cord_start(&cord, nullptr, entry<decltype(enters)>, &enters), 0);
    expect_joined(fiber_cord_join(cord, nullptr));
}

TEST(Exchange, AnEndLeavesTheHostsSectionAlone) {
    Handed handed;
    fiber_completion_t out[1];
    fiber_key_t key{};
    ASSERT_EQ(fiber_key_create(&key,
                               [](void *) {
                                   EXPECT_EQ(fiber_noswitch_leave(), -EINVAL);
                                   EXPECT_EQ(fiber_noswitch_enter(), 0); // ends with the fiber
                               }),
              0);
    EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    EXPECT_EQ(fiber_hosted_enter(handed.fiber), 0);
    EXPECT_EQ(fiber_key_set(key, pointer(1)), 0);
    EXPECT_EQ(fiber_hosted_leave(), 0);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    EXPECT_EQ(fiber_hosted_end(handed.fiber, nullptr), 0);
    EXPECT_EQ(fiber_reschedule(), -EPERM);
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    join(handed.fiber);
    EXPECT_EQ(fiber_key_delete(key), 0);
}

TEST(Exchange, NoOperationIsStartedInASection) {
    Handed handed;
    fiber_completion_t out[1];
    EXPECT_EQ(fiber_wakeup(handed.fiber), 0);
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    EXPECT_EQ(fiber_noswitch_enter(), 0);
    for (const uint32_t code : {FIBER_OP_NONE, FIBER_OP_RESCHEDULE, FIBER_OP_END}) {
        EXPECT_EQ(fiber_op_start(handed.next(code)), -EPERM);
    }
    EXPECT_EQ(fiber_noswitch_leave(), 0);
    EXPECT_EQ(fiber_state(handed.fiber), FIBER_RUNNING);
    Hosted steps([](Hosted &me, int64_t) {
        if (me.turns == 1) {
            EXPECT_EQ(fiber_noswitch_enter(), 0);
            me.op.code = FIBER_OP_RESCHEDULE;
            EXPECT_EQ(fiber_op_start(&me.op), -EPERM);
            EXPECT_EQ(fiber_noswitch_leave(), 0);
            EXPECT_TRUE(me.starts(FIBER_OP_RESCHEDULE));
            return FIBER_STEP_WAIT;
        }
        return FIBER_STEP_END;
    });
    steps.wake();
    steps.joined();
    EXPECT_EQ(steps.turns, 2);
    EXPECT_EQ(fiber_op_start(handed.next(FIBER_OP_END)), 0);
    join(handed.fiber);
}

TEST(Exchange, CompletionsWithoutRoomComeInTheNextCall) {
    constexpr int many = 7;
    Handed handed[many];
    fiber_completion_t out[many];
    for (Handed &it : handed) EXPECT_EQ(fiber_wakeup(it.fiber), 0);
    for (int got = 0; got < many;) {
        const int count = fiber_exchange(nullptr, 0, out, many, FIBER_FOREVER);
        ASSERT_GT(count, 0);
        got += count;
    }
    fiber_op_t *ops[many];
    for (int i = 0; i < many; i++) ops[i] = handed[i].next(FIBER_OP_NONE);
    std::string order;
    int op_count = many;
    while (order.size() < many) {
        const int count = fiber_exchange(ops, op_count, out, 2, FIBER_FOREVER);
        ASSERT_GT(count, 0);
        op_count = 0;
        for (int i = 0; i < count; i++) {
            EXPECT_EQ(out[i].op, &static_cast<Handed *>(out[i].user)->op);
            order += char('0' + (static_cast<Handed *>(out[i].user) - handed));
        }
    }
    EXPECT_EQ(order, "0123456");
    // An error is reported with or without room in out: its record has it. A fiber whose operation is under way is
    // reported nevertheless.
    for (int i = 0; i < many; i++) ops[i] = handed[i].next(FIBER_OP_NONE);
    handed[4].op.fiber = self();
    EXPECT_EQ(fiber_exchange(ops, many, out, 1, FIBER_FOREVER), 1);
    EXPECT_EQ(out[0].op, ops[0]);
    EXPECT_EQ(handed[4].op.result, -EINVAL);
    EXPECT_EQ(fiber_exchange(&ops[1], 1, out, 1, FIBER_FOREVER), 1); // it is offered: refused, and room for just that
    EXPECT_EQ(out[0].result, -EBUSY);
    EXPECT_EQ(handed[1].op.result, -EBUSY);
    for (const int i : {1, 2, 3, 5, 6}) {
        ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
        EXPECT_EQ(out[0].op, &handed[i].op);
        EXPECT_EQ(out[0].result, 0);
        EXPECT_EQ(handed[i].op.result, 0);
    }
    for (Handed &it : handed) {
        EXPECT_EQ(fiber_hosted_end(it.fiber, nullptr), 0);
        join(it.fiber);
    }
}

TEST(Exchange, ItsHostMayCloseADescriptorInUse) {
    NEEDS_IO();
    Pipe pipe;
    char byte;
    Handed reader;
    EXPECT_EQ(fiber_wakeup(reader.fiber), 0);
    fiber_completion_t out[1];
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    fiber_op_t *op = reader.next(FIBER_OP_READ);
    op->fd = pipe.read_end;
    op->address = &byte;
    op->length = 1;
    ASSERT_EQ(fiber_exchange(&op, 1, out, 1, 0), 0);
    EXPECT_EQ(fiber_close(pipe.read_end), 0);
    pipe.read_end = -1;
    ASSERT_EQ(fiber_exchange(nullptr, 0, out, 1, FIBER_FOREVER), 1);
    EXPECT_EQ(out[0].op, op);
    EXPECT_EQ(out[0].result, -EBADF);
    EXPECT_EQ(op->result, -EBADF);
    EXPECT_EQ(fiber_hosted_end(reader.fiber, nullptr), 0);
    join(reader.fiber);
}

// A thread ends while its hosted fibers wait in everything; they leave the primitives that they waited in.
TEST(HostedEnd, AThreadMayEndWithLiveOnes) {
    Waiting all;
    std::deque<std::unique_ptr<Hosted>> hosted; // their records outlive the thread's cord
    std::deque<int64_t> results;
    fiber_event_t never{};
    in_thread([&] {
        auto waits = [&] { return pointer(fiber_event_wait(&never)); };
        fiber_t other = spawn(waits);
        for (const uint32_t code : waiting_codes) {
            results.push_back(1);
            hosted.push_back(std::make_unique<Hosted>(once(
                code,
                [&, other, code](fiber_op_t &op) {
                    op.code = code;
                    all.prepare(op);
                    if (code == FIBER_OP_JOIN) op.target = other.id;
                    if (code == FIBER_OP_EVENT_WAIT) op.address = &never;
                },
                &results.back())));
            hosted.back()->wake();
        }
        settle();
        for (const auto &it : hosted) {
            EXPECT_EQ(fiber_state(it->fiber), FIBER_WAITING);
            EXPECT_EQ(fiber_detach(it->fiber), 0);
            if (simulated()) fiber_cancel(it->fiber, nullptr); // a cord waits for its fibers
        }
        EXPECT_EQ(fiber_detach(other), 0);
        if (simulated()) fiber_event_set(&never);
    });
    for (const auto &it : hosted) EXPECT_EQ(fiber_state(it->fiber), -ESRCH);
}

} // namespace
