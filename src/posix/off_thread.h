// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a function of the C library on another thread while the fiber waits. If the fiber's wait ends early, the
// function continues. So a Job holds copies of all arguments and results. The fiber and the other thread share the Job,
// and the last of them frees it.
#pragma once

#include "posix/wait.h"

#include <atomic>
#include <new>
#include <stdlib.h>

namespace fiberrt::posix {

// The base of a Job, which has no virtual functions, and whose memory comes from malloc. Job::run() calls the C
// library's function. ~Job() must not block.
struct Shared {
    std::atomic<int> shares = 1;
};

// Makes a Job with `more` bytes behind it. Null: no memory.
template <class Job>
Job* new_job(size_t more) {
    KeepErrno keep;
    void* memory = malloc(sizeof(Job) + more);
    return memory ? new (memory) Job : nullptr;
}

template <class Job>
void give_up_share(Job* job) {
    if (job->shares.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    KeepErrno keep;
    job->~Job();
    free(job);
}

// Gives up the caller's share of a Job at the end of a C++ scope.
template <class Job>
class Share {
public:
    explicit Share(Job* job) : job_(job) {}
    ~Share() {
        if (job_) give_up_share(job_);
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    Job* operator->() const { return job_; }
    Job& operator*() const { return *job_; }

private:
    Job* job_;
};

// Calls job.run() on another thread. retry: run() has returned, and the caller may read the results. fail: the wait
// ended early, errno says why. block: there is no thread for the job now, or the fiber cannot wait here.
template <class Job>
Next run_off_thread(Job& job) {
    Entered entered;
    if (!entered) return Next::block;
    job.shares.fetch_add(1, std::memory_order_relaxed);
    int result = fiber_offload_detached(
        [](void* arg) -> int64_t {
            static_cast<Job*>(arg)->run();
            return 0;
        },
        &job, [](void* arg) { give_up_share(static_cast<Job*>(arg)); }, nullptr);
    return after_wait(result == -EAGAIN ? -ENOMEM : result);
}

} // namespace fiberrt::posix
