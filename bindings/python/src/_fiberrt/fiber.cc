// SPDX-License-Identifier: MIT OR Apache-2.0
// Spawns, runs and ends fibers, and defines the methods of fiberrt.Fiber.
#include "fiber.h"

#include "functions.h"
#include "names.h"
#include "queue.h"
#include "running_loop.h"
#include "times.h"
#include "waiting.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

namespace fiberrt_python {

namespace {

uint64_t fibers_made;
FiberList failed; // ended fibers whose exception has not been reported

void append(FiberList& list, FiberObject* fiber) {
    fiber->next = nullptr;
    fiber->previous = list.last;
    (list.last ? list.last->next : list.first) = fiber;
    list.last = fiber;
}

void remove(FiberList& list, FiberObject* fiber) {
    (fiber->previous ? fiber->previous->next : list.first) = fiber->next;
    (fiber->next ? fiber->next->previous : list.last) = fiber->previous;
    fiber->next = fiber->previous = nullptr;
}

void known(FiberObject* fiber) {
    if (!fiber->unreported) return;
    fiber->unreported = false;
    if (!fiber->world) remove(failed, fiber);
}

void report(FiberObject* fiber) {
    known(fiber);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    exception_set(Py_NewRef(fiber->exception));
    PyErr_WriteUnraisable(reinterpret_cast<PyObject*>(fiber));
    PyErr_Restore(type, value, traceback);
}

bool is_cancel(PyObject* exception) { return PyErr_GivenExceptionMatches(exception, cancelled_error); }

// Whether an exception ends the program and so must be raised in the main flow.
bool is_for_main(PyObject* exception) {
    return PyErr_GivenExceptionMatches(exception, PyExc_KeyboardInterrupt) ||
           PyErr_GivenExceptionMatches(exception, PyExc_SystemExit);
}

PyObject* call(FiberObject* fiber) {
    if (raise_thrown()) return nullptr;
    if (fiber->cancelled) {
        raise_cancelled();
        return nullptr;
    }
    PyObject* function = fiber->function;
    PyObject* const* arguments = fiber->arguments ? &PyTuple_GET_ITEM(fiber->arguments, 0) : nullptr;
    size_t named = fiber->names ? size_t(PyTuple_GET_SIZE(fiber->names)) : 0;
    size_t count = fiber->arguments ? size_t(PyTuple_GET_SIZE(fiber->arguments)) - named : 0;
    return PyObject_Vectorcall(function, arguments, count, fiber->names);
}

[[noreturn]] void end_process(FiberObject* fiber, PyObject* exception) {
    if (!adopt_frames(fiber->execution, this_world->state)) Py_FatalError("fiberrt: no memory");
    world_drain(this_world, FIBER_FOREVER / 2);
    if (exception) {
        exception_set(exception);
        PyErr_Print(); // does not return for SystemExit
        Py_Exit(1);
    }
    Py_Exit(0);
}

// Removes the fiber from the live ones. This must be its last step: its thread may end when no fiber lives.
void leave(FiberObject* fiber) {
    World* world = fiber->world;
    fiber->world = nullptr;
    remove(world->live, fiber);
    if (fiber->unreported) append(failed, fiber);
    if (--world->live_count <= world->quiet_count) fiber_event_set(&world->quiet);
}

// Whether the program can no longer ask for the fiber's result: only the thread has a reference to it.
bool is_forgotten(FiberObject* fiber) { return Py_REFCNT(fiber) == 1 && !fiber->weak_references; }

// Drops a result that the program cannot ask for, while finalizers may still wait.
void forget_result(FiberObject* fiber) {
    if (is_forgotten(fiber) && fiber->unreported) report(fiber);
    if (!is_forgotten(fiber)) return; // report() has made a reference to it
    Py_XSETREF(fiber->result, Py_NewRef(Py_None));
    Py_CLEAR(fiber->exception);
}

void begin_and_end(FiberObject* fiber) {
    World* world = fiber->world;
    PyObject* result = call(fiber);
    PyObject* exception = result ? nullptr : exception_take();
    if (exception && is_for_main(exception) && !fiber->survivor)
        raise_in_main(world, Py_NewRef(exception)); // now, as the rest may take long
    {
        Shield shield; // finalizers may wait, even if the fiber is cancelled
        fiber_drop(fiber, world->state);
        if (fiber->done && !fiber->survivor) { // fibers_give_up() has ended it
            Py_XDECREF(result);
            Py_XDECREF(exception);
        } else if (!fiber->survivor) {
            if (keeps_times) [[unlikely]]
                times_keep(fiber);
            fiber_finish(fiber, result, exception);
            forget_result(fiber);
            fiber_drop(fiber, world->state); // objects that finalizers have made
        }
    }
    if (fiber->survivor) end_process(fiber, fiber->done ? nullptr : exception);
    leave(fiber);
}

// Lets other fibers run before the fiber's function begins. A cancel then counts as one before the beginning; an
// interrupt is kept for the fiber's own waits.
void give_turn(FiberObject* fiber) {
    if (fiber_reschedule() == -EINTR) fiber_interrupt(fiber->handle, nullptr);
}

// If the main flow has been woken to raise an exception, it must run first, because this fiber may never wait.
void let_main_flow_go_first(FiberObject* fiber) {
    if (fiber->world->for_main) [[unlikely]]
        give_turn(fiber);
}

// Not inlined, as its frame is large, and would remain on the stack while the fiber waits.
[[gnu::noinline]] void begin_execution(FiberObject* fiber) {
    fiber_info_t info;
    // The members behind parent_scope take longer to read.
    if (fiber_info(fiber->handle, &info, offsetof(fiber_info_t, parent_scope)) != 0)
        Py_FatalError("fiberrt: a running fiber is unknown");
    prepare(fiber->execution, reinterpret_cast<void*>(info.stack_high - chunk_bytes), chunk_bytes,
            reinterpret_cast<void*>(info.stack_low), fiber->stack, fiber->context, fiber->world->state);
    fiber->context = nullptr;
}

void* run(void* argument) {
    auto* fiber = static_cast<FiberObject*>(argument);
    World* world = fiber->world;
    let_main_flow_go_first(fiber);
    begin_execution(fiber);
    load(fiber->execution, world->state);
    fiber->started = true;
    if (fiber->early) [[unlikely]] {
        give_turn(fiber);
        let_main_flow_go_first(fiber);
        fiber->early = false;
        if (fiber_cancelled(nullptr) == 1) fiber->cancelled = true; // as if it had not begun
    }

    sleep_at_exit([=] { begin_and_end(fiber); });

    // From here on no Python code runs as this fiber, and its stack may be freed.
    world->current = world->main;
    world->loaded = &world->idle;
    idle_on_stack_of(world->idle, fiber->execution);
    load(world->idle, world->state);
    return nullptr;
}

// The stack size of a fiber that is spawned now.
size_t stack_wanted([[maybe_unused]] const World* world) {
#if PY_VERSION_HEX < 0x030C0000
    // Python 3.11 counts levels of recursion in Python, which need no stack, and in C together. So a limit above the
    // usual one gets a larger stack.
    constexpr size_t most = size_t(512) << 20;
    constexpr int usual = 1000;
    int limit = recursion_limit(world->state);
    if (limit <= usual) [[likely]]
        return stack_bytes;
    size_t needed = size_t(limit) * level_bytes + reserve_bytes + chunk_bytes;
    if (needed > most) needed = most;
    if (needed > stack_bytes) return needed;
#endif
    return stack_bytes;
}

// Makes the fiber runnable. If there were no stack for it, it would wait until another fiber ends, perhaps for ever. So
// if address space is limited (ulimit -v), it is started for a moment, which takes a stack. Returns -EAGAIN if there is
// none.
int schedule(World* here, FiberObject* fiber) {
    if (fiber->number % 64 == 0) here->address_space_limited = is_address_space_limited();
    if (here->address_space_limited) [[unlikely]] {
        fiber->early = true;
        int error = fiber_start(fiber->handle);
        if (fiber->started || error == -EAGAIN) return fiber->started ? 0 : error;
        fiber->early = false; // the caller may not switch here, or is cancelled
    }
    return fiber_wakeup(fiber->handle);
}

PyObject* spawn(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    World* here = world();
    if (!here) return nullptr;
    if (count < 1) return PyErr_Format(PyExc_TypeError, "spawn() takes a function and its arguments");
    if (!PyCallable_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "spawn() takes a function, not %.200s", Py_TYPE(args[0])->tp_name);
    FiberObject* fiber = fiber_allocate();
    if (!fiber) return nullptr;
    PyObject* object = reinterpret_cast<PyObject*>(fiber);
    fiber->world = here;
    fiber->function = Py_NewRef(args[0]);
    Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    Py_ssize_t all = count - 1 + named;
    if (all) {
        fiber->arguments = PyTuple_New(all);
        if (!fiber->arguments) goto failed;
        for (Py_ssize_t i = 0; i < all; i++) PyTuple_SET_ITEM(fiber->arguments, i, Py_NewRef(args[1 + i]));
    }
    if (named) fiber->names = Py_NewRef(names);
    fiber->context = PyContext_CopyCurrent();
    if (!fiber->context) goto failed;
    {
        int error = 0;
        size_t wanted = stack_wanted(here); // computed last, as finalizers may have changed it
        if (here->attr_stack_bytes != wanted) {
            error = fiber_attr_set_stack_size(here->attr, wanted);
            if (error == 0) here->attr_stack_bytes = wanted;
        }
        fiber->stack = wanted;
        if (error == 0) error = fiber_new(&fiber->handle, here->attr, run, fiber);
        if (error == 0) {
            append(here->live, fiber);
            here->live_count++;
            Py_INCREF(object); // until fiber_destroyed()
            fiber_tag_set(fiber->handle, fiber_tag_t{fiber, tag_kind});
            if (names_functions) [[unlikely]]
                name_after_function(fiber);
            if (schedule(here, fiber) == 0) return object;
            fiber_tag_set(fiber->handle, fiber_tag_t{nullptr, 0});
            fiber_cancel(fiber->handle, nullptr); // so that it never runs
            remove(here->live, fiber);
            here->live_count--;
            Py_DECREF(object);
            error = -ENOMEM;
        }
        if (error == -ENOMEM)
            PyErr_NoMemory();
        else
            raise_errno(error);
    }
failed:
    fiber->done = true;
    Py_DECREF(object);
    return nullptr;
}

PyObject* current(PyObject*, PyObject*) {
    World* here = world();
    return here ? Py_NewRef(reinterpret_cast<PyObject*>(here->current)) : nullptr;
}

PyObject* locals_if_any(PyObject*, PyObject*) {
    World* here = this_world;
    PyObject* locals = here ? here->current->locals : nullptr;
    return Py_NewRef(locals ? locals : Py_None);
}

// Sets a member to a new object, unless it is set. Making the object may collect garbage, and finalizers may set the
// member before, or wait until the fiber has ended. Returns false with an exception set.
bool make_first(PyObject*& member, PyObject* (*make)()) {
    if (member) return true;
    PyObject* made = make();
    if (!made) return false;
    if (member)
        Py_DECREF(made);
    else
        member = made;
    return true;
}

PyObject* make_list() { return PyList_New(0); }

// Returns 1 if the fiber has ended, 0 if not in time, -1 with an exception set.
int wait_for_end(FiberObject* fiber, PyObject* const* args, Py_ssize_t count, const char* name) {
    if (!takes(name, count, 0, 1)) return -1;
    Timeout timeout;
    if (!timeout.parse(count > 0 ? args[0] : nullptr)) return -1;
    if (!fiber->done && fiber->world != this_world) worlds_sweep(); // this may mark it as lost
    if (!fiber->done) {
        if (!world()) return -1;
        if (!fiber_can_be_awaited(fiber)) return -1;
        WaitsFor reason("join");
        while (!fiber->done) {
            int result = fiber_event_wait_timeout(&fiber->ended, timeout.left_ns());
            switch (settle(result, &timeout)) {
            case Settled::done:
            case Settled::again: continue;
            case Settled::timed_out: return 0;
            case Settled::raised: return -1;
            case Settled::failed: raise_errno(result); return -1;
            }
        }
    }
    known(fiber);
    return 1;
}

bool watch_arguments(PyObject* const* args, Py_ssize_t count, const char* name) {
    if (!takes(name, count, 2, 2)) return false;
    if (Py_IS_TYPE(args[0], &FiberType) && is_queue(args[1])) return true;
    PyErr_Format(PyExc_TypeError, "%s() takes a Fiber and a Queue", name);
    return false;
}

PyObject* watch(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!watch_arguments(args, count, "watch")) return nullptr;
    auto* fiber = reinterpret_cast<FiberObject*>(args[0]);
    if (!fiber->done && !make_first(fiber->watchers, make_list)) return nullptr;
    if (fiber->done) {
        if (!queue_put_at_once(args[1], args[0])) return nullptr;
        Py_RETURN_NONE;
    }
    if (!fiber_can_be_awaited(fiber)) return nullptr;
    if (PyList_Append(fiber->watchers, args[1]) < 0) return nullptr;
    Py_RETURN_NONE;
}

PyObject* unwatch(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!watch_arguments(args, count, "unwatch")) return nullptr;
    PyObject* watchers = reinterpret_cast<FiberObject*>(args[0])->watchers;
    for (Py_ssize_t i = watchers ? PyList_GET_SIZE(watchers) : 0; i-- > 0;) {
        if (PyList_GET_ITEM(watchers, i) != args[1]) continue;
        if (PyList_SetSlice(watchers, i, i + 1, nullptr) < 0) return nullptr;
        break;
    }
    Py_RETURN_NONE;
}

