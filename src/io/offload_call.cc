// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls of functions on threads of the pool (offload_call.h).
#include "io/offload_call.h"

#include "base/keep_errno.h"
#include "core/cord.h"
#include "core/hooks.h"
#include "core/noswitch.h"
#include "core/scheduler.h"
#include "core/shared_wait.h"
#include "io/io.h"
#include "io/offload.h"

#include <errno.h>
#include <new>
#include <stdlib.h>

namespace fiberrt {

namespace {

struct OffloadCall;

// The fiber's wait for a call, on its stack.
struct OffloadWait : SharedWait {
    OffloadCall* call;
    bool ends_call = true; // false: the call outlives the wait, and the pool's thread frees it
};

// The call's job. It lies on the fiber's stack. A detached call has its own memory, which the fiber or the pool's
// thread frees, whichever is done last.
struct OffloadCall : OffloadJob {
    Offloaded fn;
    void* arg;
    OffloadWait* wait = nullptr;
    int64_t result = 0;

    void (*free_arg)(void*) = nullptr;
    std::atomic<uint32_t> one_is_done{0}; // detached: set by the first of the fiber and the thread that is done
};

void free_call(OffloadCall* call) {
    call->free_arg(call->arg);
    free(call);
}

void run_function(OffloadJob& job) {
    auto& call = static_cast<OffloadCall&>(job);
    int64_t result = call.fn(call.arg);
    cord_close();                                // closes the cord that the function's calls may have opened
    if (on_offload_thread) call.result = result; // otherwise this is a fork's child, without the call
}

void function_done(OffloadJob& job) { shared_wait_complete(static_cast<OffloadCall&>(job).wait); }

void detached_function_done(OffloadJob& job) {
    auto& call = static_cast<OffloadCall&>(job);
    // Release and acquire: the side that frees the call sees the other side's writes.
    if (call.one_is_done.exchange(1, std::memory_order_acq_rel)) {
        free_call(&call);
        cord_close(); // free_arg may have opened one
    } else {
        shared_wait_complete(call.wait);
    }
}

void stop(Wait* base, int reason) {
    auto* wait = static_cast<OffloadWait*>(base);
    if (offload_cancel(*wait->call)) shared_wait_stopped(*wait, reason);
}

void stop_detached(Wait* base, int reason) {
    auto* wait = static_cast<OffloadWait*>(base);
    OffloadCall* call = wait->call;
    if (!offload_cancel(*call)) {
        // The thread is done first: its message is on its way
        if (call->one_is_done.exchange(1, std::memory_order_acq_rel)) return;
        wait->ends_call = false;
    }
    wait->result = reason;
    shared_wait_end(*wait->home, wait);
}

// SharedWait::on_orphaned: frees a call whose fiber never runs again.
void end_of_detached(SharedWait* base) {
    auto* wait = static_cast<OffloadWait*>(base);
    if (wait->ends_call) free_call(wait->call);
}

// Whether the function must run on the calling thread, because this thread may not wait for another one: it belongs to
// the pool; or Valgrind, which runs one thread at a time, would not run the others while this one waits in its ring.
bool only_here() {
    if (on_offload_thread) return true;
    return hooks::on_valgrind() && !simulated() && this_cord->io && !this_cord->io->backend->try_op;
}

// Hands a call to the pool and waits for its end.
int wait_for_offload(Cord& cord, OffloadCall& call, OffloadWait& wait, Wait::Stop stop) {
    wait.call = &call;
    wait.what = WaitFor::offload;
    call.wait = &wait;
    call.lane = Lane::function;
    shared_wait_prepare(&cord, wait, stop);
    if (!offload(call)) {
        shared_wait_drop(cord);
        return -EAGAIN;
    }
    return int(shared_wait_park(wait, never, nullptr));
}

// ---- Calls in a simulation, on its only thread

// Waits until a moment that the simulation picks. Returns 0, or the reason why the wait ended early. stoppable false:
// nothing ends the wait early.
int wait_for_a_moment(Cord& cord, bool stoppable) {
    DescriptorGuard guard(cord, DescriptorGuard::none);
    Op moment(OpCode::moment, DescriptorGuard::none);
    if (stoppable) return int(guard.run(moment));
    CordIo& io = *cord.io;
    io.given++;
    io.in_flight++;
    io.backend->give(io.state, &moment);
    return int(park(cord, moment));
}

int64_t call_here(Offloaded fn, void* arg) {
    KeepErrno keep;
    return fn(arg);
}

// Calls the function as a thread of the pool would. In a no-switch section, because the function must not switch fibers
// of the cord whose thread it borrows.
int64_t run_here(Cord& cord, Offloaded fn, void* arg) {
    Fiber* me = cord.sched.current;
    cord.no_switch.depth = cord.no_switch.floor = 1;
    noswitch_entered();
    me->sched.pending |= pending_noswitch;
    on_offload_thread = true;
    int64_t result = call_here(fn, arg);
    on_offload_thread = false;
    cord.no_switch.depth = cord.no_switch.floor = 0;
    me->sched.pending &= uint8_t(~pending_noswitch);
    return result;
}

// Simulates a call: a moment passes before the function, and another one before the fiber learns that it has ended.
int simulated_call(Cord& cord, Offloaded fn, void* arg, int64_t* result, bool detached) {
    if (int error = wait_for_a_moment(cord, true)) return error;
    int64_t value = run_here(cord, fn, arg);
    if (int error = wait_for_a_moment(cord, detached)) return error;
    *result = value;
    return 0;
}

int detached(Offloaded fn, void* arg, void (*free_arg)(void*), int64_t* result, bool* ours) {
    Cord* cord;
    if (int error = offload_begin(&cord)) return error;
    if (only_here()) {
        *result = call_here(fn, arg);
        return 0;
    }
    if (simulated()) return simulated_call(*cord, fn, arg, result, true);
    KeepErrno keep;
    void* memory = malloc(sizeof(OffloadCall));
    if (!memory) return -ENOMEM;
    auto* call = new (memory) OffloadCall();
    call->run = run_function;
    call->done = detached_function_done;
    call->fn = fn;
    call->arg = arg;
    call->free_arg = free_arg;
    OffloadWait wait;
    wait.on_orphaned = end_of_detached;
    int error = wait_for_offload(*cord, *call, wait, stop_detached);
    *ours = wait.ends_call;
    if (!*ours) return error; // the thread will free the call and arg
    if (error == 0) *result = call->result;
    free(call);
    return error;
}

} // namespace

int offload_begin(Cord** out) {
    *out = on_offload_thread ? this_cord : cord_here();
    if (on_offload_thread && (simulated() || !*out)) return 0;
    if (!*out) return no_cord();
    Fiber* me = (*out)->sched.current;
    return me->sched.pending ? check_pending(**out, me) : 0;
}

int offload_call(Offloaded fn, void* arg, int64_t* result) {
    Cord* cord;
    if (int error = offload_begin(&cord)) return error;
    if (only_here()) {
        *result = call_here(fn, arg);
        return 0;
    }
    if (simulated()) return simulated_call(*cord, fn, arg, result, false);
    OffloadCall call;
    call.run = run_function;
    call.done = function_done;
    call.fn = fn;
    call.arg = arg;
    OffloadWait wait;
    int error = wait_for_offload(*cord, call, wait, stop);
    if (error == 0) *result = call.result;
    return error;
}

int offload_detached(Offloaded fn, void* arg, void (*free_arg)(void*), int64_t* result) {
    bool ours = true;
    int error = detached(fn, arg, free_arg, result, &ours);
    if (error && ours) free_arg(arg);
    return error;
}

} // namespace fiberrt
