// SPDX-License-Identifier: MIT OR Apache-2.0
// The tables of sums by themselves: no fiber is counted twice, also if the table changes while it is read.
#include "record/sums.h"

#include "core/slots.h"

#include <gtest/gtest.h>
#include <memory>

using namespace fiberrt;

namespace {

// The handle of a scope that does not exist.
SumKey gone(uint32_t number) { return key_by_scope(make_id(Tag::scope, number, 1)); }

Times times_of(uint64_t run) {
    Times times = {};
    times.run = run;
    return times;
}

struct Totals {
    uint64_t fibers = 0, run = 0, others = 0;
};

template <class During>
Totals totals(const SumTable& table, During during) {
    Totals all;
    table.each([&](const Sum& sum, bool others) {
        all.fibers += sum.fibers;
        all.run += sum.times.run;
        if (others) all.others += sum.fibers;
        during();
    });
    return all;
}

TEST(SumTable, CountsEachFiberOnce) {
    auto table = std::make_unique<SumTable>();
    for (uint32_t i = 0; i < 3 * SumTable::places; i++) table->add(gone(i), 1, times_of(2), true);
    Totals all = totals(*table, [] {});
    EXPECT_EQ(all.fibers, 3 * SumTable::places);
    EXPECT_EQ(all.run, 2 * 3 * SumTable::places);
    EXPECT_GE(all.others, 1u);
    table->clear();
    EXPECT_EQ(totals(*table, [] {}).fibers, 0u);
}

// Fibers that end during the read may be missing, and so may the sums of scopes that are gone: these move meanwhile.
TEST(SumTable, CountsNoFiberTwiceThoughSumsMoveMeanwhile) {
    auto table = std::make_unique<SumTable>();
    uint32_t next = 0;
    for (; next < 2 * SumTable::places; next++) table->add(gone(next), 1, times_of(2), true);
    uint64_t before = next;
    Totals all = totals(*table, [&] { table->add(gone(next++), 0, {}, true); }); // takes the place of another scope
    EXPECT_GT(next, before);
    EXPECT_LE(all.fibers, before);
    EXPECT_LE(all.run, 2 * before);
    EXPECT_EQ(totals(*table, [] {}).fibers, before);
}

} // namespace