// Returns false with an exception set.
bool tell(PyObject* watcher, FiberObject* fiber) {
    PyObject* object = reinterpret_cast<PyObject*>(fiber);
    if (is_queue(watcher)) return queue_put_at_once(watcher, object);
    PyObject* result = PyObject_CallOneArg(watcher, object);
    Py_XDECREF(result);
    return result;
}

void tell_watchers(FiberObject* fiber) {
    PyObject* watchers = fiber->watchers;
    fiber->watchers = nullptr;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(watchers); i++)
        if (!tell(PyList_GET_ITEM(watchers, i), fiber)) PyErr_WriteUnraisable(reinterpret_cast<PyObject*>(fiber));
    Py_DECREF(watchers);
}

PyObject* add_done_callback(PyObject* self, PyObject* callback) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    if (!PyCallable_Check(callback) || is_queue(callback))
        return PyErr_Format(PyExc_TypeError, "add_done_callback() takes a function");
    if (!fiber->done && fiber->world != this_world) worlds_sweep(); // this may mark it as lost
    if (!fiber->done && !make_first(fiber->watchers, make_list)) return nullptr;
    if (fiber->done) return PyObject_CallOneArg(callback, self);
    if (PyList_Append(fiber->watchers, callback) < 0) return nullptr;
    Py_RETURN_NONE;
}

