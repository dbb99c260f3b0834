// SPDX-License-Identifier: MIT OR Apache-2.0
// A fiber's control block: everything the runtime knows of one fiber, but for its stack.
//
// Only the thread of its cord changes it, but for the mail, which other threads leave under its lock. Members that
// other threads may look at are Relaxed or atomic. The first 64 bytes are what a switch and a wakeup need.
#pragma once

#include "base/list.h"
#include "base/relaxed.h"
#include "core/mail.h"
#include "core/slots.h"
#include "core/stack_pool.h"
#include "core/timers.h"
#include "fiberrt.h"

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

// What a fiber does; finer than what fiber_state tells, because a wakeup must tell these apart.
enum class State : uint8_t {
    created,      // never scheduled
    scheduled,    // in the run queue for its first run
    stackless,    // its first run came, but there was no stack: in the cord's list of such fibers
    running,      // the current fiber of its cord
    queued,       // in the run queue, for any reason but a wakeup
    woken,        // in the run queue because of a wakeup: another one is absorbed
    yielding,     // parked in a yield: a wakeup or a transfer makes it run
    transferring, // parked in a transfer: only a transfer, or the end of the fiber it transferred to, makes it run
    waiting,      // parked in a Wait
    offered,      // hosted: runnable, until its host takes it (stackless/hosted.h)
    handed_out,   // hosted: its host may run it
    dead,         // ended; the slot remains until it is joined
};

// Why the next switching call of a fiber fails at once; see attend().
enum Attention : uint8_t {
    attention_noswitch = 1,
    attention_cancel = 2,
    attention_interrupt = 4,
    attention_timeout = 8,
};

// What a fiber is to its cord's end. Internal ones are the library's own and count as nothing; so do helpers, which end
// if there is no stack when they start, instead of waiting for one. Runners run the tasks of a pool
// (src/pool), which waits for them.
enum class Kind : uint8_t { keeps_cord, daemon, internal, main_flow, runner, helper };

constexpr bool is_internal(Kind kind) { return kind == Kind::internal || kind == Kind::helper; }

struct JoinWait;

// Bits of Fiber::along.
constexpr uint8_t along_interrupted = 1;
constexpr uint8_t along_free_arg = 2;
constexpr uint8_t along_host = 4; // a hosted fiber is the current one in its place: it is Cord::host

// Bits of Fiber::turn. None is what exceptions_saved may be: so they tell hosted fibers from others.
constexpr uint8_t turn_step = 2;  // it has a step
constexpr uint8_t turn_op = 4;    // `op` is valid, and has to go on before
constexpr uint8_t turn_plain = 8; // its step is called with 0, and nothing is known that has to be done after it

struct alignas(64) Fiber {
    // Valid while it is parked: the low end of the frame drawn in arch/. Null before its first run and after its end.
    void* sp;
    int resume;                       // what the switch returns in it when it goes on
    std::atomic<uint32_t> generation; // of the slot: odd while in use
    alignas(8) uint32_t kept[3]; // the switch's own, drawn in arch/; valid while it is parked. Hosted: user() is in it
    // These four bytes can be looked at as one: see turn_word().
    union {
        bool exceptions_saved; // it was parked with C++ exceptions caught or in flight
        uint8_t turn;          // hosted: what its next turn is, in bits
    };
    Relaxed<State> state;
    uint8_t attention;       // Attention bits; zero: nothing stands in the way of a call
    Relaxed<bool> permit;    // one wakeup is remembered
    std::atomic<Cord*> cord; // whose it is, or bound_for(whose it will be); null while the slot is free
    union {
        Wait* wait;           // while state is waiting
        uint64_t transfer_to; // while transferring: to whom
        Fiber* next_free;     // while the slot is free; while stackless: the next such fiber
    };
    union {
        void* transfer_value; // that the last transferrer gave
        fiber_step_t step;    // hosted: its turns; null: they are its host's
    };
    uint32_t index;
    Relaxed<uint8_t> stack_class; // which pool its stack comes from
    int8_t end_error; // once dead: 0; -EAGAIN it could not run for want of a stack; -EINVAL its step was misused
    Relaxed<bool> detached;
    Relaxed<Kind> kind;

