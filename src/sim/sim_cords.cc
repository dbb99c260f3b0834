// SPDX-License-Identifier: MIT OR Apache-2.0
// Several cords in a simulation. They are virtual: each has a stack for its main flow, and all share one thread. The
// choice source picks the cord that runs next whenever the present cord
// - polls: any cord that can run may be next, also the present one, unless it sleeps;
// - sends something to another cord (before and after), or has started one, as real threads would run side by side
//   there. At such a point the cord holds no lock of the library, and no lock of the program if the program holds them
//   only in no-switch sections;
// - has looked at the clock a few times, as a fiber does that waits for another thread without sleeping.
//
// A cord that sleeps can run when its doorbell rings, an operation of the cord is done, or its deadline has come. If no
// cord can run, time passes to the earliest of all deadlines. Without a deadline the first cord runs, and its main flow
// learns of the deadlock.
//
// The simulation finds lost doorbells of all cords except the first, which threads without a cord may call; these
// threads do not ring.
//
// A change of cords is a switch in the middle of a poll. Its place is kept here, not in the cord's fibers; to the cord
// it looks as if the poll had taken some time.
#include "sim/sim.h"

#include "base/aligned.h"
#include "base/check.h"
#include "base/keep_errno.h"
#include "base/planted.h"
#include "core/hooks.h"
#include "core/switch.h"
#include "core/timers.h"
#include "io/io.h"

#include <errno.h>
#include <new>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace fiberrt {

