// SPDX-License-Identifier: MIT OR Apache-2.0
// Fibers give back all that they take: slots, stacks, memory. Names and ids.
#include "conformance.h"
#include "support.h"

#include <poll.h>
#include <sys/resource.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

using namespace support;

// ---- slots, stacks, memory ------------------------------------------------------------------------------------------

namespace {

enum class End { by_return, by_exit, by_cancel, unrun, detached };

// One thousand fibers at once that all use some stack and then end.
void a_thousand_fibers(End end) {
    const size_t COUNT = often(1000, 20);
    auto body = [end] {
        volatile char memory[16 * 1024];
        for (size_t i = 0; i < sizeof memory; i += 4096) memory[i] = 1;
        int result = fiber_yield();
        if (end == End::by_exit) fiber_exit(nullptr);
        if (result != (end == End::by_cancel ? -ECANCELED : 0)) ADD_FAILURE() << result;
    };
    std::vector<fiber_t> fibers(COUNT);
    if (end == End::unrun) {
        for (fiber_t &fiber : fibers) fiber = spawn(body);
    } else {
        for (fiber_t &fiber : fibers) fiber = start(body);
    }
    for (fiber_t fiber : fibers) {
        bool cancel = end == End::by_cancel || end == End::unrun;
        ASSERT_EQ(cancel ? fiber_cancel(fiber, nullptr) : fiber_wakeup(fiber), 0);
        if (end == End::detached) {
            ASSERT_EQ(fiber_detach(fiber), 0);
        }
    }
    if (end == End::detached) {
        EXPECT_EQ(fiber_reschedule(), 0);
        for (fiber_t fiber : fibers) ASSERT_EQ(fiber_state(fiber), -ESRCH);
    } else {
        for (fiber_t fiber : fibers) ASSERT_EQ(fiber_join(fiber, nullptr), 0);
    }
}

void expect_restored(End end) {
    fiber_stats_t before = stats();
    a_thousand_fibers(end); // the pool grows once to its largest use
    a_thousand_fibers(end);
    fiber_stats_t warm = stats();
    EXPECT_EQ(warm.fibers, before.fibers);
    EXPECT_EQ(warm.stacks, before.stacks);
    EXPECT_EQ(warm.ops_in_flight, before.ops_in_flight);
    int mappings = mapping_count();
    long resident = resident_kib();
    for (int round = 0; round < 10; round++) a_thousand_fibers(end);
    fiber_stats_t after = stats();
    EXPECT_EQ(after.fibers, before.fibers);
    EXPECT_EQ(after.stacks, before.stacks);
    EXPECT_LE(after.stacks_free, warm.stacks_free);
    EXPECT_LE(mapping_count(), mappings + mapping_slack);
    // Ten rounds use 200 MB of stacks if none comes back.
    EXPECT_LT(resident_kib() - resident, resident_slack_kib);
}

} // namespace

TEST(Restored, AfterThousandsOfFibersThatReturned) { expect_restored(End::by_return); }
TEST(Restored, AfterThousandsOfFibersThatCalledFiberExit) { expect_restored(End::by_exit); }
TEST(Restored, AfterThousandsOfFibersThatWereCancelled) { expect_restored(End::by_cancel); }
TEST(Restored, AfterThousandsOfFibersThatNeverRan) { expect_restored(End::unrun); }
TEST(Restored, AfterThousandsOfDetachedFibers) { expect_restored(End::detached); }

TEST(Restored, AfterTenThousandFibersOneAfterTheOther) {
    auto body = [] {};
    for (int i = 0; i < 100; i++) join(spawn(body));
    fiber_stats_t before = stats();
    int mappings = mapping_count();
    long resident = resident_kib();
    for (int i = 0; i < often(10000, 100); i++) join(spawn(body));
    fiber_stats_t after = stats();
    EXPECT_EQ(after.fibers, before.fibers);
    EXPECT_EQ(after.stacks, before.stacks);
    EXPECT_EQ(after.stacks_free, before.stacks_free);
    EXPECT_LE(mapping_count(), mappings + mapping_slack);
    EXPECT_LT(resident_kib() - resident, resident_slack_kib);
}

