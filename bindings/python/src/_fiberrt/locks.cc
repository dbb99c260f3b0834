// SPDX-License-Identifier: MIT OR Apache-2.0
// Lock, RLock, Semaphore, BoundedSemaphore and Event, like those of threading, for fibers of all threads.
#include "sync.h"

#include <errno.h>
#include <initializer_list>
#include <math.h>
#include <stddef.h>

namespace fiberrt_python {

uint64_t own_number() {
    static uint64_t threads;
    static thread_local uint64_t of_thread;
    World* world = this_world;
    if (world && (!world->current->main_flow || world->current->survivor)) return world->current->number * 2;
    if (!of_thread) of_thread = ++threads * 2 + 1;
    return of_thread;
}

bool take_in_any_case(fiber_sem_t* sem) {
    if (fiber_sem_trywait(sem, 1) == 0) return true;
    World* here = world();
    if (!here) return false;
    WaitsFor reason("lock");
    fiber_scope_t shield;
    int64_t result = fiber_scope_open(&shield, FIBER_FOREVER, FIBER_SCOPE_SHIELD);
    if (result == 0) {
        bool interrupted = false;
        while ((result = fiber_sem_wait(sem, 1)) == -EINTR) interrupted = true;
        fiber_scope_close(shield, nullptr);
        if (interrupted) fiber_interrupt(here->current->handle, nullptr);
    }
    if (result < 0) raise_errno(result);
    return result == 0;
}

namespace {

struct SemObject { // a lock has one permit
    PyObject_HEAD PyObject* weak_references;
    fiber_sem_t sem;
};

struct RLock { // begins as a SemObject
    PyObject_HEAD PyObject* weak_references;
    fiber_sem_t sem;
    uint64_t owner; // own_number() of the fiber or thread that holds it; 0: none
    uint64_t depth; // how many times the owner has acquired it
    uint64_t ident; // the last owner's threading.get_ident(), for repr()
};
static_assert(offsetof(RLock, sem) == offsetof(SemObject, sem));

struct Semaphore { // begins as a SemObject
    PyObject_HEAD PyObject* weak_references;
    fiber_sem_t sem;
    PyObject* attributes; // a dict, or null
    int64_t limit;        // the most permits, for a BoundedSemaphore
};
static_assert(offsetof(Semaphore, sem) == offsetof(SemObject, sem));

SemObject* sem_of(PyObject* self) { return reinterpret_cast<SemObject*>(self); }
RLock* rlock_of(PyObject* self) { return reinterpret_cast<RLock*>(self); }
Semaphore* semaphore_of(PyObject* self) { return reinterpret_cast<Semaphore*>(self); }

// Parses seconds as threading does: negative numbers count as 0; None or null: for ever.
bool parse_clamped(Timeout& timeout, PyObject* seconds) {
    if (!seconds || seconds == Py_None || timeout.parse(seconds)) return true;
    bool nan = PyFloat_Check(seconds) && isnan(PyFloat_AS_DOUBLE(seconds));
    if (nan || !PyErr_ExceptionMatches(PyExc_ValueError)) return false;
    PyErr_Clear();
    PyObject* none = PyLong_FromLong(0);
    bool parsed = none && timeout.parse(none);
    Py_XDECREF(none);
    return parsed;
}

// Parses the arguments of acquire(): (blocking=True, timeout=-1).
bool lock_arguments(PyObject* const* args, Py_ssize_t count, PyObject* names, bool* block, Timeout* timeout) {
    static const char* const known[] = {"blocking", "timeout"};
    PyObject* given[2] = {};
    if (!take_arguments("acquire", args, count, names, known, given)) return false;
    int truth = given[0] ? PyObject_IsTrue(given[0]) : 1;
    if (truth < 0) return false;
    *block = truth;
    if (!given[1]) return true;
    if (given[1] == Py_None) {
        PyErr_SetString(PyExc_TypeError, "a lock's timeout is a number of seconds; -1: for ever");
        return false;
    }
    double seconds = PyFloat_AsDouble(given[1]);
    if (seconds == -1.0) return !PyErr_Occurred();
    if (!truth) {
        PyErr_SetString(PyExc_ValueError, "can't specify a timeout for a non-blocking call");
        return false;
    }
    if (seconds > 9223372036.0) { // threading.TIMEOUT_MAX
        PyErr_SetString(PyExc_OverflowError, "timeout value is too large");
        return false;
    }
    return timeout->parse(given[1]);
}

PyObject* answer(Got got) { return got == Got::raised ? nullptr : Py_NewRef(got == Got::yes ? Py_True : Py_False); }

PyObject* lock_new(PyTypeObject* type, PyObject* args, PyObject* names) {
    // Arguments of a subclass are for its __init__.
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && (PyTuple_GET_SIZE(args) || (names && PyDict_GET_SIZE(names))))
        return PyErr_Format(PyExc_TypeError, "%s() takes no arguments", type->tp_name);
    PyObject* self = type->tp_alloc(type, 0);
    if (self) fiber_sem_init(&sem_of(self)->sem, 1);
    return self;
}

bool is_locked(SemObject* lock) { return fiber_sem_value(&lock->sem) <= 0; }

const char* state_of(SemObject* lock) { return is_locked(lock) ? "locked" : "unlocked"; }

// Returns "<MODULE.CLASS at ADDRESS: STATE>", as in threading. Takes the reference to `state`, which may be null.
PyObject* repr_of(PyObject* self, PyObject* state) {
    if (!state) return nullptr;
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(self));
    PyObject* module = PyObject_GetAttrString(type, "__module__");
    PyObject* name = module ? PyObject_GetAttrString(type, "__qualname__") : nullptr;
    PyObject* text = name ? PyUnicode_FromFormat("<%S.%S at %p: %U>", module, name, self, state) : nullptr;
    Py_XDECREF(module);
    Py_XDECREF(name);
    Py_DECREF(state);
    return text;
}

