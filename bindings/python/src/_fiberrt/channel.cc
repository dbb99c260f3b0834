// SPDX-License-Identifier: MIT OR Apache-2.0
// Channel, a channel of the core whose items are references, and select.
#include "queue.h"

#include <errno.h>
#include <stddef.h>
#include <unordered_map>

namespace fiberrt_python {

namespace {

// The number of references that the channel holds to each item, for the cycle collector. A sender counts its item only
// after its call has returned, so an item may be missing or have the count -1. No item is counted that the channel does
// not hold.
using Held = std::unordered_map<PyObject*, int64_t>;

struct ChannelObject {
    PyObject_HEAD PyObject* weak_references;
    fiber_chan_t chan;
    Py_ssize_t capacity;
    Held* held; // null: no items, or no memory
    bool open;
    bool closed;
};

PyObject* channel_closed; // the class ChannelClosed

ChannelObject* channel_of(PyObject* self) { return reinterpret_cast<ChannelObject*>(self); }

void count_held(ChannelObject* channel, PyObject* item, int by) {
    if (!channel->held) return;
    try {
        auto at = channel->held->try_emplace(item, 0).first;
        if ((at->second += by) == 0) channel->held->erase(at);
    } catch (...) {
        delete channel->held;
        channel->held = nullptr;
    }
}

PyObject* raise_closed(PyObject* self) {
    PyErr_SetObject(channel_closed, self);
    return nullptr;
}

PyObject* raise_late(const char* what) {
    PyErr_Format(PyExc_TimeoutError, "%s was not possible in time", what);
    return nullptr;
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* names) {
    static const char* keywords[] = {"capacity", nullptr};
    Py_ssize_t capacity = 0;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|n", const_cast<char**>(keywords), &capacity)) return nullptr;
    if (capacity < 0) {
        PyErr_SetString(PyExc_ValueError, "a channel's capacity must not be negative");
        return nullptr;
    }
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    ChannelObject* channel = channel_of(self);
    int error = fiber_chan_create(&channel->chan, sizeof(PyObject*), size_t(capacity));
    if (error < 0) {
        error == -ENOMEM ? PyErr_NoMemory() : raise_errno(error);
        Py_DECREF(self);
        return nullptr;
    }
    channel->open = true;
    channel->capacity = capacity;
    if (capacity) channel->held = new (std::nothrow) Held;
    return self;
}

// Turns the result of a send into true, or false with an exception set.
bool send_in(PyObject* self, PyObject* item, const Timeout& timeout) {
    ChannelObject* channel = channel_of(self);
    Py_INCREF(item);
    int result = fiber_chan_try_send(channel->chan, &item);
    if (result == -EAGAIN && world()) {
        WaitsFor reason("channel.send");
        for (;;) {
            result = fiber_chan_send_timeout(channel->chan, &item, timeout.left_ns());
            if (result == -EPIPE) break;
            Settled settled = settle(result, &timeout);
            if (settled == Settled::again) continue;
            if (settled == Settled::timed_out) raise_late("sending");
            if (settled == Settled::failed) raise_errno(result);
            break;
        }
    }
    if (result == 0) {
        count_held(channel, item, 1);
        return true;
    }
    if (result == -EPIPE) raise_closed(self);
    Py_DECREF(item);
    return false;
}

// Returns null without an exception if the channel is closed and empty.
PyObject* receive_from(PyObject* self, const Timeout& timeout) {
    ChannelObject* channel = channel_of(self);
    PyObject* item;
    int result = fiber_chan_try_recv(channel->chan, &item);
    if (result == -EAGAIN) {
        if (!world()) return nullptr;
        WaitsFor reason("channel.receive");
        for (;;) {
            result = fiber_chan_recv_timeout(channel->chan, &item, timeout.left_ns());
            if (result == -EPIPE) break;
            Settled settled = settle(result, &timeout);
            if (settled == Settled::again) continue;
            if (settled == Settled::timed_out) raise_late("receiving");
            if (settled == Settled::failed) raise_errno(result);
            break;
        }
    }
    if (result < 0) return nullptr;
    count_held(channel, item, -1);
    return item;
}

PyObject* send(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    static const char* const known[] = {"item", "timeout"};
    PyObject* given[2] = {};
    Timeout timeout;
    if (!take_arguments("send", args, count, names, known, given, 1) || !timeout.parse(given[1])) return nullptr;
    if (!send_in(self, given[0], timeout)) return nullptr;
    Py_RETURN_NONE;
}

PyObject* receive(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    static const char* const known[] = {"timeout"};
    PyObject* given[1] = {};
    Timeout timeout;
    if (!take_arguments("receive", args, count, names, known, given) || !timeout.parse(given[0])) return nullptr;
    PyObject* item = receive_from(self, timeout);
    return item || PyErr_Occurred() ? item : raise_closed(self);
}

PyObject* next(PyObject* self) { return receive_from(self, {}); }

PyObject* close(PyObject* self, PyObject*) {
    channel_of(self)->closed = true;
    fiber_chan_close(channel_of(self)->chan); // -EPIPE: already closed
    Py_RETURN_NONE;
}

PyObject* enter(PyObject* self, PyObject*) { return Py_NewRef(self); }
PyObject* exit(PyObject* self, PyObject* const*, Py_ssize_t) { return close(self, nullptr); }

PyObject* get_closed(PyObject* self, void*) { return PyBool_FromLong(channel_of(self)->closed); }
PyObject* get_capacity(PyObject* self, void*) { return PyLong_FromSsize_t(channel_of(self)->capacity); }
PyObject* get_count(PyObject* self, void*) { return PyLong_FromLongLong(fiber_chan_count(channel_of(self)->chan)); }

PyObject* repr(PyObject* self) {
    ChannelObject* channel = channel_of(self);
    return PyUnicode_FromFormat("<%s of %lld/%zd items%s at %p>", Py_TYPE(self)->tp_name,
                                static_cast<long long>(fiber_chan_count(channel->chan)), channel->capacity,
                                channel->closed ? ", closed" : "", self);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    if (!channel_of(self)->held) return 0;
    for (auto& [item, times] : *channel_of(self)->held)
        for (int64_t i = 0; i < times; i++) Py_VISIT(item);
    return 0;
}

int clear(PyObject* self) {
    ChannelObject* channel = channel_of(self);
    PyObject* item;
    while (channel->open && fiber_chan_try_recv(channel->chan, &item) == 0) {
        count_held(channel, item, -1);
        Py_DECREF(item);
    }
    return 0;
}

void deallocate(PyObject* self) {
    ChannelObject* channel = channel_of(self);
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, deallocate); // an item may be a channel, too
    if (channel->weak_references) PyObject_ClearWeakRefs(self);
    if (channel->open) {
        fiber_chan_close(channel->chan);
        clear(self);
        fiber_chan_destroy(channel->chan);
    }
    delete channel->held;
    Py_TYPE(self)->tp_free(self);
    Py_TRASHCAN_END;
}

PyMethodDef methods[] = {
    {"send", as_method(send), METH_FASTCALL | METH_KEYWORDS,
     "send($self, /, item, timeout=None)\n--\n\nSend an item; wait for room or, if the capacity is 0, for a receiver.\n"
     "ChannelClosed: the channel is closed. TimeoutError: the item was not sent within the timeout, in seconds; with "
     "0, "
     "send at once or not at all."},
    {"receive", as_method(receive), METH_FASTCALL | METH_KEYWORDS,
     "receive($self, /, timeout=None)\n--\n\nReceive the oldest item; wait for one.\nChannelClosed: the channel is "
     "closed and empty. TimeoutError: no item came within the timeout, in seconds."},
    {"close", close, METH_NOARGS,
     "close($self, /)\n--\n\nClose the channel: sends raise ChannelClosed from now on, and receives do once the "
     "channel "
     "is empty."},
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", as_method(exit), METH_FASTCALL, "Close the channel."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "Channel[T]: a channel of items that are T."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef members[] = {
    {"closed", get_closed, nullptr, "Whether the channel is closed.", nullptr},
    {"capacity", get_capacity, nullptr, "The most items that the channel holds.", nullptr},
    {"count", get_count, nullptr, "The number of items in the channel.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject ChannelType = [] {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "fiberrt.Channel";
    type.tp_basicsize = sizeof(ChannelObject);
    type.tp_weaklistoffset = offsetof(ChannelObject, weak_references);
    type.tp_dealloc = deallocate;
    type.tp_repr = repr;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    type.tp_doc = "Channel(capacity=0)\n--\n\nItems pass from fibers to fibers of any thread; a loop over it receives "
                  "until it is closed.\nWithout a capacity a send waits until a receiver has the item.";
    type.tp_traverse = traverse;
    type.tp_clear = clear;
    type.tp_iter = PyObject_SelfIter;
    type.tp_iternext = next;
    type.tp_methods = methods;
    type.tp_getset = members;
    type.tp_new = make;
    return type;
}();

// ---- select

struct Cases {
    fiber_case_t few[8] = {};
    PyObject* few_items[8] = {};
    fiber_case_t* cases = few;
    PyObject** items = few_items;
    bool allocate(Py_ssize_t count) {
        if (count <= 8) return true;
        cases = static_cast<fiber_case_t*>(PyMem_Calloc(size_t(count), sizeof *cases));
        items = static_cast<PyObject**>(PyMem_Calloc(size_t(count), sizeof *items));
        if (cases && items) return true;
        PyErr_NoMemory();
        return false;
    }
    ~Cases() {
        if (cases != few) PyMem_Free(cases);
        if (items != few_items) PyMem_Free(items);
    }
};

bool fill(fiber_case_t* to, PyObject** item, PyObject* from) {
    bool sends = PyTuple_CheckExact(from) && PyTuple_GET_SIZE(from) == 2;
    PyObject* object = sends ? PyTuple_GET_ITEM(from, 0) : from;
    if (Py_IS_TYPE(object, &ChannelType)) {
        to->kind = sends ? FIBER_CASE_SEND : FIBER_CASE_RECV;
        to->chan = channel_of(object)->chan;
        to->item = item;
        *item = sends ? PyTuple_GET_ITEM(from, 1) : nullptr;
    } else if (!sends && PyObject_TypeCheck(object, &EventType)) {
        to->kind = FIBER_CASE_EVENT;
        to->object = &reinterpret_cast<EventObject*>(object)->event;
    } else if (!sends && Py_IS_TYPE(object, &FiberType)) {
        if (!fiber_can_be_awaited(reinterpret_cast<FiberObject*>(object))) return false;
        to->kind = FIBER_CASE_EVENT;
        to->object = &reinterpret_cast<FiberObject*>(object)->ended;
    } else {
        PyErr_Format(PyExc_TypeError,
                     "select() takes Channels, tuples of a Channel and an item to send, Events and "
                     "Fibers, not %.200s",
                     Py_TYPE(object)->tp_name);
        return false;
    }
    return true;
}

PyObject* select(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    Timeout timeout;
    if (names) {
        if (PyTuple_GET_SIZE(names) != 1 ||
            PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "timeout") != 0)
            return PyErr_Format(PyExc_TypeError, "select() takes no keyword argument except timeout");
        if (!timeout.parse(args[count])) return nullptr;
    }
    if (count > FIBER_SELECT_MAX)
        return PyErr_Format(PyExc_ValueError, "select() takes at most %d cases", FIBER_SELECT_MAX);
    Cases of;
    if (!world() || !of.allocate(count)) return nullptr;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!fill(&of.cases[i], &of.items[i], args[i])) return nullptr;
    for (Py_ssize_t i = 0; i < count; i++)
        if (of.cases[i].kind == FIBER_CASE_SEND) Py_INCREF(of.items[i]);
    int chosen;
    {
        WaitsFor reason("select");
        for (;;) {
            chosen = fiber_select(of.cases, int(count), timeout.left_ns());
            Settled settled = settle(chosen, &timeout);
            if (settled == Settled::again) continue;
            if (settled == Settled::timed_out) raise_late("the select");
            if (settled == Settled::failed) chosen == -ENOMEM ? PyErr_NoMemory() : raise_errno(chosen);
            break;
        }
    }
    bool done = chosen >= 0 && of.cases[chosen].result >= 0;
    PyObject* received = nullptr;
    if (done && of.cases[chosen].kind == FIBER_CASE_RECV) {
        received = of.items[chosen];
        count_held(channel_of(args[chosen]), received, -1);
    }
    if (done && of.cases[chosen].kind == FIBER_CASE_SEND)
        count_held(channel_of(PyTuple_GET_ITEM(args[chosen], 0)), of.items[chosen], 1);
    if (chosen >= 0 && !done) {
        PyObject* channel = PyTuple_CheckExact(args[chosen]) ? PyTuple_GET_ITEM(args[chosen], 0) : args[chosen];
        of.cases[chosen].result == -EPIPE ? raise_closed(channel) : raise_errno(of.cases[chosen].result);
    }
    PyObject *type, *value, *traceback; // finalizers may run
    PyErr_Fetch(&type, &value, &traceback);
    for (Py_ssize_t i = 0; i < count; i++)
        if (of.cases[i].kind == FIBER_CASE_SEND && !(done && i == chosen)) Py_DECREF(of.items[i]);
    PyErr_Restore(type, value, traceback);
    if (!done) return nullptr;
    PyObject* result = Py_BuildValue("iO", chosen, received ? received : Py_None);
    Py_XDECREF(received);
    return result;
}

} // namespace

PyMethodDef channel_functions[] = {
    {"select", as_method(select), METH_FASTCALL | METH_KEYWORDS,
     "select(*cases, timeout=None)\n--\n\nWait until one of several cases is possible, perform it, and return its "
     "index "
     "and the item received, or None.\nA case is a Channel to receive from, a tuple of a Channel and an item to send, "
     "an "
     "Event to be set, or a Fiber to end.\nChannelClosed: a channel is closed; the exception's argument is the "
     "channel. "
     "TimeoutError: no case was possible within the timeout, in seconds."},
    {nullptr, nullptr, 0, nullptr},
};

int channels_add(PyObject* module) {
    if (!channel_closed) {
        channel_closed = PyErr_NewExceptionWithDoc("fiberrt.ChannelClosed", "The channel, its argument, is closed.",
                                                   PyExc_Exception, nullptr);
        if (!channel_closed) return -1;
    }
    if (PyModule_AddObjectRef(module, "ChannelClosed", channel_closed) < 0) return -1;
    if (PyModule_AddFunctions(module, channel_functions) < 0) return -1;
    return PyModule_AddType(module, &ChannelType);
}

} // namespace fiberrt_python
