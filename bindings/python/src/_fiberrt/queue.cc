// SPDX-License-Identifier: MIT OR Apache-2.0
// Queue and LifoQueue, like those of the module queue. The GIL makes each step atomic. The semaphore `items` has a
// permit for each item that is not promised to a waiter, `room` a permit for each free place.
#include "queue.h"

#include <initializer_list>
#include <stddef.h>
#include <string.h>

namespace fiberrt_python {

namespace {

struct QueueObject {
    PyObject_HEAD PyObject* weak_references;
    fiber_sem_t items;
    fiber_sem_t room; // if there is a maxsize
    fiber_event_t all_done;
    PyObject** ring; // its size is a power of two
    size_t places, first, count;
    int64_t maxsize;
    int64_t unfinished;
    bool last_first;
    bool shut_down;
};

// More permits than there can be waiters: adding so many wakes all waiters, which then see that the queue is shut down.
constexpr int64_t enough = int64_t(1) << 40;

PyTypeObject queue_type(const char* name, const char* doc, newfunc make_new);
PyObject* queue_new(PyTypeObject* type, PyObject* args, PyObject* names);
PyObject* lifo_new(PyTypeObject* type, PyObject* args, PyObject* names);

} // namespace

PyTypeObject QueueType = queue_type("fiberrt.Queue",
                                    "Queue(maxsize=0)\n--\n\nqueue.Queue, for fibers of any thread: first in, first "
                                    "out. Waiters are served in the order "
                                    "of their arrival.",
                                    queue_new);
PyTypeObject LifoQueueType = queue_type(
    "fiberrt.LifoQueue", "LifoQueue(maxsize=0)\n--\n\nA Queue whose get() returns the newest item.", lifo_new);

namespace {

QueueObject* queue_of(PyObject* self) { return reinterpret_cast<QueueObject*>(self); }

// Raises an exception of the module queue, or our own ShutDown if the module has none.
PyObject* raise_of_queue(const char* name) {
    PyObject* module = PyImport_ImportModule("queue");
    PyObject* kind = module ? PyObject_GetAttrString(module, name) : nullptr;
    Py_XDECREF(module);
    if (!kind && strcmp(name, "ShutDown") == 0 && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        module = PyImport_ImportModule("fiberrt._queue");
        kind = module ? PyObject_GetAttrString(module, name) : nullptr;
        Py_XDECREF(module);
    }
    if (kind) PyErr_SetNone(kind);
    Py_XDECREF(kind);
    return nullptr;
}

bool grow(QueueObject* queue) {
    size_t places = queue->places ? queue->places * 2 : 8;
    auto** ring = static_cast<PyObject**>(PyMem_Malloc(places * sizeof(PyObject*)));
    if (!ring) {
        PyErr_NoMemory();
        return false;
    }
    for (size_t i = 0; i < queue->count; i++) ring[i] = queue->ring[(queue->first + i) & (queue->places - 1)];
    PyMem_Free(queue->ring);
    queue->ring = ring;
    queue->places = places;
    queue->first = 0;
    return true;
}

bool append(QueueObject* queue, PyObject* item) {
    if (queue->count == queue->places && !grow(queue)) return false;
    queue->ring[(queue->first + queue->count++) & (queue->places - 1)] = Py_NewRef(item);
    if (queue->unfinished++ == 0) fiber_event_reset(&queue->all_done);
    fiber_sem_post(&queue->items, 1);
    return true;
}

PyObject* take(QueueObject* queue) {
    size_t at = queue->last_first ? queue->first + queue->count - 1 : queue->first++;
    queue->count--;
    PyObject* item = queue->ring[at & (queue->places - 1)];
    if (queue->maxsize > 0) fiber_sem_post(&queue->room, 1);
    return item;
}

void finished(QueueObject* queue, int64_t n) {
    queue->unfinished -= n;
    if (!queue->unfinished) fiber_event_set(&queue->all_done);
}

// Makes a queue without a maxsize. __init__ sets it, unless a subclass's __init__ does not call this type's.
PyObject* make(PyTypeObject* type, bool last_first) {
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    queue_of(self)->last_first = last_first;
    fiber_event_init(&queue_of(self)->all_done, FIBER_EVENT_MANUAL | FIBER_EVENT_SET);
    return self;
}

PyObject* queue_new(PyTypeObject* type, PyObject*, PyObject*) { return make(type, false); }
PyObject* lifo_new(PyTypeObject* type, PyObject*, PyObject*) { return make(type, true); }

// No fiber waits for room while the queue is empty, so its size may change then.
int init(PyObject* self, PyObject* args, PyObject* names) {
    static const char* keywords[] = {"maxsize", nullptr};
    long long maxsize = 0;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|L", const_cast<char**>(keywords), &maxsize)) return -1;
    QueueObject* queue = queue_of(self);
    if (queue->count || queue->shut_down) {
        PyErr_SetString(PyExc_RuntimeError, "__init__() of a queue that is in use");
        return -1;
    }
    queue->maxsize = maxsize < enough ? maxsize : 0;
    if (queue->maxsize > 0) fiber_sem_init(&queue->room, queue->maxsize);
    return 0;
}

// Parses block and timeout; both may be null.
bool patience(PyObject* block, PyObject* seconds, bool* blocks, Timeout* timeout) {
    int truth = block ? PyObject_IsTrue(block) : 1;
    if (truth < 0) return false;
    *blocks = truth;
    if (!truth || timeout->parse(seconds)) return true;
    if (PyErr_ExceptionMatches(PyExc_ValueError))
        PyErr_SetString(PyExc_ValueError, "'timeout' must be a non-negative number");
    return false;
}

PyObject* put_in(QueueObject* queue, PyObject* item, bool block, const Timeout& timeout) {
    if (!block && !poll_turn()) return nullptr; // even if there is always room
    if (queue->shut_down) return raise_of_queue("ShutDown");
    if (queue->maxsize > 0) {
        Got got = sem_take(&queue->room, block, timeout, "queue.put");
        if (got == Got::raised) return nullptr;
        if (queue->shut_down) return raise_of_queue("ShutDown");
        if (got == Got::no) return raise_of_queue("Full");
    }
    if (append(queue, item)) Py_RETURN_NONE;
    if (queue->maxsize > 0) fiber_sem_post(&queue->room, 1);
    return nullptr;
}

PyObject* get_from(QueueObject* queue, bool block, const Timeout& timeout) {
    Got got = sem_take(&queue->items, block, timeout, "queue.get");
    if (got == Got::raised) return nullptr;
    if (queue->shut_down && !queue->count) return raise_of_queue("ShutDown");
    if (got == Got::no) return raise_of_queue("Empty");
    return take(queue);
}

PyObject* put(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    static const char* const known[] = {"item", "block", "timeout"};
    PyObject* given[3] = {};
    bool block;
    Timeout timeout;
    if (!take_arguments("put", args, count, names, known, given, 1)) return nullptr;
    if (!patience(given[1], given[2], &block, &timeout)) return nullptr;
    return put_in(queue_of(self), given[0], block, timeout);
}

PyObject* get(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    static const char* const known[] = {"block", "timeout"};
    PyObject* given[2] = {};
    bool block;
    Timeout timeout;
    if (!take_arguments("get", args, count, names, known, given)) return nullptr;
    if (!patience(given[0], given[1], &block, &timeout)) return nullptr;
    return get_from(queue_of(self), block, timeout);
}

PyObject* put_nowait(PyObject* self, PyObject* item) { return put_in(queue_of(self), item, false, {}); }
PyObject* get_nowait(PyObject* self, PyObject*) { return get_from(queue_of(self), false, {}); }

PyObject* task_done(PyObject* self, PyObject*) {
    if (queue_of(self)->unfinished <= 0) {
        PyErr_SetString(PyExc_ValueError, "task_done() called too many times");
        return nullptr;
    }
    finished(queue_of(self), 1);
    Py_RETURN_NONE;
}

PyObject* join(PyObject* self, PyObject*) {
    QueueObject* queue = queue_of(self);
    if (!queue->unfinished) Py_RETURN_NONE;
    if (!world()) return nullptr;
    WaitsFor reason("queue.join");
    while (queue->unfinished) {
        int result = fiber_event_wait(&queue->all_done);
        switch (settle(result)) {
        case Settled::done:
        case Settled::timed_out:
        case Settled::again: continue;
        case Settled::raised: return nullptr;
        case Settled::failed: return raise_errno(result);
        }
    }
    Py_RETURN_NONE;
}

// The number of items that are not promised to a waiter.
int64_t free_items(QueueObject* queue) {
    return queue->shut_down ? int64_t(queue->count) : fiber_sem_value(&queue->items);
}

PyObject* qsize(PyObject* self, PyObject*) {
    return poll_turn() ? PyLong_FromLongLong(free_items(queue_of(self))) : nullptr;
}

PyObject* empty(PyObject* self, PyObject*) {
    return poll_turn() ? PyBool_FromLong(!free_items(queue_of(self))) : nullptr;
}

PyObject* full(PyObject* self, PyObject*) {
    if (!poll_turn()) return nullptr;
    QueueObject* queue = queue_of(self);
    if (queue->maxsize <= 0) Py_RETURN_FALSE;
    return PyBool_FromLong(queue->shut_down ? int64_t(queue->count) >= queue->maxsize : !fiber_sem_value(&queue->room));
}

PyObject* shutdown(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    static const char* const known[] = {"immediate"};
    PyObject* given[1] = {};
    if (!take_arguments("shutdown", args, count, names, known, given)) return nullptr;
    int immediate = given[0] ? PyObject_IsTrue(given[0]) : 0;
    if (immediate < 0) return nullptr;
    QueueObject* queue = queue_of(self);
    if (!queue->shut_down) {
        queue->shut_down = true;
        fiber_sem_post(&queue->items, enough);
        fiber_sem_post(&queue->room, enough);
    }
    if (immediate) {
        while (queue->count) {
            PyObject* item = take(queue);
            if (queue->unfinished > 0) finished(queue, 1);
            Py_DECREF(item); // its finalizer may call this queue
        }
    }
    Py_RETURN_NONE;
}

PyObject* get_maxsize(PyObject* self, void*) { return PyLong_FromLongLong(queue_of(self)->maxsize); }
// qsize() without a switch, for code that a cancel must not end.
PyObject* get_count(PyObject* self, void*) { return PyLong_FromLongLong(free_items(queue_of(self))); }
PyObject* get_unfinished(PyObject* self, void*) { return PyLong_FromLongLong(queue_of(self)->unfinished); }
PyObject* get_shut_down(PyObject* self, void*) { return PyBool_FromLong(queue_of(self)->shut_down); }

int traverse(PyObject* self, visitproc visit, void* arg) {
    QueueObject* queue = queue_of(self);
    for (size_t i = 0; i < queue->count; i++) Py_VISIT(queue->ring[(queue->first + i) & (queue->places - 1)]);
    return 0;
}

// tp_clear. The permits do not change: the queue is no longer used.
int clear(PyObject* self) {
    QueueObject* queue = queue_of(self);
    PyObject** ring = queue->ring;
    size_t count = queue->count, first = queue->first, places = queue->places;
    queue->ring = nullptr;
    queue->count = queue->first = queue->places = 0;
    queue->shut_down = true; // finalizers of items may still use the queue, and must find it empty
    for (size_t i = 0; i < count; i++) Py_DECREF(ring[(first + i) & (places - 1)]);
    PyMem_Free(ring);
    return 0;
}

void deallocate(PyObject* self) {
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, deallocate); // an item may be a queue, too
    if (queue_of(self)->weak_references) PyObject_ClearWeakRefs(self);
    clear(self);
    Py_TYPE(self)->tp_free(self);
    Py_TRASHCAN_END;
}

PyMethodDef methods[] = {
    {"put", as_method(put), METH_FASTCALL | METH_KEYWORDS,
     "put($self, /, item, block=True, timeout=None)\n--\n\nPut an item in; wait for room if the queue has a maxsize.\n"
     "queue.Full: there was no room at once (block=False) or within the timeout, in seconds. ShutDown: the queue has "
     "been shut down."},
    {"get", as_method(get), METH_FASTCALL | METH_KEYWORDS,
     "get($self, /, block=True, timeout=None)\n--\n\nTake an item out; wait for one.\nqueue.Empty: there was no item "
     "at "
     "once (block=False) or within the timeout, in seconds. ShutDown: the queue is empty and has been shut down."},
    {"put_nowait", put_nowait, METH_O, "put_nowait($self, item, /)\n--\n\nput(item, block=False)"},
    {"get_nowait", get_nowait, METH_NOARGS, "get_nowait($self, /)\n--\n\nget(block=False)"},
    {"task_done", task_done, METH_NOARGS,
     "task_done($self, /)\n--\n\nMark an item returned by get() as processed. ValueError: more calls than items put."},
    {"join", join, METH_NOARGS, "join($self, /)\n--\n\nWait until task_done() has been called for all items."},
    {"qsize", qsize, METH_NOARGS, "qsize($self, /)\n--\n\nReturn the number of available items."},
    {"empty", empty, METH_NOARGS, "empty($self, /)\n--\n\nWhether a get() would wait."},
    {"full", full, METH_NOARGS, "full($self, /)\n--\n\nWhether a put() would wait."},
    {"shutdown", as_method(shutdown), METH_FASTCALL | METH_KEYWORDS,
     "shutdown($self, /, immediate=False)\n--\n\nFrom now on put() raises ShutDown, and get() does once the queue is "
     "empty. With immediate, remove all items."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "Queue[T]: a queue of items that are T."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef members[] = {
    {"maxsize", get_maxsize, nullptr, "The most items that the queue holds; 0 or less: any number.", nullptr},
    {"_count", get_count, nullptr, "The number of available items.", nullptr},
    {"unfinished_tasks", get_unfinished, nullptr, "The number of items for which task_done() was not called.", nullptr},
    {"is_shutdown", get_shut_down, nullptr, "Whether the queue has been shut down.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject queue_type(const char* name, const char* doc, newfunc make_new) {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = name;
    type.tp_basicsize = sizeof(QueueObject);
    type.tp_weaklistoffset = offsetof(QueueObject, weak_references);
    type.tp_dealloc = deallocate;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    type.tp_doc = doc;
    type.tp_traverse = traverse;
    type.tp_clear = clear;
    type.tp_methods = methods;
    type.tp_getset = members;
    type.tp_init = init;
    type.tp_new = make_new;
    return type;
}

} // namespace

bool is_queue(PyObject* object) { return PyObject_TypeCheck(object, &QueueType); }

bool queue_put_at_once(PyObject* queue, PyObject* item) { return append(queue_of(queue), item); }

int queues_add(PyObject* module) {
    LifoQueueType.tp_base = &QueueType;
    for (PyTypeObject* type : {&QueueType, &LifoQueueType})
        if (PyModule_AddType(module, type) < 0) return -1;
    return 0;
}

} // namespace fiberrt_python
