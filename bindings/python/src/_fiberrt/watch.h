// SPDX-License-Identifier: MIT OR Apache-2.0
// A Watch runs one operation at a time, a poll of a descriptor or a receive from a socket, and reports its result to an
// event loop. A hosted fiber of the thread that runs the loop makes the operation. The GIL guards all of it: hosted
// fibers have their turns while their thread has the GIL.
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

// Makes a watch in *place, which is idle until watch_want() is called. Returns false with an exception set.
bool watch_new(Watch** place, LoopObject* loop, int fd, int events, int (*ready)(Watch&), PyObject* owner);
// Ends the operation and frees the watch. On the watch's thread, if that may wait, it returns only when the kernel is
// done with the descriptor.
void watch_free(Watch* watch);
// Asks for one operation, which begins before the loop waits. No effect if one is under way or has a result to report.
void watch_want(Watch* watch);
void watch_not_want(Watch* watch);     // undoes it; an operation under way goes on, and a result stays
void watch_report_again(Watch* watch); // reports the last result once more
// Lets the next operations receive into a buffer of that size, or poll (0, or there is no memory). Not while one is under
// way.
void watch_set_buffer(Watch* watch, size_t bytes);
// Begins the operation. Returns 0 or a negative errno.
int watch_begin(Watch* watch);
// The loop now runs on another thread than before: ends the operations begun on the old thread and asks for them again.
void watches_move(LoopObject* loop);
// Ends the receive at the end of a run, because the next run may be on another thread. Reports data already received;
// otherwise asks for the receive again.
void watch_settle(Watch* watch);

void watch_link(WatchList& list, Watch* watch);
void watch_unlink(Watch* watch);

} // namespace fiberrt_python
