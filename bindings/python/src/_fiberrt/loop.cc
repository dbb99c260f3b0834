// SPDX-License-Identifier: MIT OR Apache-2.0
// The run of an event loop, and its calls: call_soon, call_later, add_reader …
#include "loop.h"

#include "functions.h"
#include "plain_method.h"
#include "waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <new>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>
#include <sys/stat.h>

namespace fiberrt_python {

bool HandleQueue::push(PyObject* handle) {
    if (size_ == room_) {
        size_t room = room_ ? room_ * 2 : 64;
        auto* ring = static_cast<PyObject**>(PyMem_Malloc(room * sizeof(PyObject*)));
        if (!ring) return PyErr_NoMemory();
        for (size_t i = 0; i < size_; i++) ring[i] = at(i);
        PyMem_Free(ring_);
        ring_ = ring;
        room_ = room;
        first_ = 0;
    }
    ring_[(first_ + size_++) & (room_ - 1)] = Py_NewRef(handle);
    return true;
}

namespace {

bool is_before(const HandleObject* a, const HandleObject* b) {
    return a->when < b->when || (a->when == b->when && a->number < b->number);
}

} // namespace

void TimerHeap::put(size_t place, HandleObject* timer) {
    heap_[place] = timer;
    timer->place = place + 1;
}

void TimerHeap::rise(size_t place) {
    HandleObject* timer = heap_[place];
    for (; place && is_before(timer, heap_[(place - 1) / 2]); place = (place - 1) / 2)
        put(place, heap_[(place - 1) / 2]);
    put(place, timer);
}

void TimerHeap::sink(size_t place) {
    HandleObject* timer = heap_[place];
    for (;;) {
        size_t child = place * 2 + 1;
        if (child >= heap_.size()) break;
        if (child + 1 < heap_.size() && is_before(heap_[child + 1], heap_[child])) child++;
        if (!is_before(heap_[child], timer)) break;
        put(place, heap_[child]);
        place = child;
    }
    put(place, timer);
}

bool TimerHeap::push(HandleObject* timer) {
    try {
        heap_.push_back(timer);
    } catch (std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    Py_INCREF(reinterpret_cast<PyObject*>(timer));
    rise(heap_.size() - 1);
    return true;
}

void TimerHeap::remove(HandleObject* timer) {
    size_t place = timer->place - 1;
    timer->place = 0;
    HandleObject* last = heap_.back();
    heap_.pop_back();
    if (last == timer) return;
    put(place, last);
    rise(place);
    sink(last->place - 1);
}

namespace {

LoopObject* loop_of(PyObject* self) { return reinterpret_cast<LoopObject*>(self); }
PyObject* object(LoopObject* loop) { return reinterpret_cast<PyObject*>(loop); }

double now_s() { return double(fiber_now()) * 1e-9; }
constexpr double resolution_s = 1e-9; // of the clock

bool check_open(LoopObject* loop) {
    if (!loop->closed) return true;
    PyErr_SetString(PyExc_RuntimeError, "Event loop is closed");
    return false;
}

PyObject* call_method(PyObject* self, const char* name, PyObject* a = nullptr, PyObject* b = nullptr) {
    PyObject* method = PyUnicode_InternFromString(name);
    if (!method) return nullptr;
    PyObject* args[] = {self, a, b};
    PyObject* result = PyObject_VectorcallMethod(method, args, 1 + (a ? 1 : 0) + (b ? 1 : 0), nullptr);
    Py_DECREF(method);
    return result;
}

// ---- Running --------------------------------------------------------------------------------------------------------

bool is_ours(PyObject* handle) { return Py_IS_TYPE(handle, &HandleType) || Py_IS_TYPE(handle, &TimerHandleType); }

bool is_cancelled(PyObject* handle) {
    if (is_ours(handle)) return reinterpret_cast<HandleObject*>(handle)->cancelled;
    PyObject* cancelled = PyObject_GetAttrString(handle, "_cancelled");
    bool result = cancelled && PyObject_IsTrue(cancelled) == 1;
    Py_XDECREF(cancelled);
    PyErr_Clear();
    return result;
}

// Gives an exception of a callback to the loop's exception handler. Returns false with an exception set that ends the
// run.
bool report(LoopObject* loop, PyObject* handle) {
    if (ends_run()) return false;
    PyObject* exception = exception_take();
    PyObject* reported = call_method(object(loop), "_callback_failed", handle ? handle : Py_None, exception);
    Py_DECREF(exception);
    Py_XDECREF(reported);
    return reported;
}

// Calls a handle's callback. Returns false with an exception set that ends the run.
bool run_handle(LoopObject* loop, PyObject* handle) {
    PyObject* result;
    if (is_ours(handle)) {
        auto* own = reinterpret_cast<HandleObject*>(handle);
        if (own->cancelled) return true;
        PyObject* callback = Py_NewRef(own->callback); // it may cancel its handle
        PyObject* arguments = Py_NewRef(own->argument ? own->argument : own->arguments);
        bool one = own->argument;
        result = in_context(own->context, [=] {
            if (one) return PyObject_CallOneArg(callback, arguments);
            return PyObject_Vectorcall(callback, &PyTuple_GET_ITEM(arguments, 0), size_t(PyTuple_GET_SIZE(arguments)),
                                       nullptr);
        });
        bool fine = result || report(loop, handle);
        Py_DECREF(callback);
        Py_DECREF(arguments);
        Py_XDECREF(result);
        return fine;
    }
    if (loop->debug)
        result = call_method(object(loop), "_run_in_debug_mode", handle);
    else
        result = is_cancelled(handle) ? Py_NewRef(Py_None) : call_method(handle, "_run");
    Py_XDECREF(result);
    return result;
}

bool begin_polls(LoopObject* loop) {
    while (Watch* watch = loop->wanted.first) {
        watch_unlink(watch);
        int error = watch_begin(watch);
        if (error < 0) {
            watch_link(loop->wanted, watch);
            raise_errno(error);
            return false;
        }
    }
    return true;
}

// Nanoseconds until the loop has something to do; 0: it has now.
int64_t time_to_wait(const LoopObject* loop) {
    if (loop->ready.size() || loop->stopping || loop->fired.first) return 0;
    // asyncio's longest wait. The core refuses a wait without a limit if it sees nothing that could end it.
    constexpr int64_t most = FIBER_SEC(24 * 3600);
    if (loop->timers.empty()) return most;
    double left = loop->timers.first()->when - now_s();
    if (left <= 0) return 0;
    return left < 24 * 3600 ? int64_t(ceil(left * 1e9)) : most;
}

// Lets other fibers run, and waits until the loop has something to do. look: begins with a look for I/O. Returns false
// with an exception set: of a cancel, or of a signal's handler.
bool wait(LoopObject* loop, bool look) {
    if (!begin_polls(loop)) return false;
    WaitsFor reason("event loop");
    int64_t ns = time_to_wait(loop);
    Timeout timeout; // its end is no error; that of a scope is
    int result;
    if (ns == 0) {
        result = look ? fiber_sleep(0) : fiber_reschedule();
        if (result == 0 && look) result = fiber_reschedule(); // the turns of the watches
    } else {
        // An event, because a wakeup of the fiber is the program's, for park().
        timeout.set(ns);
        loop->waits = true;
        result = fiber_event_wait_timeout(&loop->wake, ns);
        if (!loop->waits && result < 0) fiber_event_reset(&loop->wake); // two things have ended the wait
        loop->waits = false;
    }
    switch (settle(result, &timeout)) {
    case Settled::done:
    case Settled::timed_out:
    case Settled::again: return !(this_world->for_main && this_world->current->main_flow && raise_thrown());
    case Settled::raised: return false;
    case Settled::failed: raise_errno(result); return false;
    }
    return false;
}

// The events that one turn reports. If the turn ends early, the rest return to the front of loop->fired.
class Batch {
public:
    explicit Batch(LoopObject* loop) : loop_(loop) { move(loop->fired, events); }
    ~Batch() {
        if (!events.first) return;
        move(loop_->fired, events);
        move(events, loop_->fired);
    }
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    WatchList events;

private:
    static void move(WatchList& from, WatchList& to) {
        while (Watch* watch = from.first) {
            watch_unlink(watch);
            watch_link(to, watch);
        }
    }
    LoopObject* loop_;
};

// Calls what is ready now: callbacks, then events, then timers, as asyncio does. Callbacks scheduled meanwhile wait for
// the next turn. Returns false with an exception set.
bool turn(LoopObject* loop) {
    Batch batch(loop);
    uint64_t newest = loop->timers_made;
    double due = now_s() + resolution_s;
    for (size_t left = loop->ready.size(); left && loop->ready.size(); left--) {
        PyObject* handle = loop->ready.pop();
        bool fine = run_handle(loop, handle);
        Py_DECREF(handle);
        if (!fine) return false;
    }
    while (Watch* watch = batch.events.first) {
        watch_unlink(watch);
        watch_want(watch);
        if (watch->ready(*watch) < 0 && !report(loop, nullptr)) return false;
    }
    while (!loop->timers.empty() && loop->timers.first()->when < due && loop->timers.first()->number <= newest) {
        HandleObject* timer = loop->timers.first();
        loop->timers.remove(timer);
        bool fine = run_handle(loop, reinterpret_cast<PyObject*>(timer));
        Py_DECREF(reinterpret_cast<PyObject*>(timer));
        if (!fine) return false;
    }
    return true;
}

// At the end of a run: the next one may be in another thread.
void settle_watches(LoopObject* loop) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    while (loop->receiving.first) watch_settle(loop->receiving.first);
    PyErr_Restore(type, value, traceback);
}

// asyncio's run_forever() calls this as _run_once(). Unlike asyncio's, it returns only after stop().
PyObject* run_turns(PyObject* self, PyObject*) {
    LoopObject* loop = loop_of(self);
    World* here = world();
    if (!here) return nullptr;
    if (loop->world != here->number) watches_move(loop);
    loop->world = here->number;
    bool fine = true;
    for (bool look = true; fine; look = false) {
        fine = wait(loop, look) && turn(loop);
        if (fine && loop->stopping) break;
    }
    settle_watches(loop);
    if (!fine) return nullptr;
    Py_RETURN_NONE;
}

// ---- Scheduling -----------------------------------------------------------------------------------------------------

// The arguments of a call: (callback, *args, context=None), after a time if time_name is given.
struct Scheduled {
    PyObject* time = nullptr;
    PyObject* callback = nullptr;
    PyObject* context = nullptr; // borrowed, as all of them; null: the current one
    PyObject* const* arguments;
    Py_ssize_t count;

    // Returns false with an exception set.
    bool take(const char* call, const char* time_name, PyObject* const* args, Py_ssize_t given, PyObject* names) {
        arguments = args;
        count = given;
        if (time_name && count) time = next();
        if (count) callback = next();
        for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++) {
            PyObject* name = PyTuple_GET_ITEM(names, i);
            PyObject** to = is_context(name) ? &context : is(name, "callback") ? &callback : nullptr;
            if (!to && time_name && is(name, time_name)) to = &time;
            if (!to || *to) {
                PyErr_Format(PyExc_TypeError,
                             to ? "%s() got multiple values for argument '%U'"
                                : "%s() got an unexpected keyword argument '%U'",
                             call, name);
                return false;
            }
            *to = args[given + i];
        }
        if (!callback || (time_name && !time)) {
            PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", call,
                         time_name && !time ? time_name : "callback");
            return false;
        }
        if (context == Py_None) context = nullptr;
        if (!context || PyContext_CheckExact(context)) return true;
        PyErr_SetString(PyExc_TypeError, "a contextvars.Context was expected as the context");
        return false;
    }

private:
    PyObject* next() {
        count--;
        return *arguments++;
    }
    static bool is_context(PyObject* name) {
        static PyObject* const interned = PyUnicode_InternFromString("context"); // as nearly all callers pass it
        return name == interned || is(name, "context");
    }
    static bool is(PyObject* name, const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }
};

