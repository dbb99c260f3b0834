// SPDX-License-Identifier: MIT OR Apache-2.0
// Select: tries the cases, and waits for all of them.
// fuzz: waiting 90 %
#include "sync/select.h"

#include "base/keep_errno.h"
#include "sync/select_list.h"
#include "sync/select_watch.h"

#include <new>
#include <stdlib.h>

namespace fiberrt {

namespace {

constexpr uint32_t few_cases = 8;  // so many cases need no allocation
constexpr int no_case = -1;        // no case
thread_local uint32_t thread_turn; // for a thread without a cord; a cord has Cord::sync.select_first_case

int64_t try_one(Caller caller, fiber_case_t& what) {
    if (what.kind == FIBER_CASE_NONE) return not_yet;
    if (what.kind == FIBER_CASE_TIMER) return what.number == 0 ? 0 : not_yet;
    if (is_watched(what)) return select_try_watched(caller, what);
    int64_t result = select_try_list(what);
    return result == -EAGAIN ? not_yet : result;
}

int try_each(Caller caller, fiber_case_t* cases, uint32_t count, uint32_t begin) {
    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = begin + n < count ? begin + n : begin + n - count;
        int64_t result = try_one(caller, cases[i]);
        if (result == not_yet) continue;
        cases[i].result = result;
        return int(i);
    }
    return no_case;
}

// Finds the earliest timer that ends before or with the timeout, and sets the timeout to its time.
int earliest_timer(const fiber_case_t* cases, uint32_t count, int64_t* timeout_ns) {
    int timer = no_case;
    for (uint32_t i = 0; i < count; i++) {
        if (cases[i].kind != FIBER_CASE_TIMER || cases[i].number > *timeout_ns) continue;
        if (cases[i].number == *timeout_ns && timer != no_case) continue;
        *timeout_ns = cases[i].number;
        timer = int(i);
    }
    return timer;
}

void free_heap(SyncWait& wait) { free(static_cast<SelectWait&>(wait).heap); }

struct Memory {
    SelectLists::Entry* entries;
    Waiter* waiters;
    Watch* watches;
    void* heap; // the allocation with all of these; null: they are on the caller's stack
};

struct SelectCall {
    Caller caller;
    fiber_case_t* cases;
    uint32_t count;
    uint32_t begin; // the case that is tried first
    int64_t timeout_ns;
    void* (*await_descriptor)(void* fiber_case);
};

// The result of a select that does not wait.
int select_at_once(Caller caller, const fiber_case_t* cases, int had) {
    if (caller.charge_makes_poll_due()) [[unlikely]]
        had == no_case ? poll_and_give_way(*caller.cord) : select_give_turn(cases[had]);
    return had == no_case ? -ETIMEDOUT : had;
}

// Waits for all cases; none was possible at once.
int wait_for_all(const SelectCall& call, const Memory& memory) {
    const auto& [caller, cases, count, begin, most_ns, await_descriptor] = call;
    bool watched = false;
    for (uint32_t i = 0; i < count; i++) {
        memory.watches[i].what = &cases[i];
        memory.watches[i].waiter = &memory.waiters[i];
        if (is_watched(cases[i])) watched = true;
    }
    SelectWait wait(memory.waiters, count, memory.watches);
    wait.what = WaitFor::select;
    wait.await_descriptor = await_descriptor;
    wait.heap = memory.heap;
    if (wait.heap) wait.free_memory = free_heap;
    int64_t timeout_ns = most_ns;
    int timer = earliest_timer(cases, count, &timeout_ns);
    int64_t deadline = caller.deadline(timeout_ns);
    SelectLists select = {cases, memory.entries, memory.waiters, count, begin};
    int64_t result;
    int had = select.try_or_join(wait, caller.cord, &result);
    if (had != no_case) {
        cases[had].result = result;
        return had;
    }
    if (watched) select_begin_watches(wait);
    result = wait.park(deadline);
    if (watched) select_end_helpers(wait);
    if (wait.selected) {
        auto i = wait.selected - memory.waiters;
        const Watch& watch = memory.watches[i];
        if (watch.select_wait) {
            select_store_watched(caller, cases[i], watch);
        } else {
            cases[i].result = result;
        }
        return int(i);
    }
    if (result != -ETIMEDOUT || timer == no_case || clock_now() < deadline) return int(result);
    cases[timer].result = 0;
    return timer;
}

[[gnu::noinline]] int wait_for_few(const SelectCall& call) {
    SelectLists::Entry entries[few_cases];
    Waiter waiters[few_cases];
    Watch watches[few_cases];
    return wait_for_all(call, {entries, waiters, watches, nullptr});
}

[[gnu::noinline]] int wait_for_many(const SelectCall& call) {
    uint32_t count = call.count;
    KeepErrno keep;
    void* memory = malloc((sizeof(Watch) + sizeof(Waiter) + sizeof(SelectLists::Entry)) * count);
    if (!memory) return -ENOMEM;
    auto* watches = static_cast<Watch*>(memory);
    auto* waiters = reinterpret_cast<Waiter*>(watches + count);
    auto* entries = reinterpret_cast<SelectLists::Entry*>(waiters + count);
    for (uint32_t i = 0; i < count; i++) {
        new (&watches[i]) Watch;
        new (&waiters[i]) Waiter;
        new (&entries[i]) SelectLists::Entry;
    }
    int result = wait_for_all(call, {entries, waiters, watches, memory});
    free(memory);
    return result;
}

} // namespace

int select_cases(Caller caller, fiber_case_t* cases, uint32_t count, int64_t timeout_ns,
                 void* (*await_descriptor)(void* fiber_case)) {
    uint32_t turn = caller.cord ? caller.cord->sync.select_first_case++ : thread_turn++;
    // The first case to try is scattered evenly. With a plain counter, each of two selects that alternate could begin
    // with the same case for ever.
    uint32_t begin = uint32_t(uint64_t(turn * 0x9e3779b9) * count >> 32);
    int had = try_each(caller, cases, count, begin);
    if (had != no_case || timeout_ns == 0) return select_at_once(caller, cases, had);
    if (int error = caller.refused()) return error; // a try may have received a cancel from another cord
    return (count <= few_cases ? wait_for_few
                               : wait_for_many)({caller, cases, count, begin, timeout_ns, await_descriptor});
}

} // namespace fiberrt