TEST(Restored, AfterThousandsOfScopesTimersAndKeyValues) {
    static int destroyed;
    destroyed = 0;
    fiber_key_t key{};
    ASSERT_EQ(fiber_key_create(&key, [](void *) { destroyed++; }), 0);
    auto body = [&] {
        fiber_scope_t scope{};
        EXPECT_EQ(fiber_scope_open(&scope, FIBER_SEC(3600), 0), 0);
        EXPECT_EQ(fiber_key_set(key, pointer(1)), 0);
        EXPECT_EQ(fiber_yield_timeout(1), -ETIMEDOUT);
    };
    auto round = [&] {
        std::vector<fiber_t> fibers(500);
        for (fiber_t &fiber : fibers) fiber = spawn(body);
        for (fiber_t fiber : fibers) join(fiber);
    };
    round();
    fiber_stats_t before = stats();
    int mappings = mapping_count();
    long resident = resident_kib();
    for (int i = 0; i < 20; i++) round();
    EXPECT_EQ(destroyed, 21 * 500);
    EXPECT_EQ(stats().fibers, before.fibers);
    EXPECT_EQ(stats().stacks, before.stacks);
    EXPECT_LE(mapping_count(), mappings + mapping_slack);
    EXPECT_LT(resident_kib() - resident, resident_slack_kib);
    EXPECT_EQ(fiber_key_delete(key), 0);
}

TEST(Restored, AStackOfOneSizeServesTheNextFiberOfThatSize) {
    auto body = [] {
        fiber_info_t seen{};
        fiber_info(self(), &seen, sizeof seen);
        return pointer(static_cast<intptr_t>(seen.stack_low));
    };
    for (size_t size : {FIBER_STACK_MIN, size_t{65536}, FIBER_STACK_DEFAULT, size_t{1} << 20}) {
        fiber_attr_t *attr = nullptr;
        ASSERT_EQ(fiber_attr_create(&attr), 0);
        EXPECT_EQ(fiber_attr_set_stack_size(attr, size), 0);
        std::set<void *> places;
        for (int i = 0; i < 100; i++) {
            fiber_t fiber = create(body, attr);
            EXPECT_EQ(fiber_start(fiber), 0);
            places.insert(join(fiber));
        }
        EXPECT_EQ(places.size(), 1u) << size; // last in, first out
        EXPECT_EQ(fiber_attr_destroy(attr), 0);
    }
}

TEST(Restored, AnEndedFiberKeepsItsSlotUntilJoinedButNotItsStack) {
    auto body = [] {};
    fiber_stats_t before = stats();
    std::vector<fiber_t> fibers(100);
    for (fiber_t &fiber : fibers) fiber = start(body);
    EXPECT_EQ(stats().fibers, before.fibers + 100);
    EXPECT_EQ(stats().stacks, before.stacks);
    for (fiber_t fiber : fibers) {
        EXPECT_EQ(fiber_state(fiber), FIBER_DEAD);
        EXPECT_EQ(info(fiber).stack_size, 0u);
        join(fiber);
    }
    EXPECT_EQ(stats().fibers, before.fibers);
}

TEST(Restored, CountersCountLiveObjects) {
    auto body = [] { EXPECT_EQ(fiber_yield(), 0); };
    fiber_stats_t before = stats();
    fiber_t fresh = create(body);
    EXPECT_EQ(stats().fibers, before.fibers + 1);
    EXPECT_EQ(stats().stacks, before.stacks);
    EXPECT_EQ(fiber_start(fresh), 0);
    EXPECT_EQ(stats().stacks, before.stacks + 1);
    EXPECT_EQ(fiber_wakeup(fresh), 0);
    join(fresh);
    EXPECT_EQ(stats().fibers, before.fibers);
    EXPECT_EQ(stats().stacks, before.stacks);
}

// ---- refusal --------------------------------------------------------------------------------------------------------

namespace {

// No address space for anything larger than some bytes until it goes out of scope.
struct NoAddressSpace {
    rlimit old{};

    explicit NoAddressSpace(rlim_t left = 64u << 20) {
        EXPECT_EQ(getrlimit(RLIMIT_AS, &old), 0);
        std::ifstream file("/proc/self/statm");
        long pages = 0;
        file >> pages;
        rlimit tight = old;
        tight.rlim_cur = static_cast<rlim_t>(pages) * 4096 + left;
        EXPECT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
    }
    NoAddressSpace(const NoAddressSpace &) = delete;
    ~NoAddressSpace() { EXPECT_EQ(setrlimit(RLIMIT_AS, &old), 0); }
};

fiber_t with_the_largest_stack(void *(*fn)(void *)) {
    fiber_attr_t *attr = nullptr;
    EXPECT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_stack_size(attr, FIBER_STACK_MAX), 0);
    fiber_t fiber{};
    EXPECT_EQ(fiber_new(&fiber, attr, fn, pointer(3)), 0);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
    return fiber;
}

