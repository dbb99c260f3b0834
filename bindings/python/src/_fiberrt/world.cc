// SPDX-License-Identifier: MIT OR Apache-2.0
// Opens and closes worlds, and defines the hooks that the core calls at switches and polls.
#include "world.h"

#include "fiber.h"
#include "names.h"
#include "running_loop.h"
#include "times.h"
#include "waiting.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

namespace fiberrt_python {

thread_local World* this_world;
World* all_worlds;
// The usual size of a thread's stack, which compiled extensions rely on: numpy.linalg.inv, by OpenBLAS, takes more than
// 2 MiB. This is address space: a fiber has only the pages that it touches, and their page table.
size_t stack_bytes = size_t(8) << 20;

bool finalizing() {
#if PY_VERSION_HEX < 0x030D0000
    return _Py_IsFinalizing();
#else
    return Py_IsFinalizing();
#endif
}

namespace {

// The time that the fibers of an exiting thread have to end.
constexpr int64_t closing_ns = FIBER_SEC(10);

void after_switch(void* data, fiber_tag_t, fiber_tag_t to) {
    if (to.kind != tag_kind) return; // a fiber without Python: keep the loaded execution
    auto* world = static_cast<World*>(data);
    auto* fiber = static_cast<FiberObject*>(to.pointer);
    if (world->loaded == &fiber->execution) {
        world->current = fiber;
        world->turns++;
        return;
    }
    PyThreadState* state = world->state;
    if (error_is_set(state)) [[unlikely]]
        Py_FatalError("fiberrt: a fiber is left while it handles an exception");
    save(*world->loaded, state);
    world->loaded = &fiber->execution;
    world->current = fiber;
    world->turns++;
    if (fiber->started) [[likely]] // a new fiber loads its execution itself
        load(fiber->execution, state);
    if (world->runs_loop != (fiber->running_loop ? fiber : nullptr)) [[unlikely]]
        running_loop_exchange(world, fiber);
}

// Whether the interpreter has ended while another thread than the main one still runs.
bool is_too_late() { return finalizing() && gettid() != getpid(); }

// Called on the stack of the ending fiber, after the hook for the switch, or on that of another fiber whose execution
// is not loaded yet.
void destroy(void* data, [[maybe_unused]] fiber_t fiber, fiber_tag_t tag) {
    if (tag.kind != tag_kind || is_too_late()) return;
    auto* world = static_cast<World*>(data);
    if (PyGILState_GetThisThreadState() != world->state) [[unlikely]] {
        if (static_cast<FiberObject*>(tag.pointer) == world->main)
            world->left_over.store(true, std::memory_order_release);
        return;
    }
#if PY_VERSION_HEX >= 0x030E0000
    fiber_t self;
    fiber_info_t info;
    if (fiber_self(&self) == 0 && self.id != fiber.id &&
        fiber_info(self, &info, offsetof(fiber_info_t, parent_scope)) == 0)
        tell_stack(world->state, reinterpret_cast<void*>(info.stack_low), info.stack_size);
#endif
    sleep_at_exit([=] {
        fiber_destroyed(static_cast<FiberObject*>(tag.pointer));
        // Drop context variables that finalizers have set there.
        for (int i = 0; world->loaded == &world->idle && world->state->context && i < drop_rounds; i++)
            drop_context(world->state);
    });
}

void before_poll(void* data) {
    auto* world = static_cast<World*>(data);
    world->released = PyEval_SaveThread();
}

// Takes the GIL again, and runs signal handlers.
int after_poll(void* data) {
    auto* world = static_cast<World*>(data);
    // At the end of the interpreter, taking the GIL would end a daemon thread here, on the stack of a fiber.
    while (is_too_late()) pause();
    sleep_at_exit([=] { PyEval_RestoreThread(world->released); });
    world->released = nullptr;
    world->turns++;
    if (PyErr_CheckSignals() == 0) return 0;
    PyObject* exception = exception_take();
    if (world->for_main) {
        Py_DECREF(exception); // an earlier one is still pending
        return 0;
    }
    world->for_main = exception;
    if (world->main->survivor) fiber_interrupt(world->main->handle, nullptr);
    return -EINTR;
}

void unlink_world(World* world) {
    World** at = &all_worlds;
    while (*at != world) at = &(*at)->next;
    *at = world->next;
}

World* find_left_over() {
    World* world = all_worlds;
    while (world && !world->left_over.load(std::memory_order_acquire)) world = world->next;
    return world;
}

void close_main(World* world) {
    if (keeps_times) times_keep(world->main);
    fiber_finish(world->main, Py_NewRef(Py_None), nullptr);
    world->main->world = nullptr;
    fiber_drop(world->main, nullptr);
}

void free_world(World* world) {
    Py_DECREF(world->main);
    Py_XDECREF(world->for_main);
    Py_XDECREF(world->no_loop.first_iteration);
    Py_XDECREF(world->no_loop.finalizer);
    // Chunks that signal handlers needed while the thread was idle.
    for (_PyStackChunk* chunk = world->idle.datastack_chunk; chunk;) {
        _PyStackChunk* before = chunk->previous;
        PyObjectArenaAllocator arenas;
        PyObject_GetArenaAllocator(&arenas);
        arenas.free(arenas.ctx, chunk, chunk->size);
        chunk = before;
    }
    Py_XDECREF(world->idle.context);
    fiber_attr_destroy(world->attr);
    PyMem_RawFree(world);
}

// Called when the thread's dict is freed, at the end of the thread or the interpreter.
void thread_ends(PyObject* capsule) {
    auto* world = static_cast<World*>(PyCapsule_GetPointer(capsule, nullptr));
    if (!world || world != this_world) return; // in the child of a fork by another thread
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    bool by_itself = world->current->main_flow;
    if (by_itself) {
        Shield shield;
        fiber_drop(world->main, world->state); // as for other fibers
    }
    size_t left = by_itself ? world_drain(world, closing_ns) : world->live_count;
    if (left) fprintf(stderr, "fiberrt: a thread ends, but %zu of its fibers do not\n", left);
    fiber_hooks_set(nullptr, 0);
    fiber_tag_set(world->main->handle, fiber_tag_t{nullptr, 0});
    this_world = nullptr;
    unlink_world(world);
    if (left && by_itself) fibers_give_up(world->live);
    close_main(world);
    if (!left) free_world(world);
    PyErr_Restore(type, value, traceback);
}

bool fill(World* world) {
    fiber_t self;
    fiber_info_t info;
    int error = fiber_self(&self);
    if (error == 0) error = fiber_info(self, &info, offsetof(fiber_info_t, parent_scope));
    if (error < 0) {
        raise_errno(error);
        return false;
    }
    if (!info.main_flow) {
        PyErr_SetString(PyExc_RuntimeError, "fiberrt: a fiber that Python did not make cannot be the first of its "
                                            "thread to use this module");
        return false;
    }
    FiberObject* main = fiber_allocate();
    if (!main) return false;
    main->main_flow = main->started = true;
    main->handle = self;
    main->world = world;
    adopt(main->execution, world->state);
    world->main = world->current = main;
    world->loaded = &main->execution;
    prepare(world->idle, nullptr, 0, nullptr, 0, nullptr, world->state);

    fiber_hooks_t hooks = {};
    hooks.data = world;
    hooks.after_switch = after_switch;
    hooks.destroy = destroy;
    hooks.before_poll = before_poll;
    hooks.after_poll = after_poll;
    error = fiber_tag_set(self, fiber_tag_t{main, tag_kind});
    if (error == 0) error = fiber_attr_create(&world->attr);
    if (error == 0) error = fiber_attr_set_detached(world->attr, 1);
    if (error == 0) error = fiber_attr_set_guard(world->attr, FIBER_GUARD_PREFER);
    if (error == 0) error = fiber_attr_set_stack_reserve(world->attr, chunk_bytes);
    if (error == 0) error = fiber_hooks_set(&hooks, sizeof hooks);
    if (error < 0) {
        fiber_tag_set(self, fiber_tag_t{nullptr, 0});
        raise_errno(error);
        return false;
    }
    return true;
}

bool tie_to_thread(World* world) {
    PyObject* dict = PyThreadState_GetDict();
    if (!dict) {
        PyErr_SetString(PyExc_RuntimeError, "fiberrt: the thread is about to end");
        return false;
    }
    PyObject* capsule = PyCapsule_New(world, nullptr, thread_ends);
    if (!capsule) return false;
    bool tied = PyDict_SetItemString(dict, "fiberrt.world", capsule) == 0;
    if (!tied) PyCapsule_SetDestructor(capsule, nullptr);
    Py_DECREF(capsule);
    return tied;
}

} // namespace

void worlds_sweep() {
    while (World* world = find_left_over()) {
        unlink_world(world);
        PyErr_SetString(PyExc_RuntimeError, "the fiber was lost with its thread");
        PyObject* why = exception_take();
        FiberList lost;
        fibers_lose(world->live, nullptr, lost, why);
        Py_DECREF(why);
        fibers_lost(lost);
        close_main(world);
        free_world(world);
    }
}

void thread_drop() {
    PyThreadState* state = PyThreadState_Get();
    for (int i = 0; i < drop_rounds; i++) {
        drop_context(state);
        PyObject* dict = PyThreadState_GetDict();
        if (dict) PyDict_Clear(dict); // finalizers may open a new world
        if (!state->context && !this_world && !(dict && PyDict_GET_SIZE(dict))) return;
    }
}

bool is_address_space_limited() {
    rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

World* world_open() {
    worlds_sweep();
    if (this_world) return this_world; // a finalizer has opened it
    NoCollection until_open;           // so that no finalizer opens it meanwhile
    auto* world = static_cast<World*>(PyMem_RawCalloc(1, sizeof(World)));
    if (!world) {
        PyErr_NoMemory();
        return nullptr;
    }
    static uint64_t worlds_opened;
    world->number = ++worlds_opened;
    world->state = PyThreadState_Get();
    world->thread = PyThread_get_thread_ident();
    world->address_space_limited = is_address_space_limited();
    if (!fill(world) || !tie_to_thread(world)) {
        if (world->main) fiber_tag_set(world->main->handle, fiber_tag_t{nullptr, 0});
        fiber_hooks_set(nullptr, 0);
        fiber_attr_destroy(world->attr);
        Py_XDECREF(world->main);
        PyMem_RawFree(world);
        return nullptr;
    }
    world->next = all_worlds;
    all_worlds = world;
    this_world = world;
    running_loop_adopt(world);
    if (names_functions) name_after_function(world->main);
    return world;
}

World* world_refuse_greenlet() {
    if (this_world->loaded == &this_world->idle) return raise_during_switch(), nullptr;
    PyErr_SetString(PyExc_RuntimeError, "a fiber cannot wait while a greenlet runs in it: switch back to the greenlet "
                                        "that the fiber began with first");
    return nullptr;
}

bool world_has_state(const World* world) {
    PyThreadState* state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    while (state && state != world->state) state = PyThreadState_Next(state);
    return state && state->thread_id == world->thread; // else it is a new state at the same address
}

void raise_in_main(World* world, PyObject* exception) {
    if (world->for_main) {
        Py_DECREF(exception);
        return;
    }
    world->for_main = exception;
    fiber_interrupt(world->main->handle, nullptr);
}

size_t world_drain(World* world, int64_t at_most_ns) {
    size_t own = world->current->main_flow && !world->current->survivor ? 0 : 1;
    for (FiberObject* fiber = world->live.first; fiber; fiber = fiber->next)
        if (fiber->abandoned && fiber != world->current) own++;
    if (world->live_count <= own) return 0;
    fiber_scope_t shield;
    if (fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD) < 0) return world->live_count - own;
    int64_t deadline = fiber_now() + at_most_ns;
    world->quiet_count = own;
    while (world->live_count > own) {
        for (FiberObject* fiber = world->live.first; fiber; fiber = fiber->next) {
            if (fiber == world->current || fiber->abandoned) continue;
            if (!fiber->started)
                fiber->cancelled = true;
            else
                fiber_cancel(fiber->handle, nullptr);
        }
        int64_t left = deadline - fiber_now();
        if (left <= 0) break;
        // Repeat now and then, because the fibers may spawn others.
        int64_t most = FIBER_MSEC(100);
        int waited = fiber_event_wait_timeout(&world->quiet, left < most ? left : most);
        if (waited < 0 && waited != -ETIMEDOUT) break; // any other error would be the same next time
    }
    fiber_scope_close(shield, nullptr);
    return world->live_count - own;
}

} // namespace fiberrt_python