HandleObject* handle_for(PyTypeObject* type, LoopObject* loop, const Scheduled& what) {
    PyObject* context = what.context ? Py_NewRef(what.context) : PyContext_CopyCurrent();
    HandleObject* handle = context ? handle_new(type, loop, what.callback, context) : nullptr;
    if (!handle) return nullptr;
    if (what.count == 1) {
        handle->argument = Py_NewRef(*what.arguments);
        return handle;
    }
    handle->arguments = PyTuple_New(what.count);
    if (!handle->arguments) {
        Py_DECREF(reinterpret_cast<PyObject*>(handle));
        return nullptr;
    }
    for (Py_ssize_t i = 0; i < what.count; i++) PyTuple_SET_ITEM(handle->arguments, i, Py_NewRef(what.arguments[i]));
    return handle;
}

// In debug mode, calls the method of that name of the Python class, with asyncio's checks and tracebacks.
PyObject* in_debug_mode(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* method = PyObject_GetAttrString(self, name);
    PyObject* result = method ? PyObject_Vectorcall(method, args, size_t(count), names) : nullptr;
    Py_XDECREF(method);
    return result;
}

PyObject* call_soon(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    LoopObject* loop = loop_of(self);
    if (loop->debug) return in_debug_mode("_call_soon_in_debug_mode", self, args, count, names);
    Scheduled what;
    if (!check_open(loop) || !what.take("call_soon", nullptr, args, count, names)) return nullptr;
    HandleObject* handle = handle_for(&HandleType, loop, what);
    if (!handle) return nullptr;
    if (!loop->ready.push(reinterpret_cast<PyObject*>(handle))) Py_CLEAR(handle);
    loop_wake(loop); // another fiber, or a signal's handler, may call this
    return reinterpret_cast<PyObject*>(handle);
}