// ---- Lock

PyObject* lock_acquire(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    bool block = true;
    Timeout timeout;
    if ((count || names) && !lock_arguments(args, count, names, &block, &timeout)) return nullptr;
    return answer(sem_take(&sem_of(self)->sem, block, timeout, "lock"));
}

PyObject* lock_enter(PyObject* self, PyObject*) { return answer(sem_take(&sem_of(self)->sem, true, {}, "lock")); }

PyObject* lock_release(PyObject* self, PyObject*) {
    if (!is_locked(sem_of(self))) {
        PyErr_SetString(PyExc_RuntimeError, "release unlocked lock");
        return nullptr;
    }
    fiber_sem_post(&sem_of(self)->sem, 1);
    Py_RETURN_NONE;
}

PyObject* lock_exit(PyObject* self, PyObject* const*, Py_ssize_t) { return lock_release(self, nullptr); }

PyObject* lock_is_owned(PyObject* self, PyObject*) { return PyBool_FromLong(is_locked(sem_of(self))); }

PyObject* lock_locked(PyObject* self, PyObject*) { return poll_turn() ? lock_is_owned(self, nullptr) : nullptr; }

PyObject* lock_restore(PyObject* self, PyObject*) {
    if (!take_in_any_case(&sem_of(self)->sem)) return nullptr;
    Py_RETURN_NONE;
}

// Called in the child of a fork, which has no waiters.
PyObject* lock_at_fork(PyObject* self, PyObject*) {
    if (is_locked(sem_of(self))) fiber_sem_post(&sem_of(self)->sem, 1);
    Py_RETURN_NONE;
}

PyObject* lock_repr(PyObject* self) {
    return PyUnicode_FromFormat("<%s %s object at %p>", state_of(sem_of(self)), Py_TYPE(self)->tp_name, self);
}

// ---- RLock

void set_owner(RLock* lock, uint64_t number, uint64_t depth) {
    lock->owner = number;
    lock->depth = depth;
    lock->ident = number % 2 ? PyThread_get_thread_ident() : number / 2;
}

Got rlock_take(RLock* lock, bool block, const Timeout& timeout) {
    uint64_t me = own_number();
    if (lock->owner == me) {
        lock->depth++;
        return Got::yes;
    }
    Got got = sem_take(&lock->sem, block, timeout, "lock");
    if (got == Got::yes) set_owner(lock, me, 1);
    return got;
}

PyObject* rlock_acquire(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    bool block = true;
    Timeout timeout;
    if ((count || names) && !lock_arguments(args, count, names, &block, &timeout)) return nullptr;
    return answer(rlock_take(rlock_of(self), block, timeout));
}