PyObject* remove_done_callback(PyObject* self, PyObject* callback) {
    PyObject* watchers = reinterpret_cast<FiberObject*>(self)->watchers;
    long removed = 0;
    for (Py_ssize_t i = 0; watchers && i < PyList_GET_SIZE(watchers);) {
        PyObject* watcher = Py_NewRef(PyList_GET_ITEM(watchers, i));
        int equal = is_queue(watcher) ? 0 : PyObject_RichCompareBool(watcher, callback, Py_EQ);
        Py_DECREF(watcher);
        if (equal < 0) return nullptr;
        if (watchers != reinterpret_cast<FiberObject*>(self)->watchers) break; // it has ended meanwhile
        if (!equal) {
            i++;
        } else if (PyList_SetSlice(watchers, i, i + 1, nullptr) == 0) {
            removed++;
        } else {
            return nullptr;
        }
    }
    return PyLong_FromLong(removed);
}

PyObject* join(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    int ended = wait_for_end(reinterpret_cast<FiberObject*>(self), args, count, "join");
    return ended < 0 ? nullptr : Py_NewRef(ended ? Py_True : Py_False);
}

PyObject* result(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    int ended = wait_for_end(fiber, args, count, "result");
    if (ended < 0) return nullptr;
    if (!ended) {
        PyErr_SetString(PyExc_TimeoutError, "the fiber has not ended in time");
        return nullptr;
    }
    if (fiber->result) return Py_NewRef(fiber->result);
    exception_set(Py_NewRef(fiber->exception));
    return nullptr;
}