PyObject* call_soon_threadsafe(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    LoopObject* loop = loop_of(self);
    if (loop->debug) return in_debug_mode("_call_soon_threadsafe_in_debug_mode", self, args, count, names);
    return call_soon(self, args, count, names);
}

// when: in seconds of loop.time().
PyObject* call_when(PyObject* self, double when, const Scheduled& what) {
    LoopObject* loop = loop_of(self);
    HandleObject* timer = handle_for(&TimerHandleType, loop, what);
    if (!timer) return nullptr;
    timer->when = when;
    timer->number = ++loop->timers_made;
    if (!loop->timers.push(timer)) {
        Py_DECREF(reinterpret_cast<PyObject*>(timer));
        return nullptr;
    }
    if (loop->timers.first() == timer) loop_wake(loop);
    return reinterpret_cast<PyObject*>(timer);
}

// Converts a time. Returns false with TypeError or, for a NaN, ValueError set.
bool seconds_of(PyObject* number, const char* what, double* out) {
    if (number == Py_None) {
        PyErr_Format(PyExc_TypeError, "%s not be None", what);
        return false;
    }
    *out = PyFloat_AsDouble(number);
    if (*out == -1.0 && PyErr_Occurred()) return false;
    if (!isnan(*out)) return true;
    PyErr_Format(PyExc_ValueError, "%s not be NaN (not a number)", what);
    return false;
}

