// SPDX-License-Identifier: MIT OR Apache-2.0
// Looks at the members of the C library's locks.
#include "posix/layout.h"

#include "base/report.h"
#include "posix/mutex_kind.h"
#include "posix/once_mark.h"

#include <atomic>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace fiberrt::posix {

namespace {

int thread_number() { return int(syscall(SYS_gettid)); }

// Whether a mutex with these attributes names its owner while it is locked. locks: how often to lock it.
bool knows_mutex(int type, bool robust, bool inherits, unsigned locks) {
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, type);
    if (robust) pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    if (inherits) pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
    pthread_mutex_t mutex;
    bool known = !::pthread_mutex_init(&mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    if (!known) return inherits; // the kernel may have no such mutexes
    for (unsigned i = 0; i < locks; i++) ::pthread_mutex_lock(&mutex);
    MutexKind kind(&mutex);
    known = kind.owner() == thread_number();
    if (locks > 1) known = known && kind.count() == locks;
    for (unsigned i = 0; i < locks; i++) ::pthread_mutex_unlock(&mutex);
    ::pthread_mutex_destroy(&mutex);
    return known && kind.owner() != thread_number() && kind.is_recursive() == (type == PTHREAD_MUTEX_RECURSIVE) &&
           kind.checks_errors() == (type == PTHREAD_MUTEX_ERRORCHECK) &&
           kind.knows_owner() ==
               (type == PTHREAD_MUTEX_RECURSIVE || type == PTHREAD_MUTEX_ERRORCHECK || robust || inherits);
}

bool knows_mutexes() {
    return knows_mutex(PTHREAD_MUTEX_NORMAL, false, false, 1) &&
           knows_mutex(PTHREAD_MUTEX_RECURSIVE, false, false, 3) &&
           knows_mutex(PTHREAD_MUTEX_ERRORCHECK, false, false, 1) &&
           knows_mutex(PTHREAD_MUTEX_NORMAL, true, false, 1) && knows_mutex(PTHREAD_MUTEX_RECURSIVE, true, true, 2) &&
           knows_mutex(PTHREAD_MUTEX_NORMAL, false, true, 1);
}

bool knows_condition(clockid_t clock, unsigned flags) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, clock);
    pthread_cond_t cond;
    ::pthread_cond_init(&cond, &attr);
    bool known = cond.__data.__wrefs == flags;
    ::pthread_cond_destroy(&cond);
    pthread_condattr_destroy(&attr);
    return known;
}

bool knows_rwlock() {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    ::pthread_rwlock_wrlock(&lock);
    bool known = lock.__data.__cur_writer == thread_number();
    ::pthread_rwlock_unlock(&lock);
    ::pthread_rwlock_rdlock(&lock);
    known = known && !lock.__data.__cur_writer;
    ::pthread_rwlock_unlock(&lock);
    ::pthread_rwlock_destroy(&lock);
    return known;
}

bool knows_barrier() {
    pthread_barrier_t barrier = {};
    auto* words = reinterpret_cast<unsigned*>(&barrier);
    ::pthread_barrier_init(&barrier, nullptr, 7);
    bool known = words[0] == 0 && words[1] == 0 && words[2] == 7 && words[4] == 0;
    ::pthread_barrier_destroy(&barrier);
    ::pthread_barrier_init(&barrier, nullptr, 1);
    for (int i = 0; i < 2; i++) ::pthread_barrier_wait(&barrier);
    known = known && words[0] == 2 && words[1] == 2 && words[4] == 2;
    ::pthread_barrier_destroy(&barrier);
    return known;
}

bool knows_once() {
    pthread_once_t once = PTHREAD_ONCE_INIT;
    ::pthread_once(&once, [] {}); // NOLINT(clang-analyzer-*): used only here
    return once == once_mark::done || once == once_mark::done_by_tsan;
}

// Whether another library defines the functions of condition variables, as ThreadSanitizer's runtime does.
bool are_conditions_interposed() {
    Dl_info condition, c_library;
    return dladdr(dlsym(RTLD_DEFAULT, "pthread_cond_wait"), &condition) &&
           dladdr(reinterpret_cast<void*>(&::sched_yield), &c_library) && condition.dli_fbase != c_library.dli_fbase;
}

constinit std::atomic<bool> interposed = false;

} // namespace

bool locks_are_known() {
    enum : unsigned { not_tried, known, unknown };
    static constinit std::atomic<unsigned> answer = not_tried; // a word, as RISC-V has no exchange of a byte
    // Acquire and release: a caller that reads the answer sees `interposed`, too.
    if (answer.load(std::memory_order_acquire) == not_tried) {
        bool all = knows_mutexes() && knows_condition(CLOCK_REALTIME, 0) && knows_condition(CLOCK_MONOTONIC, 2) &&
                   knows_rwlock() && knows_barrier() && knows_once();
        interposed.store(are_conditions_interposed(), std::memory_order_relaxed);
        if (answer.exchange(all ? known : unknown, std::memory_order_acq_rel) == not_tried && !all) {
            Report report(STDERR_FILENO, Report::unasked_ns);
            report.put("fiberrt: this C library is not known: the locks of adopted libraries block their threads\n");
            report.end();
        }
    }
    return answer.load(std::memory_order_acquire) == known;
}

bool conditions_are_interposed() { return interposed.load(std::memory_order_relaxed); }

} // namespace fiberrt::posix
