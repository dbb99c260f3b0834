// SPDX-License-Identifier: MIT OR Apache-2.0
// A fiber's control block: everything the runtime knows of one fiber, except its stack.
//
// Only its cord's thread changes it (until the cord has received it: its maker's thread), with three exceptions under
// remote.lock: other threads change `remote` and `name`, and set requests.asked_elsewhere. Members that other threads
// may read are Relaxed or atomic. The first 64 bytes are what a switch and a wakeup need.
#pragma once

#include "base/list.h"
#include "base/relaxed.h"
#include "core/hooks.h" // FIBERRT_THREAD_SANITIZER
#include "core/remote_requests.h"
#include "core/slots.h"
#include "core/stack_pool.h"
#include "core/timers.h"
#include "fiberrt.h"

#include <array>
#include <atomic>
#include <bit>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace fiberrt {

struct Cord;
struct HostedOp;
struct LocalValuesBase;
struct Scope;
struct Wait;

// The state of a fiber. Finer than the states that fiber_state returns, because a wakeup must tell these apart.
enum class State : uint8_t {
    created,        // never scheduled
    scheduled,      // in the run queue for its first run
    awaiting_stack, // its first run came, but there was no stack: in CordWorld::awaiting_stack
    running,        // its cord's current fiber
    queued,         // in the run queue, for any reason but a wakeup
    woken,          // in the run queue because of a wakeup: another one is absorbed
    yielding,       // parked in a yield: a wakeup or a transfer makes it run
    transferring,   // parked in a transfer: only a transfer, or the end of the fiber it transferred to, makes it run
    waiting,        // parked in a Wait
    offered,        // hosted: runnable, until its host takes it (stackless/hosted.h)
    handed_out,     // hosted: its host may run it
    dead,           // ended; the slot remains until it is joined
};

// Why the next switching call of a fiber fails at once; see check_pending().
enum Pending : uint8_t {
    pending_noswitch = 1,
    pending_cancel = 2,
    pending_interrupt = 4,
    pending_timeout = 8,
};

// How a fiber counts when its cord ends. internal: the library's own; not counted. helper: not counted either; ends if
// there is no stack for its first run, because the stack to wait for may be that of the select for which it watches a
// descriptor. task_fiber: runs the tasks of a pool (src/pool), which waits for it.
enum class Kind : uint8_t { keeps_cord, daemon, internal, main_flow, task_fiber, helper };

constexpr bool is_internal(Kind kind) { return kind == Kind::internal || kind == Kind::helper; }

struct JoinWait;

// Bits of Fiber::extras.flags.
constexpr uint8_t flag_interrupted = 1;
constexpr uint8_t flag_free_arg = 2;
constexpr uint8_t flag_entered = 4; // it has entered a fiber without a stack, now current: it is Executor::entered_by

// Bits of Fiber::sched.marks. A fiber that continues clears them all.
constexpr uint8_t mark_exceptions = 1; // it was parked with C++ exceptions caught or in flight, which are saved
constexpr uint8_t mark_looked = 128;   // another thread looks at it, and wants to know whether it continues meanwhile

// Bits of Fiber::sched.step_flags. None is a bit of marks, in the same byte. So a set bit means a hosted fiber; zero
// proves nothing, because a hosted fiber without a step may have none of them. mark_looked may be set beside them.
constexpr uint8_t step_flag_set = 2; // it has a step
constexpr uint8_t step_flag_op = 4;  // call.op is valid; it continues before the step is called
// Fast path: the step is called with 0, and the executor has nothing to do afterwards.
constexpr uint8_t step_flag_plain = 8;

// Each group's comment names the file that owns the group: change its meaning there. It also says when the group is
// valid. Other files also write single members: fiber_begin (core/life.h) sets most at a fiber's beginning; the fiber's
// maker, core/attr.cc for the API's, sets fn, arg and the values of attributes; src/fork repairs the fiber in a fork's
// child. A member outside a group is a group by itself, or a comment says why it is outside.
struct alignas(64) Fiber {
    // The first cache line: what a switch and a wakeup need.
    //
    // The saved context. arch/*.S own it, and find it by arch/offsets.h; a wakeup sets resume. Valid while the fiber is
    // parked. No struct, because SlotTable's generation lies in the middle.
    void* sp;   // the low end of the frame drawn in arch/; null before the first run and after the end
    int resume; // what fiberrt_switch returns when the fiber continues
    std::atomic<uint32_t> generation; // of the slot: odd while in use
    union {
        uint32_t controls[3];   // control words, drawn in arch/. Hosted: user() is in it
        uint32_t stack_reserve; // until the first run: reserved bytes above the first frame
    };

    // Whether the fiber runs, or may run. core/scheduler.cc owns it, core/scope.cc pending, stackless/hosted.cc
    // step_flags. Always valid. Four bytes, which word() reads at once.
    struct alignas(4) Sched {
        union {
            uint8_t marks;      // saved context: mark_ bits; debug/look.cc, on any thread, owns mark_looked
            uint8_t step_flags; // hosted: step_flag_ bits, which tell how its next turn goes
        };
        Relaxed<State> state;
        uint8_t pending;      // Pending bits; zero: the next call need not fail
        Relaxed<bool> permit; // one wakeup is remembered

