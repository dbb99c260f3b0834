// SPDX-License-Identifier: MIT OR Apache-2.0
// The pool of threads for what would block a cord's own, but not for ever: opens of FIFOs do not wait here (io/fifo.h).
#include "io/offload.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/signals.h"
#include "io/op.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

namespace fiberrt {

namespace {

constexpr int most_threads = 32;
constexpr int idle_seconds = 3;
constexpr size_t stack_bytes = 128 * 1024; // nothing but system calls is made there

struct Pool {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t more = PTHREAD_COND_INITIALIZER;
    ShortList<OffloadJob> jobs;
    int queued = 0; // length of jobs
    int threads = 0;
    int idle = 0; // of these
};

constinit Pool pool;

void* work(void*);

// Under the lock.
bool make_thread() {
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0) return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, stack_bytes); // if that is not enough for the program's TLS: as large as others
    SignalsBlocked blocked;
    pthread_t thread;
    int error = pthread_create(&thread, &attr, work, nullptr);
    if (error) {
        pthread_attr_destroy(&attr);
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        error = pthread_create(&thread, &attr, work, nullptr);
    }
    pthread_attr_destroy(&attr);
    if (!error) pool.threads++;
    return !error;
}

// Under the lock: a thread for what is queued, if one may be made. False: there is none that would ever take it.
bool staff() {
    if (pool.idle >= pool.queued) return true;
    if (pool.threads >= most_threads) return true;
    return make_thread() || pool.threads > 0;
}

void enqueue(OffloadJob& job) {
    job.queued = true;
    pool.jobs.push_back(&job);
    pool.queued++;
}

void dequeue(OffloadJob& job) {
    job.queued = false;
    pool.jobs.remove(&job);
    pool.queued--;
}

// Waits for a job; null: there was none for long, and the thread ends. Under the lock.
OffloadJob* next_job() {
    timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += idle_seconds;
    while (pool.jobs.empty()) {
        pool.idle++;
        int error = pthread_cond_clockwait(&pool.more, &pool.mutex, CLOCK_MONOTONIC, &until);
        pool.idle--;
        if (error == ETIMEDOUT && pool.jobs.empty()) return nullptr;
    }
    OffloadJob* job = pool.jobs.front();
    dequeue(*job);
    return job;
}

void* work(void*) {
    pthread_setname_np(pthread_self(), "fiberrt-offload");
    for (;;) {
        OffloadJob* job;
        {
            MutexHeld held(pool.mutex);
            job = next_job();
            if (!job) {
                pool.threads--;
                return nullptr;
            }
        }
        job->result = plain_call(*job->op);
        send(*job->home, job); // which takes it: a cord does not end while an operation of its is under way
    }
}

} // namespace

bool offload(OffloadJob& job) {
    KeepErrno keep;
    MutexHeld held(pool.mutex);
    enqueue(job);
    if (!staff()) {
        dequeue(job);
        return false;
    }
    pthread_cond_signal(&pool.more);
    return true;
}

bool offload_cancel(OffloadJob& job) {
    MutexHeld held(pool.mutex);
    if (!job.queued) return false;
    dequeue(job);
    return true;
}

} // namespace fiberrt
