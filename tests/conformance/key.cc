// SPDX-License-Identifier: MIT OR Apache-2.0
// Keys: a value per fiber, and when and how often destructors run.
#include "conformance.h"
#include "support.h"

#include <cstdlib>
#include <string>
#include <vector>

using namespace support;

namespace {

// A key that is deleted at the end of a test: there are 128 in a process.
struct Key {
    fiber_key_t key{};

    explicit Key(void (*destructor)(void *) = nullptr) { EXPECT_EQ(fiber_key_create(&key, destructor), 0); }
    Key(const Key &) = delete;
    ~Key() { fiber_key_delete(key); }
    void *get() const { return fiber_key_get(key); }
    int set(void *value) const { return fiber_key_set(key, value); }
};

// Notes left by the destructors, which are plain functions.
std::string events;
std::vector<void *> destroyed;
fiber_key_t current_key, other_key;
fiber_t seen_self;
uint64_t seen_address;
int seen_result, seen_scope_result;
fiber_scope_t left_open;

void record(void *value) { destroyed.push_back(value); }

class KeyTest : public testing::Test {
protected:
    void SetUp() override {
        events.clear();
        destroyed.clear();
        seen_self = fiber_t{};
        seen_address = 0;
        seen_result = seen_scope_result = 1;
    }
    void TearDown() override {
        if (!events.empty()) conformance::traces.push_back(events);
    }
};

} // namespace

TEST_F(KeyTest, EveryFiberHasAValueOfItsOwnNullAtFirst) {
    Key key;
    EXPECT_EQ(key.get(), nullptr);
    EXPECT_EQ(key.set(pointer(1)), 0);
    auto body = [&] {
        EXPECT_EQ(key.get(), nullptr);
        EXPECT_EQ(key.set(pointer(2)), 0);
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_EQ(key.get(), pointer(2));
    };
    fiber_t a = spawn(body), b = spawn(body);
    EXPECT_EQ(fiber_reschedule(), 0);
    EXPECT_EQ(key.get(), pointer(1));
    join(a);
    join(b);
    EXPECT_EQ(key.get(), pointer(1));
    EXPECT_EQ(key.set(nullptr), 0);
    EXPECT_EQ(key.get(), nullptr);
}

TEST_F(KeyTest, KeysAreIndependentOfEachOther) {
    Key first, second;
    run([&] {
        EXPECT_EQ(first.set(pointer(1)), 0);
        EXPECT_EQ(second.get(), nullptr);
        EXPECT_EQ(second.set(pointer(2)), 0);
        EXPECT_EQ(first.get(), pointer(1));
        EXPECT_EQ(second.get(), pointer(2));
    });
}

TEST_F(KeyTest, AKeyServesEveryThread) {
    Key key(record);
    run([&] { EXPECT_EQ(key.set(pointer(1)), 0); });
    in_thread([&] {
        run([&] {
            EXPECT_EQ(key.get(), nullptr);
            EXPECT_EQ(key.set(pointer(2)), 0);
            EXPECT_EQ(key.get(), pointer(2));
        });
    });
    EXPECT_EQ(destroyed, (std::vector<void *>{pointer(1), pointer(2)}));
}

TEST_F(KeyTest, TheNextFiberInTheSlotDoesNotSeeTheValue) {
    Key key;
    for (int i = 0; i < 100; i++) {
        run([&] {
            EXPECT_EQ(key.get(), nullptr);
            EXPECT_EQ(key.set(pointer(1)), 0);
        });
    }
}

TEST_F(KeyTest, DestructorRunsOnceWithTheValueAtTheFibersEnd) {
    Key key(record);
    auto body = [&] {
        EXPECT_EQ(key.set(pointer(1)), 0);
        EXPECT_EQ(key.set(pointer(2)), 0); // the old value is not destroyed
        EXPECT_EQ(fiber_reschedule(), 0);
        EXPECT_TRUE(destroyed.empty());
    };
    join(spawn(body));
    EXPECT_EQ(destroyed, std::vector<void *>{pointer(2)});
}