        // The step flags change on the fiber's own thread only, while another thread may set or clear mark_looked. A lost
        // mark lets that thread look again, and a mark that is left makes the next turn slower.
        uint8_t its_step_flags() const { return __atomic_load_n(&step_flags, __ATOMIC_RELAXED); }
        void set_step_flags(uint8_t flags) { __atomic_store_n(&step_flags, flags, __ATOMIC_RELAXED); }
        void add_step_flag(uint8_t flag) { set_step_flags(its_step_flags() | flag); }
        void drop_step_flags(uint8_t flags) { set_step_flags(uint8_t(its_step_flags() & ~flags)); }

        // The word of a fiber with a step and this state, to which step_flag_plain applies.
        static constexpr uint32_t plain_word(State state) {
            struct Bytes {
                uint8_t step_flags, state, pending, permit;
            };
            return std::bit_cast<uint32_t>(
                Bytes{step_flag_set | step_flag_plain, uint8_t(state), pending_noswitch, false});
        }
        // For the fiber's own thread, the only writer of the bytes except of mark_looked: no atomic load, as compilers do
        // not make such a load part of a comparison.
        uint32_t word() const {
#if FIBERRT_THREAD_SANITIZER
            return __atomic_load_n(reinterpret_cast<const Word*>(this), __ATOMIC_RELAXED);
#else
            return *reinterpret_cast<const Word*>(this);
#endif
        }
        void set_word(uint32_t word) { __atomic_store_n(reinterpret_cast<Word*>(this), word, __ATOMIC_RELAXED); }

        // The fiber, which gave way, continues without a switch: clears the marks, and sets the state, by one store.
        void resume_instantly() {
            using Half [[gnu::may_alias]] = uint16_t;
            auto half = std::bit_cast<uint16_t>(std::array<uint8_t, 2>{0, uint8_t(State::running)});
            __atomic_store_n(reinterpret_cast<Half*>(this), half, __ATOMIC_RELAXED);
        }

    private:
        using Word [[gnu::may_alias]] = uint32_t;
    };
    Sched sched;

    std::atomic<Cord*> cord; // the fiber's cord, or bound_for(the cord it is made for); null while the slot is free

    // The reason why the fiber is parked; state tells which member is valid. core/scheduler.cc owns wait,
    // core/transfer.cc the members of transfers. No struct, because next_free is SlotTable's, and step, which
    // stackless/hosted.cc owns, is valid for the whole life.
    union {
        Wait* wait;           // while state is waiting
        uint64_t transfer_to; // while transferring: the fiber that it transferred to
        Fiber* next_free;     // while the slot is free; while awaiting_stack: the next such fiber
    };
    union {
        void* transfer_value; // of the last transfer to it
        fiber_step_t step;    // hosted: its poll function; null: its host runs it
    };

    uint32_t index;               // of the slot: SlotTable's
    Relaxed<uint8_t> stack_class; // which pool its stack comes from; StackPool::no_stack: hosted

    // How the fiber counts for its cord, and how it ends. core/life.cc owns it. Always valid.
    struct Life {
        int8_t end_error; // once dead: 0; -EAGAIN: no stack for its first run; -EINVAL: misused step
        Relaxed<bool> detached;
        Relaxed<Kind> kind;
    };
    Life life;

    // From here on: what calls other than switches and wakeups need.
    //
    // The call of the fiber's function. core/life.cc owns it, core/scheduler.cc wakeup_value, stackless/hosted.cc op.
    struct Call {
        union {
            void* (*fn)(void*); // until the first run
            void* wakeup_value; // of the last wakeup, the one that left the permit included
        };
        union {
            void* arg;    // until the first run
            HostedOp* op; // hosted: the operation under way, if has_op()
            void* result; // once dead
        };
    };
    Call call;

    Relaxed<char*> stack_low; // the low end of the stack, above the guard, while the fiber has one; null on a main flow

    // Until when the fiber waits at most. core/scope.cc owns it. Always valid.
    struct Timeout {
        Timer timer;      // set to the earliest of deadline and the scopes' deadlines that count
        int64_t deadline; // of the present wait itself; FIBER_FOREVER if it has none
    };
    Timeout timeout;

    Scope* scopes;               // open ones, innermost first. core/scope.cc owns it
    ShortList<JoinWait> joiners; // fibers of the same cord, in order of arrival. core/life.cc owns it

    // Values passed to the fiber by others. core/cancel.cc owns interrupted_value, core/transfer.cc transferrer,
    // core/attr.cc free_arg, core/life.cc bound_for_id, stackless/create.cc free_user.
    struct Received {
        union {
            void (*free_arg)(void*); // until the first run, if frees_arg()
            void* interrupted_value; // of the last interrupt that was delivered, if was_interrupted()
        };
        union {
            uint64_t transferrer;     // the fiber that last transferred to it; 0: none
            uint64_t bound_for_id;    // while the fiber is in transit to another cord: that cord's handle
            void (*free_user)(void*); // hosted, if frees_arg()
        };
    };
    Received received;

