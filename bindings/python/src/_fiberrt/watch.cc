// SPDX-License-Identifier: MIT OR Apache-2.0
#include "watch.h"

#include "loop.h"
#include "waiting.h"

#include <errno.h>
#include <new>
#include <stdlib.h>

namespace fiberrt_python {

// The hosted fiber of a watch, which it may outlive for a while.
struct Poller {
    Watch* watch;   // null: the fiber must end, and frees the buffer
    uint64_t world; // the number of the thread's world
    fiber_t fiber;
    char* buffer;
    fiber_op_t op;
};

namespace {

// Hosted fibers of watches do not keep their thread or the process from ending.
fiber_attr_t* daemons() {
    static fiber_attr_t* attr;
    if (!attr && fiber_attr_create(&attr) == 0 && fiber_attr_set_daemon(attr, 1) < 0) attr = nullptr;
    return attr;
}

void poll_ended(Watch* watch) {
    if (watch->polls && watch->list) watch_unlink(watch);
    watch->polls = false;
}

int end(Poller* poller) {
    if (Watch* watch = poller->watch) {
        poll_ended(watch);
        watch->poller = nullptr;
    }
    free(poller->buffer);
    delete poller;
    return FIBER_STEP_END;
}

// Begins the operation. Returns whether it is under way; otherwise its result is in poller->op.
bool begin(Poller* poller) {
    Watch* watch = poller->watch;
    poller->op.code = watch->buffer ? FIBER_OP_RECV : FIBER_OP_POLL;
    poller->op.fd = watch->fd;
    poller->op.mode = watch->buffer ? 0 : watch->events;
    poller->op.address = watch->buffer;
    poller->op.length = watch->room;
    int started = fiber_op_start(&poller->op);
    if (started < 0) poller->op.result = started;
    return started == 0;
}

// A turn of the hosted fiber. It must not run Python: the thread has the execution of some fiber loaded.
int turn(void* user, int64_t result) {
    auto* poller = static_cast<Poller*>(user);
    if (!poller->op.code) { // woken: to poll, or because it has been cancelled
        if (result == -ECANCELED || !poller->watch) return end(poller);
        if (begin(poller)) return FIBER_STEP_WAIT;
        result = poller->op.result;
    }
    poller->op.code = 0;
    if (result == -ECANCELED || !poller->watch) return end(poller);
    Watch* watch = poller->watch;
    watch->result = result;
    poll_ended(watch);
    watch_link(watch->loop->fired, watch);
    loop_wake(watch->loop);
    return FIBER_STEP_YIELD;
}

// Cancels a hosted fiber. With own_thread, also waits for its end, if the caller may wait. Returns false if the fiber's
// thread has ended.
bool stop(fiber_t fiber, bool own_thread) {
    Shield shield;
    if (fiber_cancel(fiber, nullptr) < 0) return false;
    int error = -EPERM;
    if (own_thread) do
            error = fiber_join(fiber, nullptr);
        while (error == -EINTR);
    if (error == -EPERM) fiber_detach(fiber);
    return true;
}

bool is_here(const Poller* poller) { return this_world && poller->world == this_world->number; }

// Parts the watch and its hosted fiber, which gets the buffer if an operation is under way: the kernel may still write
// into it. Otherwise the buffer may hold data that is not reported yet.
void abandon(Watch* watch) {
    Poller* poller = watch->poller;
    if (!poller) return;
    if (watch->polls) {
        poller->buffer = watch->buffer;
        watch->buffer = nullptr;
    }
    poll_ended(watch);
    watch->poller = nullptr;
    poller->watch = nullptr;
    if (!stop(poller->fiber, is_here(poller))) end(poller);
}

void drop(Watch* watch) {
    if (--watch->users) return;
    free(watch->buffer);
    delete watch;
}

} // namespace

void watch_link(WatchList& list, Watch* watch) {
    watch->list = &list;
    watch->next = nullptr;
    watch->previous = list.last;
    (list.last ? list.last->next : list.first) = watch;
    list.last = watch;
}

void watch_unlink(Watch* watch) {
    WatchList& list = *watch->list;
    (watch->previous ? watch->previous->next : list.first) = watch->next;
    (watch->next ? watch->next->previous : list.last) = watch->previous;
    watch->list = nullptr;
}

bool watch_new(Watch** place, LoopObject* loop, int fd, int events, int (*ready)(Watch&), PyObject* owner) {
    auto* watch = new (std::nothrow) Watch();
    if (!watch) return PyErr_NoMemory();
    watch->users = 1;
    watch->place = place;
    *place = watch;
    watch->loop = loop;
    watch->fd = fd;
    watch->events = events;
    watch->ready = ready;
    watch->owner = Py_NewRef(owner);
    watch->next_of_loop = loop->watches;
    if (loop->watches) loop->watches->previous_of_loop = watch;
    loop->watches = watch;
    return true;
}

void watch_free(Watch* watch) {
    *watch->place = nullptr;
    if (watch->list) watch_unlink(watch);
    (watch->previous_of_loop ? watch->previous_of_loop->next_of_loop : watch->loop->watches) = watch->next_of_loop;
    if (watch->next_of_loop) watch->next_of_loop->previous_of_loop = watch->previous_of_loop;
    PyObject* owner = watch->owner;
    watch->owner = nullptr; // nothing may use it while other fibers run
    abandon(watch);
    drop(watch);
    Py_DECREF(owner);
}

void watch_want(Watch* watch) {
    if (!watch->polls && !watch->list) watch_link(watch->loop->wanted, watch);
}

void watch_not_want(Watch* watch) {
    if (watch->list == &watch->loop->wanted) watch_unlink(watch);
}

void watch_report_again(Watch* watch) {
    watch_not_want(watch);
    if (!watch->list) watch_link(watch->loop->fired, watch);
    loop_wake(watch->loop);
}

void watch_set_buffer(Watch* watch, size_t bytes) {
    free(watch->buffer);
    watch->buffer = bytes ? static_cast<char*>(malloc(bytes)) : nullptr;
    watch->room = bytes;
}

int watch_begin(Watch* watch) {
    if (!watch->poller) {
        auto* poller = new (std::nothrow) Poller();
        if (!poller) return -ENOMEM;
        poller->watch = watch;
        poller->world = this_world->number;
        if (int error = fiber_hosted_new(&poller->fiber, daemons(), turn, poller)) {
            delete poller;
            return error;
        }
        watch->poller = poller;
    }
    watch->polls = true;
    if (watch->buffer) watch_link(watch->loop->receiving, watch);
    fiber_wakeup(watch->poller->fiber);
    return 0;
}

void watch_settle(Watch* watch) {
    watch_unlink(watch);
    watch->users++; // other fibers run, and may free it
    stop(watch->poller->fiber, is_here(watch->poller));
    if (watch->owner) watch_want(watch); // no effect if there is a result to report
    drop(watch);
}

void watches_move(LoopObject* loop) {
    for (Watch* watch = loop->watches; watch; watch = watch->next_of_loop) {
        if (!watch->poller || is_here(watch->poller)) continue;
        bool polled = watch->polls;
        abandon(watch);
        if (polled) watch_want(watch);
    }
}

} // namespace fiberrt_python