PyObject* call_later(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    Scheduled what;
    double delay;
    if (!what.take("call_later", "delay", args, count, names) || !seconds_of(what.time, "delay must", &delay))
        return nullptr;
    if (loop_of(self)->debug) return in_debug_mode("_call_later_in_debug_mode", self, args, count, names);
    return check_open(loop_of(self)) ? call_when(self, now_s() + delay, what) : nullptr;
}

PyObject* call_at(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    Scheduled what;
    double when;
    if (!what.take("call_at", "when", args, count, names) || !seconds_of(what.time, "when can", &when)) return nullptr;
    if (loop_of(self)->debug) return in_debug_mode("_call_at_in_debug_mode", self, args, count, names);
    return check_open(loop_of(self)) ? call_when(self, when, what) : nullptr;
}

// _call_at(when, callback, *args): call_at() in any mode.
PyObject* plain_call_at(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    Scheduled what;
    double when;
    if (!what.take("_call_at", "when", args, count, names) || !seconds_of(what.time, "when can", &when)) return nullptr;
    return call_when(self, when, what);
}

PyObject* add_callback(PyObject* self, PyObject* handle) {
    LoopObject* loop = loop_of(self);
    if (!is_cancelled(handle) && !loop->ready.push(handle)) return nullptr;
    loop_wake(loop);
    Py_RETURN_NONE;
}