PyObject* rlock_enter(PyObject* self, PyObject*) { return answer(rlock_take(rlock_of(self), true, {})); }

bool rlock_is_own(RLock* lock) {
    if (lock->owner == own_number()) return true;
    PyErr_SetString(PyExc_RuntimeError, "cannot release un-acquired lock");
    return false;
}

PyObject* rlock_release(PyObject* self, PyObject*) {
    RLock* lock = rlock_of(self);
    if (!rlock_is_own(lock)) return nullptr;
    if (--lock->depth == 0) {
        lock->owner = 0;
        fiber_sem_post(&lock->sem, 1);
    }
    Py_RETURN_NONE;
}

PyObject* rlock_exit(PyObject* self, PyObject* const*, Py_ssize_t) { return rlock_release(self, nullptr); }

PyObject* rlock_is_owned(PyObject* self, PyObject*) { return PyBool_FromLong(rlock_of(self)->owner == own_number()); }

PyObject* rlock_count(PyObject* self, PyObject*) {
    return PyLong_FromUnsignedLongLong(rlock_of(self)->owner == own_number() ? rlock_of(self)->depth : 0);
}

PyObject* rlock_save(PyObject* self, PyObject*) {
    RLock* lock = rlock_of(self);
    if (!rlock_is_own(lock)) return nullptr;
    PyObject* depth = PyLong_FromUnsignedLongLong(lock->depth);
    if (!depth) return nullptr;
    lock->owner = lock->depth = 0;
    fiber_sem_post(&lock->sem, 1);
    return depth;
}

PyObject* rlock_restore(PyObject* self, PyObject* saved) {
    uint64_t depth = PyLong_AsUnsignedLongLong(saved);
    if (PyErr_Occurred()) return nullptr;
    RLock* lock = rlock_of(self);
    if (!depth || lock->owner == own_number()) {
        PyErr_SetString(PyExc_RuntimeError, "there is nothing to restore");
        return nullptr;
    }
    if (!take_in_any_case(&lock->sem)) return nullptr;
    set_owner(lock, own_number(), depth);
    Py_RETURN_NONE;
}

PyObject* rlock_at_fork(PyObject* self, PyObject*) {
    rlock_of(self)->owner = rlock_of(self)->depth = 0;
    return lock_at_fork(self, nullptr);
}

PyObject* rlock_repr(PyObject* self) {
    RLock* lock = rlock_of(self);
    return PyUnicode_FromFormat("<%s %s object owner=%llu count=%llu at %p>", state_of(sem_of(self)),
                                Py_TYPE(self)->tp_name, static_cast<unsigned long long>(lock->owner ? lock->ident : 0),
                                static_cast<unsigned long long>(lock->depth), self);
}

// ---- Semaphore

// Parses the argument (value=1). Returns -1 with an exception set.
int64_t first_value(PyObject* args, PyObject* names) {
    static const char* keywords[] = {"value", nullptr};
    PyObject* given = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|O", const_cast<char**>(keywords), &given)) return -1;
    if (!given) return 1;
    PyObject* index = PyNumber_Index(given);
    if (!index) return -1;
    long long value = PyLong_AsLongLong(index);
    Py_DECREF(index);
    if (value == -1 && PyErr_Occurred()) return -1;
    if (value < 0) PyErr_SetString(PyExc_ValueError, "semaphore initial value must be >= 0");
    return value < 0 ? -1 : value;
}

// Ignores the arguments, which __init__ takes. If a subclass's __init__ does not call this type's, the value is 1.
PyObject* semaphore_new(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    fiber_sem_init(&semaphore_of(self)->sem, 1);
    semaphore_of(self)->limit = INT64_MAX;
    return self;
}

// __init__ may be called again while fibers wait. So it adds or takes permits until their number is right.
int set_first_value(PyObject* self, int64_t value, int64_t limit) {
    if (value < 0) return -1;
    semaphore_of(self)->limit = limit;
    fiber_sem_t* sem = &semaphore_of(self)->sem;
    int64_t more = value - fiber_sem_value(sem);
    if (more > 0) fiber_sem_post(sem, more);
    if (more < 0) fiber_sem_trywait(sem, -more);
    return 0;
}

int semaphore_init(PyObject* self, PyObject* args, PyObject* names) {
    return set_first_value(self, first_value(args, names), INT64_MAX);
}

