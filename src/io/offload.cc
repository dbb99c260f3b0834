// SPDX-License-Identifier: MIT OR Apache-2.0
// The pool of threads for what would block a cord's own.
//
// An open of a FIFO may wait for ever. It is released by opening the FIFO's other side for as long as it takes the thread
// to come back. Both opens name the file by a descriptor of it, so that it does not matter what becomes of its path.
#include "io/offload.h"

#include "base/keep_errno.h"
#include "io/op.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace fiberrt {

namespace {

constexpr int most_busy = 32;        // threads, but for those that wait in an open of a FIFO
constexpr int most_in_fifos = 1024;  // that wait so; further ones wait for these to end
constexpr int idle_seconds = 3;
constexpr size_t stack_bytes = 128 * 1024; // nothing but system calls is made there

struct Pool {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t more = PTHREAD_COND_INITIALIZER;
    ShortList<OffloadJob> jobs;
    ShortList<OffloadJob> fifos; // opens that found too many others
    int queued = 0;  // length of jobs
    int threads = 0; // of these,
    int idle = 0;
    int in_fifos = 0;
};

constinit Pool pool;

// The child of a fork has none of its parent's threads, and a copy of a lock that one of them may have held.
void forget_all() { pool = Pool(); }

void watch_for_forks() { pthread_atfork(nullptr, nullptr, forget_all); }

class Guard {
public:
    Guard() { pthread_mutex_lock(&pool.mutex); }
    ~Guard() { pthread_mutex_unlock(&pool.mutex); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
};

void* work(void*);

// Under the lock.
bool make_thread() {
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0) return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, stack_bytes); // if that is not enough for the program's TLS: as large as others
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int error = pthread_create(&thread, &attr, work, nullptr);
    if (error) {
        pthread_attr_destroy(&attr);
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        error = pthread_create(&thread, &attr, work, nullptr);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attr);
    if (!error) pool.threads++;
    return !error;
}

// Under the lock: a thread for what is queued, if one may be made. False: there is none that would ever take it.
bool staff() {
    if (pool.idle >= pool.queued) return true;
    if (pool.threads - pool.in_fifos >= most_busy) return true;
    return make_thread() || pool.threads > pool.in_fifos;
}

void enqueue(OffloadJob& job) {
    job.list = &pool.jobs;
    pool.jobs.push_back(&job);
    pool.queued++;
}

void dequeue(OffloadJob& job) {
    if (job.list == &pool.jobs) pool.queued--;
    job.list->remove(&job);
    job.list = nullptr;
}

// An open that waits for the other side, unless that is there.
bool waits_if_fifo(const Op& op) {
    int flags = int(op.flags);
    return op.code == OpCode::open && !(flags & (O_NONBLOCK | O_PATH | O_DIRECTORY | O_EXCL)) &&
           (flags & O_ACCMODE) != O_RDWR;
}

struct FdPath {
    char text[32];
    explicit FdPath(int fd) { snprintf(text, sizeof text, "/proc/self/fd/%d", fd); }
};

// The result of open_fifo when the job is put off.
constexpr int64_t put_off = INT64_MIN;

// The job is in open() from here on, and can be released. 0, or why it is not to begin.
int64_t enter_fifo(OffloadJob& job, int fifo) {
    Guard guard;
    if (job.cancelled) return -ECANCELED;
    if (pool.in_fifos >= most_in_fifos) {
        job.list = &pool.fifos;
        pool.fifos.push_back(&job);
        return put_off;
    }
    pool.in_fifos++; // from here on it is no thread for others
    if (pool.queued && !staff()) {
        pool.in_fifos--;
        return -EAGAIN;
    }
    job.fifo = fifo;
    return 0;
}

// Whether it was released, and not by the FIFO's own other side.
bool leave_fifo(OffloadJob& job) {
    Guard guard;
    pool.in_fifos--;
    job.fifo = -1;
    if (job.release >= 0) close(job.release);
    if (OffloadJob* next = pool.fifos.pop_front()) enqueue(*next); // this thread's own next one
    return job.cancelled;
}

int64_t open_fifo(OffloadJob& job, int fifo) {
    int64_t result = enter_fifo(job, fifo);
    if (result) return result;
    int flags = int(job.op->flags) & ~(O_CREAT | O_NOFOLLOW); // it is there, and what is opened is a symbolic link
    do {
        result = open(FdPath(fifo).text, flags);
    } while (result < 0 && errno == EINTR);
    if (result < 0) result = -errno;
    if (!leave_fifo(job)) return result;
    if (result >= 0) close(int(result));
    return -ECANCELED;
}

int64_t perform(OffloadJob& job) {
    const Op& op = *job.op;
    if (waits_if_fifo(op)) {
        int file = open(static_cast<const char*>(op.address), O_PATH | O_CLOEXEC | (int(op.flags) & O_NOFOLLOW));
        if (file < 0 && (errno == EMFILE || errno == ENFILE)) return -errno;
        struct stat status;
        bool fifo = file >= 0 && fstat(file, &status) == 0 && S_ISFIFO(status.st_mode);
        int64_t result = fifo ? open_fifo(job, file) : 0;
        if (file >= 0) close(file);
        if (fifo) return result;
    }
    return plain_call(op);
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
            Guard guard;
            job = next_job();
            if (!job) {
                pool.threads--;
                return nullptr;
            }
        }
        int64_t result = perform(*job);
        if (result == put_off) continue; // and somebody else's by now
        job->result = result;
        send(*job->home, job); // which takes it: a cord does not end while an operation of its is under way
    }
}

} // namespace

bool offload(OffloadJob& job) {
    KeepErrno keep;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_for_forks);
    Guard guard;
    enqueue(job);
    if (!staff()) {
        dequeue(job);
        return false;
    }
    pthread_cond_signal(&pool.more);
    return true;
}

bool offload_cancel(OffloadJob& job) {
    KeepErrno keep;
    Guard guard;
    if (job.list) {
        dequeue(job);
        return true;
    }
    job.cancelled = true;
    if (job.fifo < 0 || job.release >= 0) return false;
    // Both sides at once, for where the thread has not come to its open yet; else the one that it waits for, which may
    // be all that is allowed.
    FdPath path(job.fifo);
    bool reads = (job.op->flags & O_ACCMODE) == O_RDONLY;
    job.release = open(path.text, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (job.release < 0) job.release = open(path.text, (reads ? O_WRONLY : O_RDONLY) | O_NONBLOCK | O_CLOEXEC);
    return false;
}

} // namespace fiberrt