PyObject* time(PyObject*, PyObject*) { return PyFloat_FromDouble(now_s()); }

PyObject* stop(PyObject* self, PyObject*) {
    loop_of(self)->stopping = true;
    loop_wake(loop_of(self));
    Py_RETURN_NONE;
}

PyObject* write_to_self(PyObject* self, PyObject*) {
    loop_wake(loop_of(self));
    Py_RETURN_NONE;
}

// ---- Readers and writers --------------------------------------------------------------------------------------------

int call_owner(Watch& watch) {
    LoopObject* loop = watch.loop;
    if (watch.result == -EBADF) { // it has been closed: as with epoll, there are no more events
        watch_not_want(&watch);
        return 0;
    }
    PyObject* handle = Py_NewRef(watch.owner);
    bool cancelled = is_cancelled(handle);
    if (cancelled) watch_free(&watch);
    bool fine = cancelled || run_handle(loop, handle);
    Py_DECREF(handle);
    return fine ? 0 : -1;
}

// Converts an int, or an object with a fileno(). Returns false with ValueError set.
bool descriptor_of(PyObject* file, int* fd) {
    PyObject* given = PyLong_Check(file) ? Py_NewRef(file) : call_method(file, "fileno");
    PyObject* number = given ? PyNumber_Long(given) : nullptr;
    long value = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(given);
    Py_XDECREF(number);
    *fd = int(value);
    if (value >= 0 && value == *fd) return true;
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "Invalid file object: %R", file);
    return false;
}

// Whether descriptors of this kind report events. Sets the exception that epoll would cause.
bool reports_events(int fd) {
    struct stat status;
    if (fstat(fd, &status) == 0) {
        if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return true;
        errno = EPERM;
    }
    PyErr_SetFromErrno(PyExc_OSError);
    return false;
}

void cancel_handle(PyObject* handle) {
    PyObject* result = call_method(handle, "cancel");
    if (!result) PyErr_WriteUnraisable(handle);
    Py_XDECREF(result);
}

PyObject* add_watch(PyObject* self, PyObject* const* args, Py_ssize_t count, int events, const char* name) {
    LoopObject* loop = loop_of(self);
    Scheduled what;
    int fd;
    if (!check_open(loop) || !what.take(name, "fd", args, count, nullptr) || !descriptor_of(args[0], &fd))
        return nullptr;
    PyObject* handle;
    if (loop->debug)
        handle = in_debug_mode("_handle_in_debug_mode", self, args + 1, count - 1, nullptr);
    else
        handle = reinterpret_cast<PyObject*>(handle_for(&HandleType, loop, what));
    if (!handle) return nullptr;
    Watches& both = loop->by_descriptor[fd];
    Watch*& watch = events == POLLIN ? both.reads : both.writes;
    PyObject* before = nullptr;
    if (watch) {
        before = watch->owner;
        watch->owner = Py_NewRef(handle);
    } else if (!reports_events(fd) || !watch_new(&watch, loop, fd, events, call_owner, handle)) {
        Py_DECREF(handle);
        return nullptr;
    }
    watch_want(watch);
    loop_wake(loop);
    if (before) { // last, because finalizers of its objects may remove the reader
        cancel_handle(before);
        Py_DECREF(before);
    }
    return handle;
}

PyObject* remove_watch(PyObject* self, PyObject* file, int events) {
    LoopObject* loop = loop_of(self);
    if (loop->closed) Py_RETURN_FALSE;
    int fd;
    if (!descriptor_of(file, &fd)) return nullptr;
    auto found = loop->by_descriptor.find(fd);
    if (found == loop->by_descriptor.end()) Py_RETURN_FALSE;
    Watch* watch = events == POLLIN ? found->second.reads : found->second.writes;
    if (!watch) Py_RETURN_FALSE;
    PyObject* handle = Py_NewRef(watch->owner);
    watch_free(watch);
    found = loop->by_descriptor.find(fd); // other fibers have run
    if (found != loop->by_descriptor.end() && !found->second.reads && !found->second.writes)
        loop->by_descriptor.erase(found);
    cancel_handle(handle);
    Py_DECREF(handle);
    Py_RETURN_TRUE;
}