bool refuse_main(FiberObject* fiber, const char* what) {
    if (!fiber->main_flow) return false;
    PyErr_Format(PyExc_RuntimeError, "a thread's main flow cannot be %s", what);
    return true;
}

PyObject* cancel(PyObject* self, PyObject*) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    if (fiber->done) Py_RETURN_FALSE;
    if (refuse_main(fiber, "cancelled")) return nullptr;
    fiber->cancelled = true;
    if (fiber->started) fiber_cancel(fiber->handle, nullptr);
    Py_RETURN_TRUE;
}

PyObject* throw_(PyObject* self, PyObject* exception) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    PyObject* made = nullptr;
    if (PyExceptionClass_Check(exception)) {
        made = PyObject_CallNoArgs(exception);
        if (!made) return nullptr;
    } else if (PyExceptionInstance_Check(exception)) {
        made = Py_NewRef(exception);
    }
    if (!made || !PyExceptionInstance_Check(made)) {
        Py_XDECREF(made);
        return PyErr_Format(PyExc_TypeError, "throw() takes an exception, not %.200s", Py_TYPE(exception)->tp_name);
    }
    bool own = this_world && this_world->current == fiber;
    if (!fiber->done && !own && !make_first(fiber->thrown, make_list)) {
        Py_DECREF(made);
        return nullptr;
    }
    if (fiber->done) {
        Py_DECREF(made);
        PyErr_SetString(PyExc_RuntimeError, "the fiber has ended");
        return nullptr;
    }
    if (own) {
        exception_set(made);
        return nullptr;
    }
    int appended = PyList_Append(fiber->thrown, made);
    Py_DECREF(made);
    if (appended < 0) return nullptr;
    if (fiber->started) fiber_interrupt(fiber->handle, nullptr); // -EBUSY: a pending interrupt does this, too
    Py_RETURN_NONE;
}