TEST_F(KeyTest, DestructorDoesNotRunForNull) {
    Key key(record);
    run([&] {
        EXPECT_EQ(key.set(pointer(1)), 0);
        EXPECT_EQ(key.set(nullptr), 0);
    });
    run([] {});
    EXPECT_TRUE(destroyed.empty());
}

TEST_F(KeyTest, DestructorRunsAtFiberExit) {
    Key key(record);
    run([&] {
        EXPECT_EQ(key.set(pointer(1)), 0);
        fiber_exit(nullptr);
    });
    EXPECT_EQ(destroyed, std::vector<void *>{pointer(1)});
}

TEST_F(KeyTest, DestructorRunsForADetachedFiber) {
    Key key(record);
    auto body = [&] { EXPECT_EQ(key.set(pointer(1)), 0); };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_detach(fiber), 0);
    EXPECT_EQ(fiber_start(fiber), 0);
    EXPECT_EQ(destroyed, std::vector<void *>{pointer(1)});
}

TEST_F(KeyTest, DestructorRunsOnTheFibersOwnStackInItsName) {
    Key key([](void *) {
        // Not the address of a local, which AddressSanitizer may have put elsewhere.
        seen_address = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
        seen_self = self();
    });
    fiber_info_t inside{};
    auto body = [&] {
        inside = info(self());
        EXPECT_EQ(key.set(pointer(1)), 0);
    };
    fiber_t fiber = spawn(body);
    join(fiber);
    EXPECT_EQ(seen_self.id, fiber.id);
    EXPECT_GE(seen_address, inside.stack_low);
    EXPECT_LT(seen_address, inside.stack_low + inside.stack_size);
}

TEST_F(KeyTest, DestructorsRunAfterTheScopesAreClosed) {
    Key key([](void *) { seen_scope_result = fiber_scope_close(left_open, nullptr); });
    run([&] {
        EXPECT_EQ(fiber_scope_open(&left_open, FIBER_SEC(100), 0), 0);
        EXPECT_EQ(key.set(pointer(1)), 0);
    });
    EXPECT_EQ(seen_scope_result, -ESRCH);
}

TEST_F(KeyTest, TheDeadlineOfAScopeLeftOpenDoesNotReachTheDestructor) {
    Key key([](void *) { seen_result = fiber_sleep(FIBER_MSEC(1)); });
    run([&] {
        EXPECT_EQ(fiber_scope_open(&left_open, 0, 0), 0);
        EXPECT_EQ(fiber_sleep(FIBER_SEC(100)), -ETIMEDOUT);
        EXPECT_EQ(key.set(pointer(1)), 0);
    });
    EXPECT_EQ(seen_result, 0);
}

TEST_F(KeyTest, DestructorsRunBeforeTheJoinersWake) {
    Key key([](void *) {
        events += 'd';
        EXPECT_EQ(fiber_sleep(FIBER_MSEC(2)), 0); // it may wait, and the joiners with it
        events += 'e';
    });
    auto body = [&] { EXPECT_EQ(key.set(pointer(1)), 0); };
    fiber_t fiber = spawn(body);
    auto joining = [&] {
        join(fiber);
        events += 'j';
    };
    join(start(joining));
    EXPECT_EQ(events, "dej");
}

