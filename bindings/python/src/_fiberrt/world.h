// SPDX-License-Identifier: MIT OR Apache-2.0
// A World is what the binding keeps of a thread that uses fibers: its PyThreadState, whose execution that one has now,
// the main flow's Fiber, and the fibers that live. It is opened by the first call that needs it, and ends with the
// thread. All of it is guarded by the GIL.
#pragma once

#include "thread_state.h"

#include "fiberrt.h"

#include <atomic>
#include <cxxabi.h>
#include <unistd.h>

namespace fiberrt_python {

struct FiberObject;

constexpr unsigned tag_kind = 1;

// Fibers in the order of their beginning.
struct FiberList {
    FiberObject* first = nullptr;
    FiberObject* last = nullptr;
};

struct World {
    PyThreadState* state;
    unsigned long thread; // its number, as Python has it
    Execution* loaded;    // whose members `state` has
    FiberObject* current; // the fiber that runs, as Python sees it
    FiberObject* main;
    Execution idle; // while the thread polls for a fiber that has ended
    FiberList live; // but the main flow
    size_t live_count;
    size_t quiet_count;  // when no more than these are live,
    fiber_event_t quiet; // this is set
    PyObject* for_main;  // an exception that the main flow is to raise
    fiber_attr_t* attr;
    size_t attr_stack_bytes;
    bool address_space_limited;
    PyThreadState* released; // while the GIL is, in a poll; else null
    unsigned long turns;     // how often the thread was given to others, or offered
    // The turn in which a call has polled last, and when the first one did in that turn, for poll_turn().
    unsigned long polled_turn;
    int64_t polled_ns;
    World* next; // of all
    // Finalizers of a thread that was ending have opened it: nothing has closed it, and the thread is gone.
    std::atomic<bool> left_over;
};

// While it lives no garbage is collected, and so no finalizer runs: for who goes through lists that these may change.
class NoCollection {
public:
    NoCollection() : before_(PyGC_Disable()) {}
    ~NoCollection() {
        if (before_) PyGC_Enable();
    }
    NoCollection(const NoCollection&) = delete;
    NoCollection& operator=(const NoCollection&) = delete;

private:
    int before_;
};

// Calls something that may run Python where nothing may unwind: on the stack of a fiber, or a thread of the core's. The
// interpreter ends daemon threads by pthread_exit when it ends itself: such a thread sleeps until the process is gone.
template <typename Function>
void sleep_at_exit(Function function) {
    try {
        function();
    } catch (abi::__forced_unwind&) {
        for (;;) pause();
    }
}

extern thread_local World* this_world;
extern World* all_worlds;
extern size_t stack_bytes; // of the fibers that are made from now on

bool finalizing();              // the interpreter ends: no other thread gets the GIL any more
void worlds_sweep();            // frees those that are left over
void thread_drop();             // where a PyThreadState goes, but not its thread: what it has, and the world
World* world_open();            // null, and an exception is set
World* world_refuse_greenlet(); // sets it, too

// Whether a world's PyThreadState is there: of one that finalizers have opened it goes before the core's part of the
// thread, and only then the world is left over.
bool world_has_state(const World* world);

inline bool in_own_frames(const World* world) {
    _PyStackChunk* chunk = world->state->datastack_chunk;
    while (chunk && chunk->previous) [[unlikely]] chunk = chunk->previous;
    return chunk == world->loaded->root_chunk;
}

// By `ulimit -v`. Without it there is room for the stacks of all fibers that there can be.
bool is_address_space_limited();

// The calling thread's. Each call of the core's that waits needs it. null, and an exception is set: it cannot be
// opened, or what runs is a greenlet inside a fiber, which cannot wait.
inline World* world() {
    World* world = this_world;
    if (!world) [[unlikely]]
        return world_open();
    if (!in_own_frames(world)) [[unlikely]]
        return world_refuse_greenlet();
    return world;
}

// Holds back from the calling fiber, while it lives, what would end its waits. Without memory for that it does nothing.
class Shield {
public:
    Shield() { fiber_scope_open(&scope_, FIBER_FOREVER, FIBER_SCOPE_SHIELD); }
    ~Shield() {
        if (scope_.id) fiber_scope_close(scope_, nullptr);
    }
    Shield(const Shield&) = delete;
    Shield& operator=(const Shield&) = delete;

private:
    fiber_scope_t scope_ = {0};
};

// Cancels the calling thread's fibers but the calling one, and waits for them, at most so long. How many are left.
size_t world_drain(World* world, int64_t at_most_ns);

// Raises in the main flow what a fiber, or a signal, has raised for it. Takes the reference.
void raise_in_main(World* world, PyObject* exception);

} // namespace fiberrt_python