PyObject* add_reader(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    return add_watch(self, args, count, POLLIN, "_add_reader");
}
PyObject* add_writer(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    return add_watch(self, args, count, POLLOUT, "_add_writer");
}
PyObject* remove_reader(PyObject* self, PyObject* file) { return remove_watch(self, file, POLLIN); }
PyObject* remove_writer(PyObject* self, PyObject* file) { return remove_watch(self, file, POLLOUT); }

// Returns a tuple of the descriptor's handles, for reading and for writing: None if there is none.
PyObject* handles_of(PyObject* self, PyObject* file) {
    int fd;
    if (!descriptor_of(file, &fd)) return nullptr;
    auto found = loop_of(self)->by_descriptor.find(fd);
    Watches both = found == loop_of(self)->by_descriptor.end() ? Watches() : found->second;
    return PyTuple_Pack(2, both.reads ? both.reads->owner : Py_None, both.writes ? both.writes->owner : Py_None);
}

// ---- The type -------------------------------------------------------------------------------------------------------

PyObject* loop_new(PyTypeObject* type, PyObject*, PyObject*) {
    auto* loop = reinterpret_cast<LoopObject*>(type->tp_alloc(type, 0));
    if (!loop) return nullptr;
    new (&loop->ready) HandleQueue();
    new (&loop->timers) TimerHeap();
    new (&loop->by_descriptor) std::unordered_map<int, Watches>();
    new (&loop->wanted) WatchList();
    new (&loop->fired) WatchList();
    new (&loop->receiving) WatchList();
    return object(loop);
}

int loop_traverse(PyObject* self, visitproc visit, void* arg) {
    LoopObject* loop = loop_of(self);
    for (size_t i = 0; i < loop->ready.size(); i++) Py_VISIT(loop->ready.at(i));
    for (size_t i = 0; i < loop->timers.size(); i++) Py_VISIT(loop->timers.at(i));
    for (Watch* watch = loop->watches; watch; watch = watch->next_of_loop) Py_VISIT(watch->owner);
    Py_VISIT(loop->of_future);
    return 0;
}

void drop_callbacks(LoopObject* loop) {
    while (loop->ready.size()) Py_DECREF(loop->ready.pop());
    while (!loop->timers.empty()) {
        HandleObject* timer = loop->timers.first();
        loop->timers.remove(timer);
        Py_DECREF(reinterpret_cast<PyObject*>(timer));
    }
}

void drop_watches(LoopObject* loop) {
    while (loop->watches) watch_free(loop->watches);
    loop->by_descriptor.clear();
}

int loop_clear(PyObject* self) {
    Py_CLEAR(loop_of(self)->of_future);
    drop_callbacks(loop_of(self));
    drop_watches(loop_of(self));
    return 0;
}

void loop_deallocate(PyObject* self) {
    LoopObject* loop = loop_of(self);
    PyObject_GC_UnTrack(self);
    loop_clear(self);
    loop->ready.~HandleQueue();
    loop->timers.~TimerHeap();
    loop->by_descriptor.~unordered_map();
    PyMem_Free(loop->scratch);
    fiber_event_destroy(&loop->wake);
    Py_TYPE(self)->tp_free(self);
}

PyObject* drop(PyObject* self, PyObject*) {
    loop_clear(self);
    Py_RETURN_NONE;
}

PyObject* is_in_debug_mode(PyObject* self, PyObject*) { return PyBool_FromLong(loop_of(self)->debug); }
PyObject* get_debug(PyObject* self, void*) { return PyBool_FromLong(loop_of(self)->debug); }
int set_debug(PyObject* self, PyObject* value, void*) {
    int on = value ? PyObject_IsTrue(value) : 0;
    if (on < 0) return -1;
    loop_of(self)->debug = on;
    return 0;
}

int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
    static const PlainMethod create_future("create_future", loop_create_future);
    return create_future.set_attribute(self, name, value, loop_of(self)->own_create_future);
}