TEST_F(KeyTest, TRAP_DestructorsAreShieldedFromCancels) {
    Key key([](void *) {
        events += fiber_cancelled(nullptr) == 1 ? 'c' : '-';
        seen_result = fiber_sleep(FIBER_MSEC(1));
    });
    auto body = [&] {
        EXPECT_EQ(key.set(pointer(1)), 0);
        EXPECT_EQ(fiber_yield(), -ECANCELED);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    join(fiber);
    EXPECT_EQ(events, "c");
    EXPECT_EQ(seen_result, 0);
}

TEST_F(KeyTest, ACancelThatComesDuringADestructorDoesNotEndItsWait) {
    Key key([](void *) {
        seen_self = self();
        seen_result = fiber_sleep(FIBER_MSEC(3));
    });
    auto body = [&] {
        EXPECT_EQ(key.set(pointer(1)), 0);
        return pointer(7);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(seen_self.id, fiber.id);
    EXPECT_EQ(fiber_state(fiber), FIBER_WAITING);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(join(fiber), pointer(7));
    EXPECT_EQ(seen_result, 0);
}

TEST_F(KeyTest, DestructorsThatSetNewValuesGetFourRounds) {
    Key key([](void *value) {
        record(value);
        EXPECT_EQ(fiber_key_set(current_key, pointer(reinterpret_cast<intptr_t>(value) + 1)), 0);
    });
    current_key = key.key;
    run([&] { EXPECT_EQ(key.set(pointer(1)), 0); });
    EXPECT_EQ(destroyed, (std::vector<void *>{pointer(1), pointer(2), pointer(3), pointer(4)}));
}

TEST_F(KeyTest, AValueSetByAnotherKeysDestructorIsDestroyedToo) {
    Key second([](void *value) { record(value); });
    Key first([](void *value) {
        record(value);
        EXPECT_EQ(fiber_key_set(other_key, pointer(20)), 0);
    });
    other_key = second.key;
    run([&] { EXPECT_EQ(first.set(pointer(10)), 0); });
    EXPECT_EQ(destroyed, (std::vector<void *>{pointer(10), pointer(20)}));
}

TEST_F(KeyTest, InEachRoundEveryKeyIsServedOnce) {
    Key first([](void *value) {
        record(value);
        EXPECT_EQ(fiber_key_set(current_key, pointer(1)), 0);
    });
    Key second([](void *value) {
        record(value);
        EXPECT_EQ(fiber_key_set(other_key, pointer(2)), 0);
    });
    current_key = first.key;
    other_key = second.key;
    run([&] {
        EXPECT_EQ(first.set(pointer(1)), 0);
        EXPECT_EQ(second.set(pointer(2)), 0);
    });
    ASSERT_EQ(destroyed.size(), 8u);
    for (size_t round = 0; round < 4; round++) EXPECT_NE(destroyed[2 * round], destroyed[2 * round + 1]) << round;
}

TEST_F(KeyTest, AFiberThatNeverRanHasNothingToDestroy) {
    Key key(record);
    auto body = [&] { EXPECT_EQ(key.set(pointer(1)), 0); };
    fiber_t fiber = create(body);
    EXPECT_EQ(fiber_cancel(fiber, nullptr), 0);
    EXPECT_EQ(join(fiber), FIBER_CANCELLED);
    EXPECT_TRUE(destroyed.empty());
}

TEST_F(KeyTest, DeletedKeyForgetsItsValuesAndDestroysNone) {
    Key key(record);
    auto body = [&] {
        EXPECT_EQ(key.set(pointer(1)), 0);
        EXPECT_EQ(fiber_yield(), 0);
        EXPECT_EQ(key.get(), nullptr);
        EXPECT_EQ(key.set(pointer(2)), -ESRCH);
    };
    fiber_t fiber = start(body);
    EXPECT_EQ(fiber_key_delete(key.key), 0);
    EXPECT_EQ(fiber_key_delete(key.key), -ESRCH);
    EXPECT_EQ(fiber_wakeup(fiber), 0);
    join(fiber);
    EXPECT_TRUE(destroyed.empty());
}

TEST_F(KeyTest, TRAP_AKeyInARecycledPlaceDoesNotShowTheOldValues) {
    fiber_key_t old{};
    ASSERT_EQ(fiber_key_create(&old, nullptr), 0);
    auto body = [&] {
        EXPECT_EQ(fiber_key_set(old, pointer(1)), 0);
        EXPECT_EQ(fiber_key_delete(old), 0);
        for (int i = 0; i < 200; i++) { // more than there are places
            Key fresh(record);
            ASSERT_EQ(fresh.get(), nullptr);
            ASSERT_EQ(fiber_key_get(old), nullptr);
            ASSERT_EQ(fiber_key_set(old, pointer(2)), -ESRCH);
            ASSERT_EQ(fiber_key_delete(old), -ESRCH);
            ASSERT_EQ(fresh.get(), nullptr);
        }
    };
    run(body);
    EXPECT_TRUE(destroyed.empty());
}

TEST_F(KeyTest, TRAP_TheOldValueOfARecycledPlaceIsNotGivenToTheNewDestructor) {
    fiber_key_t old{};
    ASSERT_EQ(fiber_key_create(&old, nullptr), 0);
    std::vector<fiber_key_t> fresh(128);
    size_t made = 0;
    run([&] {
        EXPECT_EQ(fiber_key_set(old, pointer(1)), 0);
        EXPECT_EQ(fiber_key_delete(old), 0);
        while (made < fresh.size() && fiber_key_create(&fresh[made], record) == 0) made++;
    });
    EXPECT_GT(made, 0u);
    for (size_t i = 0; i < made; i++) EXPECT_EQ(fiber_key_delete(fresh[i]), 0);
    EXPECT_TRUE(destroyed.empty());
}

TEST_F(KeyTest, ThereAre128AndAllOfThemWork) {
    std::vector<fiber_key_t> keys;
    fiber_key_t key{};
    int result;
    while ((result = fiber_key_create(&key, record)) == 0 && keys.size() <= 128) keys.push_back(key);
    EXPECT_EQ(result, -EAGAIN);
    EXPECT_EQ(keys.size(), 128u);
    run([&] {
        for (size_t i = 0; i < keys.size(); i++)
            EXPECT_EQ(fiber_key_set(keys[i], pointer(static_cast<intptr_t>(i) + 1)), 0);
        for (size_t i = 0; i < keys.size(); i++)
            EXPECT_EQ(fiber_key_get(keys[i]), pointer(static_cast<intptr_t>(i) + 1));
    });
    EXPECT_EQ(destroyed.size(), keys.size());
    EXPECT_EQ(fiber_key_delete(keys.back()), 0);
    EXPECT_EQ(fiber_key_create(&keys.back(), nullptr), 0); // one has become free
    for (fiber_key_t each : keys) EXPECT_EQ(fiber_key_delete(each), 0);
}

TEST_F(KeyTest, CreateRefusesNull) {
    EXPECT_EQ(fiber_key_create(nullptr, nullptr), -EINVAL);
    EXPECT_EQ(fiber_key_create(nullptr, record), -EINVAL);
}

TEST_F(KeyTest, ValuesOfAMainFlowAreDestroyedWhenItsThreadExitsInANoSwitchSection) {
    Key key([](void *value) {
        record(value);
        seen_result = fiber_sleep(FIBER_MSEC(1));
    });
    in_thread([&] {
        EXPECT_EQ(key.set(pointer(3)), 0);
        run([] {});
        EXPECT_TRUE(destroyed.empty());
    });
    EXPECT_EQ(destroyed, std::vector<void *>{pointer(3)});
    EXPECT_EQ(seen_result, -EPERM);
}

TEST_F(KeyTest, ValuesOfTheMainFlowAreNotDestroyedAtTheEndOfTheProcess) {
    NOT_ON_SIM("has one process");
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            fiber_key_t key{};
            CHILD_CHECK(fiber_key_create(&key, [](void *) { _exit(3); }) == 0);
            CHILD_CHECK(fiber_key_set(key, pointer(1)) == 0);
            std::exit(0);
        },
        testing::ExitedWithCode(0), "");
}