namespace {

constexpr size_t cord_stack_size = size_t(8) << 20; // the usual size of a thread's stack; most of it stays untouched
constexpr size_t cord_guard_size = StackPool::guard_default; // at the stack's low end
constexpr unsigned looks_in_a_row = 8;

struct VirtualCord {
    Fiber place;         // where the cord continues: only the members that a switch saves are used
    hooks::CordStack at; // the stack of that place
    Cord* cord = nullptr;
    void* (*run)(void*) = nullptr; // null once the cord has begun
    char* stack = nullptr;         // its main flow's stack; null: the thread's own
    bool asleep = false;           // until it is rung, its deadline has come or an operation is done
    bool rung = false;             // another cord has rung since it parked
    int64_t deadline = never;      // of the sleep
    bool ended = false;            // only the first cord: it runs again when no other is left
    bool able = false;             // can run; set while the next cord is chosen
};

// All cords in the order of their starts, the first cord first; empty until a second one starts.
struct VirtualCords {
    VirtualCord** all = nullptr;
    uint32_t count = 0;
    uint32_t room = 0;
    uint32_t present = 0;        // index of the cord that has the thread
    unsigned looks = 0;          // how often it has looked at the clock since then
    VirtualCord* gone = nullptr; // a cord that has ended; its stack may still be in use
};

constinit VirtualCords cords_here;

bool has_one_cord() { return cords_here.count < 2; }
VirtualCord& present() { return *cords_here.all[cords_here.present]; }

// The i-th cord after the present one; i == count is the present one.
VirtualCord& after_present(uint32_t i) { return *cords_here.all[(cords_here.present + i) % cords_here.count]; }

// How many of a cord's operations may be done to find out whether the cord can run.
enum class Do : uint8_t { nothing, some, at_least_one };

bool is_able(VirtualCord& it, Do what) {
    if (it.ended) return cords_here.count == 1;
    if (!it.asleep || it.rung || it.deadline <= simulation.now) return true;
    return what == Do::nothing ? ops_done(*it.cord) : do_ops(*it.cord, what == Do::at_least_one);
}

// Marks which of the first `most` cords after the present one can run. Returns how many.
uint32_t find_able(uint32_t most, Do what) {
    uint32_t found = 0;
    for (uint32_t i = 1; i <= most; i++) {
        VirtualCord& it = after_present(i);
        it.able = is_able(it, what);
        found += it.able;
    }
    return found;
}

VirtualCord& able(uint32_t index) {
    uint32_t i = 1;
    while (!after_present(i).able || index--) i++;
    return after_present(i);
}

void free_gone() {
    VirtualCord* gone = cords_here.gone;
    if (!gone) return;
    cords_here.gone = nullptr;
    hooks::cord_stack_gone(gone->at);
    hooks::stack_gone(gone->stack + cord_guard_size, cord_stack_size - cord_guard_size);
    munmap(gone->stack, cord_stack_size);
    free(gone);
}

// Runs a new cord, on its stack.
void* begin(void*);

// Switches to another cord; returns when the present one runs again. for_good: it never does.
void give_thread(VirtualCord& from, VirtualCord& to, bool for_good) {
    simulation.count_step();
    simulation.trace.line(simulation.now, "cord %u goes on", to.cord->index);
    cords_here.present = 0;
    while (&present() != &to) cords_here.present++;
    cords_here.looks = 0;
    if (to.run) {
        hooks::start_other_cord(*from.cord, &from.place, from.at, &to.place, to.at, for_good, begin, nullptr);
    } else {
        hooks::switch_to_other_cord(*from.cord, &from.place, from.at, &to.place, to.at, for_good);
    }
    free_gone();
    this_cord = from.ended ? nullptr : from.cord;
}

void go_on_with(VirtualCord& to) {
    VirtualCord& from = present();
    if (&from != &to) give_thread(from, to, false);
}

// Returns the earliest deadline of all cords; never: there is none.
int64_t next_deadline() {
    int64_t earliest = never;
    for (uint32_t i = 0; i < cords_here.count; i++) {
        if (cords_here.all[i]->deadline < earliest) earliest = cords_here.all[i]->deadline;
    }
    return earliest;
}

// Picks the next cord when the present one sleeps or has ended.
VirtualCord& next_to_go_on() {
    for (;;) {
        uint32_t found = find_able(cords_here.count, Do::some);
        if (!found) found = find_able(cords_here.count, Do::at_least_one);
        if (found) return able(simulation.pick(found, Site::cord));
        int64_t deadline = next_deadline();
        if (deadline == never) return *cords_here.all[0];
        simulation.now = deadline;
    }
}

// Whether another cord may run at this moment.
bool may_give_thread() { return this_cord && !has_one_cord() && !this_cord->no_switch.depth; }

void take_turns() {
    uint32_t found = find_able(cords_here.count, Do::some);
    go_on_with(able(simulation.pick(found, Site::cord)));
}

// Ends the present cord and switches to the next.
[[noreturn]] void end_present_cord() {
    if (cords_here.count == 1) exit(0); // the child of a fork, whose only cord this was
    VirtualCord& me = present();
    VirtualCord** mine = cords_here.all + cords_here.present;
    memmove(mine, mine + 1, (--cords_here.count - cords_here.present) * sizeof *mine);
    cords_here.present--; // so that the next one is after it; never the first cord
    VirtualCord& next = next_to_go_on();
    if (next.ended && !has_one_cord()) simulation_fails("deadlock: no fiber can ever run again");
    cords_here.gone = &me;
    give_thread(me, next, true);
    __builtin_unreachable();
}

void* begin(void*) {
    hooks::begun_on_other_stack();
    free_gone();
    VirtualCord& me = present();
    void* (*run)(void*) = me.run;
    me.run = nullptr;
    this_cord = me.cord;
    run(me.cord);
    end_present_cord();
}

VirtualCord* make_virtual(Cord& cord) {
    void* memory = aligned_allocate(alignof(VirtualCord), sizeof(VirtualCord));
    if (!memory) return nullptr;
    auto* made = new (memory) VirtualCord;
    made->cord = &cord;
    return made;
}

bool add(VirtualCord* it) {
    if (cords_here.count == cords_here.room) {
        uint32_t room = cords_here.room ? 2 * cords_here.room : 8;
        void* all = realloc(cords_here.all, room * sizeof(VirtualCord*));
        if (!all) return false;
        cords_here.all = static_cast<VirtualCord**>(all);
        cords_here.room = room;
    }
    cords_here.all[cords_here.count++] = it;
    return true;
}

bool give_stack(VirtualCord& it) {
    void* stack = mmap(nullptr, cord_stack_size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) return false;
    if (mprotect(stack, cord_guard_size, PROT_NONE) < 0) { // coverage: no memory
        munmap(stack, cord_stack_size);
        return false;
    }
    it.stack = static_cast<char*>(stack);
    it.at.low = it.stack + cord_guard_size;
    it.at.size = cord_stack_size - cord_guard_size;
    hooks::stack_made(it.stack + cord_guard_size, cord_stack_size - cord_guard_size);
    return true;
}

// Adds the thread's own cord to the list, as the first.
bool add_first() { // coverage: no memory
    if (cords_here.count) return true;
    VirtualCord* first = make_virtual(*this_cord);
    if (first && add(first)) return true;
    free(first);
    return false;
}

} // namespace