// The interrupt stays pending: a wait that it ends finds no exception, and continues.
PyObject* withdraw(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (!takes("withdraw", count, 2, 2)) return nullptr;
    if (!Py_IS_TYPE(args[0], &FiberType)) return PyErr_Format(PyExc_TypeError, "withdraw() takes a Fiber");
    PyObject* thrown = reinterpret_cast<FiberObject*>(args[0])->thrown;
    for (Py_ssize_t i = 0; thrown && i < PyList_GET_SIZE(thrown); i++) {
        if (PyList_GET_ITEM(thrown, i) != args[1]) continue;
        if (PyList_SetSlice(thrown, i, i + 1, nullptr) < 0) return nullptr;
        Py_RETURN_TRUE;
    }
    Py_RETURN_FALSE;
}

PyObject* abandon(PyObject*, PyObject* fiber) {
    if (!Py_IS_TYPE(fiber, &FiberType)) return PyErr_Format(PyExc_TypeError, "abandon() takes a Fiber");
    reinterpret_cast<FiberObject*>(fiber)->abandoned = true;
    Py_RETURN_NONE;
}

PyObject* wakeup(PyObject* self, PyObject*) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    if (!fiber->done) fiber_wakeup(fiber->handle);
    Py_RETURN_NONE;
}

PyObject* get_done(PyObject* self, void*) { return PyBool_FromLong(reinterpret_cast<FiberObject*>(self)->done); }

PyObject* get_cancelled(PyObject* self, void*) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    return PyBool_FromLong(fiber->done && fiber->exception && is_cancel(fiber->exception));
}

PyObject* get_exception(PyObject* self, void*) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    if (!fiber->done) {
        PyErr_SetString(PyExc_RuntimeError, "the fiber has not ended");
        return nullptr;
    }
    known(fiber);
    return Py_NewRef(fiber->exception ? fiber->exception : Py_None);
}

PyObject* get_name(PyObject* self, void*) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    if (fiber->name) return Py_NewRef(fiber->name);
    if (fiber->main_flow && !fiber->survivor) return PyUnicode_FromString("main");
    return PyUnicode_FromFormat("fiber-%llu", static_cast<unsigned long long>(fiber->number));
}

int set_name(PyObject* self, PyObject* name, void*) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    if (!name || !PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "a fiber's name is a str");
        return -1;
    }
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) return -1;
    Py_XSETREF(fiber->name, Py_NewRef(name));
    if (!fiber->done)
        fiber_set_name(fiber->handle, text); // refused for another thread's fiber: then the core's dumps lack the name
    return 0;
}

const char* state_of(FiberObject* fiber) {
    if (fiber->done) {
        if (!fiber->exception) return "ended";
        return is_cancel(fiber->exception) ? "cancelled" : "failed";
    }
    if (!fiber->started || fiber->early) return "new";
    // The fiber that gave way last remains the current one while its thread sleeps in a poll.
    if (fiber->world && fiber->world->current == fiber && !fiber->world->released) return "running";
    return fiber_state(fiber->handle) == FIBER_WAITING ? "waiting" : "runnable";
}

PyObject* get_state(PyObject* self, void*) {
    return PyUnicode_FromString(state_of(reinterpret_cast<FiberObject*>(self)));
}

PyObject* get_waits_for(PyObject* self, void*) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    if (fiber->done || !fiber->waits_for) Py_RETURN_NONE;
    return PyUnicode_FromString(fiber->waits_for);
}

PyObject* get_locals(PyObject* self, void*) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    return make_first(fiber->locals, PyDict_New) ? Py_NewRef(fiber->locals) : nullptr;
}

PyObject* repr(PyObject* self) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    PyObject* name = get_name(self, nullptr);
    if (!name) return nullptr;
    const char* reason = fiber->done ? nullptr : fiber->waits_for;
    PyObject* function = Py_XNewRef(fiber->function); // repr() of it may wait until the fiber has ended
    PyObject* of = function ? PyObject_GetAttrString(function, "__qualname__") : nullptr;
    PyErr_Clear();
    Py_XDECREF(function);
    PyObject* text = of && PyUnicode_Check(of)
                         ? PyUnicode_FromFormat("<fiberrt.Fiber %R (%U) %s%s%s>", name, of, state_of(fiber),
                                                reason ? ": " : "", reason ? reason : "")
                         : PyUnicode_FromFormat("<fiberrt.Fiber %R %s%s%s>", name, state_of(fiber), reason ? ": " : "",
                                                reason ? reason : "");
    Py_XDECREF(of);
    Py_DECREF(name);
    return text;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    Py_VISIT(fiber->function);
    Py_VISIT(fiber->arguments);
    Py_VISIT(fiber->names);
    Py_VISIT(fiber->context);
    Py_VISIT(fiber->result);
    Py_VISIT(fiber->exception);
    Py_VISIT(fiber->thrown);
    Py_VISIT(fiber->watchers);
    Py_VISIT(fiber->name);
    Py_VISIT(fiber->locals);
    Py_VISIT(fiber->running_loop);
    Py_VISIT(fiber->loop_settings.first_iteration);
    Py_VISIT(fiber->loop_settings.finalizer);
    Py_VISIT(fiber->loop_settings.task);
    return 0;
}

