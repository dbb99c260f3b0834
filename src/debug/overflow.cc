// SPDX-License-Identifier: MIT OR Apache-2.0
// The handler of SIGSEGV: distinguishes the overflow of a fiber's stack from other faults, and reports the fiber.
// coverage: ends process
#include "debug/overflow.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/report.h"
#include "core/cord.h"
#include "debug/handlers.h"
#include "debug/machine_context.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constinit pthread_mutex_t overflow_mutex = PTHREAD_MUTEX_INITIALIZER; // for installing and removing
constinit SignalHandler handler;

// How far below the stack pointer code writes: the red zone, and words pushed before the pointer moves.
constexpr uintptr_t below = 1024;

// Whether code that ran on the current fiber's stack has accessed this address below the stack. The address may lie
// beyond the guard, because a frame larger than the guard may step over it.
bool has_overflowed(const Fiber* fiber, uintptr_t address, uintptr_t sp) {
    auto low = reinterpret_cast<uintptr_t>(static_cast<char*>(fiber->stack_low));
    size_t reach = StackPool::size_of(fiber->stack_class) + StackPool::guard_size(fiber->stack_class);
    return address < low && address + reach >= low && address + below >= sp;
}

// Whether code on this fiber's stack has run into its guard. The fiber need not be the current one: during a switch, in
// a hook, or as the executor of hosted fibers.
bool is_in_guard(const Fiber* fiber, uintptr_t address, uintptr_t sp) {
    auto low = reinterpret_cast<uintptr_t>(static_cast<char*>(fiber->stack_low));
    size_t guard = StackPool::guard_size(fiber->stack_class);
    return low && address < low && address + guard >= low && address + below >= sp && sp + guard >= address;
}

// The fiber whose stack has overflowed; null: the fault has another cause.
Fiber* overflowed(Cord& cord, uintptr_t address, uintptr_t sp) {
    Fiber* current = cord.sched.current;
    if (current && current->stack_low && has_overflowed(current, address, sp)) return current;
    Fiber* found = nullptr;
    fibers.each([&](Fiber* fiber) {
        bool ours = fiber->cord.load(std::memory_order_relaxed) == &cord;
        if (ours && is_in_guard(fiber, address, sp)) found = fiber;
    });
    return found;
}

void report(const Cord& cord, const Fiber* fiber) {
    Report r(STDERR_FILENO, Report::unasked_ns);
    r.put("fiberrt: fiber ");
    r.id(fibers.id_of(fiber));
    char name[FIBER_NAME_MAX]; // read without its lock, which this thread may hold already
    memcpy(name, fiber->name, sizeof name);
    name[sizeof name - 1] = '\0';
    if (name[0]) r.name(name);
    if (is_internal(fiber->life.kind)) r.put(", one of the library's own,");
    r.put(" of cord ");
    r.id(CordTable::id_of(&cord));
    r.put(" has overflowed its stack of ");
    r.number(StackPool::size_of(fiber->stack_class) / 1024);
    r.put(" KiB");
    const Fiber* current = cord.sched.current;
    if (current && !current->uses_stack()) {
        r.put(", in a turn of the hosted fiber ");
        r.id(fibers.id_of(current));
    } else {
        r.put("; a larger one may help");
    }
    r.put('\n');
    r.end();
}

void on_fault(int signal, siginfo_t* info, void* context) {
    KeepErrno keep;
    Cord* cord = this_cord;
    if (handler.in_use() && cord && info->si_code > 0) { // raised by an instruction
        auto address = reinterpret_cast<uintptr_t>(info->si_addr);
        if (Fiber* fiber = overflowed(*cord, address, interrupted_sp(context))) report(*cord, fiber);
    }
    handler.pass_on(signal, info, context);
}

} // namespace

int overflow_reports(bool on) {
    KeepErrno keep;
    MutexGuard guard(overflow_mutex);
    bool was = handler.in_use();
    int error = 0;
    if (on) {
        if (Cord* cord = cord_if_any()) error = signal_stack_give(*cord);
        if (!error) error = handler.install(SIGSEGV, on_fault, false);
    } else {
        error = handler.remove();
    }
    if (was != handler.in_use()) was ? signal_stacks_want_no_more() : signal_stacks_want();
    return error;
}

void overflow_lock() { pthread_mutex_lock(&overflow_mutex); }
void overflow_unlock() { pthread_mutex_unlock(&overflow_mutex); }

} // namespace fiberrt
