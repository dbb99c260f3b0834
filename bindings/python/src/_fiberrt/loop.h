// SPDX-License-Identifier: MIT OR Apache-2.0
// The engine of fiberrt.aio.EventLoop: the callbacks that are ready, the timers, and the watches of descriptors. A
// fiber runs the loop; while it waits, the thread's other fibers run. The GIL guards all of it.
#pragma once

#include "watch.h"

#include <stdint.h>
#include <unordered_map>
#include <vector>

namespace fiberrt_python {

// asyncio.Handle and, with a time, asyncio.TimerHandle. In the debug mode of a loop asyncio's own are used instead.
struct HandleObject {
    PyObject_HEAD LoopObject* loop;
    PyObject* callback;  // null: cancelled
    PyObject* argument;  // the only one, as most callbacks have; or null
    PyObject* arguments; // a tuple, if there is another number of them; or null
    PyObject* context;
    PyObject* weak_references;
    double when;     // a TimerHandle's, in seconds of loop.time()
    uint64_t number; // orders timers with the same time
    size_t place;    // in the heap of timers, from 1; 0: it is not there
    bool cancelled;
};

extern PyTypeObject HandleType, TimerHandleType;

// Makes a handle of one of these types, with neither arguments nor a time, for a callback and a context. Takes the
// reference of the context. Returns null with MemoryError set.
HandleObject* handle_new(PyTypeObject* type, LoopObject* loop, PyObject* callback, PyObject* context);

// A queue of references to handles.
class HandleQueue {
public:
    ~HandleQueue() { PyMem_Free(ring_); }
    HandleQueue() = default;
    HandleQueue(const HandleQueue&) = delete;
    HandleQueue& operator=(const HandleQueue&) = delete;
    size_t size() const { return size_; }
    PyObject* at(size_t i) const { return ring_[(first_ + i) & (room_ - 1)]; }
    bool push(PyObject* handle); // takes a new reference; returns false with MemoryError set
    PyObject* pop() {
        PyObject* handle = ring_[first_];
        first_ = (first_ + 1) & (room_ - 1);
        size_--;
        return handle;
    }

private:
    PyObject** ring_ = nullptr;
    size_t room_ = 0, first_ = 0, size_ = 0; // room_ is a power of two
};

// A binary heap of references to timers.
class TimerHeap {
public:
    bool empty() const { return heap_.empty(); }
    size_t size() const { return heap_.size(); }
    HandleObject* at(size_t i) const { return heap_[i]; }
    HandleObject* first() const { return heap_.front(); }
    bool push(HandleObject* timer);   // takes a new reference; returns false with MemoryError set
    void remove(HandleObject* timer); // gives the reference to the caller

private:
    void put(size_t place, HandleObject* timer);
    void rise(size_t place);
    void sink(size_t place);
    std::vector<HandleObject*> heap_;
};

// The readers and writers of add_reader() and add_writer(), by descriptor.
struct Watches {
    Watch* reads = nullptr;
    Watch* writes = nullptr;
};

struct LoopObject {
    PyObject_HEAD HandleQueue ready;
    TimerHeap timers;
    std::unordered_map<int, Watches> by_descriptor;
    Watch* watches;      // all, those of transports too
    WatchList wanted;    // operations to begin before the next wait
    WatchList receiving; // receives under way
    WatchList fired;     // events to report
    uint64_t world;      // the number of the world where the loop ran last
    fiber_event_t wake;  // ends the wait of the fiber that runs the loop
    char* scratch;       // for receiving; null until used
    PyObject* of_future; // the arguments by name for a Future of the loop; null until used
    uint64_t timers_made;
    bool waits; // the fiber waits, and wake has not been set since
    bool stopping;
    bool closed;
    bool debug;
    bool own_create_future; // the program has set the instance's attribute create_future
};

constexpr size_t scratch_bytes = 256 * 1024; // as asyncio reads at a time

extern PyTypeObject LoopType;

void loop_wake(LoopObject* loop); // ends the loop's wait
// Schedules a call. Returns false with an exception set.
bool loop_call_soon(LoopObject* loop, PyObject* function, PyObject* argument);
PyObject* loop_create_future(PyObject* self, PyObject*); // the method create_future()
// Runs a callback in a context. Returns its result, or null with an exception set.
template <typename Call>
PyObject* in_context(PyObject* context, Call call) {
    if (PyContext_Enter(context) < 0) return nullptr;
    PyObject* result = call();
    if (PyContext_Exit(context) < 0) Py_CLEAR(result);
    return result;
}
// Whether the exception that is set ends the loop's run: SystemExit or KeyboardInterrupt.
inline bool ends_run() {
    return PyErr_ExceptionMatches(PyExc_SystemExit) || PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
}

} // namespace fiberrt_python