int bounded_init(PyObject* self, PyObject* args, PyObject* names) {
    int64_t value = first_value(args, names);
    return set_first_value(self, value, value);
}

PyObject* semaphore_acquire(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    static const char* const known[] = {"blocking", "timeout"};
    PyObject* given[2] = {};
    if (!take_arguments("acquire", args, count, names, known, given)) return nullptr;
    int block = given[0] ? PyObject_IsTrue(given[0]) : 1;
    if (block < 0) return nullptr;
    if (!block && given[1] && given[1] != Py_None) {
        PyErr_SetString(PyExc_ValueError, "can't specify timeout for non-blocking acquire");
        return nullptr;
    }
    Timeout timeout;
    if (!parse_clamped(timeout, given[1])) return nullptr;
    return answer(sem_take(&sem_of(self)->sem, block, timeout, "semaphore"));
}

PyObject* semaphore_enter(PyObject* self, PyObject*) {
    return answer(sem_take(&sem_of(self)->sem, true, {}, "semaphore"));
}

PyObject* semaphore_post(Semaphore* semaphore, int64_t n) {
    if (n > semaphore->limit - fiber_sem_value(&semaphore->sem)) {
        PyErr_SetString(PyExc_ValueError, "Semaphore released too many times");
        return nullptr;
    }
    fiber_sem_post(&semaphore->sem, n);
    Py_RETURN_NONE;
}

PyObject* semaphore_release(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    static const char* const known[] = {"n"};
    PyObject* given[1] = {};
    if (!take_arguments("release", args, count, names, known, given)) return nullptr;
    int64_t n = given[0] ? PyLong_AsLongLong(given[0]) : 1;
    if (n == -1 && PyErr_Occurred()) return nullptr;
    if (n < 1) {
        PyErr_SetString(PyExc_ValueError, "n must be one or more");
        return nullptr;
    }
    return semaphore_post(semaphore_of(self), n);
}

PyObject* semaphore_exit(PyObject* self, PyObject* const*, Py_ssize_t) { return semaphore_post(semaphore_of(self), 1); }

PyObject* semaphore_value(PyObject* self, void*) { return PyLong_FromLongLong(fiber_sem_value(&sem_of(self)->sem)); }

PyObject* semaphore_repr(PyObject* self) {
    long long value = fiber_sem_value(&sem_of(self)->sem);
    return repr_of(self, PyUnicode_FromFormat("value=%lld", value));
}

PyObject* bounded_repr(PyObject* self) {
    long long value = fiber_sem_value(&sem_of(self)->sem), limit = semaphore_of(self)->limit;
    return repr_of(self, PyUnicode_FromFormat("value=%lld/%lld", value, limit));
}

// ---- Event

fiber_event_t* event_of(PyObject* self) { return &reinterpret_cast<EventObject*>(self)->event; }

PyObject* event_new(PyTypeObject* type, PyObject* args, PyObject* names) {
    if (type == &EventType && (PyTuple_GET_SIZE(args) || (names && PyDict_GET_SIZE(names))))
        return PyErr_Format(PyExc_TypeError, "%s() takes no arguments", type->tp_name);
    PyObject* self = type->tp_alloc(type, 0);
    if (self) fiber_event_init(event_of(self), FIBER_EVENT_MANUAL);
    return self;
}

PyObject* event_wait(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    static const char* const known[] = {"timeout"};
    PyObject* given[1] = {};
    Timeout timeout;
    if (!take_arguments("wait", args, count, names, known, given) || !parse_clamped(timeout, given[0])) return nullptr;
    if (fiber_event_is_set(event_of(self)) == 1) return poll_turn() ? Py_NewRef(Py_True) : nullptr;
    if (!world()) return nullptr;
    WaitsFor reason("event");
    for (;;) {
        int result = fiber_event_wait_timeout(event_of(self), timeout.left_ns());
        switch (settle(result, &timeout)) {
        case Settled::done: Py_RETURN_TRUE;
        case Settled::timed_out: Py_RETURN_FALSE;
        case Settled::again: continue;
        case Settled::raised: return nullptr;
        case Settled::failed: return raise_errno(result);
        }
    }
}

PyObject* event_set(PyObject* self, PyObject*) {
    fiber_event_set(event_of(self));
    Py_RETURN_NONE;
}