void *give_back(void *arg) { return arg; }

} // namespace

// A macro: GTEST_SKIP returns from the test itself.
#define SKIP_IF_SANITIZED() \
    if (FIBERRT_TEST_ASAN || FIBERRT_TEST_TSAN) GTEST_SKIP() << "sanitizers need address space without limit"

// In threads of their own: no stack of that size is kept there by a test that ran before.
TEST(Refusal, StartWithoutAStackIsAgainAndTheFiberStaysNew) {
    NEEDS_THREADS();
    SKIP_IF_SANITIZED();
    NOT_UNDER_QEMU("ignores limits on address space");
    in_thread([] {
        fiber_t fiber = with_the_largest_stack(give_back);
        {
            NoAddressSpace limit;
            EXPECT_EQ(fiber_start(fiber), -EAGAIN);
            EXPECT_EQ(fiber_transfer(fiber, nullptr, nullptr), -EAGAIN);
        }
        EXPECT_EQ(fiber_state(fiber), FIBER_NEW);
        EXPECT_EQ(fiber_start(fiber), 0);
        EXPECT_EQ(join(fiber), pointer(3));
    });
}

TEST(Refusal, AScheduledFiberForWhichThereIsNoStackAtAllEndsUnrunAndJoinSaysSo) {
    NEEDS_THREADS();
    SKIP_IF_SANITIZED();
    NOT_UNDER_QEMU("ignores limits on address space");
    in_thread([] {
        uint64_t before = stats().fibers;
        fiber_t fiber = with_the_largest_stack([](void *) -> void * {
            ADD_FAILURE() << "it ran";
            return nullptr;
        });
        {
            NoAddressSpace limit;
            EXPECT_EQ(fiber_wakeup(fiber), 0);
            EXPECT_EQ(fiber_join(fiber, nullptr), -EAGAIN);
        }
        EXPECT_EQ(fiber_state(fiber), -ESRCH);
        EXPECT_EQ(stats().fibers, before);
    });
}

namespace {

// Joins with patience: a forgotten fiber must be a failure, not a hang.
int join_soon(fiber_t fiber, void **result) { return fiber_join_timeout(fiber, result, FIBER_SEC(60)); }

void *holds_its_stack(void *arg) {
    EXPECT_EQ(fiber_yield(), 0);
    return arg;
}

} // namespace

TEST(Refusal, AScheduledFiberWaitsForAStackThatIsInUse) {
    NEEDS_THREADS();
    SKIP_IF_SANITIZED();
    NOT_UNDER_QEMU("ignores limits on address space");
    in_thread([] {
        fiber_t holder = with_the_largest_stack(holds_its_stack);
        fiber_t waiters[] = {with_the_largest_stack(give_back), with_the_largest_stack(give_back)};
        EXPECT_EQ(fiber_start(holder), 0);
        NoAddressSpace limit;
        for (fiber_t waiter : waiters) EXPECT_EQ(fiber_wakeup(waiter), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0);
        for (fiber_t waiter : waiters) {
            EXPECT_GE(fiber_state(waiter), 0);
            EXPECT_NE(fiber_state(waiter), FIBER_DEAD);
        }
        EXPECT_EQ(fiber_wakeup(holder), 0);
        void *result = nullptr;
        EXPECT_EQ(join_soon(holder, &result), 0);
        for (fiber_t waiter : waiters) { // one after the other
            EXPECT_EQ(join_soon(waiter, &result), 0);
            EXPECT_EQ(result, pointer(3));
        }
    });
}

TEST(Refusal, AFiberThatWaitsForAStackIsCancelledAtOnce) {
    NEEDS_THREADS();
    SKIP_IF_SANITIZED();
    NOT_UNDER_QEMU("ignores limits on address space");
    in_thread([] {
        fiber_t holder = with_the_largest_stack(holds_its_stack);
        fiber_t waiter = with_the_largest_stack(give_back);
        EXPECT_EQ(fiber_start(holder), 0);
        void *result = nullptr;
        {
            NoAddressSpace limit;
            EXPECT_EQ(fiber_wakeup(waiter), 0);
            EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
            EXPECT_EQ(fiber_cancel(waiter, nullptr), 0);
            EXPECT_EQ(join_soon(waiter, &result), 0);
            EXPECT_EQ(result, FIBER_CANCELLED);
        }
        EXPECT_EQ(fiber_wakeup(holder), 0);
        EXPECT_EQ(join_soon(holder, &result), 0);
    });
}