PyMethodDef loop_methods[] = {
    {"_run_once", run_turns, METH_NOARGS, "Run turns until stop() has been called."},
    {"stop", stop, METH_NOARGS, "stop($self, /)\n--\n\nEnd run_forever() after the callbacks that are ready now."},
    {"time", time, METH_NOARGS,
     "time($self, /)\n--\n\nReturn the time of the loop's clock in seconds: time.monotonic()."},
    {"call_soon", as_method(call_soon), METH_FASTCALL | METH_KEYWORDS,
     "call_soon($self, callback, /, *args, context=None)\n--\n\nCall the callback in the next turn. Return its "
     "Handle.\n"
     "Other fibers of the thread may call this, too."},
    {"call_soon_threadsafe", as_method(call_soon_threadsafe), METH_FASTCALL | METH_KEYWORDS,
     "call_soon_threadsafe($self, callback, /, *args, context=None)\n--\n\ncall_soon() for any thread."},
    {"call_later", as_method(call_later), METH_FASTCALL | METH_KEYWORDS,
     "call_later($self, delay, callback, /, *args, context=None)\n--\n\nCall the callback after a delay in seconds. "
     "Return its TimerHandle."},
    {"call_at", as_method(call_at), METH_FASTCALL | METH_KEYWORDS,
     "call_at($self, when, callback, /, *args, context=None)\n--\n\nCall the callback at a time of loop.time(). Return "
     "its TimerHandle."},
    {"get_debug", is_in_debug_mode, METH_NOARGS, "get_debug($self, /)\n--\n\nWhether the loop is in debug mode."},
    {"create_future", loop_create_future, METH_NOARGS,
     "create_future($self, /)\n--\n\nReturn a new Future of this loop."},
    {"_call_at", as_method(plain_call_at), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {"_add_callback", add_callback, METH_O, nullptr},
    {"_add_callback_signalsafe", add_callback, METH_O, nullptr},
    {"_write_to_self", write_to_self, METH_NOARGS, nullptr},
    {"_add_reader", as_method(add_reader), METH_FASTCALL, nullptr},
    {"_add_writer", as_method(add_writer), METH_FASTCALL, nullptr},
    {"_remove_reader", remove_reader, METH_O, nullptr},
    {"_remove_writer", remove_writer, METH_O, nullptr},
    {"_handles_of", handles_of, METH_O, "The handles of a descriptor's reader and writer, or None."},
    {"_drop", drop, METH_NOARGS, "Forget all callbacks, timers and watches."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef loop_members[] = {
    {"_stopping", T_BOOL, offsetof(LoopObject, stopping), 0, nullptr},
    {"_closed", T_BOOL, offsetof(LoopObject, closed), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef loop_properties[] = {
    {"_debug", get_debug, set_debug, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

} // namespace

PyTypeObject LoopType = [] {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "fiberrt._fiberrt.Loop";
    type.tp_basicsize = sizeof(LoopObject);
    type.tp_dealloc = loop_deallocate;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE;
    type.tp_doc = "The engine of fiberrt.aio.EventLoop.";
    type.tp_setattro = set_attribute;
    type.tp_traverse = loop_traverse;
    type.tp_clear = loop_clear;
    type.tp_methods = loop_methods;
    type.tp_members = loop_members;
    type.tp_getset = loop_properties;
    type.tp_new = loop_new;
    return type;
}();

// The arguments by name are kept, because a new dict would cost as much as the rest.
PyObject* loop_create_future(PyObject* self, PyObject*) {
    static PyObject* type;
    static PyObject* none;
    if (!type) {
        PyObject* module = PyImport_ImportModule("asyncio.futures");
        type = module ? PyObject_GetAttrString(module, "Future") : nullptr;
        Py_XDECREF(module);
    }
    if (!none) none = PyTuple_New(0);
    LoopObject* loop = loop_of(self);
    if (!loop->of_future) loop->of_future = Py_BuildValue("{sO}", "loop", self);
    return type && none && loop->of_future ? PyObject_Call(type, none, loop->of_future) : nullptr;
}

void loop_wake(LoopObject* loop) {
    if (!loop->waits) return;
    loop->waits = false;
    fiber_event_set(&loop->wake);
}

bool loop_call_soon(LoopObject* loop, PyObject* function, PyObject* argument) {
    PyObject* args[] = {function, argument};
    PyObject* handle = call_soon(object(loop), args, argument ? 2 : 1, nullptr);
    Py_XDECREF(handle);
    return handle;
}

} // namespace fiberrt_python