    // Values that the user keeps in the fiber. embed/locals.cc owns locals, api/hooks.cc tag.
    struct Values {
        LocalValuesBase* locals; // fiber-local values; made at the first set
        void* tag;               // valid while extras.tag_kind is not 0
    };
    Values values;

    // Requests to the fiber, and whether it is too late for them. core/cancel.cc owns it, core/life.cc ending,
    // core/remote_requests.cc asked_elsewhere. Always valid.
    struct Requests {
        Relaxed<bool> cancelled;
        Relaxed<bool> interrupt_pending;
        bool ending;                   // its function has returned
        Relaxed<bool> asked_elsewhere; // another cord may have asked to join or detach this fiber: `remote` tells. That
                                       // cord sets it under remote.lock. Also set once the fiber has had a tag
    };
    Requests requests;

    // Marks that few fibers have: the end of a fiber checks them. Four bytes, which any() reads at once. Always valid.
    struct Extras {
        uint8_t flags;       // which other members are valid: flag_interrupted and so on. core/cancel.cc
        uint8_t tag_kind;    // 0: it has no tag. api/hooks.cc
        uint16_t locks_held; // locks that it holds, or UINT16_MAX: very many. sync/mutex.h

        bool any() const {
            uint32_t word;
            memcpy(&word, this, sizeof word);
            return word;
        }
    };
    Extras extras;

    char name[FIBER_NAME_MAX]; // under remote.lock
    RemoteRequests remote;     // requests of other cords

    Fiber() {
        remote.message.receive = remote_receive;
        empty();
    }

    bool was_interrupted() const { return extras.flags & flag_interrupted; }
    // Whether free_arg(arg) must be called if the fiber never runs; hosted: free_user(user()) if it never ends.
    bool frees_arg() const { return extras.flags & flag_free_arg; }
    bool main_flow() const { return life.kind == Kind::main_flow; }
    void* user() const { // hosted: the pointer that its host keeps in it
        void* pointer;
        memcpy(&pointer, controls, sizeof pointer);
        return pointer;
    }
    void set_user(void* pointer) { memcpy(controls, &pointer, sizeof pointer); }
    // Whether it runs on a stack: one that it has taken or will take, or its thread's. The cord's executor runs the
    // others.
    bool uses_stack() const { return stack_class != StackPool::no_stack; }
    bool has_op() const { return sched.its_step_flags() & step_flag_op; }

    // Sets the members that fiber_create expects to be empty: in a new slot, and when the cord discards a fiber that
    // has not ended. A fiber that ends in order leaves them empty.
    void empty() {
        sp = nullptr;
        resume = 0;
        __atomic_store_n(&sched.marks, 0, __ATOMIC_RELAXED);
        stack_class = 0;
        stack_low = nullptr;
        timeout.timer.init();
        timeout.deadline = FIBER_FOREVER;
        scopes = nullptr;
        joiners = {};
        values.locals = nullptr;
        extras.tag_kind = 0;
    }
};

static_assert(sizeof(Fiber::Sched) == 4 && offsetof(Fiber::Sched, state) == 1 && offsetof(Fiber::Sched, pending) == 2 &&
              offsetof(Fiber::Sched, permit) == 3);
static_assert(sizeof(Fiber::Extras) == 4 && offsetof(Fiber, extras) % 4 == 0);
static_assert(offsetof(Fiber, call) == 64, "what a switch and a wakeup need is one cache line");
static_assert(sizeof(Fiber) == 256, "a million fibers are to fit in a given memory");

inline Fiber* fiber_of(Timer* timer) {
    return reinterpret_cast<Fiber*>(reinterpret_cast<char*>(timer) - offsetof(Fiber, timeout.timer));
}

inline Fiber* fiber_of(RemoteRequests* remote) {
    return reinterpret_cast<Fiber*>(reinterpret_cast<char*>(remote) - offsetof(Fiber, remote));
}

// Marks the cord in Fiber::cord until the cord has attached a fiber that another thread made for it. Until then the
// cord does not count the fiber, and its run queue has no place for it.
inline Cord* bound_for(Cord* cord) { return reinterpret_cast<Cord*>(reinterpret_cast<uintptr_t>(cord) | 1); }

inline Cord* unbound(Cord* cord) { return reinterpret_cast<Cord*>(reinterpret_cast<uintptr_t>(cord) & ~uintptr_t(1)); }

// The cord that a fiber belongs to, or will belong to once attached.
inline Cord* cord_of(const Fiber* fiber) { return unbound(fiber->cord.load(std::memory_order_acquire)); }

extern SlotTable<Fiber, Tag::fiber> fibers;

} // namespace fiberrt
