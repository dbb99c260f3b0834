// SPDX-License-Identifier: MIT OR Apache-2.0
// A World is the binding's record of a thread that uses fibers: its PyThreadState, the fiber whose execution is loaded
// there, the main flow's Fiber, and the live fibers. The first call that needs the World opens it; it ends with the
// thread. The GIL guards all of it.
#pragma once

#include "thread_state.h"

#include "fiberrt.h"

#include <atomic>
#include <cxxabi.h>
#include <unistd.h>

namespace fiberrt_python {

struct FiberObject;

// What a running event loop sets in its PyThreadState: references, or null.
struct LoopSettings {
    PyObject* first_iteration; // the hooks of asynchronous generators
    PyObject* finalizer;
    int origin_depth;
    PyObject* task; // the loop's current task, where asyncio keeps it for the thread
};

constexpr unsigned tag_kind = 1;

// The size of the memory for a fiber's first Python frames. It is reserved on the fiber's stack, directly above the
// first C frame. Python frames grow upwards from there and C frames downwards, and most fibers wait after few of both:
// then all are in one page of 4 KiB. The stack ends up to 960 bytes before the end of a page, so the 768 bytes leave at
// least 768 bytes of that page to the Python frames and 2,368 to the C frames.
constexpr size_t chunk_bytes = 16 * 1024 + 768;

// A list of fibers, in the order in which they were spawned.
struct FiberList {
    FiberObject* first = nullptr;
    FiberObject* last = nullptr;
};

struct World {
    PyThreadState* state;
    uint64_t number;      // worlds that follow each other have different ones
    unsigned long thread; // Python's identifier of the thread
    Execution* loaded;    // the execution whose members are in `state`
    FiberObject* current; // the fiber that runs, as Python sees it
    FiberObject* main;
    FiberObject* runs_loop; // the fiber whose running event loop and settings are in `state`; null: none is
    FiberObject* ran_loop;  // the fiber that has begun to run a loop last, while it lives; or null
    LoopSettings no_loop;   // meanwhile, those of the fibers that run no loop
    Execution idle;         // loaded while the thread polls after a fiber has ended
    FiberList live;         // without the main flow
    size_t live_count;
    size_t quiet_count;  // when live_count falls to this number,
    fiber_event_t quiet; // this is set
    PyObject* for_main;  // an exception for the main flow to raise
    fiber_attr_t* attr;
    size_t attr_stack_bytes;
    bool address_space_limited;
    PyThreadState* released; // set while a poll has released the GIL; else null
    unsigned long turns;     // counts switches, and offers of the thread to other fibers or threads
    // For poll_turn(): the turn of the last poll, and the time of the first poll in that turn.
    unsigned long polled_turn;
    int64_t polled_ns;
    World* next; // in all_worlds
    // Finalizers have opened it while the thread was ending, so nothing has closed it, and the thread is gone.
    std::atomic<bool> left_over;
};

// Turns garbage collection off while it lives, so that no finalizer runs: for code that walks lists which finalizers
// may change.
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

// Calls a function that may run Python on a stack that must not be unwound: that of a fiber, or of a thread of the
// core. At its end, the interpreter ends daemon threads by pthread_exit: here, such a thread sleeps until the process
// ends.
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
extern size_t stack_bytes; // the stack size of new fibers

bool finalizing();              // whether the interpreter ends: no other thread gets the GIL any more
void worlds_sweep();            // frees worlds that are left over
void thread_drop();             // before a PyThreadState ends, but not its thread: drops its objects and the world
World* world_open();            // null if it fails, with an exception set
World* world_refuse_greenlet(); // sets an exception and returns null

// Whether a world's PyThreadState still exists. If finalizers have opened a world, the state is freed before the core's
// part of the thread ends, and only then left_over is set.
bool world_has_state(const World* world);

inline bool in_own_frames(const World* world) {
    _PyStackChunk* chunk = world->state->datastack_chunk;
    while (chunk && chunk->previous) [[unlikely]] chunk = chunk->previous;
    return chunk == world->loaded->root_chunk;
}

// Whether `ulimit -v` is set. Without that limit there is room for the stacks of all possible fibers.
bool is_address_space_limited();

// Returns the calling thread's world, which every waiting call of the core needs. Returns null with an exception set if
// it cannot be opened, or if a greenlet inside a fiber runs, which cannot wait.
inline World* world() {
    World* world = this_world;
    if (!world) [[unlikely]]
        return world_open();
    if (!in_own_frames(world)) [[unlikely]]
        return world_refuse_greenlet();
    return world;
}

// Returns the calling thread's world for calls of the core that never switch, also inside a greenlet or during a switch.
// Returns null with an exception set if it cannot be opened.
inline World* world_here() { return this_world ? this_world : world_open(); }

// While it lives, delays cancels, interrupts and time limits of the calling fiber. Without memory it has no effect.
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

// Cancels the calling thread's other fibers, and waits for their ends, at most that long. Returns the number of fibers
// left.
size_t world_drain(World* world, int64_t at_most_ns);

// Raises an exception of a fiber or a signal handler in the main flow. Takes the reference.
void raise_in_main(World* world, PyObject* exception);

} // namespace fiberrt_python