TEST(Refusal, ACancelledWaiterPassesTheStackOnToTheNextOne) {
    NEEDS_THREADS();
    SKIP_IF_SANITIZED();
    NOT_UNDER_QEMU("ignores limits on address space");
    in_thread([] {
        fiber_t holder = with_the_largest_stack(holds_its_stack);
        fiber_t first = with_the_largest_stack(give_back), second = with_the_largest_stack(give_back);
        EXPECT_EQ(fiber_start(holder), 0);
        NoAddressSpace limit;
        EXPECT_EQ(fiber_wakeup(first), 0);
        EXPECT_EQ(fiber_wakeup(second), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(fiber_cancel(first, nullptr), 0);
        EXPECT_EQ(fiber_wakeup(holder), 0);
        void *result = nullptr;
        EXPECT_EQ(join_soon(holder, &result), 0);
        EXPECT_EQ(join_soon(first, &result), 0);
        EXPECT_EQ(result, FIBER_CANCELLED);
        EXPECT_EQ(join_soon(second, &result), 0);
        EXPECT_EQ(result, pointer(3));
    });
}

TEST(Refusal, AFiberThatComesAfterTheLastWaiterWasCancelledIsServed) {
    NEEDS_THREADS();
    SKIP_IF_SANITIZED();
    NOT_UNDER_QEMU("ignores limits on address space");
    in_thread([] {
        fiber_t holder = with_the_largest_stack(holds_its_stack);
        fiber_t first = with_the_largest_stack(give_back), last = with_the_largest_stack(give_back);
        fiber_t after = with_the_largest_stack(give_back);
        EXPECT_EQ(fiber_start(holder), 0);
        NoAddressSpace limit;
        EXPECT_EQ(fiber_wakeup(first), 0);
        EXPECT_EQ(fiber_wakeup(last), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(fiber_cancel(last, nullptr), 0);
        EXPECT_EQ(fiber_wakeup(after), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(fiber_wakeup(holder), 0);
        void *result = nullptr;
        EXPECT_EQ(join_soon(last, &result), 0);
        EXPECT_EQ(result, FIBER_CANCELLED);
        EXPECT_EQ(join_soon(holder, &result), 0);
        for (fiber_t waiter : {first, after}) {
            EXPECT_EQ(join_soon(waiter, &result), 0);
            EXPECT_EQ(result, pointer(3));
        }
    });
}

// Some stack is in use all the time: else all that wait would try again.
TEST(Refusal, AStackOfferedToACancelledFiberGoesToTheNext) {
    NEEDS_THREADS();
    SKIP_IF_SANITIZED();
    NOT_UNDER_QEMU("ignores limits on address space");
    in_thread([] {
        auto waits = [] { EXPECT_EQ(fiber_yield(), 0); };
        fiber_t user = start(waits);
        fiber_t holder = with_the_largest_stack(holds_its_stack);
        fiber_t first = with_the_largest_stack(give_back), second = with_the_largest_stack(give_back);
        EXPECT_EQ(fiber_start(holder), 0);
        auto cancels = [&] {
            EXPECT_EQ(fiber_state(first), FIBER_RUNNABLE); // the holder's end came just before
            EXPECT_EQ(fiber_cancel(first, nullptr), 0);
        };
        fiber_t canceller = create(cancels);
        NoAddressSpace limit;
        EXPECT_EQ(fiber_wakeup(first), 0);
        EXPECT_EQ(fiber_wakeup(second), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(fiber_wakeup(holder), 0);
        EXPECT_EQ(fiber_wakeup(canceller), 0);
        void *result = nullptr;
        EXPECT_EQ(join_soon(first, &result), 0);
        EXPECT_EQ(result, FIBER_CANCELLED);
        EXPECT_EQ(join_soon(second, &result), 0);
        EXPECT_EQ(result, pointer(3));
        EXPECT_EQ(fiber_wakeup(user), 0);
        for (fiber_t fiber : {user, holder, canceller}) EXPECT_EQ(join_soon(fiber, &result), 0);
    });
}

TEST(Refusal, ASelectWithoutAStackForItsDescriptorFails) {
    NEEDS_THREADS();
    NEEDS_IO();
    SKIP_IF_SANITIZED();
    NOT_UNDER_QEMU("ignores limits on address space");
    in_thread([] {
        Pipe pipe;
        uint64_t before = stats().fibers;
        fiber_case_t one{};
        one.kind = FIBER_CASE_FD;
        one.fd = pipe.read_end;
        one.number = POLLIN;
        {
            NoAddressSpace limit(0);
            EXPECT_EQ(fiber_select(&one, 1, FIBER_MSEC(100)), 0);
        }
        EXPECT_EQ(one.result, -EAGAIN);
        EXPECT_EQ(stats().fibers, before);
    });
}

TEST(Refusal, TRAP_ASelectOfAFiberWithoutAStackFailsToo) {
    NEEDS_THREADS();
    NEEDS_IO();
    SKIP_IF_SANITIZED();
    NOT_UNDER_QEMU("ignores limits on address space");
    in_thread([] {
        Pipe pipe;
        fiber_case_t one{};
        one.kind = FIBER_CASE_FD;
        one.fd = pipe.read_end;
        one.number = POLLIN;
        EXPECT_GT(fiber_poll_fd(pipe.write_end, POLLOUT), 0); // opens the backend
        int index = -9;
        auto selects = [&] {
            EXPECT_EQ(fiber_yield(), 0);
            index = fiber_select(&one, 1, FIBER_SEC(1000));
        };
        const fiber_t fiber = start(selects);
        std::vector<fiber_t> holders(20'000); // of all stacks: the fiber's own, which is in use, is of no help
        for (fiber_t &holder : holders) ASSERT_EQ(fiber_new(&holder, nullptr, holds_its_stack, nullptr), 0);
        size_t held = 0;
        {
            NoAddressSpace limit(0);
            while (held < holders.size() && fiber_start(holders[held]) == 0) held++;
            EXPECT_LT(held, holders.size());
            const uint64_t before = stats().fibers;
            EXPECT_EQ(fiber_wakeup(fiber), 0);
            EXPECT_EQ(join_soon(fiber, nullptr), 0);
            EXPECT_EQ(stats().fibers, before - 1);
        }
        EXPECT_EQ(index, 0);
        EXPECT_EQ(one.result, -EAGAIN);
        for (size_t i = 0; i < holders.size(); i++) {
            EXPECT_EQ(i < held ? fiber_wakeup(holders[i]) : fiber_cancel(holders[i], nullptr), 0);
            expect_joined(fiber_join(holders[i], nullptr));
        }
    });
}

TEST(Refusal, AllWaitingFibersEndUnrunWhenTheLastStackInUseDoesNotFit) {
    NEEDS_THREADS();
    SKIP_IF_SANITIZED();
    NOT_UNDER_QEMU("ignores limits on address space");
    in_thread([] {
        auto small = [] { EXPECT_EQ(fiber_yield(), 0); };
        fiber_t holder = start(small);
        fiber_t waiters[] = {with_the_largest_stack(give_back), with_the_largest_stack(give_back),
                             with_the_largest_stack(give_back)};
        NoAddressSpace limit;
        for (fiber_t waiter : waiters) EXPECT_EQ(fiber_wakeup(waiter), 0);
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(1)), 0);
        EXPECT_EQ(fiber_wakeup(holder), 0);
        EXPECT_EQ(join_soon(holder, nullptr), 0);
        for (fiber_t waiter : waiters) EXPECT_EQ(join_soon(waiter, nullptr), -EAGAIN);
    });
}

// ---- names ----------------------------------------------------------------------------------------------------------

namespace {

std::string name_of(fiber_t fiber) {
    char buffer[FIBER_NAME_MAX];
    int length = fiber_name(fiber, buffer, sizeof buffer);
    EXPECT_EQ(length, static_cast<int>(std::strlen(buffer)));
    EXPECT_STREQ(info(fiber).name, buffer);
    return buffer;
}

} // namespace

TEST(Name, IsEmptyAtFirst) {
    auto body = [] {};
    fiber_t fiber = create(body);
    EXPECT_EQ(name_of(fiber), "");
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
}

TEST(Name, IsSetAndReadInEveryState) {
    auto body = [] {
        EXPECT_EQ(name_of(self()), "new");
        EXPECT_EQ(fiber_set_name(self(), "running"), 0);
        EXPECT_EQ(fiber_yield(), 0);
    };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_set_name(fiber, "new"), 0);
    EXPECT_EQ(name_of(fiber), "new");
    EXPECT_EQ(fiber_start(fiber), 0);
    EXPECT_EQ(name_of(fiber), "running");
    EXPECT_EQ(fiber_set_name(fiber, "waiting"), 0);
    EXPECT_EQ(name_of(fiber), "waiting");
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(name_of(fiber), "waiting"); // dead
    join(fiber);
}

TEST(Name, OfTheMainFlowCanBeSet) {
    char old[FIBER_NAME_MAX];
    ASSERT_GE(fiber_name(self(), old, sizeof old), 0);
    EXPECT_EQ(fiber_set_name(self(), "main"), 0);
    EXPECT_EQ(name_of(self()), "main");
    EXPECT_EQ(fiber_set_name(self(), old), 0);
}

TEST(Name, ComesFromTheAttributesAndTheTextIsCopied) {
    char text[] = "worker";
    fiber_attr_t *attr = nullptr;
    ASSERT_EQ(fiber_attr_create(&attr), 0);
    EXPECT_EQ(fiber_attr_set_name(attr, text), 0);
    std::strcpy(text, "gone!!");
    auto body = [] {};
    fiber_t fiber = create(body, attr);
    EXPECT_EQ(fiber_attr_set_name(attr, std::string(100, 'y').c_str()), 0);
    fiber_t other = create(body, attr);
    EXPECT_EQ(fiber_attr_destroy(attr), 0);
    EXPECT_EQ(name_of(fiber), "worker");
    EXPECT_EQ(name_of(other), std::string(FIBER_NAME_MAX - 1, 'y'));
    for (fiber_t each : {fiber, other}) {
        EXPECT_EQ(fiber_start(each), 0);
        join(each);
    }
}

TEST(Name, IsCutPredictably) {
    auto body = [] {};
    fiber_t fiber = create(body);
    for (size_t length : {0, 1, 30, 31, 32, 33, 10000}) {
        std::string given(length, 'n');
        EXPECT_EQ(fiber_set_name(fiber, given.c_str()), 0);
        EXPECT_EQ(name_of(fiber), given.substr(0, FIBER_NAME_MAX - 1)) << length;
    }
    EXPECT_EQ(fiber_set_name(fiber, "abcdef"), 0);
    char buffer[FIBER_NAME_MAX + 8];
    for (size_t size = 1; size <= 8; size++) {
        std::memset(buffer, '#', sizeof buffer);
        EXPECT_EQ(fiber_name(fiber, buffer, size), 6); // the length of the whole
        EXPECT_EQ(std::string(buffer), std::string("abcdef").substr(0, size - 1));
        EXPECT_EQ(buffer[size], '#') << "wrote past its size";
    }
    EXPECT_EQ(fiber_name(fiber, buffer, 0), -EINVAL);
    EXPECT_EQ(fiber_name(fiber, nullptr, 8), -EINVAL);
    EXPECT_EQ(fiber_set_name(fiber, nullptr), -EINVAL);
    EXPECT_EQ(name_of(fiber), "abcdef");
    EXPECT_EQ(fiber_start(fiber), 0);
    join(fiber);
}

TEST(Name, DoesNotPassToTheNextFiberInTheSlot) {
    for (int i = 0; i < 10; i++) {
        run([] {
            EXPECT_EQ(name_of(self()), "");
            EXPECT_EQ(fiber_set_name(self(), "left over"), 0);
        });
    }
}

// ---- ids ------------------------------------------------------------------------------------------------------------

TEST(Id, IsThatOfTheHandleAndUniqueInTheProcessForEver) {
    std::set<uint64_t> ids;
    auto collect = [&](fiber_t fiber) {
        EXPECT_EQ(info(fiber).id, fiber.id);
        EXPECT_NE(fiber.id, 0u);
        EXPECT_TRUE(ids.insert(fiber.id).second) << "a handle was given out twice";
    };
    auto body = [] {};
    collect(self());
    for (int round = 0; round < 5; round++) {
        std::vector<fiber_t> fibers(1000);
        for (fiber_t &fiber : fibers) {
            fiber = create(body);
            collect(fiber);
        }
        for (fiber_t fiber : fibers) {
            EXPECT_EQ(fiber_start(fiber), 0);
            join(fiber);
        }
        in_thread([&] {
            collect(self());
            fiber_t fiber = create(body);
            collect(fiber);
            EXPECT_EQ(fiber_start(fiber), 0);
            join(fiber);
        });
    }
    EXPECT_EQ(ids.size(), 5011u);
}
