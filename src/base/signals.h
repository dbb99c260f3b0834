// SPDX-License-Identifier: MIT OR Apache-2.0
// Starts the library's own threads, which take no signals: signals are for the program's threads, and for fibers that
// wait for them.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

namespace fiberrt {

// While an object exists, the calling thread has all signals blocked, and threads that it makes begin so. Signals that
// an instruction raises stay unblocked: a blocked one would end the process without calling its handler.
class SignalsBlocked {
public:
    SignalsBlocked() {
        sigset_t sent;
        sigfillset(&sent);
        constexpr int raised[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
        for (int signal : raised) sigdelset(&sent, signal);
        pthread_sigmask(SIG_BLOCK, &sent, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_;
};

// Starts a thread: 0 or an error. -EAGAIN if a filter of system calls forbids it, because the API's -EPERM means a call
// from the wrong place.
inline int thread_start(pthread_t* thread, const pthread_attr_t* attr, void* (*function)(void*), void* argument) {
    SignalsBlocked blocked;
    int error = pthread_create(thread, attr, function, argument);
    return error == EPERM ? -EAGAIN : -error;
}

// thread_start(), for a thread that may run on these processors only.
inline int thread_start_on(const cpu_set_t* processors, size_t size, pthread_t* thread, pthread_attr_t* attr,
                           void* (*function)(void*), void* argument) {
#ifdef __GLIBC__
    int error = pthread_attr_setaffinity_np(attr, size, processors);
    return error ? -error : thread_start(thread, attr, function, argument);
#else // musl has no such attribute, but a new thread has the affinity of its maker
    cpu_set_t of_this_thread;
    if (sched_getaffinity(0, sizeof of_this_thread, &of_this_thread) < 0) return -errno;
    if (sched_setaffinity(0, size, processors) < 0) return -errno;
    int error = thread_start(thread, attr, function, argument);
    sched_setaffinity(0, sizeof of_this_thread, &of_this_thread);
    return error;
#endif
}

} // namespace fiberrt