PyObject* event_clear(PyObject* self, PyObject*) {
    fiber_event_reset(event_of(self));
    Py_RETURN_NONE;
}

PyObject* event_is_set(PyObject* self, PyObject*) {
    if (!poll_turn()) return nullptr;
    return PyBool_FromLong(fiber_event_is_set(event_of(self)) == 1);
}

PyObject* event_old_is_set(PyObject* self, PyObject* unused) {
    if (PyErr_WarnEx(PyExc_DeprecationWarning, "isSet() is an old name: use is_set()", 1) < 0) return nullptr;
    return event_is_set(self, unused);
}

PyObject* event_at_fork(PyObject*, PyObject*) { Py_RETURN_NONE; }

PyObject* event_repr(PyObject* self) {
    return repr_of(self, PyUnicode_FromString(fiber_event_is_set(event_of(self)) == 1 ? "set" : "unset"));
}

#define ACQUIRE_DOC                                                                                                   \
    "acquire($self, /, blocking=True, timeout=-1)\n--\n\nTake the lock and return True; wait while it is held. "      \
    "Return False if the lock was not free at once\n(blocking=False) or within the timeout, in seconds. A call that " \
    "does not have to wait takes the lock even if the fiber is cancelled."
#define AT_FORK(function) \
    { "_at_fork_reinit", function, METH_NOARGS, "Unlock the lock, in the child of a fork." }

