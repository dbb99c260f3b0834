// SPDX-License-Identifier: MIT OR Apache-2.0
// Accounting: the rarer changes of records, and the reads.
#include "record/accounting.h"

#include "core/begin.h"
#include "core/child_scope.h"
#include "record/recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace fiberrt {

namespace {

// FIBERRT_ACCOUNTING=1 turns accounting on before the first cord.
bool accounting_from_environment() {
    const char* value = secure_getenv("FIBERRT_ACCOUNTING");
    if (!value || !*value || strcmp(value, "0") == 0) return true;
    if (strcmp(value, "1") == 0) {
        recorder_want_at_begin(Consumer::accounting, nullptr);
    } else {
        fputs("fiberrt: FIBERRT_ACCOUNTING must be 0 or 1\n", stderr);
    }
    return true;
}
FIBERRT_INITIALIZER(When::first_cord, accounting_from_environment);

constexpr int reads_most = 1000; // tries to read a record that changes during each try

uint64_t acquired(const std::atomic<uint64_t>& member) { return member.load(std::memory_order_acquire); }

// The time from then to now. A reader on another processor may be some ticks behind.
uint64_t passed(uint64_t then, uint64_t now) { return now > then ? now - then : 0; }

bool read_once(const FiberRecord& its, uint64_t now, Times& out, Doing& doing) {
    uint64_t settled = acquired(its.settled);
    out.turns = acquired(its.turns);
    out.run = acquired(its.run);
    out.runnable = acquired(its.runnable);
    for (int i = 0; i < wait_kinds; i++) out.waits[i] = acquired(its.waits[i]);
    doing = its.doing.load(std::memory_order_acquire);
    if (its.since.load(std::memory_order_relaxed) != settled) return false;
    uint64_t more = passed(settled, now);
    if (doing == Doing::runs) out.run += more;
    if (doing == Doing::runnable) out.runnable += more;
    if (doing >= first_wait) out.waits[int(doing) - int(first_wait)] += more;
    return true;
}

} // namespace

void account_begin(FiberRecord& its, uint64_t key, void* function, Doing doing, uint64_t now) {
    its.key.store(0, std::memory_order_relaxed); // readers find the record empty
    its.since.store(now, std::memory_order_relaxed);
    for (auto* sum : {&its.run, &its.runnable, &its.turns}) sum->store(0, std::memory_order_release);
    for (auto& wait : its.waits) wait.store(0, std::memory_order_release);
    its.function.store(function, std::memory_order_release);
    its.doing.store(doing, std::memory_order_release);
    its.settled.store(now, std::memory_order_release);
    its.key.store(key, std::memory_order_release);
}

void account_change(FiberRecord& its, Doing doing, uint64_t now) {
    uint64_t passed = now - its.since.load(std::memory_order_relaxed);
    Doing before = its.doing.load(std::memory_order_relaxed);
    its.since.store(now, std::memory_order_relaxed);
    add_to(before >= first_wait ? its.waits[int(before) - int(first_wait)] : its.runnable, passed);
    its.doing.store(doing, std::memory_order_release);
    its.settled.store(now, std::memory_order_release);
}

void account_end(CordRecord& cord, Fiber* fiber, FiberRecord& its, uint64_t now, uint64_t fibers) {
    Times times;
    Doing doing;
    times_of(its, now, times, doing);
    its.since.store(now, std::memory_order_relaxed);
    its.run.store(times.run, std::memory_order_release);
    its.runnable.store(times.runnable, std::memory_order_release);
    for (int i = 0; i < wait_kinds; i++) its.waits[i].store(times.waits[i], std::memory_order_release);
    its.doing.store(Doing::ended, std::memory_order_release);
    its.settled.store(now, std::memory_order_release);

    char name[FIBER_NAME_MAX] = {};
    uint64_t scope = 0;
    if (fiber->name[0] || fiber->requests.asked_elsewhere) {
        Locked locked(fiber->remote.lock);
        memcpy(name, fiber->name, sizeof name);
        uint64_t parent;
        scope = scope_of_child(fiber, &parent);
    }
    cord.sums[FIBER_BY_FUNCTION].add(key_by_function(its.function.load(std::memory_order_relaxed)), fibers, times,
                                     false);
    cord.sums[FIBER_BY_NAME].add(key_by_name(name), fibers, times, false);
    cord.sums[FIBER_BY_SCOPE].add(key_by_scope(scope), fibers, times, true);
}

void account_cord_begin(CordRecord& cord, uint64_t key, uint64_t now) {
    uint64_t before = cord.key.load(std::memory_order_relaxed);
    bool used = before != 0; // otherwise the pages stay untouched
    bool same_recording = before == key;
    cord.key.store(0, std::memory_order_relaxed); // readers find the record empty
    cord.since.store(now, std::memory_order_relaxed);
    for (auto* time : {&cord.poll, &cord.sleep}) time->store(0, std::memory_order_release);
    cord.begun.store(now, std::memory_order_release);
    cord.phase.store(Phase::polls, std::memory_order_release);
    cord.settled.store(now, std::memory_order_release);
    if (used) {
        for (auto* histogram : {&cord.slices, &cord.lags, &cord.polls}) histogram->clear();
    }
    if (used && !same_recording) { // the sums of the last cord of the slot stay
        for (SumTable& table : cord.sums) table.clear();
    }
    cord.key.store(key, std::memory_order_release);
}

bool times_of(const FiberRecord& its, uint64_t now, Times& out, Doing& doing) {
    for (int i = 0; i < reads_most; i++) {
        if (read_once(its, now, out, doing)) return true;
    }
    return false; // coverage: race
}

bool times_of(const CordRecord& cord, uint64_t now, CordTimes& out) {
    for (int i = 0; i < reads_most; i++) {
        uint64_t settled = acquired(cord.settled);
        out.poll = acquired(cord.poll);
        out.sleep = acquired(cord.sleep);
        Phase phase = cord.phase.load(std::memory_order_acquire);
        uint64_t begun = acquired(cord.begun);
        if (cord.since.load(std::memory_order_relaxed) != settled) continue;
        uint64_t more = passed(settled, now);
        if (phase == Phase::polls) out.poll += more;
        if (phase == Phase::sleeps) out.sleep += more;
        out.run = settled - begun + more - out.poll - out.sleep;
        return true;
    }
    return false; // coverage: race
}

} // namespace fiberrt
