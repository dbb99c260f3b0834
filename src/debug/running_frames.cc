// SPDX-License-Identifier: MIT OR Apache-2.0
#include "debug/running_frames.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "core/begin.h"
#include "core/cord.h"

#include <errno.h>
#include <pthread.h>

namespace fiberrt {

namespace {

constinit pthread_mutex_t running_frames_mutex = PTHREAD_MUTEX_INITIALIZER; // for setting the signal
constinit AskSignal ask_by;

bool runs_still(const Cord& cord, const void* fiber) { return cord.sched.current == fiber; }

} // namespace

int dump_running_signal(int signal) {
    KeepErrno keep;
    if (int error = signal ? AskSignal::prepare(signal) : 0) return error;
    if (!process_begin()) return -ENOMEM; // there may have been no cord yet
    if (environment) return -ENOTSUP;
    MutexGuard guard(running_frames_mutex);
    int error = ask_by.end();
    return signal && !error ? ask_by.begin(signal) : error;
}

bool asks_running() { return ask_by.in_use(); }

const char* frames_of_running(const Snapshot& seen, int64_t at_most_ns, ThreadFrames& out) {
    Fiber* fiber;
    if (fibers.resolve(seen.id, &fiber) != 0) return "it has ended meanwhile";
    switch (Question{*seen.cord, ask_by, runs_still, fiber, at_most_ns}.ask(out)) {
    case Question::Result::answered: return nullptr;
    case Question::Result::not_wanted: return "its thread has left it meanwhile";
    case Question::Result::silent: return "its thread does not answer";
    case Question::Result::no_stack: return "its thread has no signal stack, or a small one";
    }
    __builtin_unreachable();
}

void running_frames_lock() { pthread_mutex_lock(&running_frames_mutex); }
void running_frames_unlock() { pthread_mutex_unlock(&running_frames_mutex); }
void running_frames_forked() { ask_by.end(); }

} // namespace fiberrt