    union {
        void* (*fn)(void*); // until the first run
        void* wakeup_value; // that the last wakeup carried, the one that left the permit included
    };
    union {
        void* arg;    // until the first run
        HostedOp* op; // hosted: what it waits for
        void* result; // once dead
    };
    Relaxed<char*> stack_low; // the low end of its stack, above the guard, while it has a stack; null on a main flow
    Timer timer;
    int64_t wait_deadline;       // of the present wait itself; FIBER_FOREVER if it has none
    Scope* scopes;               // innermost first
    ShortList<JoinWait> joiners; // of its own cord, in order of arrival
    union {
        void (*free_arg)(void*); // until the first run, if frees_arg()
        void* interrupted_value; // of the last interrupt that was delivered, if was_interrupted()
    };
    union {
        uint64_t transferrer;     // who last transferred to it; 0: nobody
        uint64_t bound_for_id;    // while it is on its way to its cord: the handle of that
        void (*free_user)(void*); // hosted, if frees_arg()
    };
    LocalValuesBase* locals; // fiber-local values; made at the first set
    void* tag;               // the user's, while tag_kind is not 0
    Relaxed<bool> cancelled;
    Relaxed<bool> interrupt_pending;
    bool ending;                   // its function has returned
    Relaxed<bool> asked_elsewhere; // another cord has asked to join or detach it, or an earlier fiber of the slot: the
                                   // mail tells. Set by that cord, under mail.lock. Or it has had a tag
    // Four bytes of which one word tells, when it ends, whether it may leave something behind.
    uint8_t along;             // what else is valid, in bits
    uint8_t tag_kind;          // 0: it has no tag
    uint16_t held;             // locks that it holds, or UINT16_MAX: very many
    char name[FIBER_NAME_MAX]; // under mail.lock
    Mail mail;

    Fiber() {
        mail.message.receive = mail_receive;
        empty();
    }

    bool was_interrupted() const { return along & along_interrupted; }
    // If it never runs, free_arg(arg) is to be called; hosted: if it never ends, free_user(user()).
    bool frees_arg() const { return along & along_free_arg; }
    bool main_flow() const { return kind == Kind::main_flow; }
    void* user() const { // hosted: its host's
        void* pointer;
        memcpy(&pointer, kept, sizeof pointer);
        return pointer;
    }
    void set_user(void* pointer) { memcpy(kept, &pointer, sizeof pointer); }
    bool leaves_something() const {
        uint32_t word;
        memcpy(&word, &along, sizeof word);
        return word;
    }
    bool hosted() const { return stack_class == StackPool::no_stack; }
    bool has_op() const { return turn & turn_op; }

    // `turn`, `state`, `attention` and `permit` at once; of a fiber with a step, nothing else being the matter.
    static constexpr uint32_t plain_turn(State state) {
        struct Bytes {
            uint8_t turn, state, attention, permit;
        };
        return std::bit_cast<uint32_t>(Bytes{turn_step | turn_plain, uint8_t(state), attention_noswitch, false});
    }
    // For the fiber's own thread, the only one that writes them: no atomic load, as compilers do not make such a load
    // part of a comparison.
    uint32_t turn_word() const { return *reinterpret_cast<const Word*>(&turn); }
    void set_turn_word(uint32_t word) { __atomic_store_n(reinterpret_cast<Word*>(&turn), word, __ATOMIC_RELAXED); }

    // Makes a slot as fiber_create takes it for granted: at its making, and when its fiber is forgotten in the middle
    // of its life. A fiber that ends in order leaves all of these so.
    void empty() {
        sp = nullptr;
        resume = 0;
        exceptions_saved = false;
        stack_class = 0;
        stack_low = nullptr;
        timer.init();
        wait_deadline = FIBER_FOREVER;
        scopes = nullptr;
        joiners = {};
        locals = nullptr;
        tag_kind = 0;
    }

private:
    using Word [[gnu::may_alias]] = uint32_t;
};

static_assert(offsetof(Fiber, turn) % 4 == 0 && offsetof(Fiber, state) == offsetof(Fiber, turn) + 1 &&
              offsetof(Fiber, attention) == offsetof(Fiber, turn) + 2 &&
              offsetof(Fiber, permit) == offsetof(Fiber, turn) + 3);

static_assert(offsetof(Fiber, along) % 4 == 0 && offsetof(Fiber, tag_kind) == offsetof(Fiber, along) + 1 &&
              offsetof(Fiber, held) == offsetof(Fiber, along) + 2);
static_assert(sizeof(Fiber) == 256, "a million fibers are to fit in a given memory");

inline Fiber* fiber_of(Timer* timer) {
    return reinterpret_cast<Fiber*>(reinterpret_cast<char*>(timer) - offsetof(Fiber, timer));
}

inline Fiber* fiber_of(Mail* mail) {
    return reinterpret_cast<Fiber*>(reinterpret_cast<char*>(mail) - offsetof(Fiber, mail));
}

// What stands for a cord in Fiber::cord until the cord has taken over a fiber that another thread has made for it:
// until then it is not one of the cord's fibers, neither counted nor with a place in the run queue.
inline Cord* bound_for(Cord* cord) { return reinterpret_cast<Cord*>(reinterpret_cast<uintptr_t>(cord) | 1); }

inline Cord* unbound(Cord* cord) { return reinterpret_cast<Cord*>(reinterpret_cast<uintptr_t>(cord) & ~uintptr_t(1)); }

// Whose it is or will be.
inline Cord* cord_of(const Fiber* fiber) { return unbound(fiber->cord.load(std::memory_order_acquire)); }

extern SlotTable<Fiber, Tag::fiber> fibers;

} // namespace fiberrt
