// SPDX-License-Identifier: MIT OR Apache-2.0
// The tables of sums.
#include "record/sums.h"

#include "base/copy_name.h"
#include "core/scope.h"
#include "core/slots.h"

#include <initializer_list>

namespace fiberrt {

namespace {

constexpr uint32_t tried_most = 16; // places that a key may have
constexpr int copies_most = 1000;   // tries to copy a sum while its cord changes it; the last one counts

uint64_t load(const std::atomic<uint64_t>& member) { return member.load(std::memory_order_acquire); }
void store(std::atomic<uint64_t>& member, uint64_t value) { member.store(value, std::memory_order_release); }
void increase(std::atomic<uint64_t>& member, uint64_t more) {
    if (more) store(member, member.load(std::memory_order_relaxed) + more);
}

uint64_t mixed(uint64_t number) {
    number *= 0x9e3779b97f4a7c15; // 2^64 divided by the golden ratio: spreads the low bits over the high ones
    return number >> 32;
}

} // namespace

void Times::add(const Times& other) {
    turns += other.turns;
    run += other.run;
    runnable += other.runnable;
    for (int i = 0; i < wait_kinds; i++) waits[i] += other.waits[i];
}

SumKey key_by_function(void* function) { return {reinterpret_cast<uintptr_t>(function), {}}; }

SumKey key_by_scope(uint64_t scope) { return {scope, {}}; }

SumKey key_by_name(const char (&name)[FIBER_NAME_MAX]) {
    SumKey key = {};
    copy_name(reinterpret_cast<char*>(key.name), FIBER_NAME_MAX, name);
    for (uint64_t word : key.name) key.number = mixed(key.number ^ word) ^ (key.number << 32) ^ word;
    return key;
}

Sum SumTable::read(const Place& place) {
    Sum sum;
    sum.key.number = load(place.number);
    for (int i = 0; i < SumKey::name_words; i++) sum.key.name[i] = load(place.name[i]);
    sum.fibers = load(place.fibers);
    sum.times.turns = load(place.turns);
    sum.times.run = load(place.run);
    sum.times.runnable = load(place.runnable);
    for (int i = 0; i < wait_kinds; i++) sum.times.waits[i] = load(place.waits[i]);
    return sum;
}

bool SumTable::has_key(const Place& place, const SumKey& key) {
    bool same = load(place.number) == key.number;
    for (int i = 0; same && i < SumKey::name_words; i++) same = load(place.name[i]) == key.name[i];
    return same;
}

// Makes the place one of a new sum.
void SumTable::set_key(Place& place, const SumKey& key) {
    store(place.number, key.number);
    for (int i = 0; i < SumKey::name_words; i++) store(place.name[i], key.name[i]);
    for (auto* sum : {&place.fibers, &place.turns, &place.run, &place.runnable}) store(*sum, 0);
    for (auto& wait : place.waits) store(wait, 0);
    place.used.store(true, std::memory_order_release);
}

void SumTable::add_to(Place& place, uint64_t fibers, const Times& times) {
    increase(place.fibers, fibers);
    increase(place.turns, times.turns);
    increase(place.run, times.run);
    increase(place.runnable, times.runnable);
    for (int i = 0; i < wait_kinds; i++) increase(place.waits[i], times.waits[i]);
}

SumTable::Place& SumTable::place_for(const SumKey& key, bool by_scope) {
    Place* gone = nullptr;
    for (uint32_t i = 0; i < tried_most; i++) {
        Place& place = places_[(mixed(key.number) + i) % places];
        if (!place.used.load(std::memory_order_relaxed)) {
            set_key(place, key);
            return place;
        }
        if (has_key(place, key)) return place;
        Scope* scope;
        if (by_scope && !gone && load(place.number) && scopes.resolve(load(place.number), &scope) < 0) gone = &place;
    }
    Place& others = places_[places];
    if (!others.used.load(std::memory_order_relaxed)) set_key(others, {});
    if (!gone) return others;
    Sum sum = read(*gone);
    add_to(others, sum.fibers, sum.times);
    set_key(*gone, key);
    return *gone;
}

void SumTable::add(const SumKey& key, uint64_t fibers, const Times& times, bool by_scope) {
    uint32_t change = begun_.load(std::memory_order_relaxed) + 1;
    begun_.store(change, std::memory_order_relaxed);
    add_to(place_for(key, by_scope), fibers, times);
    settled_.store(change, std::memory_order_release);
}

void SumTable::clear() {
    uint32_t change = begun_.load(std::memory_order_relaxed) + 1;
    begun_.store(change, std::memory_order_relaxed);
    for (Place& place : places_) {
        if (!place.used.load(std::memory_order_relaxed)) continue;
        set_key(place, {});
        place.used.store(false, std::memory_order_release);
    }
    settled_.store(change, std::memory_order_release);
}

bool SumTable::copy(const Place& place, Sum& out) const {
    for (int i = 0; i < copies_most; i++) {
        uint32_t settled = settled_.load(std::memory_order_acquire);
        if (!place.used.load(std::memory_order_acquire)) return false;
        out = read(place);
        if (begun_.load(std::memory_order_relaxed) == settled) return true;
    }
    return true; // coverage: race
}

} // namespace fiberrt