int clear(PyObject* self) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    Py_CLEAR(fiber->function);
    Py_CLEAR(fiber->arguments);
    Py_CLEAR(fiber->names);
    Py_CLEAR(fiber->context);
    Py_CLEAR(fiber->result);
    Py_CLEAR(fiber->exception);
    Py_CLEAR(fiber->thrown);
    Py_CLEAR(fiber->watchers);
    Py_CLEAR(fiber->name);
    Py_CLEAR(fiber->locals);
    return 0;
}

void finalize(PyObject* self) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    if (fiber->unreported) report(fiber);
}

void deallocate(PyObject* self) {
    auto* fiber = reinterpret_cast<FiberObject*>(self);
    if (PyObject_CallFinalizerFromDealloc(self) < 0) return;
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, deallocate); // its result may be a fiber, too
    if (fiber->weak_references) PyObject_ClearWeakRefs(self);
    clear(self);
    PyMem_Free(reinterpret_cast<FiberObject*>(self)->times);
    PyObject_GC_Del(self);
    Py_TRASHCAN_END;
}

PyMethodDef methods[] = {
    {"join", as_method(join), METH_FASTCALL,
     "join($self, timeout=None, /)\n--\n\nWait until the fiber has ended, and return True; return False if the "
     "timeout, "
     "in seconds, passes first.\nDoes not raise the fiber's exception. Returns only after the finalizers of the "
     "fiber's arguments, locals and context variables. These finalizers may wait, but not for their own fiber."},
    {"result", as_method(result), METH_FASTCALL,
     "result($self, timeout=None, /)\n--\n\nWait until the fiber has ended; return the function's result, or raise "
     "its exception.\nTimeoutError: the fiber has not ended in time."},
    {"cancel", cancel, METH_NOARGS,
     "cancel($self, /)\n--\n\nCancel the fiber: its present wait and all later ones raise CancelledError, except those "
     "in shield().\nA fiber that has not begun never runs. Return False if the fiber has ended already."},
    {"throw", throw_, METH_O,
     "throw($self, exception, /)\n--\n\nRaise an exception in the fiber, once: in its present wait, or its next one.\n"
     "A fiber that has not begun never runs, and ends with the exception. If the fiber's function has returned and "
     "only "
     "finalizers run, the exception is lost."},
    {"wakeup", wakeup, METH_NOARGS,
     "wakeup($self, /)\n--\n\nEnd the present park() of the fiber, or its next one. Any thread may call this. It does "
     "nothing to a fiber that has not had its first turn, or has ended."},
    {"add_done_callback", add_done_callback, METH_O,
     "add_done_callback($self, callback, /)\n--\n\nCall callback(fiber) when the fiber has ended, or at once if it "
     "has. "
     "It runs at the end of the fiber, and may not wait for long."},
    {"remove_done_callback", remove_done_callback, METH_O,
     "remove_done_callback($self, callback, /)\n--\n\nUndo add_done_callback(). Return how many callbacks were "
     "removed."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "Fiber[T]: a fiber whose function returns T."},
    {nullptr, nullptr, 0, nullptr},
};

PyAsyncMethods async_methods = {fiber_await, nullptr, nullptr, nullptr};

