// SPDX-License-Identifier: MIT OR Apache-2.0
// Handles and slots by themselves: stale for ever, never reused across a wrap, shared between threads.
#include "core/slots.h"

#include <atomic>
#include <gtest/gtest.h>
#include <set>
#include <thread>
#include <vector>

using namespace fiberrt;

namespace {

struct Thing {
    std::atomic<uint32_t> generation;
    uint32_t index;
    Thing* next_free;
    Thing() = default;
};

using Things = SlotTable<Thing, Tag::fiber>;

TEST(Slots, AHandleIsGoodUntilTheSlotIsGivenBackAndNeverAfter) {
    static Things table;
    FreeSlots<Thing> free;
    Thing* thing;
    ASSERT_EQ(table.take(free, &thing), 0);
    uint64_t id = Things::id_of(thing);
    Thing* found = nullptr;
    EXPECT_EQ(table.resolve(id, &found), 0);
    EXPECT_EQ(found, thing);
    for (int i = 0; i < 1000; i++) {
        Things::end_use(thing);
        table.give_back(free, thing);
        EXPECT_EQ(table.resolve(id, &found), -ESRCH);
        Thing* again;
        ASSERT_EQ(table.take(free, &again), 0);
        EXPECT_EQ(again, thing); // last in, first out
        EXPECT_EQ(table.resolve(id, &found), -ESRCH);
    }
}

TEST(Slots, AHandleThatWasNeverGivenOutIsMalformed) {
    static Things table;
    FreeSlots<Thing> free;
    Thing* thing;
    EXPECT_EQ(table.resolve(0, &thing), -EINVAL);
    EXPECT_EQ(table.resolve(~uint64_t(0), &thing), -EINVAL);
    EXPECT_EQ(table.resolve(make_id(Tag::fiber, 0, 1), &thing), -EINVAL); // no slot exists yet
    Thing* taken = nullptr;
    ASSERT_EQ(table.take(free, &taken), 0);
    uint64_t id = Things::id_of(taken);
    EXPECT_EQ(table.resolve(make_id(Tag::scope, id_index(id), id_generation(id)), &thing), -EINVAL);
    EXPECT_EQ(table.resolve(make_id(Tag::fiber, id_index(id) + 1, 1), &thing), -EINVAL); // a slot not used yet
    EXPECT_EQ(table.resolve(make_id(Tag::fiber, 0xffffff, 1), &thing), -EINVAL);
    EXPECT_EQ(table.resolve(id + 1, &thing), -EINVAL); // even: names a free slot
}

TEST(Slots, ASlotWhoseGenerationWouldWrapIsRetired) {
    static Things table;
    FreeSlots<Thing> free;
    Thing* thing;
    ASSERT_EQ(table.take(free, &thing), 0);
    thing->generation = UINT32_MAX - 2; // one use before the last
    uint64_t id = Things::id_of(thing);
    Things::end_use(thing);
    table.give_back(free, thing);
    Thing* other;
    std::set<Thing*> seen;
    for (int i = 0; i < 200; i++) {
        ASSERT_EQ(table.take(free, &other), 0);
        EXPECT_NE(other, thing);
        EXPECT_TRUE(seen.insert(other).second);
    }
    EXPECT_EQ(table.resolve(id, &other), -ESRCH);
}

TEST(Slots, ThreadsTakeAndGiveBackWithoutEverSharingOne) {
    static Things table;
    static std::atomic<int> owner[1 << 16];
    std::vector<std::thread> threads;
    for (int t = 1; t <= 8; t++) {
        threads.emplace_back([t] {
            for (int round = 0; round < 20; round++) {
                FreeSlots<Thing> free;
                std::vector<Thing*> mine;
                for (int i = 0; i < 300; i++) {
                    Thing* thing;
                    ASSERT_EQ(table.take(free, &thing), 0);
                    EXPECT_EQ(owner[thing->index].exchange(t), 0);
                    mine.push_back(thing);
                }
                for (Thing* thing : mine) {
                    owner[thing->index] = 0;
                    Things::end_use(thing);
                    table.give_back(free, thing);
                }
                table.give_back_all(free);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    uint32_t slots = 0;
    table.each([&](Thing* thing) { slots += thing->generation != 0; });
    EXPECT_LE(slots, 8u * (300 + 64)); // given back ones are used again
}

TEST(Slots, AFutureGenerationIsMalformed) {
    static Things table;
    FreeSlots<Thing> free;
    Thing *thing = nullptr, *found = nullptr;
    ASSERT_EQ(table.take(free, &thing), 0);
    uint64_t id = Things::id_of(thing);
    EXPECT_EQ(table.resolve(id + 2, &found), -EINVAL);
    Things::end_use(thing);
    table.give_back(free, thing);
    EXPECT_EQ(table.resolve(id + 2, &found), -EINVAL);
    ASSERT_EQ(table.take(free, &thing), 0);
    EXPECT_EQ(table.resolve(id + 2, &found), 0);
    EXPECT_EQ(table.resolve(id, &found), -ESRCH);
}

} // namespace