PyMethodDef lock_methods[] = {
    {"acquire", as_method(lock_acquire), METH_FASTCALL | METH_KEYWORDS, ACQUIRE_DOC},
    {"release", lock_release, METH_NOARGS,
     "release($self, /)\n--\n\nRelease the lock, which passes to the first waiter. Any fiber may call this. "
     "RuntimeError: the lock is not locked."},
    {"locked", lock_locked, METH_NOARGS, "locked($self, /)\n--\n\nWhether the lock is held."},
    {"__enter__", lock_enter, METH_NOARGS, nullptr},
    {"__exit__", as_method(lock_exit), METH_FASTCALL, nullptr},
    {"_is_owned", lock_is_owned, METH_NOARGS, "For Condition."},
    {"_release_save", lock_release, METH_NOARGS, "For Condition."},
    {"_acquire_restore", lock_restore, METH_O, "For Condition: lock even if the fiber is cancelled."},
    AT_FORK(lock_at_fork),
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef rlock_methods[] = {
    {"acquire", as_method(rlock_acquire), METH_FASTCALL | METH_KEYWORDS, ACQUIRE_DOC},
    {"release", rlock_release, METH_NOARGS,
     "release($self, /)\n--\n\nUndo one acquire() of this fiber. RuntimeError: this fiber does not hold the lock."},
    {"locked", lock_locked, METH_NOARGS, "locked($self, /)\n--\n\nWhether the lock is held."},
    {"__enter__", rlock_enter, METH_NOARGS, nullptr},
    {"__exit__", as_method(rlock_exit), METH_FASTCALL, nullptr},
    {"_is_owned", rlock_is_owned, METH_NOARGS, "For Condition."},
    {"_recursion_count", rlock_count, METH_NOARGS, "How many times this fiber holds the lock."},
    {"_release_save", rlock_save, METH_NOARGS, "For Condition."},
    {"_acquire_restore", rlock_restore, METH_O, "For Condition: lock even if the fiber is cancelled."},
    AT_FORK(rlock_at_fork),
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef semaphore_methods[] = {
    {"acquire", as_method(semaphore_acquire), METH_FASTCALL | METH_KEYWORDS,
     "acquire($self, /, blocking=True, timeout=None)\n--\n\nTake a permit and return True; wait until there is one. "
     "Return False if there was none at once\n(blocking=False) or within the timeout, in seconds."},
    {"release", as_method(semaphore_release), METH_FASTCALL | METH_KEYWORDS,
     "release($self, /, n=1)\n--\n\nAdd n permits; the first waiters get them.\nValueError: a BoundedSemaphore would "
     "have "
     "more permits than at first."},
    {"__enter__", semaphore_enter, METH_NOARGS, nullptr},
    {"__exit__", as_method(semaphore_exit), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef semaphore_members[] = {
    {"_value", semaphore_value, nullptr, "The number of permits.", nullptr},
    attributes_member,
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// is_set() without a switch, for code that a cancel must not end.
PyObject* event_flag(PyObject* self, void*) { return PyBool_FromLong(fiber_event_is_set(event_of(self)) == 1); }

PyGetSetDef event_members[] = {
    {"_flag", event_flag, nullptr, "Whether the event is set.", nullptr},
    attributes_member,
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef event_methods[] = {
    {"wait", as_method(event_wait), METH_FASTCALL | METH_KEYWORDS,
     "wait($self, /, timeout=None)\n--\n\nWait until the event is set, and return True; return False if the timeout, "
     "in "
     "seconds, passes first."},
    {"set", event_set, METH_NOARGS, "set($self, /)\n--\n\nSet the event, and wake all waiters."},
    {"clear", event_clear, METH_NOARGS, "clear($self, /)\n--\n\nReset the event."},
    {"is_set", event_is_set, METH_NOARGS, "is_set($self, /)\n--\n\nWhether the event is set."},
    {"isSet", event_old_is_set, METH_NOARGS, "The old name of is_set() in threading."},
    {"_at_fork_reinit", event_at_fork, METH_NOARGS, "Does nothing: the child of a fork needs no change."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject type_of(const char* name, const char* doc, newfunc make_new, reprfunc repr, PyMethodDef* methods) {
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = name;
    type.tp_basicsize = sizeof(SemObject);
    type.tp_weaklistoffset = offsetof(SemObject, weak_references);
    type.tp_dealloc = deallocate_plain<SemObject>;
    type.tp_repr = repr;
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type.tp_doc = doc;
    type.tp_methods = methods;
    type.tp_new = make_new;
    return type;
}

PyTypeObject LockType = type_of("fiberrt.Lock",
                                "Lock()\n--\n\nthreading.Lock, for fibers of any thread. Waiters get the lock in the "
                                "order of their arrival.",
                                lock_new, lock_repr, lock_methods);
PyTypeObject RLockType =
    type_of("fiberrt.RLock", "RLock()\n--\n\nthreading.RLock: the fiber that holds the lock may take it again.",
            lock_new, rlock_repr, rlock_methods);
PyTypeObject SemaphoreType = type_of("fiberrt.Semaphore",
                                     "Semaphore(value=1)\n--\n\nthreading.Semaphore. Waiters get permits in the order "
                                     "of their arrival.",
                                     semaphore_new, semaphore_repr, semaphore_methods);
PyTypeObject BoundedSemaphoreType = type_of("fiberrt.BoundedSemaphore",
                                            "BoundedSemaphore(value=1)\n--\n\nA Semaphore that never has more "
                                            "permits than at first.",
                                            semaphore_new, bounded_repr, nullptr);

} // namespace

PyTypeObject EventType = [] {
    PyTypeObject type = type_of("fiberrt.Event",
                                "Event()\n--\n\nthreading.Event: a flag that fibers of any thread "
                                "wait for.",
                                event_new, event_repr, event_methods);
    give_attributes<EventObject>(type);
    type.tp_getset = event_members;
    return type;
}();

Got sem_take_slowly(fiber_sem_t* sem, const Timeout& timeout, const char* what) {
    if (!world()) return Got::raised;
    WaitsFor reason(what);
    for (;;) {
        int result = fiber_sem_wait_timeout(sem, 1, timeout.left_ns());
        switch (settle(result, &timeout)) {
        case Settled::done: return Got::yes;
        case Settled::timed_out: return Got::no;
        case Settled::again: continue;
        case Settled::raised: return Got::raised;
        case Settled::failed: raise_errno(result); return Got::raised;
        }
    }
}

int locks_add(PyObject* module) {
    RLockType.tp_basicsize = sizeof(RLock);
    give_attributes<Semaphore>(SemaphoreType);
    give_attributes<Semaphore>(BoundedSemaphoreType);
    SemaphoreType.tp_getset = semaphore_members;
    SemaphoreType.tp_init = semaphore_init;
    BoundedSemaphoreType.tp_init = bounded_init;
    BoundedSemaphoreType.tp_base = &SemaphoreType;
    for (PyTypeObject* type : {&LockType, &RLockType, &SemaphoreType, &BoundedSemaphoreType, &EventType})
        if (PyModule_AddType(module, type) < 0) return -1;
    return 0;
}

} // namespace fiberrt_python