PyGetSetDef members[] = {
    {"done", get_done, nullptr, "Whether the fiber has ended.", nullptr},
    {"cancelled", get_cancelled, nullptr, "Whether the fiber has ended by a CancelledError.", nullptr},
    {"exception", get_exception, nullptr, "The fiber's exception, or None; RuntimeError while it has not ended.",
     nullptr},
    {"name", get_name, set_name, "The fiber's name.", nullptr},
    {"state", get_state, nullptr, "new, runnable, running, waiting, ended, failed or cancelled.", nullptr},
    {"waits_for", get_waits_for, nullptr, "The reason why the fiber waits, in a word, or None.", nullptr},
    {"_locals", get_locals, nullptr, "The values of fiberrt.local in this fiber.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

} // namespace

PyTypeObject FiberType = [] {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "fiberrt.Fiber";
    type.tp_basicsize = sizeof(FiberObject);
    type.tp_dealloc = deallocate;
    type.tp_repr = repr;
    type.tp_as_async = &async_methods;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    type.tp_doc = "A function that runs concurrently; made by spawn().";
    type.tp_traverse = traverse;
    type.tp_clear = clear;
    type.tp_weaklistoffset = offsetof(FiberObject, weak_references);
    type.tp_methods = methods;
    type.tp_getset = members;
    type.tp_finalize = finalize;
    return type;
}();

FiberObject* fiber_allocate() {
    auto* fiber = PyObject_GC_New(FiberObject, &FiberType);
    if (!fiber) return nullptr;
    memset(reinterpret_cast<char*>(fiber) + sizeof(PyObject), 0, sizeof *fiber - sizeof(PyObject));
    fiber->number = ++fibers_made;
    fiber_event_init(&fiber->ended, FIBER_EVENT_MANUAL);
    PyObject_GC_Track(reinterpret_cast<PyObject*>(fiber));
    return fiber;
}

void fiber_drop(FiberObject* fiber, PyThreadState* state) {
    if (this_world && this_world->runs_loop == fiber) this_world->runs_loop = nullptr;
    if (this_world && this_world->ran_loop == fiber) this_world->ran_loop = nullptr;
    Py_CLEAR(fiber->running_loop);
    Py_CLEAR(fiber->loop_settings.first_iteration);
    Py_CLEAR(fiber->loop_settings.finalizer);
    Py_CLEAR(fiber->loop_settings.task);
    for (int i = 0; i < drop_rounds; i++) {
        Py_CLEAR(fiber->function);
        Py_CLEAR(fiber->arguments);
        Py_CLEAR(fiber->names);
        Py_CLEAR(fiber->thrown);
        Py_CLEAR(fiber->locals);
        Py_CLEAR(fiber->context);
        if (state && state->context) drop_context(state);
        if (!fiber->thrown && !fiber->locals && !(state && state->context)) return;
    }
    if (!state) return;
    fiber->context = state->context;
    state->context = nullptr;
    state->context_ver++;
}

void fiber_finish(FiberObject* fiber, PyObject* result, PyObject* exception) {
    fiber->result = result;
    fiber->exception = exception;
    fiber->done = true;
    fiber->unreported = exception && !is_cancel(exception) && !is_for_main(exception);
    fiber_event_set(&fiber->ended);
    if (fiber->watchers) tell_watchers(fiber);
}

void fiber_destroyed(FiberObject* fiber) {
    if (!fiber->done) { // the fiber could not run
        PyErr_SetString(PyExc_MemoryError, "there is no stack for the fiber");
        fiber_finish(fiber, nullptr, exception_take());
        fiber_drop(fiber, nullptr);
        leave(fiber);
    }
    Py_DECREF(reinterpret_cast<PyObject*>(fiber));
}

bool fiber_can_be_awaited(FiberObject* fiber) {
    bool own = this_world && fiber == this_world->current;
    if (fiber->done || (!own && !fiber->main_flow)) return true;
    PyErr_SetString(PyExc_RuntimeError,
                    own ? "a fiber cannot wait for its own end" : "a thread's main flow cannot be joined");
    return false;
}

void report_failed() {
    while (FiberObject* fiber = failed.first) {
        Py_INCREF(reinterpret_cast<PyObject*>(fiber));
        report(fiber);
        Py_DECREF(reinterpret_cast<PyObject*>(fiber));
    }
}

void forget_failed() {
    while (failed.first) known(failed.first);
}

void fiber_lose(FiberObject* fiber, FiberList& lost, PyObject* why) {
    fiber->world = nullptr;
    fiber->unreported = false; // if the fiber was about to leave: the parent reports it
    if (fiber->done) return;
    fiber->exception = Py_NewRef(why);
    fiber->done = true;
    append(lost, fiber);
}

void fibers_lose(FiberList& list, FiberObject* but, FiberList& lost, PyObject* why) {
    for (FiberObject* fiber = list.first; fiber;) {
        FiberObject* next = fiber->next;
        if (fiber != but) {
            remove(list, fiber);
            fiber_lose(fiber, lost, why);
        }
        fiber = next;
    }
}

void fibers_give_up(FiberList& list) {
    PyErr_SetString(PyExc_RuntimeError, "the fiber was lost with its thread");
    PyObject* why = exception_take();
    for (FiberObject* fiber = list.first; fiber; fiber = fiber->next) {
        if (fiber->done) continue;
        fiber->exception = Py_NewRef(why);
        fiber->done = true;
        fiber_event_set(&fiber->ended);
    }
    Py_DECREF(why);
    for (FiberObject* fiber = list.first; fiber; fiber = fiber->next)
        if (fiber->watchers) tell_watchers(fiber);
}

void fibers_lost(FiberList& lost) {
    while (FiberObject* fiber = lost.first) {
        remove(lost, fiber);
        fiber_event_set(&fiber->ended);
        if (fiber->watchers) tell_watchers(fiber);
        fiber_drop(fiber, nullptr);
        if (!fiber->main_flow) Py_DECREF(reinterpret_cast<PyObject*>(fiber)); // fiber_destroyed() is not called for it
    }
}

PyObject* exception_take() {
#if PY_VERSION_HEX < 0x030C0000
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#else
    return PyErr_GetRaisedException();
#endif
}

void exception_set(PyObject* exception) {
#if PY_VERSION_HEX < 0x030C0000
    PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(exception))), exception,
                  PyException_GetTraceback(exception));