// coverage: no memory
int start_cord(Cord& cord, void* (*run)(void*)) {
    if (environment->refuses(Resource::stack)) return -EAGAIN; // like a failure to create a thread
    if (!add_first()) return -ENOMEM;
    VirtualCord* it = make_virtual(cord);
    if (!it || !add(it)) {
        free(it);
        return -ENOMEM;
    }
    if (!give_stack(*it) || Io::open(cord) < 0) {
        cords_here.count--;
        if (it->stack) {
            it->at.tsan_fiber = nullptr;
            cords_here.gone = it;
            free_gone();
        } else {
            free(it);
        }
        return -ENOMEM;
    }
    // All cords share one thread, so they share its errno and exceptions; the switch saves and restores their contents.
    cord.thread_state.errno_address = this_cord->thread_state.errno_address;
    cord.thread_state.exceptions = this_cord->thread_state.exceptions;
    it->run = run;
    return 0;
}

void thread_ends() {
    if (has_one_cord()) return;
    VirtualCord& first = present();
    first.ended = first.asleep = true;
    first.deadline = never;
    while (!has_one_cord()) {
        VirtualCord& next = next_to_go_on();
        if (&next == &first) simulation_fails("deadlock: no fiber can ever run again");
        go_on_with(next);
    }
}

// In the child of a fork: drops the trace, which belongs to the parent, and all other cords.
void simulation_forked(Cord* own) {
    simulation.trace.close();
    if (!cords_here.count) return;
    // The stacks of the other cords stay mapped, as those of threads do: the cord that continues may have pointers into
    // them.
    VirtualCord* kept = own && cords_here.present ? &present() : nullptr;
    for (uint32_t i = 0; i < cords_here.count; i++) {
        if (cords_here.all[i] != kept) free(cords_here.all[i]);
    }
    cords_here.all[0] = kept;
    cords_here.count = kept ? 1 : 0;
    cords_here.present = 0;
    cords_here.gone = nullptr;
}

void let_another_act() {
    if (!may_give_thread()) return;
    KeepErrno keep;
    uint32_t found = find_able(cords_here.count - 1, Do::nothing);
    uint32_t chosen = simulation.pick(found + 1, Site::in_between);
    if (chosen) go_on_with(able(chosen - 1));
}

void ring_cord(Cord& cord) {
    if (!environment->admits()) return; // the ringing thread is not part of the simulation
    for (uint32_t i = 0; i < cords_here.count; i++) {
        VirtualCord& it = *cords_here.all[i];
        if (PLANTED(ring_before_the_sleep_is_lost) && !it.asleep) continue;
        if (it.cord == &cord) it.rung = true; // if it is parked and not yet asleep, it polls once more first
    }
}

void sleep_without_backend(int64_t deadline) { sleep_among_others(deadline); }

void let_others_go_on() {
    if (may_give_thread()) take_turns();
}

void looked_at_clock() {
    if (!may_give_thread() || ++cords_here.looks < looks_in_a_row) return;
    KeepErrno keep;
    cords_here.looks = 0;
    take_turns();
}

bool sleep_among_others(int64_t deadline) {
    if (has_one_cord()) return false;
    VirtualCord& me = present();
    me.asleep = true;
    me.rung = me.rung && me.cord->inbox.has_message(); // counts only rings since it has parked
    me.deadline = deadline;
    VirtualCord& next = next_to_go_on();
    bool stuck = next.ended || (&next == &me && !is_able(me, Do::nothing));
    if (stuck) simulation_fails("deadlock: no fiber can ever run again");
    go_on_with(next);
    me.asleep = me.rung = false;
    me.deadline = never;
    return true;
}

bool others_sleep() {
    if (has_one_cord()) return true;
    if (cords_here.present != 0) return false;
    for (uint32_t i = 1; i < cords_here.count; i++) {
        const VirtualCord& it = *cords_here.all[i];
        if (!it.asleep || it.rung || it.deadline != never) return false;
    }
    return true;
}

bool others_are_stuck() {
    // Gives the kernel's TCP some time, as some_op_ends() does.
    for (int round = 0; round < 5 && !has_one_cord(); round++) {
        bool any = false;
        for (uint32_t i = 1; i < cords_here.count; i++) {
            const VirtualCord& it = *cords_here.all[i];
            if (do_ops(*it.cord, true)) return false;
            any |= it.cord->io && it.cord->io->in_flight;
        }
        if (!any) return true;
        poll(nullptr, 0, 1);
    }
    return true;
}

void each_other_cord(void (*call)(const Cord& cord)) {
    for (uint32_t i = 1; i < cords_here.count; i++) {
        const VirtualCord& it = after_present(i);
        if (!it.ended) call(*it.cord);
    }
}

} // namespace fiberrt
