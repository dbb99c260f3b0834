// SPDX-License-Identifier: MIT OR Apache-2.0
// The pool of threads (offload.h). Opens of FIFOs do not wait here: see io/fifo.h.
#include "io/offload.h"

#include "base/c_library.h"
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
    int limit; // the most jobs that may run at once
    int running = 0;
    int queued = 0; // how many are in `jobs`
    ShortList<OffloadJob> jobs;

    constexpr explicit Queue(int limit) : limit(limit) {}

    int startable() const {
        int room = limit - running;
        return room <= 0 ? 0 : queued < room ? queued : room;
    }
};

struct OffloadPool {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t more = PTHREAD_COND_INITIALIZER;
    Queue operations{32};
    Queue functions{64};
    int threads = 0;

    Queue& of(const OffloadJob& job) { return job.lane == Lane::operation ? operations : functions; }
    int startable() const { return operations.startable() + functions.startable(); }
    // Threads that look for a job, or sleep
    int free() const { return threads - operations.running - functions.running; }
};

constinit OffloadPool pool;

void* serve_jobs(void*);

// Makes a thread; the caller holds the lock. Its stack has the process's default size, as the program's functions run
// there.
bool make_offload_thread() {
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0) return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setguardsize(&attr, StackPool::guard_default);
    pthread_t thread;
    int error = thread_start(&thread, &attr, serve_jobs, nullptr);
    pthread_attr_destroy(&attr);
    if (!error) pool.threads++;
    return !error;
}

// Makes threads for the jobs that may begin; the caller holds the lock. False: no thread would ever take a job of this
// lane. Functions may run as long as they like, so threads that run functions do not count for an operation.
bool staff(Lane lane) {
    while (pool.free() < pool.startable() && make_offload_thread()) {}
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

// Waits for a job, until a time of idle_clock. glibc has clockwait since 2.30; with others, a thread may end earlier or
// later if the clock is set.
#if FIBERRT_GLIBC(2, 30)
constexpr clockid_t idle_clock = CLOCK_MONOTONIC;
int wait_for_job(const timespec& until) { return pthread_cond_clockwait(&pool.more, &pool.mutex, idle_clock, &until); }
#else
constexpr clockid_t idle_clock = CLOCK_REALTIME;
int wait_for_job(const timespec& until) { return pthread_cond_timedwait(&pool.more, &pool.mutex, &until); }
#endif

// Waits for a job and takes it; the caller holds the lock. Null: there was no job for long, and the thread ends.
OffloadJob* next_job() {
    timespec until;
    clock_gettime(idle_clock, &until);
    int64_t nanoseconds = until.tv_nsec + offload_idle_ns;
    until.tv_sec += nanoseconds / 1'000'000'000;
    until.tv_nsec = nanoseconds % 1'000'000'000;
    int error = 0;
    while (!pool.startable()) {
        if (error == ETIMEDOUT) return nullptr;
        error = wait_for_job(until);
    }
    Queue& queue = pool.operations.startable() ? pool.operations : pool.functions;
    OffloadJob* job = queue.jobs.front();
    dequeue(*job);
    queue.running++;
    return job;
}

// Lets a thread of the pool run on every processor of the process. A new thread inherits the affinity of its maker,
// which may be a cord bound to one processor. If the two are equal this leaves the affinity unset, so that the kernel
// follows the process's cpuset.
void run_where_the_process_may() {
    cpu_set_t of_process;
    cpu_set_t here;
    if (sched_getaffinity(getpid(), sizeof of_process, &of_process) < 0) return;
    if (sched_getaffinity(0, sizeof here, &here) < 0 || CPU_EQUAL(&of_process, &here)) return;
    sched_setaffinity(0, sizeof of_process, &of_process);
}

void* serve_jobs(void*) {
    run_where_the_process_may();
    pthread_setname_np(pthread_self(), "fiberrt-offload");
    on_offload_thread = true;
    for (;;) {
        OffloadJob* job;
        {
            MutexGuard guard(pool.mutex);
            job = next_job();
            if (!job) {
                pool.threads--;
                return nullptr;
            }
        }
        job->run(*job);
        if (!on_offload_thread) return nullptr;
        {
            // The thread counts as free before its caller is woken: so a fiber that offloads again and again keeps one
            // thread busy, not two in turn.
            MutexGuard guard(pool.mutex);
            pool.of(*job).running--;
        }
        job->done(*job);
    }
}

} // namespace

bool offload(OffloadJob& job) {
    KeepErrno keep;
    MutexGuard guard(pool.mutex);
    enqueue(job);
    if (!staff(job.lane)) {
        dequeue(job);
        return false;
    }
    pthread_cond_signal(&pool.more);
    return true;
}

bool offload_cancel(OffloadJob& job) {
    MutexGuard guard(pool.mutex);
    if (!job.queued) return false;
    dequeue(job);
    return true;
}

void offload_set_limit(int functions) {
    KeepErrno keep;
    MutexGuard guard(pool.mutex);
    pool.functions.limit = functions;
    staff(Lane::function);
    pthread_cond_broadcast(&pool.more);
}

int offload_threads() {
    MutexGuard guard(pool.mutex);
    return pool.threads;
}

// Makes a new pool without taking the lock, which a thread of the parent may have held. If the function of an offload
// forked, its thread in the child ends with it: the fiber that waits and the job do not exist in the child.
void offload_forked() {
    int limit = pool.functions.limit;
    new (&pool) OffloadPool;
    pool.functions.limit = limit;
    if (!simulated()) on_offload_thread = false;
}

} // namespace fiberrt