#else
    PyErr_SetRaisedException(exception);
#endif
}

#if PY_VERSION_HEX < 0x030C0000
namespace {

// Calls change() for the loaded execution of each thread: the interpreter counts their `levels_off` as levels in use,
// so these must be removed before the limit changes, and computed again after it.
template <typename Change>
void for_all_loaded(Change change) {
    worlds_sweep();
    for (World* world = all_worlds; world; world = world->next)
        if (world->loaded->levels_max != INT_MAX && world_has_state(world)) change(*world->loaded, world->state);
}

// Replaces sys.setrecursionlimit(), which would allow a running fiber more levels than its stack has room for.
PyObject* setrecursionlimit(PyObject*, PyObject* number) {
    int limit = _PyLong_AsInt(number);
    if (limit == -1 && PyErr_Occurred()) return nullptr;
    if (limit < 1) {
        PyErr_SetString(PyExc_ValueError, "recursion limit must be greater or equal than 1");
        return nullptr;
    }
    for_all_loaded([](Execution& fiber, PyThreadState* state) {
        fiber.levels = recursion_limit(state) - recursion_remaining(state) - fiber.levels_off;
        fiber.levels_off = 0;
        recursion_remaining(state) = recursion_limit(state) - fiber.levels;
    });
    PyThreadState* state = PyThreadState_Get();
    int depth = recursion_limit(state) - recursion_remaining(state);
    bool deep = depth >= limit;
    if (!deep) Py_SetRecursionLimit(limit);
    for_all_loaded(levels_load);
    if (!deep) Py_RETURN_NONE;
    return PyErr_Format(PyExc_RecursionError,
                        "cannot set the recursion limit to %i at the recursion depth %i: the limit is too low", limit,
                        depth);
}

} // namespace
#endif

PyMethodDef fiber_functions[] = {
#if PY_VERSION_HEX < 0x030C0000
    {"setrecursionlimit", setrecursionlimit, METH_O,
     "setrecursionlimit(limit, /)\n--\n\nSet the interpreter's recursion limit: sys.setrecursionlimit() for Python "
     "3.11.\n"
     "Fibers never recurse deeper than their stacks have room for."},
#endif
    {"spawn", as_method(spawn), METH_FASTCALL | METH_KEYWORDS,
     "spawn(function, /, *args, **kwargs)\n--\n\nRun function(*args, **kwargs) in a new fiber, and return its Fiber at "
     "once; the fiber begins in its turn. MemoryError: there is no memory for it."},
    {"current", current, METH_NOARGS, "current()\n--\n\nReturn the running Fiber; a thread's main flow has one, too."},
    {"locals_if_any", locals_if_any, METH_NOARGS,
     "locals_if_any()\n--\n\nReturn the running Fiber's _locals, or None if it has none."},
    {"watch", as_method(watch), METH_FASTCALL,
     "watch(fiber, queue, /)\n--\n\nPut the fiber into a Queue without a maxsize when it ends, or at once if it has "
     "ended."},
    {"unwatch", as_method(unwatch), METH_FASTCALL, "unwatch(fiber, queue, /)\n--\n\nUndo one watch()."},
    {"abandon", abandon, METH_O,
     "abandon(fiber, /)\n--\n\nAt the end of the program, do not cancel this fiber, and do not wait for its end."},
    {"withdraw", as_method(withdraw), METH_FASTCALL,
     "withdraw(fiber, exception, /)\n--\n\nUndo a Fiber.throw() whose exception has not been raised. Return whether "
     "there "
     "was one."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace fiberrt_python
