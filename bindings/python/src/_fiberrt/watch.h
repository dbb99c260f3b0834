// SPDX-License-Identifier: MIT OR Apache-2.0
// A Watch tells an event loop when a descriptor is ready, or what a socket has received. A hosted fiber of the thread
// that runs the loop polls, or receives, once each time the loop asks it to. The GIL guards all of it: hosted fibers
// have their turns while their thread has the GIL.
#pragma once

#include "world.h"

namespace fiberrt_python {

struct LoopObject;
struct Poller;
struct Watch;

// Some of the watches of a loop. A watch is in one list at most.
struct WatchList {
    Watch* first = nullptr;
    Watch* last = nullptr;
};

struct Watch {
    LoopObject* loop;
    Watch** place;        // where the owner keeps it: null when it is freed
    PyObject* owner;      // a handle, or a transport: a reference
    int (*ready)(Watch&); // called by the loop; returns -1 with an exception set. It may free the watch
    int fd;
    int events;     // POLLIN or POLLOUT
    char* buffer;   // for receiving, instead of a poll; or null: watch_set_buffer()
    size_t room;    // in it
    int64_t result; // of the last poll or receive: as of fiber_poll_fd or fiber_recv
    Poller* poller; // null until the first poll
    int users;      // 1, and one more while watch_settle() waits
    bool polls;     // from the wakeup of the hosted fiber until its operation is done
    WatchList* list;
    Watch *next, *previous;                 // in the list
    Watch *next_of_loop, *previous_of_loop; // in loop->watches
};

// Makes a watch in *place, which polls when watch_want() has been called. Returns false with an exception set.
bool watch_new(Watch** place, LoopObject* loop, int fd, int events, int (*ready)(Watch&), PyObject* owner);
// Ends a poll under way and frees the watch. If its thread calls this and may wait, the kernel has forgotten the
// descriptor then.
void watch_free(Watch* watch);
// Asks for the events, once: the poll begins before the loop waits. No effect while it polls or has an event to report.
void watch_want(Watch* watch);
void watch_not_want(Watch* watch);     // undoes it; a poll under way goes on, and an event stays
void watch_report_again(Watch* watch); // reports the last event once more
// Lets the next operations receive into a buffer of that size, or poll (0, or there is no memory). Not while it polls.
void watch_set_buffer(Watch* watch, size_t bytes);
// Begins the poll. Returns 0 or a negative errno.
int watch_begin(Watch* watch);
// The loop now runs on another thread than before: takes back the polls of the other one.
void watches_move(LoopObject* loop);
// Ends a receive under way, and wants it again: the loop may go on in another thread. What it has received is reported.
void watch_settle(Watch* watch);

void watch_link(WatchList& list, Watch* watch);
void watch_unlink(Watch* watch);

} // namespace fiberrt_python
