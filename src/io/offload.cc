// SPDX-License-Identifier: MIT OR Apache-2.0
// The pool of threads for what would block a cord's own. (Opens of FIFOs do not wait here: io/fifo.h.)
#include "io/offload.h"

#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/signals.h"
#include "core/stack_pool.h"
#include "core/backend.h"

#include <errno.h>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt {

constinit std::atomic<int64_t> offload_idle_ns{3'000'000'000};
thread_local constinit bool on_offload_thread = false;

namespace {

struct Queue {
    int limit; // of running
    int running = 0;
    int queued = 0; // length of jobs
    ShortList<OffloadJob> jobs;

    constexpr explicit Queue(int limit) : limit(limit) {}

    int startable() const {
        int room = limit - running;
        return room <= 0 ? 0 : queued < room ? queued : room;
    }
};

struct Pool {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t more = PTHREAD_COND_INITIALIZER;
    Queue operations{32};
    Queue functions{64};
    int threads = 0;

    Queue& of(const OffloadJob& job) { return job.lane == Lane::operation ? operations : functions; }
    int startable() const { return operations.startable() + functions.startable(); }
    int free() const { return threads - operations.running - functions.running; } // these look for a job, or sleep
};

constinit Pool pool;

void* work(void*);

// Under the lock. With stacks as the program's other threads have them, as its functions run there.
bool make_thread() {
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0) return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setguardsize(&attr, StackPool::guard_default);
    pthread_t thread;
    int error = thread_start(&thread, &attr, work, nullptr);
    pthread_attr_destroy(&attr);
    if (!error) pool.threads++;
    return !error;
}

// Under the lock: threads for what may begin. False: there is none that would ever take what is of this lane. Functions
// may take as long as they like, so an operation is not left to the threads that are at one.
bool staff(Lane lane) {
    while (pool.free() < pool.startable() && make_thread()) {}
    return pool.threads > (lane == Lane::operation ? pool.functions.running : 0);
}

void enqueue(OffloadJob& job) {
    Queue& queue = pool.of(job);
    job.queued = true;
    queue.jobs.push_back(&job);
    queue.queued++;
}

void dequeue(OffloadJob& job) {
    Queue& queue = pool.of(job);
    job.queued = false;
    queue.jobs.remove(&job);
    queue.queued--;
}

// Waits for a job; null: there was none for long, and the thread ends. Under the lock.
OffloadJob* next_job() {
    timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t nanoseconds = until.tv_nsec + offload_idle_ns;
    until.tv_sec += nanoseconds / 1'000'000'000;
    until.tv_nsec = nanoseconds % 1'000'000'000;
    int error = 0;
    while (!pool.startable()) {
        if (error == ETIMEDOUT) return nullptr;
        error = pthread_cond_clockwait(&pool.more, &pool.mutex, CLOCK_MONOTONIC, &until);
    }
    Queue& queue = pool.operations.startable() ? pool.operations : pool.functions;
    OffloadJob* job = queue.jobs.front();
    dequeue(*job);
    queue.running++;
    return job;
}

// A thread begins where its maker may run, and that may be one processor: a cord's that has been bound to it, while the
// pool is all threads'. Where the two are the same nothing is said to the kernel, which follows the process's cpuset.
void run_where_the_process_may() {
    cpu_set_t of_process;
    cpu_set_t here;
    if (sched_getaffinity(getpid(), sizeof of_process, &of_process) < 0) return;
    if (sched_getaffinity(0, sizeof here, &here) < 0 || CPU_EQUAL(&of_process, &here)) return;
    sched_setaffinity(0, sizeof of_process, &of_process);
}

void* work(void*) {
    run_where_the_process_may();
    pthread_setname_np(pthread_self(), "fiberrt-offload");
    on_offload_thread = true;
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
        job->run(*job);
        if (!on_offload_thread) return nullptr;
        {
            MutexHeld held(pool.mutex);
            pool.of(*job).running--; // before its end is told of: then this thread is there for the next one
        }
        job->done(*job);
    }
}

} // namespace

bool offload(OffloadJob& job) {
    KeepErrno keep;
    MutexHeld held(pool.mutex);
    enqueue(job);
    if (!staff(job.lane)) {
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

void offload_set_limit(int functions) {
    KeepErrno keep;
    MutexHeld held(pool.mutex);
    pool.functions.limit = functions;
    staff(Lane::function);
    pthread_cond_broadcast(&pool.more);
}

int offload_threads() {
    MutexHeld held(pool.mutex);
    return pool.threads;
}

// Not by taking the lock: somebody who is no more may have had it. A function that has forked ends with its thread, as
// whoever waits for it is no more, and the job with them.
void offload_forked() {
    int limit = pool.functions.limit;
    new (&pool) Pool;
    pool.functions.limit = limit;
    if (!simulated()) on_offload_thread = false;
}

} // namespace fiberrt
